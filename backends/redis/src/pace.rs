//! How long an answer of one link may take: from its measured round trips, its queue, and when it was last heard.
//!
//! The link's owner writes under the link's mutex; the engine reads without it, for every request.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_core::store::Moment;

/// A link that owes an answer is live while it was heard within this span.
const LIVE: Duration = Duration::from_secs(1);
/// What each request in the queue adds to the time of an answer, beside what was measured: a burst comes before any of
/// its round trips is known.
const PER_REQUEST: Duration = Duration::from_millis(4);
/// The shortest time for an answer, from the moment at which the request was really written: the thread that wrote it, or the
/// one that reads, may have had to wait for a processor.
const LEAST: Duration = Duration::from_millis(20);
/// How long the end of a connection waits for the next answer of a link, at least: longer than most networks take, and little
/// enough that nobody notices it when a server has fallen silent. Nothing is lost by it: what was written reaches the server
/// all the same, and only its answer is not waited for.
const LEAST_AT_THE_END: Duration = Duration::from_millis(100);
/// The delay that the threads on both sides may add to a measured round trip.
const SLACK: Duration = Duration::from_millis(20);
/// Of a link that is down.
const DOWN: u64 = u64::MAX;

/// What the engine is told.
#[derive(Debug)]
pub(crate) struct Pace {
    up_since: AtomicU64,
    heard_at: AtomicU64,
    /// How many answers are owed.
    owed: AtomicUsize,
    /// A round trip as measured, with its variation, in nanoseconds.
    trip: AtomicU64,
}

impl Pace {
    pub(crate) fn down() -> Self {
        let (up_since, heard_at) = (AtomicU64::new(DOWN), AtomicU64::new(0));
        Self { up_since, heard_at, owed: AtomicUsize::new(0), trip: AtomicU64::new(0) }
    }

    pub(crate) fn is_up(&self, since: Moment) {
        self.heard_at.store(since.as_nanos(), Ordering::Relaxed);
        self.owed.store(0, Ordering::Relaxed);
        self.trip.store(0, Ordering::Relaxed);
        self.up_since.store(since.as_nanos(), Ordering::Release);
    }

    pub(crate) fn is_down(&self) {
        self.up_since.store(DOWN, Ordering::Release);
    }

    pub(crate) fn heard(&self, at: Moment) {
        self.heard_at.store(at.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn owes(&self, answers: usize) {
        self.owed.store(answers, Ordering::Relaxed);
    }

    pub(crate) fn owes_any(&self) -> bool {
        self.owed.load(Ordering::Relaxed) > 0
    }

    fn took(&self, trip: Duration) {
        self.trip.store(u64::try_from(trip.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// When the link counts as silent unless it is heard again, for a request of this moment. `None`: the link is down, or
    /// is newer than the request, which then was answered with trouble.
    pub(crate) fn silent_at(&self, sent: Moment) -> Option<Moment> {
        if self.up_since.load(Ordering::Acquire) > sent.as_nanos() {
            return None;
        }
        let heard = Moment::from_nanos(self.heard_at.load(Ordering::Relaxed));
        let owed = self.owed.load(Ordering::Relaxed);
        if owed == 0 {
            return Some(sent);
        }
        Some(heard.max(sent).plus(queue(owed).max(self.trip()).max(LEAST)).min(heard.plus(LIVE)))
    }

    /// Until when the end of a connection waits for the next answer, unless the link is down or owes nothing.
    ///
    /// A server that has not answered since it was asked gets the time of one measured round trip, or of the queue. Each answer
    /// starts that time again. So one that is far away or at work is waited for, and one that fell silent is soon not.
    pub(crate) fn worth_waiting_until(&self) -> Moment {
        let heard = Moment::from_nanos(self.heard_at.load(Ordering::Relaxed));
        let queue = queue(self.owed.load(Ordering::Relaxed));
        heard.plus(queue.max(self.trip() + SLACK).max(LEAST_AT_THE_END).min(LIVE))
    }

    fn trip(&self) -> Duration {
        Duration::from_nanos(self.trip.load(Ordering::Relaxed))
    }
}

/// How long a server may take for so many requests.
fn queue(owed: usize) -> Duration {
    PER_REQUEST.saturating_mul(u32::try_from(owed).unwrap_or(u32::MAX))
}

/// Measures round trips of one link, one at a time, as TCP does: smoothed, and how much they vary.
#[derive(Debug, Default)]
pub(crate) struct Trips {
    /// How many answers come before that of the request which is timed, itself included, and when it was written.
    timed: Option<(usize, Moment)>,
    smoothed: Duration,
    varies: Duration,
}

impl Trips {
    /// Whether a request that is written now would be timed.
    pub(crate) fn is_idle(&self) -> bool {
        self.timed.is_none()
    }

    /// A request was written; with it this many answers are owed.
    pub(crate) fn written(&mut self, owed: usize, at: Moment) {
        self.timed = Some((owed, at));
    }

    /// The next answer came.
    pub(crate) fn answered(&mut self, at: Moment, pace: &Pace) {
        let Some((left, written)) = self.timed else { return };
        if left > 1 {
            self.timed = Some((left - 1, written));
            return;
        }
        self.timed = None;
        let trip = at.since(written);
        if self.smoothed.is_zero() {
            (self.smoothed, self.varies) = (trip, trip / 2);
        } else {
            self.varies = (self.varies * 3 + self.smoothed.abs_diff(trip)) / 4;
            self.smoothed = (self.smoothed * 7 + trip) / 8;
        }
        pace.took(self.smoothed + self.varies * 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0).plus(Duration::from_millis(ms))
    }

    #[test]
    fn a_request_of_an_older_link_is_not_owed_by_this_one() {
        let pace = Pace::down();
        assert_eq!(pace.silent_at(at(5)), None);
        pace.is_up(at(10));
        assert_eq!(pace.silent_at(at(5)), None);
        assert_eq!(pace.silent_at(at(10)), Some(at(10)));
        pace.is_down();
        assert_eq!(pace.silent_at(at(20)), None);
    }

    #[test]
    fn each_answer_keeps_a_queue_alive_and_silence_ends_it_after_a_second() {
        let pace = Pace::down();
        pace.is_up(at(0));
        pace.heard(at(100));
        pace.owes(75);
        assert_eq!(pace.silent_at(at(100)), Some(at(400)), "four milliseconds each");
        pace.heard(at(350));
        assert_eq!(pace.silent_at(at(100)), Some(at(650)), "it is at work");
        pace.owes(5_000);
        assert_eq!(pace.silent_at(at(100)), Some(at(1_350)), "heard within a second");
        assert_eq!(pace.silent_at(at(2_000)), Some(at(1_350)), "silent before this was sent");
    }

    #[test]
    fn the_end_of_a_connection_waits_for_one_round_trip_or_for_a_queue_that_gets_shorter() {
        let pace = Pace::down();
        pace.is_up(at(0));
        pace.heard(at(100));
        pace.owes(1);
        assert_eq!(pace.worth_waiting_until(), at(200), "on a quick network");
        pace.took(Duration::from_millis(180));
        assert_eq!(pace.worth_waiting_until(), at(300), "on a slow one");
        pace.owes(75);
        assert_eq!(pace.worth_waiting_until(), at(400), "four milliseconds each");
        pace.heard(at(350));
        assert_eq!(pace.worth_waiting_until(), at(650), "it is at work");
        pace.owes(5_000);
        assert_eq!(pace.worth_waiting_until(), at(1_350), "never for more than a second without an answer");
    }

    #[test]
    fn round_trips_are_measured_one_at_a_time_with_the_queue_before_them() {
        let (pace, mut trips) = (Pace::down(), Trips::default());
        pace.is_up(at(0));
        pace.owes(1);
        assert!(trips.is_idle());
        trips.written(3, at(0));
        assert!(!trips.is_idle());
        trips.answered(at(10), &pace);
        trips.answered(at(20), &pace);
        assert_eq!(pace.silent_at(at(0)), Some(at(20)), "nothing is measured yet");
        trips.answered(at(40), &pace);
        assert!(trips.is_idle());
        assert_eq!(pace.silent_at(at(0)), Some(at(120)), "40 ms, and four times the half of it");
    }
}
