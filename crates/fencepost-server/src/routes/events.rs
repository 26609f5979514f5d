//! What happens at this replica, as a stream.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::json;

use crate::access::Caller;
use crate::app::App;
use crate::body::Query;
use crate::problem::{Problem, ProblemBody};
use crate::sse;

/// Which events to tell.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only of locks whose names start so.
    #[serde(default)]
    prefix: String,
}

/// What happens at this replica, as a stream. After a break `Last-Event-ID` goes on where it was; `missed` says that
/// something is forgotten, or that the id is of another replica.
#[utoipa::path(get, path = "/v1/events", tag = "events",
    params(Wanted, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was heard")),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = "4XX", body = ProblemBody)))]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Query(Wanted { prefix }): Query<Wanted>,
) -> Result<Response, Problem> {
    caller.may_see_all(&prefix)?;
    let seat = app.witness.watch()?;
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let ring = app.events.listen();
    let (from, lost_track) = ring.resume(last);
    let mut ready = VecDeque::new();
    if lost_track {
        ready.push_back(sse::event("missed", &json!({})).id(ring.id(from)));
    }
    let told = stream::unfold((ring, ready, from, seat), move |(ring, mut ready, mut from, seat)| {
        let prefix = prefix.clone();
        async move {
            loop {
                if let Some(event) = ready.pop_front() {
                    return Some((event, (ring, ready, from, seat)));
                }
                ring.news(from).await;
                let (kept, missed) = ring.after(from);
                if missed > 0 {
                    let event = sse::event("missed", &json!({ "events": missed }));
                    ready.push_back(event.id(ring.id(from + missed)));
                }
                from = kept.last().map_or(from + missed, |kept| kept.number);
                let wanted = kept.iter().filter(|kept| kept.name.starts_with(&prefix));
                ready.extend(wanted.map(|kept| sse::event(kept.kind, &kept.data).id(ring.id(kept.number))));
            }
        }
    });
    Ok(sse::answer(&app, told))
}
