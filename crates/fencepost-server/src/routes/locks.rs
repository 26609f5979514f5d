//! Locks: exclusive and shared.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;

use crate::access::{Acquire, Admin, Allowed, Caller, Observe};
use crate::app::App;
use crate::body::{Body, Query};
use crate::claim::{Asked, Wanted, read_token};
use crate::lease;
use crate::pieces::answer;
use crate::problem::{Problem, ProblemBody};
use crate::wire;

/// Takes a lock if nobody has it.
#[utoipa::path(post, path = "/v1/locks/{id}/try", tag = "locks", request_body = wire::Claim,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::Lease), (status = 423, body = ProblemBody, description = "held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn try_acquire(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    headers: HeaderMap,
    Body(claim): Body<wire::Claim>,
) -> Result<Json<wire::Lease>, Problem> {
    let wanted =
        Wanted::read(Asked { app: &app, caller: &caller, name, claim: &claim, headers: &headers, waits: false })?;
    Ok(Json(wanted.lease(|_| (), true).await?))
}

/// Takes a lock, and waits in line for it. A client that goes away is out of the line at once; one that chose its owner
/// or sent an `Idempotency-Key` may have asked again elsewhere, and leaves its place to its lease.
///
/// With `Accept: text/event-stream` the answer is a stream: `waiting` when the claim is in line, then `granted` with the
/// lease, or `problem`.
#[utoipa::path(post, path = "/v1/locks/{id}/acquire", tag = "locks", request_body = wire::Claim,
    params(("id" = String, Path, description = "The name, percent-encoded"),
        ("Idempotency-Key" = Option<String>, Header, description = "A repeat with the same key is the same claim")),
    responses((status = 200, body = wire::Lease), (status = 423, body = ProblemBody, description = "still held"),
        (status = 409, body = ProblemBody, description = "deadlock"), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn acquire(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    headers: HeaderMap,
    Body(claim): Body<wire::Claim>,
) -> Result<Response, Problem> {
    let wanted =
        Wanted::read(Asked { app: &app, caller: &caller, name, claim: &claim, headers: &headers, waits: true })?;
    answer(&app, &headers, |told, whole| wanted.lease(told, whole)).await
}

/// Keeps a lease for one more ttl.
#[utoipa::path(post, path = "/v1/locks/{id}/renew", tag = "locks", request_body = wire::Lease,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::Renewed), (status = 409, body = ProblemBody, description = "not held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn renew(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    Body(lease): Body<wire::Lease>,
) -> Result<Json<wire::Renewed>, Problem> {
    Ok(Json(lease::renew(&app, caller, name, &lease).await?))
}

/// Ends a lease; the next in line has the lock.
#[utoipa::path(post, path = "/v1/locks/{id}/release", tag = "locks", request_body = wire::Lease,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::Released), (status = 409, body = ProblemBody, description = "not held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn release(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    Body(lease): Body<wire::Lease>,
) -> Result<Json<wire::Released>, Problem> {
    Ok(Json(lease::release(&app, caller, name, &lease).await?))
}

/// Locks that are held, waited for or remembered, in name order.
#[utoipa::path(get, path = "/v1/locks", tag = "locks", params(wire::Listing),
    responses((status = 200, body = wire::States), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(wire::Listing { prefix, after, limit, contended }): Query<wire::Listing>,
) -> Result<Json<wire::States>, Problem> {
    caller.may_see_all(&prefix)?;
    let limit = limit.unwrap_or(100).clamp(1, app.settings.limits.page);
    let after = after.filter(|after| !after.is_empty());
    if let Some(after) = &after {
        fencepost_core::store::LockName::new(after)?;
    }
    let asked = Instant::now();
    let (states, more) = app.locks.page(&prefix, after.as_deref(), limit, contended).await?;
    states.iter().for_each(|state| app.witness.history.saw(state, asked, false));
    let next = states.last().filter(|_| more).map(|state| state.name.clone());
    Ok(Json(wire::States { locks: states.iter().map(wire::State::from).collect(), next }))
}

/// Who has a lock, and who is in line. A lock that nobody ever used is free.
#[utoipa::path(get, path = "/v1/locks/{id}", tag = "locks",
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::State), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn inspect(
    State(app): State<Arc<App>>,
    Allowed { name, .. }: Allowed<Observe>,
) -> Result<Json<wire::State>, Problem> {
    let asked = Instant::now();
    let state = app.locks.inspect(name.as_str()).await?;
    app.witness.history.saw(&state, asked, false);
    Ok(Json(wire::State::from(&state)))
}

/// Is this token the newest granted?
#[utoipa::path(get, path = "/v1/locks/{id}/tokens/{token}", tag = "locks",
    params(("id" = String, Path, description = "The name, percent-encoded"), ("token" = String, Path)),
    responses((status = 200, body = wire::Current), (status = 412, body = ProblemBody, description = "stale"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    Allowed { name, rest, .. }: Allowed<Observe>,
) -> Result<Json<wire::Current>, Problem> {
    let token = read_token("token", &rest.unwrap_or_default())?;
    app.locks.check(name.as_str(), token).await?;
    Ok(Json(wire::Current { current: token.to_string() }))
}

/// Ends somebody's hold.
#[utoipa::path(post, path = "/v1/locks/{id}/force-release", tag = "locks", request_body = wire::Force,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::WhoHeld), (status = 409, body = ProblemBody, description = "not_held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn force_release(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Admin>,
    Body(wire::Force { reason, token }): Body<wire::Force>,
) -> Result<Json<wire::WhoHeld>, Problem> {
    if let Some(token) = token {
        let state = app.locks.inspect(name.as_str()).await?;
        let meant = token.strip_prefix('r').unwrap_or(&token);
        if !state.holders.iter().any(|holder| holder.token.is_some_and(|token| token.to_string() == meant)) {
            return Err(Problem::another_holds());
        }
    }
    let forced = app.locks.force_release(name.as_str(), &reason).await?;
    let (holder, unreached) = (forced.holder, forced.unreached.iter().map(wire::NodeVote::from).collect());
    app.witness.forced(&caller, &name, holder.as_ref(), &reason);
    app.events.forced(&name, caller.name());
    Ok(Json(wire::WhoHeld { holder: holder.as_ref().map(wire::Holder::from), unreached }))
}

/// Asks whoever holds it to let go. They hear of it with their next renewal.
#[utoipa::path(post, path = "/v1/locks/{id}/ask", tag = "locks", request_body = wire::Ask,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::WhoHeld), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn ask(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    Body(wire::Ask { note, label }): Body<wire::Ask>,
) -> Result<Json<wire::WhoHeld>, Problem> {
    let by = label.as_deref().unwrap_or(caller.name());
    for (field, text) in [("label", by), ("note", note.as_str())] {
        if text.len() > 255 || text.chars().any(char::is_control) {
            let cure = "use at most 255 bytes, without control characters";
            return Err(fencepost_core::Invalid::new(field, text.escape_debug().to_string(), cure).into());
        }
    }
    let holder = app.locks.ask_to_yield_by(name.as_str(), by, &note).await?;
    Ok(Json(wire::WhoHeld { holder: holder.as_ref().map(wire::Holder::from), unreached: Vec::new() }))
}
