//! Answers that come piece by piece.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream::{self, StreamExt as _};
use http::{HeaderMap, header};
use serde::Serialize;

use crate::app::App;
use crate::problem::Problem;

/// A client hears something at least so often, and knows by that that we are there.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Whether the client asked for a stream.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    accepted.any(|accept| accept.contains("text/event-stream"))
}

/// One event.
pub(crate) fn event(kind: &str, data: &impl Serialize) -> Event {
    // A body of ours has no map with keys that are no text.
    let data = serde_json::to_string(data).unwrap_or_default();
    Event::default().event(kind).data(data)
}

/// The event that ends a stream.
pub(crate) fn problem(problem: &Problem) -> Event {
    event("problem", &problem.json())
}

/// A stream that ends when the service does, and says so.
pub(crate) fn answer(app: &Arc<App>, events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let (draining, ended) = (app.clone(), app.clone());
    let events = Box::pin(events).take_until(Box::pin(async move { draining.drained().await }));
    let farewell = stream::once(async move { ended.is_draining().then(|| problem(&Problem::shutting_down())) });
    let all = events.map(Some).chain(farewell).filter_map(std::future::ready).map(Ok::<_, Infallible>);
    Sse::new(all).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}
