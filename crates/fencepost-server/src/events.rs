//! What happened at this replica, kept for a while: who was away for a moment goes on where it was.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::{Event, EventKind, Locks};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::wire::{self, ms};

/// How many events are kept.
const KEPT: usize = 4096;

pub(crate) struct Ring {
    /// Tells the events of this run of this replica from those of others.
    run: String,
    state: Mutex<State>,
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    kept: VecDeque<Kept>,
    /// The number of the last one.
    last: u64,
}

/// An event as it is told.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) data: Value,
}

impl Ring {
    /// Collects from now on, until the service ends.
    pub(crate) fn of(locks: &Locks, mut draining: watch::Receiver<bool>) -> Arc<Self> {
        let run = fencepost_core::store::Owner::random().map(|owner| owner.expose()[..12].to_owned());
        let ring = Arc::new(Self {
            run: run.unwrap_or_else(|_| std::process::id().to_string()),
            state: Mutex::default(),
            newest: watch::Sender::new(0),
        });
        let (mut feed, to) = (locks.events(), ring.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    event = feed.next() => match event {
                        Some(Ok(event)) => to.put(&event),
                        _ => return,
                    },
                    _ = draining.wait_for(|draining| *draining) => return,
                }
            }
        });
        ring
    }

    fn put(&self, event: &Event) {
        let Some((kind, mut data)) = told(&event.kind) else { return };
        data["name"] = event.name.clone().into();
        data["claim"] = event.claim.into();
        data["at_ms"] = ms(event.at).into();
        let number = {
            let mut state = self.state();
            state.last += 1;
            let number = state.last;
            if state.kept.len() == KEPT {
                state.kept.pop_front();
            }
            state.kept.push_back(Kept { number, name: event.name.clone(), kind, data });
            number
        };
        self.newest.send_replace(number);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of an event.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.run)
    }

    /// Where somebody goes on who was told this id last: after which number, and whether something was missed before it.
    pub(crate) fn resume(&self, last: Option<&str>) -> (u64, bool) {
        let newest = self.state().last;
        let Some(last) = last else { return (newest, false) };
        let number = last.strip_prefix(&self.run).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
        // Of another replica, or of this one before it was restarted.
        number.filter(|number| *number <= newest).map_or((newest, true), |number| (number, false))
    }

    /// What came after that number, and how many of it are forgotten.
    pub(crate) fn after(&self, number: u64) -> (Vec<Kept>, u64) {
        let state = self.state();
        let first = state.kept.front().map_or(state.last + 1, |kept| kept.number);
        let missed = first.saturating_sub(number + 1);
        (state.kept.iter().filter(|kept| kept.number > number).cloned().collect(), missed)
    }

    /// Resolves when there is something after that number.
    pub(crate) async fn news(&self, number: u64) {
        let mut newest = self.newest.subscribe();
        let _ = newest.wait_for(|newest| *newest > number).await;
    }
}

/// An event by its name, and what it tells. Votes are for metrics.
fn told(kind: &EventKind) -> Option<(&'static str, Value)> {
    Some(match kind {
        EventKind::Asked => ("asked", json!({})),
        EventKind::Waiting => ("waiting", json!({})),
        EventKind::Acquired { token, .. } => ("acquired", json!({ "token": token.to_string() })),
        EventKind::Refused => ("refused", json!({})),
        EventKind::Renewed { remaining, .. } => ("renewed", json!({ "remaining_ms": ms(*remaining) })),
        EventKind::RenewalUnknown { remaining, .. } => ("renewal_unknown", json!({ "remaining_ms": ms(*remaining) })),
        EventKind::Downgraded => ("downgraded", json!({})),
        EventKind::YieldRequested(request) => {
            let request =
                wire::YieldRequest { by: request.by.clone(), note: request.note.clone(), number: request.number() };
            ("yield_requested", json!(request))
        }
        EventKind::Lost(reason) => ("lost", json!({ "reason": reason.to_string() })),
        EventKind::Releasing => ("releasing", json!({})),
        EventKind::Released(_) => ("released", json!({})),
        EventKind::ReleaseUnknown => ("release_unknown", json!({})),
        EventKind::Missed { events, .. } => ("missed", json!({ "events": events })),
        _ => return None,
    })
}
