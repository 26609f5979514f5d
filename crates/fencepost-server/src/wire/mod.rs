//! Bodies. Tokens travel as text of digits, durations as `_ms`; deadlines never travel.

use std::time::Duration;

use fencepost_core as core;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

mod claims;
mod recipes;

pub(crate) use claims::{
    BatchClaim, BatchLease, Campaign, Claim, KeyStart, Lease, Mode, Permit, PermitsClaim, PermitsLease, Queue, Several,
    Terms,
};
pub(crate) use recipes::{KeyFinish, Started, WindowFinish, WindowStart, WindowState};

/// The first number is that of the path; the second rises with every field and route that is added. 1.0 did not say it.
pub(crate) const INTERFACE: &str = "1.1";

pub(crate) fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A lease goes on.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Renewed {
    /// How long it lasts, counted from when the request was sent.
    pub(crate) ttl_ms: u64,
    /// Somebody asks for the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) yield_requested: Option<YieldRequest>,
}

/// Somebody asks a holder to let go.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct YieldRequest {
    pub(crate) by: String,
    pub(crate) note: String,
    /// Tells two requests apart.
    pub(crate) number: u64,
}

/// How a release ended.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Released {
    /// Always `freed`; all else is 409.
    pub(crate) outcome: &'static str,
}

/// Where a claim stands in line.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Waiting {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<Holder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ticket: Option<String>,
}

/// Who has a lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Holder {
    pub(crate) label: String,
    /// No token: another library's lock on the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    pub(crate) shared: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_in_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<String>,
    /// What a leader publishes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload: Option<String>,
}

impl From<&core::Holder> for Holder {
    fn from(holder: &core::Holder) -> Self {
        Self {
            label: holder.label.clone(),
            token: holder.token.map(|token| token_text(token, holder.shared)),
            shared: holder.shared,
            held_ms: holder.held_for.map(ms),
            expires_in_ms: holder.expires_in.map(ms),
            actor: holder.actor.map(|actor| actor.to_string()),
            payload: holder.payload.clone(),
        }
    }
}

/// Who is in line.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Waiter {
    pub(crate) label: String,
    pub(crate) shared: bool,
    pub(crate) waited_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<String>,
}

/// A lock as its store sees it. No holder: it is free.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct State {
    pub(crate) name: String,
    pub(crate) holders: Vec<Holder>,
    pub(crate) waiters: Vec<Waiter>,
    /// The newest token granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_token: Option<String>,
}

impl From<&core::LockState> for State {
    fn from(state: &core::LockState) -> Self {
        let waiter = |waiter: &core::Waiter| Waiter {
            label: waiter.label.clone(),
            shared: waiter.shared,
            waited_ms: ms(waiter.waited),
            actor: waiter.actor.map(|actor| actor.to_string()),
        };
        Self {
            name: state.name.clone(),
            holders: state.holders.iter().map(Holder::from).collect(),
            waiters: state.waiters.iter().map(waiter).collect(),
            last_token: state.last_token.map(|token| token.to_string()),
        }
    }
}

/// A page of locks.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct States {
    pub(crate) locks: Vec<State>,
    /// Where the next page begins: pass it as `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// Which locks to list.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listing {
    /// What their names start with.
    #[serde(default)]
    pub(crate) prefix: String,
    /// Only names after this one.
    pub(crate) after: Option<String>,
    /// At most so many. Default 100.
    pub(crate) limit: Option<u32>,
    /// Only locks that somebody waits for.
    #[serde(default)]
    pub(crate) contended: bool,
}

/// A token is the newest.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Current {
    pub(crate) current: String,
}

/// Why a hold is ended by force.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Force {
    /// For the log.
    #[serde(default)]
    pub(crate) reason: String,
    /// Only if a holder has this token. It is looked at first and ended then, in two steps: what changes hands between them
    /// is ended all the same.
    pub(crate) token: Option<String>,
}

/// What a holder is asked.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    /// What to tell the holder.
    #[serde(default)]
    pub(crate) note: String,
    /// Who asks. Default: the caller's name.
    pub(crate) label: Option<String>,
}

/// Who had it, or nobody.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct WhoHeld {
    pub(crate) holder: Option<Holder>,
    /// The nodes that did not confirm a release by force.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreached: Vec<NodeVote>,
}

/// One node's answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct NodeVote {
    pub(crate) node: String,
    pub(crate) latency_ms: u64,
    pub(crate) vote: String,
}

/// What the store behind the service can do, and how its nodes are.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Nodes {
    /// The version of this service.
    pub(crate) version: &'static str,
    /// The version of this interface, `MAJOR.MINOR`. A minor one adds, and changes nothing that was there.
    pub(crate) interface: &'static str,
    /// Waiting claims are served in order of arrival.
    pub(crate) fifo: bool,
    /// Locks outlive a restart of the store.
    pub(crate) survives_restart: bool,
    /// Locks outlive the loss of one node.
    pub(crate) survives_a_node: bool,
    pub(crate) smallest_ttl_ms: u64,
    pub(crate) largest_ttl_ms: u64,
    /// The longest `wait_ms` of one request.
    pub(crate) longest_wait_ms: u64,
    /// It keeps records.
    pub(crate) records: bool,
    /// How each node is.
    pub(crate) nodes: Vec<Node>,
}

/// How a node is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Node {
    pub(crate) node: String,
    /// Until it answered just now, or was given up.
    pub(crate) latency_ms: u64,
    /// What it said.
    pub(crate) vote: String,
    /// What it said last to a claim at this replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_vote: Option<String>,
    /// It may have lost its memory and does not vote for so long, as it said to a claim at this replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quarantined_ms: Option<u64>,
    /// It did not answer.
    #[serde(skip)]
    pub(crate) is_away: bool,
}

/// Each circle of locks: the holder of each waits for the next.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Deadlocks {
    pub(crate) deadlocks: Vec<Vec<State>>,
}

/// Who leads, and who would.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Election {
    pub(crate) leader: Option<Holder>,
    pub(crate) candidates: Vec<Waiter>,
}

/// What is kept beside a lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Record {
    /// `null`: nothing, or it was forgotten.
    pub(crate) record: Option<Kept>,
}

/// A record.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Kept {
    /// The newest token seen.
    pub(crate) token: String,
    /// As base64.
    pub(crate) value: String,
    pub(crate) left_ms: u64,
}

/// From now on nobody writes whose token is older.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seal {
    #[schema(pattern = "^[0-9]+$")]
    pub(crate) token: String,
}

/// What to put in the place of a record.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Put {
    #[schema(pattern = "^[0-9]+$")]
    pub(crate) token: String,
    /// As base64.
    pub(crate) value: String,
    /// Forget it after so long; 0: at once.
    pub(crate) keep_ms: u64,
}

/// It is there.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Done {}

/// How a replica is.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Health {
    /// `ok`, or `ready`.
    pub(crate) status: &'static str,
}

pub(crate) fn token_text(token: core::FencingToken, shared: bool) -> String {
    if shared { format!("r{token}") } else { token.to_string() }
}
