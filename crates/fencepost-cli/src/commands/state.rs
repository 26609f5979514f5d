//! A lock as data for JSON and as words for people.

use std::time::Duration;

use fencepost::{Holder, LockState, Waiter};
use serde::Serialize;

use crate::report::ms;

#[derive(Serialize)]
pub(super) struct StateData {
    name: String,
    holders: Vec<HolderData>,
    waiters: Vec<WaiterData>,
    last_token: Option<String>,
}

#[derive(Serialize)]
pub(super) struct HolderData {
    label: String,
    token: Option<String>,
    shared: bool,
    held_for_ms: Option<u64>,
    expires_in_ms: Option<u64>,
    actor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
}

#[derive(Serialize)]
pub(super) struct WaiterData {
    label: String,
    shared: bool,
    waited_ms: u64,
    actor: Option<String>,
}

impl From<&LockState> for StateData {
    fn from(state: &LockState) -> Self {
        Self {
            name: state.name.clone(),
            holders: state.holders.iter().map(HolderData::from).collect(),
            waiters: state.waiters.iter().map(WaiterData::from).collect(),
            last_token: state.last_token.map(|token| token.to_string()),
        }
    }
}

impl From<&Holder> for HolderData {
    fn from(holder: &Holder) -> Self {
        Self {
            label: holder.label.clone(),
            token: token(holder),
            shared: holder.shared,
            held_for_ms: holder.held_for.map(ms),
            expires_in_ms: holder.expires_in.map(ms),
            actor: holder.actor.map(|actor| actor.to_string()),
            payload: holder.payload.clone(),
        }
    }
}

impl From<&Waiter> for WaiterData {
    fn from(waiter: &Waiter) -> Self {
        Self {
            label: waiter.label.clone(),
            shared: waiter.shared,
            waited_ms: ms(waiter.waited),
            actor: waiter.actor.map(|actor| actor.to_string()),
        }
    }
}

/// As its holder knows it.
pub(super) fn token(holder: &Holder) -> Option<String> {
    holder.token.map(|token| if holder.shared { format!("r{token}") } else { token.to_string() })
}

/// Rounded, for people: `2h 5m 3s`, `250ms`.
pub(super) fn span(span: Duration) -> String {
    let rounded = if span < Duration::from_secs(10) {
        Duration::from_millis(ms(span))
    } else {
        Duration::from_secs(span.as_secs())
    };
    humantime::format_duration(rounded).to_string()
}

pub(super) fn or_dash<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".into(), text)
}

pub(super) fn mode(shared: bool) -> String {
    if shared { "shared" } else { "exclusive" }.into()
}
