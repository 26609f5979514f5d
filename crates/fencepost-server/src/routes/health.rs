//! How a replica is: for probes, and for Prometheus.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use fencepost_core::foreign;
use http::{StatusCode, header};

use crate::access::Caller;
use crate::app::App;
use crate::problem::{Problem, ProblemBody};
use crate::wire;

/// Probes come from anybody: the store is asked once in such a time, however many there are.
const FRESH: Duration = Duration::from_secs(1);
/// How long a scrape waits until what happened is counted.
const COUNT_WITHIN: Duration = Duration::from_millis(100);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the nodes of the store said last, and when.
pub(crate) type Readiness = tokio::sync::Mutex<Option<(Instant, Vec<wire::Node>)>>;

/// The process lives.
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, body = wire::Health)))]
pub(crate) async fn healthz() -> Json<wire::Health> {
    Json(wire::Health { status: "ok" })
}

/// Whether requests should come here: the service is not about to end, and its store, or a majority of it, answers and is not
/// known to have lost its memory.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, body = wire::Health), (status = 503, body = ProblemBody)))]
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> Result<Json<wire::Health>, Problem> {
    if app.is_draining() {
        return Err(Problem::shutting_down());
    }
    match is_ready(&app).await {
        true => Ok(Json(wire::Health { status: "ready" })),
        false => {
            let detail = "the store does not answer or vote, or no majority of it; /v1/nodes tells more";
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unreachable", detail))
        }
    }
}

/// What is counted here, in the text format of OpenMetrics.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, content_type = "application/openmetrics-text", body = String),
        (status = "4XX", body = ProblemBody)))]
pub(crate) async fn metrics(State(app): State<Arc<App>>, caller: Caller) -> Result<impl IntoResponse, Problem> {
    caller.may_see_something()?;
    is_ready(&app).await;
    // What happened before this was asked is counted, unless something blocks those who count.
    let _ = tokio::time::timeout(COUNT_WITHIN, foreign::told()).await;
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], app.witness.metrics.render()))
}

async fn is_ready(app: &App) -> bool {
    let nodes = nodes(app).await;
    let well = nodes.iter().filter(|node| !node.is_away && node.quarantined_ms.is_none()).count();
    let ready = 2 * well > nodes.len() && !app.is_draining();
    app.witness.metrics.ready(ready);
    ready
}

/// How the nodes of the store are, as of now or of a moment ago.
pub(crate) async fn nodes(app: &App) -> Vec<wire::Node> {
    // Whoever comes meanwhile waits for the answer to the first.
    let mut known = app.readiness.lock().await;
    if let Some((at, nodes)) = &*known
        && at.elapsed() < FRESH
    {
        return nodes.clone();
    }
    let asked = app.locks.nodes().await;
    let events = app.events.listen();
    let nodes: Vec<wire::Node> = asked.iter().map(|node| events.node(node)).collect();
    *known = Some((Instant::now(), nodes.clone()));
    nodes
}
