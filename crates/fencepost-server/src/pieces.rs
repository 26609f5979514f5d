//! Claims that wait: answered whole, or piece by piece.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use fencepost_core::store::InLine;
use futures_util::stream;
use http::HeaderMap;
use tokio::sync::mpsc;

use crate::app::App;
use crate::problem::Problem;
use crate::{sse, wire};

/// Is told where a claim stands in line.
pub(crate) type Told = Box<dyn Fn(InLine) + Send + Sync>;

/// Pursues a claim, and answers in the way the client asked for. In pieces, a lock that was handed over in line need not
/// last a ttl yet: whoever hears so much renews by itself.
pub(crate) async fn answer<F>(
    app: &Arc<App>,
    headers: &HeaderMap,
    pursue: impl FnOnce(Told, bool) -> F,
) -> Result<Response, Problem>
where
    F: Future<Output = Result<wire::Lease, Problem>> + Send + 'static,
{
    if sse::is_wanted(headers) {
        return Ok(in_pieces(app, |told| pursue(told, false)));
    }
    Ok(Json(pursue(Box::new(|_| ()), true).await?).into_response())
}

/// A claim as a stream: in line, then granted or not.
fn in_pieces<F>(app: &Arc<App>, pursue: impl FnOnce(Told) -> F) -> Response
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
