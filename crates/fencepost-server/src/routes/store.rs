//! The store as a whole.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use fencepost_core::LockState;

use crate::access::Caller;
use crate::app::App;
use crate::problem::{Problem, ProblemBody};
use crate::wire;

/// All who ask are told the same for so long.
const FRESH: Duration = Duration::from_millis(500);

/// The circles that were found last, and when.
pub(crate) type Circles = tokio::sync::Mutex<Option<(Instant, Arc<Vec<Vec<LockState>>>)>>;

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
    // Whoever comes meanwhile waits for the answer to the first: looking costs a listing of all that is waited for.
    let mut known = app.deadlocks.lock().await;
    let circles = match &*known {
        Some((at, circles)) if at.elapsed() < FRESH => circles.clone(),
        _ => {
            let circles = Arc::new(app.locks.deadlocks().await?);
            *known = Some((Instant::now(), circles.clone()));
            circles
        }
    };
    drop(known);
    let seen = circles.iter().filter(|circle| circle.iter().all(|state| caller.may_see(&state.name)));
    let deadlocks = seen.map(|circle| circle.iter().map(wire::State::from).collect()).collect();
    Ok(Json(wire::Deadlocks { deadlocks }))
}

/// This interface, as OpenAPI 3.1.
pub(crate) async fn openapi() -> impl IntoResponse {
    ([(http::header::CONTENT_TYPE, "application/json")], crate::openapi::openapi())
}
