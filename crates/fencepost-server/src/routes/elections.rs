//! Elections: a lock by other words, with what its leader publishes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use fencepost_core::Term;
use futures_util::stream;
use http::HeaderMap;

use crate::access::{Acquire, Allowed, Observe};
use crate::app::App;
use crate::body::Body;
use crate::claim::{Pursuit, Secret, read_ticket};
use crate::lease;
use crate::pieces::answer;
use crate::problem::{Problem, ProblemBody};
use crate::sse;
use crate::wire;

/// Waits in line until it leads, as long as told. The token of the lease is the term. With
/// `Accept: text/event-stream` as for `acquire`.
#[utoipa::path(post, path = "/v1/elections/{id}/campaign", tag = "elections", request_body = wire::Campaign,
    params(("id" = String, Path, description = "The name, percent-encoded"),
        ("Idempotency-Key" = Option<String>, Header, description = "A repeat with the same key is the same claim")),
    responses((status = 200, body = wire::Lease), (status = 423, body = ProblemBody, description = "another leads"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn campaign(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    headers: HeaderMap,
    Body(claim): Body<wire::Campaign>,
) -> Result<Response, Problem> {
    let secret = Secret::of(claim.owner.as_deref(), &headers, &caller, &name)?;
    let ticket = read_ticket(claim.ticket.as_deref())?;
    let election = app.locks.election(name.as_str()).payload(claim.payload.as_str());
    let lock = claim.terms().on(&app, &caller, election, true)?;
    let (app_of, max_hold_ms) = (app.clone(), claim.max_hold_ms);
    let pursuit: Pursuit<Term> = Pursuit { app: app_of, caller, name, secret, ticket, lock, max_hold_ms, waits: true };
    answer(&app, &headers, |told, whole| pursuit.lease(told, whole)).await
}

/// Leads for one more ttl.
#[utoipa::path(post, path = "/v1/elections/{id}/renew", tag = "elections", request_body = wire::Lease,
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

/// Leads no more: the next candidate does.
#[utoipa::path(post, path = "/v1/elections/{id}/resign", tag = "elections", request_body = wire::Lease,
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::Released), (status = 409, body = ProblemBody, description = "not held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn resign(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire>,
    Body(lease): Body<wire::Lease>,
) -> Result<Json<wire::Released>, Problem> {
    Ok(Json(lease::release(&app, caller, name, &lease).await?))
}

/// Who leads, and who would.
#[utoipa::path(get, path = "/v1/elections/{id}", tag = "elections",
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = wire::Election), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn inspect(
    State(app): State<Arc<App>>,
    Allowed { name, .. }: Allowed<Observe>,
) -> Result<Json<wire::Election>, Problem> {
    let state = wire::State::from(&app.locks.inspect(name.as_str()).await?);
    Ok(Json(wire::Election { leader: state.holders.into_iter().next(), candidates: state.waiters }))
}

/// Who leads now, then each change, as a stream of `leader`; `null`: nobody does.
#[utoipa::path(get, path = "/v1/elections/{id}/observe", tag = "elections",
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn observe(
    State(app): State<Arc<App>>,
    Allowed { name, .. }: Allowed<Observe>,
) -> Result<Response, Problem> {
    let seat = app.witness.watch()?;
    let feed = app.locks.election(name.as_str()).observe();
    let events = stream::unfold((feed, seat), async |(mut feed, seat)| {
        let event = match feed.next().await? {
            Ok(leader) => sse::event("leader", &leader.as_ref().map(wire::Holder::from)),
            Err(error) => sse::problem(&error.into()),
        };
        Some((event, (feed, seat)))
    });
    Ok(sse::answer(&app, events))
}
