//! Bodies. Tokens travel as text of digits, durations as `_ms`; deadlines never travel.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_core as core;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub(crate) fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Exclusive or shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    #[default]
    Exclusive,
    Shared,
}

/// In line, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Queue {
    #[default]
    Fifo,
    /// May overtake those who wait, and be overtaken.
    None,
}

/// What is wanted.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    /// How long the lease lasts without renewal. Default 30000.
    pub(crate) ttl_ms: Option<u64>,
    /// How long to wait in line. Default: not at all.
    pub(crate) wait_ms: Option<u64>,
    /// Who asks, for people to read; never a secret. Default: the caller's name.
    pub(crate) label: Option<String>,
    /// Default: exclusive.
    #[serde(default)]
    pub(crate) mode: Mode,
    /// Default: first come, first served.
    #[serde(default)]
    pub(crate) queue: Queue,
    /// A lock that was not released rests for so long after its lease.
    pub(crate) lock_delay_ms: Option<u64>,
    /// On whose behalf, 16 hexadecimal digits: shows deadlocks.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    pub(crate) actor: Option<String>,
    /// A wait that closes a circle of waiting actors ends with 409.
    #[serde(default)]
    pub(crate) fail_on_deadlock: bool,
    /// A secret of the client's own, 20 random bytes as 40 hexadecimal digits: a repeat is then the same claim.
    #[schema(pattern = "^[0-9a-f]{40}$")]
    pub(crate) owner: Option<String>,
    /// The place in line that this claim was told before (`waiting`), when it comes back after its replica has gone.
    pub(crate) ticket: Option<String>,
}

/// What was granted. Sent back whole to renew or release it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lease {
    /// The lock. Sent back, it is not read: the path says it.
    #[serde(default)]
    pub(crate) name: String,
    /// The secret of the hold.
    #[schema(pattern = "^[0-9a-f]{40}$")]
    pub(crate) owner: String,
    /// The fencing token; a reader's starts with `r`. Left out, the service asks the store for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// How long it lasts, counted from when the request was sent. Left out of a renewal: 30000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_ms: Option<u64>,
    /// Exclusive or shared; an exclusive lease that is renewed as `shared` is a reader's from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<Mode>,
    /// Its lock delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock_delay_ms: Option<u64>,
    /// Of a release. `false`: no renewal was sent that may still arrive, so the store need not refuse this token from now
    /// on. Default: it does, and the last token rises by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) renewed: Option<bool>,
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
    /// What each node said just now.
    pub(crate) nodes: Vec<NodeVote>,
}

/// Each circle of locks: the holder of each waits for the next.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Deadlocks {
    pub(crate) deadlocks: Vec<Vec<State>>,
}

/// A claim on some permits of a semaphore.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PermitsClaim {
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) label: Option<String>,
    #[serde(default)]
    pub(crate) queue: Queue,
    pub(crate) lock_delay_ms: Option<u64>,
    #[schema(pattern = "^[0-9a-f]{16}$")]
    pub(crate) actor: Option<String>,
    /// How many there are.
    #[schema(minimum = 1, maximum = 256)]
    pub(crate) permits: u32,
    /// How many are wanted. Default 1.
    #[schema(minimum = 1, maximum = 256)]
    pub(crate) take: Option<u32>,
}

/// One permit.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Permit {
    pub(crate) slot: u32,
    pub(crate) token: String,
}

/// Permits that were granted. Sent back whole to renew or release them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PermitsLease {
    #[schema(pattern = "^[0-9a-f]{40}$")]
    pub(crate) owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) permits: Vec<Permit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock_delay_ms: Option<u64>,
}

/// A claim on several names, all or nothing.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchClaim {
    /// 1 to 256 names, each once.
    pub(crate) names: Vec<String>,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) label: Option<String>,
    #[serde(default)]
    pub(crate) queue: Queue,
    pub(crate) lock_delay_ms: Option<u64>,
    #[schema(pattern = "^[0-9a-f]{16}$")]
    pub(crate) actor: Option<String>,
}

/// Several names that were granted. Sent back whole to renew or release them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchLease {
    #[schema(pattern = "^[0-9a-f]{40}$")]
    pub(crate) owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_ms: Option<u64>,
    /// The token of each name.
    pub(crate) tokens: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock_delay_ms: Option<u64>,
}

/// A candidacy.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Campaign {
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) label: Option<String>,
    #[serde(default)]
    pub(crate) queue: Queue,
    pub(crate) lock_delay_ms: Option<u64>,
    #[schema(pattern = "^[0-9a-f]{16}$")]
    pub(crate) actor: Option<String>,
    #[schema(pattern = "^[0-9a-f]{40}$")]
    pub(crate) owner: Option<String>,
    pub(crate) ticket: Option<String>,
    /// What others shall know of the leader, such as its address.
    #[serde(default)]
    pub(crate) payload: String,
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
    pub(crate) token: String,
}

/// What to put in the place of a record.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Put {
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
