//! Who had a lock before.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Allowed, Observe};
use crate::app::App;
use crate::history::{self, KEPT_PER_LOCK, TIMES_MS};
use crate::problem::{Problem, ProblemBody};
use crate::wire::ms;

/// Who had a lock, as far as this replica granted it or looked at it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct History {
    pub(crate) name: String,
    /// Newest first; at most 100.
    pub(crate) holds: Vec<PastHold>,
    /// Holds that this replica knows of since it started, also those that are not listed any more.
    pub(crate) grants: u64,
    /// Those of them that ended without a release.
    pub(crate) losses: u64,
    /// How many holds that are over lasted how long.
    pub(crate) hold_times: Vec<HoldTimes>,
}

/// One hold.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PastHold {
    pub(crate) label: String,
    pub(crate) token: String,
    pub(crate) shared: bool,
    pub(crate) began_ago_ms: u64,
    /// How long it lasted, or lasts so far.
    pub(crate) held_ms: u64,
    /// `null`: it is held.
    pub(crate) end: Option<Ending>,
}

/// How a hold ended.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Ending {
    /// `released`; `lost`: a renewal came too late; `expired`: none came; `forced`; `unseen`: past this replica, about when
    /// it was looked at.
    pub(crate) how: &'static str,
    /// Who ended it by force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// Why they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

/// Hold times that are counted together.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct HoldTimes {
    /// So long at most, and longer than those before; `null`: all that are longer.
    pub(crate) up_to_ms: Option<u64>,
    pub(crate) count: u64,
}

/// Who had a lock before, for how long, and how it ended: what this replica saw since it started, and what the store says
/// now. Bounded: 100 holds of a lock, 20,000 in all. Another replica saw other things.
#[utoipa::path(get, path = "/v1/locks/{id}/history", tag = "locks",
    params(("id" = String, Path, description = "The name, percent-encoded")),
    responses((status = 200, body = History), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn history(
    State(app): State<Arc<App>>,
    Allowed { name, .. }: Allowed<Observe>,
) -> Result<Json<History>, Problem> {
    let asked = Instant::now();
    let state = app.locks.inspect(name.as_str()).await?;
    app.witness.history.saw(&state, asked, true);
    let (past, now) = (app.witness.history.of(name.as_str()), Instant::now());
    let told = |hold: &history::Hold| {
        let until = hold.end.as_ref().map_or(now, |end| end.at);
        PastHold {
            label: hold.label.clone(),
            token: hold.token.clone(),
            shared: hold.token.starts_with('r'),
            began_ago_ms: ms(now.saturating_duration_since(hold.since)),
            held_ms: ms(until.saturating_duration_since(hold.since)),
            end: hold.end.as_ref().map(|end| {
                let (by, why) = end.by.clone().unzip();
                Ending { how: end.how.as_str(), by, why }
            }),
        }
    };
    let bounds = TIMES_MS.iter().map(|bound| Some(*bound)).chain([None]);
    debug_assert!(past.holds.len() <= KEPT_PER_LOCK, "BUG: the history is bounded");
    Ok(Json(History {
        name: name.as_str().to_owned(),
        holds: past.holds.iter().rev().map(told).collect(),
        grants: past.grants,
        losses: past.losses,
        hold_times: bounds.zip(past.times).map(|(up_to_ms, count)| HoldTimes { up_to_ms, count }).collect(),
    }))
}
