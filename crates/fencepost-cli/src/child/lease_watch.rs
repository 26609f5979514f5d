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
    valid_until: Moment,
}

impl<'a> Lease<'a> {
    /// To be called before the command starts: however long that takes, the end of the lease is known. `Err`: it is lost.
    pub(crate) fn begin(
        clock: Clock,
        ttl: Duration,
        margin: Duration,
        remaining: &'a dyn Fn() -> Result<Duration, LossReason>,
    ) -> Result<Self, LossReason> {
        let valid_until = clock.now().plus(remaining()?);
        Ok(Self { clock, margin, reserve: reserve(ttl), remaining, valid_until })
    }

    /// How long until the next look. A lease that is shorter than the margin, as after a hand-over, counts as lost at a moment
    /// that is not known here: half of what is left is early enough, if there is still time for SIGKILL then.
    pub(super) fn look(&mut self) -> Result<Duration, Loss> {
        let now = self.clock.now();
        match (self.remaining)() {
            Ok(remaining) => {
                self.valid_until = now.plus(remaining);
                let nap = match remaining.checked_sub(self.margin) {
                    Some(nap) if !nap.is_zero() => nap,
                    _ => (remaining / 2).min(remaining.saturating_sub(self.reserve)),
                };
                Ok(nap.max(Duration::from_millis(1)))
            }
            Err(reason) => Err(Loss { reason, kill_at: self.kill_at(now, reason) }),
        }
    }

    /// The margin after the loss, but never past the lease: after a pause there may be nothing left of either.
    fn kill_at(&self, now: Moment, reason: LossReason) -> Moment {
        let end = match reason {
            // The limit counts a margin before the lease ends, or earlier.
            LossReason::HoldLimit => self.valid_until.plus(self.margin),
            _ => self.valid_until,
        };
        now.plus(self.margin).min(end).minus(self.reserve)
    }
}

#[cfg(test)]
mod tests {
    use fencepost::VirtualClock;

    use super::*;

    const TTL: Duration = Duration::from_secs(30);
    const MARGIN: Duration = Duration::from_secs(3);

    /// A whole lease, one that a hand-over gave, and one that is nearly over; of each the last tenth counts as lost.
    #[test]
    fn a_loss_is_seen_while_there_is_time_to_end_the_command() {
        for left in [TTL, MARGIN, MARGIN / 2, Duration::from_millis(600)] {
            let time = VirtualClock::new();
            let clock = time.clock();
            let end = clock.now().plus(left);
            let lost_at = end.minus(MARGIN.min(left / 10));
            let remaining = || {
                let now = clock.now();
                if now < lost_at { Ok(end.since(now)) } else { Err(LossReason::Expired) }
            };
            let mut lease = Lease::begin(clock.clone(), TTL, MARGIN, &remaining).expect("it is held");
            let loss = loop {
                match lease.look() {
                    Ok(nap) => time.turn(nap),
                    Err(loss) => break loss,
                }
            };
            let (seen, kill_at) = (clock.now(), loss.kill_at);
            assert!(seen >= lost_at && seen <= kill_at, "{left:?}: seen {:?} before the end", end.since(seen));
            assert_eq!(kill_at, end.minus(reserve(TTL)), "{left:?}");
        }
    }

    #[test]
    fn a_loss_after_a_standstill_leaves_the_command_no_time() {
        let time = VirtualClock::new();
        let clock = time.clock();
        let end = clock.now().plus(TTL);
        let remaining = || {
            let now = clock.now();
            if now < end { Ok(end.since(now)) } else { Err(LossReason::Expired) }
        };
        let mut lease = Lease::begin(clock.clone(), TTL, MARGIN, &remaining).expect("it is held");
        time.turn(TTL + MARGIN);
        let loss = lease.look().expect_err("it is over");
        assert!(loss.kill_at < end);
    }
}
