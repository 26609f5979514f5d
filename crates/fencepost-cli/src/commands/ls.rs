//! `fencepost ls`: locks, in name order.

use std::collections::BTreeMap;

use fencepost::{Blocking, LockState, StoreError};
use serde::Serialize;

use super::state::{StateData, or_dash, span, token};
use super::watch::{Mark, look};
use crate::args::Ls;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::table;
use crate::settings::Settings;

#[derive(Serialize)]
struct Listing {
    locks: Vec<StateData>,
}

pub(crate) fn ls(arguments: &Ls, settings: &Settings) -> Result<ExitCode, Failure> {
    let (locks, mut known) = (settings.locks()?, None);
    let read = || -> Result<Vec<LockState>, StoreError> {
        let mut feed = locks.list(&arguments.prefix);
        let mut states = Vec::new();
        while arguments.limit.is_none_or(|limit| states.len() < limit) {
            let Some(state) = feed.next().block() else { break };
            states.push(state?);
        }
        Ok(states)
    };
    look(&arguments.watch, settings.output, read, |states| match arguments.watch.watch {
        true => {
            let changed = changes(&mut known, states);
            changed.iter().try_for_each(|state| settings.output.answer(StateData::from(state), || line(state)))
        }
        false => {
            let data = Listing { locks: states.iter().map(StateData::from).collect() };
            settings.output.answer(data, || {
                let head = ["NAME", "STATE", "HOLDER", "TOKEN", "HELD", "EXPIRES IN", "WAITING"];
                table(&head, states.iter().map(row).collect())
            })
        }
    })
}

/// Which locks differ from the last look; at the first one, those that somebody has or waits for. A lock that is not listed any
/// more is free.
fn changes(known: &mut Option<BTreeMap<String, Mark>>, states: Vec<LockState>) -> Vec<LockState> {
    let seen: BTreeMap<String, Mark> = states.iter().map(|state| (state.name.clone(), Mark::of(state))).collect();
    let before = known.replace(seen.clone()).unwrap_or_default();
    let free = Mark::default();
    let is_new = |state: &LockState| before.get(&state.name).unwrap_or(&free) != &seen[&state.name];
    let gone = before.iter().filter(|(name, mark)| !seen.contains_key(*name) && **mark != free);
    let gone: Vec<LockState> = gone.map(|(name, _)| LockState::free(name)).collect();
    states.into_iter().filter(is_new).chain(gone).collect()
}

/// A lock in one line: a watcher prints many.
fn line(state: &LockState) -> String {
    let holders: Vec<String> = state
        .holders
        .iter()
        .map(|holder| format!("{}, token {}", holder.label, or_dash(token(holder), |token| token)))
        .collect();
    let holders = if holders.is_empty() { "free".into() } else { format!("held by {}", holders.join("; by ")) };
    match state.waiters.len() {
        0 => format!("{}: {holders}", state.name),
        waiting => format!("{}: {holders}; {waiting} waiting", state.name),
    }
}

fn row(state: &LockState) -> Vec<String> {
    let first = state.holders.first();
    let others = match state.holders.len() {
        0 | 1 => String::new(),
        all => format!(" and {} more", all - 1),
    };
    let kind = first.map_or("free", |holder| if holder.shared { "shared" } else { "held" });
    vec![
        state.name.clone(),
        kind.into(),
        or_dash(first, |holder| format!("{}{others}", holder.label)),
        or_dash(first.and_then(token), |token| token),
        or_dash(first.and_then(|holder| holder.held_for), span),
        or_dash(first.and_then(|holder| holder.expires_in), span),
        state.waiters.len().to_string(),
    ]
}
