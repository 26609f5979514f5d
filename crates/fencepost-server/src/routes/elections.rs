//! Elections: a lock by other words, with what its leader publishes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use fencepost_core::Term;
use fencepost_core::store::InLine;
use futures_util::stream;
use http::HeaderMap;
use tokio::sync::mpsc;

use crate::access::{Acquire, Allowed, Observe};
use crate::app::App;
use crate::body::Body;
use crate::claim::{Pursuit, Secret, Terms, read_token};
use crate::lease::Returned;
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
    let ticket = claim.ticket.as_deref().map(|ticket| read_token("ticket", ticket)).transpose()?;
    let terms = Terms {
        ttl_ms: claim.ttl_ms,
        wait_ms: claim.wait_ms,
        label: claim.label.as_deref(),
        queue: claim.queue,
        lock_delay_ms: claim.lock_delay_ms,
        actor: claim.actor.as_deref(),
        fail_on_deadlock: false,
    };
    let election = app.locks.election(name.as_str()).payload(claim.payload);
    let lock = terms.on(&app, &caller, election, true)?;
    let pursuit: Pursuit<Term> = Pursuit { app: app.clone(), caller, name, secret, ticket, lock, waits: true };
    if sse::is_wanted(&headers) {
        return Ok(in_pieces(&app, |told| pursuit.lease(told, false)));
    }
    Ok(Json(pursuit.lease(|_| (), true).await?).into_response())
}

/// A claim as a stream: in line, then granted or not.
pub(crate) fn in_pieces<F>(app: &Arc<App>, pursue: impl FnOnce(Told) -> F) -> Response
where
    F: Future<Output = Result<wire::Lease, Problem>> + Send + 'static,
{
    let (place, places) = mpsc::unbounded_channel();
    let told: Told = Box::new(move |at: InLine| {
        let holder = at.holder.as_ref().map(wire::Holder::from);
        let ticket = at.ticket.map(|ticket| ticket.to_string());
        let _ = place.send(wire::Waiting { holder, ticket });
    });
    let pursuit = Box::pin(pursue(told));
    let events = stream::unfold(Some((places, pursuit)), async |state| {
        let (mut places, mut pursuit) = state?;
        tokio::select! {
            biased;
            Some(place) = places.recv() => Some((sse::event("waiting", &place), Some((places, pursuit)))),
            lease = &mut pursuit => Some(match lease {
                Ok(lease) => (sse::event("granted", &lease), None),
                Err(problem) => (sse::problem(&problem), None),
            }),
        }
    });
    sse::answer(app, events)
}

/// Is told where a claim stands in line.
pub(crate) type Told = Box<dyn Fn(InLine) + Send + Sync>;

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
    Ok(Json(Returned::read(&app, caller, name, &lease).await?.renew(&app).await?))
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
    let lease = Returned::read(&app, caller, name, &lease).await?;
    // Whoever still waits under this owner would take the lock again.
    let _turn = app.in_flight.enter(lease.name(), lease.owner()).await?;
    Ok(Json(lease.release(&app).await?))
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
    let feed = app.locks.election(name.as_str()).observe();
    let events = stream::unfold(feed, async |mut feed| {
        let event = match feed.next().await? {
            Ok(leader) => sse::event("leader", &leader.as_ref().map(wire::Holder::from)),
            Err(error) => sse::problem(&error.into()),
        };
        Some((event, feed))
    });
    Ok(sse::answer(&app, events))
}
