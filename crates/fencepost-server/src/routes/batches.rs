//! Several names at once: all or nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use fencepost_core::Invalid;
use http::HeaderMap;

use crate::access::Caller;
use crate::app::App;
use crate::auth::Verb;
use crate::body::Body;
use crate::claim::{Secret, together};
use crate::lease::{Returned, release_all, renew_all};
use crate::problem::{Problem, ProblemBody};
use crate::wire;

/// Takes all of these locks if nobody has any of them.
#[utoipa::path(post, path = "/v1/batches/try", tag = "batches", request_body = wire::BatchClaim,
    responses((status = 200, body = wire::BatchLease), (status = 423, body = ProblemBody, description = "held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn try_acquire(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Body(claim): Body<wire::BatchClaim>,
) -> Result<Json<wire::BatchLease>, Problem> {
    Ok(Json(take(&app, &caller, &headers, &claim, false).await?))
}

/// Takes all of these locks, and waits for them. A client that goes away is out of all lines at once.
#[utoipa::path(post, path = "/v1/batches/acquire", tag = "batches", request_body = wire::BatchClaim,
    responses((status = 200, body = wire::BatchLease), (status = 423, body = ProblemBody, description = "still held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn acquire(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Body(claim): Body<wire::BatchClaim>,
) -> Result<Json<wire::BatchLease>, Problem> {
    Ok(Json(take(&app, &caller, &headers, &claim, true).await?))
}

async fn take(
    app: &Arc<App>,
    caller: &Caller,
    headers: &HeaderMap,
    claim: &wire::BatchClaim,
    waits: bool,
) -> Result<wire::BatchLease, Problem> {
    let names = claim.names.iter().map(|name| caller.may(Verb::Acquire, name)).collect::<Result<Vec<_>, _>>()?;
    let lock = claim.terms().on(app, caller, app.locks.all_of(claim.names.iter().cloned()), waits)?;
    let ttl_ms = Some(wire::ms(lock.lease_time()));
    let Some(first) = names.first() else { return Err(Invalid::new("names", "[]", "name some locks").into()) };
    let secret = Secret::of(claim.owner.as_deref(), headers, caller, first)?;
    let tokens = together(app, caller, lock, secret, (&names, names.len()), waits, |guard| {
        guard.tokens().iter().map(|(name, token)| (name.clone(), token.to_string())).collect()
    })
    .await?;
    let (lock_delay_ms, max_hold_ms) = (claim.lock_delay_ms, claim.max_hold_ms);
    Ok(wire::BatchLease { owner: secret.owner.expose(), ttl_ms, tokens, lock_delay_ms, max_hold_ms })
}

/// Keeps all of them for one more ttl. If one is lost, all count as lost.
#[utoipa::path(post, path = "/v1/batches/renew", tag = "batches", request_body = wire::BatchLease,
    responses((status = 200, body = wire::Renewed), (status = 409, body = ProblemBody, description = "not held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn renew(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(lease): Body<wire::BatchLease>,
) -> Result<Json<wire::Renewed>, Problem> {
    Ok(Json(renew_all(&app, &returned(&app, &caller, &lease)?).await?))
}

/// Releases all of them.
#[utoipa::path(post, path = "/v1/batches/release", tag = "batches", request_body = wire::BatchLease,
    responses((status = 200, body = wire::Released), (status = 409, body = ProblemBody, description = "not held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn release(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(lease): Body<wire::BatchLease>,
) -> Result<Json<wire::Released>, Problem> {
    Ok(Json(release_all(&app, &returned(&app, &caller, &lease)?).await?))
}

fn returned(app: &App, caller: &Caller, lease: &wire::BatchLease) -> Result<Vec<Returned>, Problem> {
    let parts = lease.tokens.iter().map(|(name, token)| Ok((caller.may(Verb::Acquire, name)?, token.as_str())));
    Returned::several(app, caller, &lease.common(), "tokens", parts)
}
