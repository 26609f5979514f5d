//! Bodies, as far as this client reads and writes them. Fields that it does not know are left alone, so that a service
//! may be newer than its clients.

use std::time::Duration;

use fencepost_core::store::{ActorId, Claim, FencingToken, LockState, Mode, Turn, Waiter};
use serde::{Deserialize, Serialize};

pub(crate) fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Serialize)]
pub(crate) struct Wanted {
    ttl_ms: u64,
    wait_ms: u64,
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    queue: &'static str,
    lock_delay_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<String>,
    /// Of a leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
}

/// What stands between a label and what a leader publishes, in a claim.
const PAYLOAD: char = '\u{1f}';

impl Wanted {
    pub(crate) fn of(claim: &Claim, wait: Duration) -> Self {
        let (label, payload) = match claim.label.split_once(PAYLOAD) {
            Some((label, payload)) => (label.to_owned(), Some(payload.to_owned())),
            None => (claim.label.to_string(), None),
        };
        let place = claim.place().filter(|_| !wait.is_zero());
        Self {
            ttl_ms: ms(claim.ttl),
            wait_ms: ms(wait),
            label,
            mode: payload.is_none().then_some(mode(claim.mode)),
            queue: if claim.turn == Turn::Overtake { "none" } else { "fifo" },
            lock_delay_ms: ms(claim.delay),
            actor: claim.actor.map(|actor| actor.to_string()),
            owner: claim.owner.expose(),
            ticket: place.and_then(|place| place.ticket).map(|ticket| ticket.to_string()),
            payload,
        }
    }

    /// It is asked for as a leader.
    pub(crate) fn leads(&self) -> bool {
        self.payload.is_some()
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}

#[derive(Serialize)]
pub(crate) struct Lease {
    owner: String,
    token: String,
    ttl_ms: u64,
    mode: &'static str,
    lock_delay_ms: u64,
    /// The engine says by the token itself what a late renewal may not be.
    renewed: bool,
}

impl Lease {
    pub(crate) fn of(claim: &Claim, token: FencingToken) -> Self {
        Self {
            owner: claim.owner.expose(),
            token: token.to_string(),
            ttl_ms: ms(claim.ttl),
            mode: mode(claim.mode),
            lock_delay_ms: ms(claim.delay),
            renewed: false,
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct Granted {
    pub(crate) token: String,
}

impl Granted {
    pub(crate) fn token(&self) -> Option<FencingToken> {
        token(&self.token)
    }
}

pub(crate) fn token(text: &str) -> Option<FencingToken> {
    text.strip_prefix('r').unwrap_or(text).parse().ok()
}

#[derive(Deserialize)]
pub(crate) struct Renewed {
    pub(crate) yield_requested: Option<YieldRequest>,
}

#[derive(Deserialize)]
pub(crate) struct YieldRequest {
    pub(crate) by: String,
    pub(crate) note: String,
    pub(crate) number: u64,
}

#[derive(Deserialize, Default)]
pub(crate) struct Problem {
    #[serde(default)]
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) detail: String,
    pub(crate) holder: Option<Holder>,
    pub(crate) reason: Option<String>,
    pub(crate) seen: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Waiting {
    pub(crate) holder: Option<Holder>,
    pub(crate) ticket: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Holder {
    label: String,
    token: Option<String>,
    shared: bool,
    held_ms: Option<u64>,
    expires_in_ms: Option<u64>,
    actor: Option<String>,
    payload: Option<String>,
}

impl From<Holder> for fencepost_core::Holder {
    fn from(wire: Holder) -> Self {
        let mut holder = Self::new(wire.label);
        holder.token = wire.token.as_deref().and_then(token);
        holder.shared = wire.shared;
        holder.held_for = wire.held_ms.map(Duration::from_millis);
        holder.expires_in = wire.expires_in_ms.map(Duration::from_millis);
        holder.actor = wire.actor.as_deref().and_then(ActorId::parse);
        holder.payload = wire.payload;
        holder
    }
}

#[derive(Deserialize)]
struct InLine {
    label: String,
    shared: bool,
    waited_ms: u64,
    actor: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct State {
    name: String,
    holders: Vec<Holder>,
    waiters: Vec<InLine>,
    last_token: Option<String>,
}

impl From<State> for LockState {
    fn from(wire: State) -> Self {
        let mut state = Self::free(wire.name);
        state.holders = wire.holders.into_iter().map(Into::into).collect();
        let waiter = |wire: InLine| {
            let mut waiter = Waiter::new(wire.label, wire.shared, Duration::from_millis(wire.waited_ms));
            waiter.actor = wire.actor.as_deref().and_then(ActorId::parse);
            waiter
        };
        state.waiters = wire.waiters.into_iter().map(waiter).collect();
        state.last_token = wire.last_token.as_deref().and_then(token);
        state
    }
}

#[derive(Deserialize)]
pub(crate) struct States {
    pub(crate) locks: Vec<State>,
}

#[derive(Deserialize)]
pub(crate) struct WhoHeld {
    pub(crate) holder: Option<Holder>,
}

#[derive(Deserialize)]
pub(crate) struct Record {
    pub(crate) record: Option<Kept>,
}

#[derive(Deserialize)]
pub(crate) struct Kept {
    pub(crate) token: String,
    pub(crate) value: String,
    pub(crate) left_ms: u64,
}

/// What the store behind the service can do.
#[derive(Clone, Deserialize)]
pub(crate) struct Nodes {
    /// `MAJOR.MINOR`. The first services did not say it: theirs is 1.0.
    pub(crate) interface: Option<String>,
    pub(crate) fifo: bool,
    pub(crate) survives_restart: bool,
    pub(crate) smallest_ttl_ms: u64,
    pub(crate) largest_ttl_ms: u64,
    pub(crate) longest_wait_ms: u64,
    pub(crate) records: bool,
}
