//! With a majority of the servers stopped nothing can be decided: every call ends by its own deadline, in virtual time, and
//! says which servers kept silent.

mod common;

use std::pin::pin;
use std::time::Duration;

use fencepost_core::{AcquireError, Blocking, RenewError, StoreError, StoreErrorKind, VirtualClock, Vote};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::poll;

use common::{Place, until};

const TTL: Duration = Duration::from_secs(30);
const ANSWER_WITHIN: Duration = Duration::from_millis(200);
/// An operator's question may take longer than a step of a lock.
const INQUIRY_WITHIN: Duration = Duration::from_secs(5);
/// What a call may take beyond its deadline.
const GRACE: Duration = Duration::from_millis(20);
const TICK: Duration = Duration::from_millis(5);
const STOPPED: usize = 3;

/// Turns time until the call ends; answers what it said. Never beyond the deadline and a grace: there time stands still,
/// and another thread may still be at work on the answer.
fn ends_by<F: Future>(clock: &VirtualClock, deadline: Duration, call: F) -> F::Output {
    let mut call = pin!(call);
    let mut passed = Duration::ZERO;
    loop {
        if let Some(outcome) = poll::once(call.as_mut()) {
            return outcome;
        }
        if passed >= deadline + GRACE {
            let mut outcome = None;
            until(&format!("an answer {passed:?} after a call that had {deadline:?}"), || {
                outcome = poll::once(call.as_mut());
                outcome.is_some()
            });
            return outcome.expect("it is there");
        }
        clock.turn(TICK);
        passed += TICK;
    }
}

/// The error names each stopped server: it is too slow, and after a while its link is given up.
fn names_the_silent(place: &Place, error: &StoreError) {
    assert!(matches!(error.kind, StoreErrorKind::TooSlow | StoreErrorKind::Unreachable), "{error:?}");
    for server in &place.servers[..STOPPED] {
        let vote = error.votes.iter().find(|vote| vote.node == server.address()).map(|vote| &vote.vote);
        let silent =
            matches!(vote, Some(Vote::Failed(StoreErrorKind::TooSlow | StoreErrorKind::Unreachable) | Vote::Unheard));
        assert!(silent, "{} is not among {:?}", server.address(), error.votes);
    }
}

fn trouble<T: std::fmt::Debug>(outcome: Result<T, AcquireError>) -> StoreError {
    match outcome {
        Err(AcquireError::Store(error)) => error,
        other => panic!("three of five are stopped, and yet: {other:?}"),
    }
}

#[test]
fn with_three_of_five_stopped_every_call_ends_by_its_deadline_and_names_them() {
    let place = Place::quorum(5);
    let clock = VirtualClock::new();
    let locks = place.connect().ttl(TTL).answer_within(ANSWER_WITHIN).clock(&clock).block().expect("they are up");
    place.reach_all(&locks, "ours");
    until("only the test is left", || clock.next_alarm().is_none());
    let guard = locks.lock("held").acquire().block().expect("free");
    let lock = locks.lock("x");
    place.servers[..STOPPED].iter().for_each(|server| server.pause());

    names_the_silent(&place, &trouble(ends_by(&clock, ANSWER_WITHIN, lock.acquire())));
    names_the_silent(&place, &trouble(ends_by(&clock, ANSWER_WITHIN, lock.try_acquire())));
    let waiting = lock.clone().wait_at_most(ANSWER_WITHIN * 3);
    names_the_silent(&place, &trouble(ends_by(&clock, ANSWER_WITHIN * 3, waiting.acquire())));
    match ends_by(&clock, ANSWER_WITHIN, guard.renew()) {
        Err(RenewError::Unknown(error)) => names_the_silent(&place, &error),
        other => panic!("three of five are stopped, and yet: {other:?}"),
    }
    names_the_silent(&place, &ends_by(&clock, INQUIRY_WITHIN, locks.inspect("held")).expect_err("no majority"));
    names_the_silent(
        &place,
        &ends_by(&clock, INQUIRY_WITHIN, locks.force_release("held", "test")).expect_err("no majority"),
    );
    names_the_silent(&place, &ends_by(&clock, ANSWER_WITHIN, guard.release()).expect_err("no majority"));
}
