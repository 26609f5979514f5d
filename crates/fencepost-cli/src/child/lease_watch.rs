//! Hears of renewals and of loss, and knows until when the command may live.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fencepost::store::{Clock, Moment};
use fencepost::{Event, EventKind, Observer};

use super::{Loss, Message};
use crate::output::Output;

/// What is kept from the end of a lease for SIGKILL to do its work.
pub(crate) fn reserve(ttl: Duration) -> Duration {
    (ttl / 40).min(Duration::from_millis(50))
}

/// Watches the leases of this process: one, or one per permit.
pub(crate) struct LeaseWatch {
    clock: Clock,
    /// How long before its end a lease counts as lost.
    margin: Duration,
    reserve: Duration,
    /// Of each claim.
    valid_until: Mutex<HashMap<u64, Moment>>,
    sender: Sender<Message>,
    output: Output,
}

impl LeaseWatch {
    pub(crate) fn new(clock: Clock, ttl: Duration, margin: Duration, sender: Sender<Message>, output: Output) -> Self {
        Self { clock, margin, reserve: reserve(ttl), valid_until: Mutex::default(), sender, output }
    }

    fn send(&self, message: Message) {
        // Nobody listens any more once the command has ended.
        let _ = self.sender.send(message);
    }

    fn kept(&self, claim: u64, remaining: Duration) {
        let until = self.clock.now().plus(remaining);
        self.valid_until.lock().unwrap_or_else(PoisonError::into_inner).insert(claim, until);
    }

    fn given_up(&self, claim: u64) {
        self.valid_until.lock().unwrap_or_else(PoisonError::into_inner).remove(&claim);
    }

    /// The margin after the loss, but never past the lease: after a pause there may be nothing left of either.
    fn kill_at(&self, claim: u64) -> Moment {
        let graceful = self.clock.now().plus(self.margin);
        let end = self.valid_until.lock().unwrap_or_else(PoisonError::into_inner).get(&claim).copied();
        end.map_or(graceful, |end| graceful.min(end)).minus(self.reserve)
    }
}

impl Observer for LeaseWatch {
    fn event(&self, event: &Event) {
        match &event.kind {
            EventKind::Acquired { remaining, .. } | EventKind::Renewed { remaining, .. } => {
                self.kept(event.claim, *remaining);
            }
            EventKind::Releasing => self.given_up(event.claim),
            EventKind::Waiting => self.send(Message::Waiting),
            EventKind::WaitingForStore(error) => self.send(Message::WaitingForStore(error.clone())),
            EventKind::YieldRequested(request) => self.output.note(&format!("{}: {request}", event.name)),
            EventKind::Lost(reason) => {
                let kill_at = self.kill_at(event.claim);
                self.send(Message::Lost(Loss { reason: *reason, kill_at }));
            }
            _ => {}
        }
    }
}

impl std::fmt::Debug for LeaseWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseWatch").field("margin", &self.margin).finish_non_exhaustive()
    }
}
