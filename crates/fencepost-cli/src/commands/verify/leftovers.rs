//! What is still locked when everybody has gone, and its removal.

use std::thread;
use std::time::{Duration, Instant};

use fencepost::{Blocking, LockState, Locks, StoreError};

use super::Plan;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// How much longer than a ttl and a third a store may take to forget who was killed.
const SLACK: Duration = Duration::from_secs(6);

/// What was found at the end.
#[derive(Debug)]
pub(super) enum Leftovers {
    /// Nothing is held, and nobody is in line.
    None,
    /// These are not free, each with what is there. They were freed by force afterwards.
    Some(Vec<(usize, String)>),
    /// It could not be seen.
    Unknown(String),
}

/// Waits until the leases of those who were killed are over, and looks.
pub(super) fn look(plan: &Plan, locks: &Locks) -> Leftovers {
    match remaining(plan, locks) {
        Ok(left) if left.is_empty() => Leftovers::None,
        Ok(left) => {
            for (lock, _) in &left {
                // What is planted is weeded out; if that is denied, its lease ends some day.
                let _ = locks.force_release(&plan.names[*lock], "left behind by fencepost verify").block();
            }
            Leftovers::Some(left)
        }
        Err(error) => Leftovers::Unknown(error.to_string()),
    }
}

fn remaining(plan: &Plan, locks: &Locks) -> Result<Vec<(usize, String)>, StoreError> {
    let end = Instant::now() + plan.ttl * 4 / 3 + SLACK;
    let mut left = Vec::new();
    for (lock, name) in plan.names.iter().enumerate() {
        loop {
            let state = match locks.inspect(name).block() {
                Ok(state) => state,
                Err(_) if Instant::now() < end => {
                    thread::sleep(PAUSE);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if is_free(&state) {
                break;
            }
            // One that lasts longer than any of ours is not worth waiting for.
            let lasts = state.holders.iter().filter_map(|holder| holder.expires_in).max().unwrap_or_default();
            if Instant::now() + lasts > end {
                left.push((lock, told(&state)));
                break;
            }
            thread::sleep(PAUSE);
        }
    }
    // And nothing else below our prefix.
    loop {
        match below(plan, locks) {
            Ok(others) => left.extend(others),
            Err(_) if Instant::now() < end => {
                thread::sleep(PAUSE);
                continue;
            }
            // What was found is found.
            Err(error) if left.is_empty() => return Err(error),
            Err(_) => {}
        }
        return Ok(left);
    }
}

/// What is not free below our prefix, and none of our locks.
fn below(plan: &Plan, locks: &Locks) -> Result<Vec<(usize, String)>, StoreError> {
    let (mut feed, mut found) = (locks.list(&plan.prefix), Vec::new());
    while let Some(state) = feed.next().block() {
        let state = state?;
        if !is_free(&state) && !plan.names.contains(&state.name) {
            found.push((0, told(&state)));
        }
    }
    Ok(found)
}

fn is_free(state: &LockState) -> bool {
    state.holders.is_empty() && state.waiters.is_empty()
}

fn told(state: &LockState) -> String {
    let name = &state.name;
    match (state.holders.first(), state.waiters.len()) {
        (Some(holder), _) => format!("{name} is still held by {holder}"),
        (None, waiters) => format!("{name} is free, and {waiters} are still in line"),
    }
}
