//! Semaphores: so many permits, each a lock of its own.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use fencepost_core::store::{LockName, permit_name};
use http::HeaderMap;

use crate::access::{Acquire, Allowed, Caller};
use crate::app::App;
use crate::body::Body;
use crate::claim::{Secret, together};
use crate::lease::{Returned, release_all, renew_all};
use crate::problem::{Problem, ProblemBody};
use crate::wire;

/// Takes permits if there are enough.
#[utoipa::path(post, path = "/v1/semaphores/{id}/try", tag = "semaphores", request_body = wire::PermitsClaim,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::PermitsLease), (status = 423, body = ProblemBody, description = "held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn try_acquire(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    headers: HeaderMap,
    Body(claim): Body<wire::PermitsClaim>,
) -> Result<Json<wire::PermitsLease>, Problem> {
    Ok(Json(take(&app, &caller, &name, &headers, &claim, false).await?))
}

/// Takes permits, and waits in line for them. A client that goes away is out of the line at once.
#[utoipa::path(post, path = "/v1/semaphores/{id}/acquire", tag = "semaphores", request_body = wire::PermitsClaim,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::PermitsLease), (status = 423, body = ProblemBody, description = "still held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn acquire(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    headers: HeaderMap,
    Body(claim): Body<wire::PermitsClaim>,
) -> Result<Json<wire::PermitsLease>, Problem> {
    Ok(Json(take(&app, &caller, &name, &headers, &claim, true).await?))
}

async fn take(
    app: &Arc<App>,
    caller: &Caller,
    name: &LockName,
    headers: &HeaderMap,
    claim: &wire::PermitsClaim,
    waits: bool,
) -> Result<wire::PermitsLease, Problem> {
    let take = claim.take.unwrap_or(1);
    let semaphore = app.locks.semaphore(name.as_str(), claim.permits).take(take);
    let lock = claim.terms().on(app, caller, semaphore, waits)?;
    let ttl_ms = Some(wire::ms(lock.lease_time()));
    let lines = (std::slice::from_ref(name), take as usize);
    let secret = Secret::unrepeated(headers)?;
    let permits = together(app, caller, lock, secret, lines, waits, |guard| {
        guard
            .permits()
            .iter()
            .map(|permit| wire::Permit { slot: permit.slot, token: permit.token.to_string() })
            .collect()
    })
    .await?;
    let (lock_delay_ms, max_hold_ms) = (claim.lock_delay_ms, claim.max_hold_ms);
    Ok(wire::PermitsLease { owner: secret.owner.expose(), ttl_ms, permits, lock_delay_ms, max_hold_ms })
}

/// Keeps permits for one more ttl. If one is lost, all count as lost.
#[utoipa::path(post, path = "/v1/semaphores/{id}/renew", tag = "semaphores", request_body = wire::PermitsLease,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::Renewed), (status = 409, body = ProblemBody, description = "not held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn renew(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    Body(lease): Body<wire::PermitsLease>,
) -> Result<Json<wire::Renewed>, Problem> {
    Ok(Json(renew_all(&app, &returned(&app, &caller, &name, &lease)?).await?))
}

/// Gives permits back.
#[utoipa::path(post, path = "/v1/semaphores/{id}/release", tag = "semaphores", request_body = wire::PermitsLease,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::Released), (status = 409, body = ProblemBody, description = "not held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn release(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    Body(lease): Body<wire::PermitsLease>,
) -> Result<Json<wire::Released>, Problem> {
    Ok(Json(release_all(&app, &returned(&app, &caller, &name, &lease)?).await?))
}

fn returned(app: &App, caller: &Caller, name: &LockName, lease: &wire::PermitsLease) -> Result<Vec<Returned>, Problem> {
    let parts =
        lease.permits.iter().map(|permit| Ok((permit_name(name.as_str(), permit.slot)?, permit.token.as_str())));
    Returned::several(app, caller, &lease.common(), "permits", parts)
}
