//! Records beside locks: small bytes that nobody changes whose token is older than one that was seen.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fencepost_core::{Invalid, Record};

use crate::access::{Acquire, Allowed, Observe};
use crate::app::App;
use crate::body::{Body, LargeBody};
use crate::claim::read_granted;
use crate::problem::{Problem, ProblemBody};
use crate::wire;

/// What a record is at most, and how long it is kept at most.
pub(crate) const VALUE_MAX: usize = 512 * 1024;
pub(crate) const KEEP_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

fn answer(record: Option<Record>) -> Json<wire::Record> {
    let kept = record.map(|record| wire::Kept {
        token: record.token.to_string(),
        value: STANDARD.encode(&record.value),
        left_ms: wire::ms(record.left),
    });
    Json(wire::Record { record: kept })
}

/// What is kept beside a lock.
#[utoipa::path(get, path = "/v1/locks/{id}/record", tag = "records",
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::Record), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Allowed { name, .. }: Allowed<Observe>,
) -> Result<Json<wire::Record>, Problem> {
    Ok(answer(app.locks.records().read(name.as_str()).await?))
}

/// From now on nobody writes whose token is older; answers what is there.
#[utoipa::path(post, path = "/v1/locks/{id}/record/seal", tag = "records", request_body = wire::Seal,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::Record), (status = 412, body = ProblemBody, description = "stale"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn seal(
    State(app): State<Arc<App>>,
    Allowed { name, .. }: Allowed<Acquire>,
    Body(wire::Seal { token }): Body<wire::Seal>,
) -> Result<Json<wire::Record>, Problem> {
    let token = read_granted("token", &token)?;
    Ok(answer(app.locks.records().seal(name.as_str(), token).await?))
}

/// Puts this there, under the token of whoever holds the lock.
#[utoipa::path(put, path = "/v1/locks/{id}/record", tag = "records", request_body = wire::Put,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::Done), (status = 412, body = ProblemBody, description = "stale"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    Allowed { name, .. }: Allowed<Acquire>,
    LargeBody(wire::Put { token, value, keep_ms }): LargeBody<wire::Put>,
) -> Result<Json<wire::Done>, Problem> {
    let token = read_granted("token", &token)?;
    let value = STANDARD.decode(value).map_err(|_| Invalid::new("value", "(hidden)", "encode it as base64"))?;
    if value.len() > VALUE_MAX {
        return Err(
            Invalid::new("value", format!("{} bytes", value.len()), format!("at most {VALUE_MAX} bytes")).into()
        );
    }
    let keep = Duration::from_millis(keep_ms);
    if keep > KEEP_MAX {
        return Err(Invalid::new("keep_ms", keep_ms.to_string(), "a record is kept for ten years at most").into());
    }
    app.locks.records().put(name.as_str(), token, value, keep).await?;
    Ok(Json(wire::Done {}))
}
