//! Semaphores: so many permits, each a lock of its own.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use fencepost_core::Invalid;
use fencepost_core::store::{LockName, OnBehalf, permit_name};

use crate::access::{Acquire, Allowed, Caller};
use crate::app::App;
use crate::body::Body;
use crate::claim::{TTL_MS, Terms, new_owner, part_owner, read_granted, read_owner, whole};
use crate::lease::Returned;
use crate::problem::{Problem, ProblemBody};
use crate::wire;
use crate::witness::Hold;

/// Takes permits if there are enough.
#[utoipa::path(post, path = "/v1/semaphores/{id}/try", tag = "semaphores", request_body = wire::PermitsClaim,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::PermitsLease), (status = 423, body = ProblemBody, description = "held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn try_acquire(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    Body(claim): Body<wire::PermitsClaim>,
) -> Result<Json<wire::PermitsLease>, Problem> {
    Ok(Json(take(&app, &caller, &name, &claim, false).await?))
}

/// Takes permits, and waits in line for them. A client that goes away is out of the line at once.
#[utoipa::path(post, path = "/v1/semaphores/{id}/acquire", tag = "semaphores", request_body = wire::PermitsClaim,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::PermitsLease), (status = 423, body = ProblemBody, description = "still held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn acquire(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    Body(claim): Body<wire::PermitsClaim>,
) -> Result<Json<wire::PermitsLease>, Problem> {
    Ok(Json(take(&app, &caller, &name, &claim, true).await?))
}

async fn take(
    app: &Arc<App>,
    caller: &Caller,
    name: &LockName,
    claim: &wire::PermitsClaim,
    waits: bool,
) -> Result<wire::PermitsLease, Problem> {
    let terms = Terms {
        ttl_ms: claim.ttl_ms,
        wait_ms: claim.wait_ms,
        label: claim.label.as_deref(),
        queue: claim.queue,
        lock_delay_ms: claim.lock_delay_ms,
        actor: claim.actor.as_deref(),
        fail_on_deadlock: false,
    };
    let semaphore = app.locks.semaphore(name.as_str(), claim.permits).take(claim.take.unwrap_or(1));
    let owner = new_owner()?;
    let lock = terms
        .on(app, caller, semaphore, waits)?
        .on_behalf(OnBehalf::default().owner(move |name| part_owner(owner, name)));
    let take = claim.take.unwrap_or(1) as usize;
    let seat = app.witness.admit(caller, std::slice::from_ref(name), take, waits)?;
    let guard = tokio::select! {
        biased;
        guard = lock.acquire() => guard?,
        () = app.drained(), if waits => return Err(Problem::shutting_down()),
    };
    whole(&guard, &lock).await?;
    let permits = guard.permits().to_vec();
    drop(guard.leak_all());
    for permit in &permits {
        let (slot, ttl) = (permit_name(name.as_str(), permit.slot)?, lock.lease_time());
        let owner = part_owner(owner, &slot);
        let hold = Hold { caller, name: &slot, owner, token: permit.token.to_string(), ttl };
        app.witness.granted(&hold, &seat);
    }
    let permits =
        permits.iter().map(|permit| wire::Permit { slot: permit.slot, token: permit.token.to_string() }).collect();
    let ttl_ms = Some(wire::ms(lock.lease_time()));
    Ok(wire::PermitsLease { owner: owner.expose(), ttl_ms, permits, lock_delay_ms: claim.lock_delay_ms })
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
    Ok(Json(super::batches::renew_all(&app, returned(&app, &caller, &name, &lease)?).await?))
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
    Ok(Json(super::batches::release_all(&app, returned(&app, &caller, &name, &lease)?).await?))
}

fn returned(app: &App, caller: &Caller, name: &LockName, lease: &wire::PermitsLease) -> Result<Vec<Returned>, Problem> {
    let owner = read_owner(&lease.owner)?;
    let ttl = app.settings.limits.ttl(lease.ttl_ms.unwrap_or(TTL_MS))?;
    let delay = Duration::from_millis(lease.lock_delay_ms.unwrap_or(0));
    if lease.permits.is_empty() || lease.permits.len() > 256 {
        let cure = "send the permits back that were granted";
        return Err(Invalid::new("permits", lease.permits.len().to_string(), cure).into());
    }
    let each = lease.permits.iter().map(|permit| {
        let slot = permit_name(name.as_str(), permit.slot)?;
        let owner = part_owner(owner, &slot);
        Ok(Returned::of(caller, slot, owner, read_granted("token", &permit.token)?, ttl, delay))
    });
    each.collect()
}
