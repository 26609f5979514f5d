//! The store as a whole.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::access::Caller;
use crate::app::App;
use crate::problem::{Problem, ProblemBody};
use crate::wire;

/// What the store can do, and how its nodes are.
#[utoipa::path(get, path = "/v1/nodes", tag = "store",
    responses((status = 200, body = wire::Nodes), (status = "4XX", body = ProblemBody)))]
pub(crate) async fn nodes(State(app): State<Arc<App>>, caller: Caller) -> Result<Json<wire::Nodes>, Problem> {
    caller.may_see_something()?;
    let can = app.locks.guarantees();
    let most = app.settings.limits.ttl;
    Ok(Json(wire::Nodes {
        version: env!("CARGO_PKG_VERSION"),
        interface: wire::INTERFACE,
        fifo: can.fifo,
        survives_restart: can.survives_restart,
        survives_a_node: can.survives_a_node,
        smallest_ttl_ms: wire::ms(can.smallest_ttl),
        largest_ttl_ms: wire::ms(can.largest_ttl.map_or(most, |largest| largest.min(most))),
        longest_wait_ms: wire::ms(app.settings.limits.wait),
        records: can.records,
        nodes: super::health::nodes(&app).await,
    }))
}

/// Each circle of actors that wait for one another, as far as the caller may see it.
#[utoipa::path(get, path = "/v1/deadlocks", tag = "store",
    responses((status = 200, body = wire::Deadlocks), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn deadlocks(State(app): State<Arc<App>>, caller: Caller) -> Result<Json<wire::Deadlocks>, Problem> {
    caller.may_see_something()?;
    let circles = app.locks.deadlocks().await?;
    let seen = circles.iter().filter(|circle| circle.iter().all(|state| caller.may_see(&state.name)));
    let deadlocks = seen.map(|circle| circle.iter().map(wire::State::from).collect()).collect();
    Ok(Json(wire::Deadlocks { deadlocks }))
}

/// This interface, as OpenAPI 3.1.
pub(crate) async fn openapi() -> impl IntoResponse {
    ([(http::header::CONTENT_TYPE, "application/json")], crate::openapi::openapi())
}
