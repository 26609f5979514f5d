//! What the engine tells of our claims, as messages to the main thread. And the lease as the supervisor sees it.

use std::sync::mpsc::Sender;
use std::time::Duration;

use fencepost::store::{Clock, Moment};
use fencepost::{Event, EventKind, LossReason, Observer};

use super::{Loss, Message};

/// What is kept from the end of a lease for SIGKILL to do its work.
pub(crate) fn reserve(ttl: Duration) -> Duration {
    (ttl / 40).min(Duration::from_millis(50))
}

/// Passes on what is worth a look. Whether the lock is still held does not depend on it.
pub(crate) struct LeaseWatch(pub(crate) Sender<Message>);

impl Observer for LeaseWatch {
    fn event(&self, event: &Event) {
        let message = match &event.kind {
            EventKind::Waiting => Message::Waiting,
            EventKind::WaitingForStore(error) => Message::WaitingForStore(error.clone()),
            EventKind::YieldRequested(request) => Message::Asked(format!("{}: {request}", event.name)),
            EventKind::Lost(_) => Message::Lost,
            _ => return,
        };
        // Nobody listens any more once the command has ended.
        let _ = self.0.send(message);
    }
}

impl std::fmt::Debug for LeaseWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LeaseWatch")
    }
}

/// The lease under which a command runs, judged by the clock at each look.
pub(crate) struct Lease<'a> {
    clock: Clock,
    /// How long before its end it counts as lost.
    margin: Duration,
    reserve: Duration,
    /// How long it lasts from now on.
    remaining: &'a dyn Fn() -> Result<Duration, LossReason>,
    /// Its end when it was last seen.
    valid_until: Option<Moment>,
}

impl<'a> Lease<'a> {
    pub(crate) fn new(
        clock: Clock,
        ttl: Duration,
        margin: Duration,
        remaining: &'a dyn Fn() -> Result<Duration, LossReason>,
    ) -> Self {
        Self { clock, margin, reserve: reserve(ttl), remaining, valid_until: None }
    }

    /// How long until it counts as lost if nothing renews it; never shorter than needed to look once more.
    pub(super) fn look(&mut self) -> Result<Duration, Loss> {
        let now = self.clock.now();
        match (self.remaining)() {
            Ok(remaining) => {
                self.valid_until = Some(now.plus(remaining));
                let left = if remaining > self.margin { remaining - self.margin } else { remaining };
                Ok(left.max(Duration::from_millis(1)))
            }
            Err(reason) => Err(Loss { reason, kill_at: self.kill_at(now, reason) }),
        }
    }

    /// The margin after the loss, but never past the lease: after a pause there may be nothing left of either.
    fn kill_at(&self, now: Moment, reason: LossReason) -> Moment {
        let graceful = now.plus(self.margin);
        let end = self.valid_until.map(|end| match reason {
            // The limit counts a margin before the lease ends, or earlier.
            LossReason::HoldLimit => end.plus(self.margin),
            _ => end,
        });
        end.map_or(graceful, |end| graceful.min(end)).minus(self.reserve)
    }
}
