//! Lock delay to the millisecond, in virtual time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::store::{Answer, Claim, Event, Memory, Proposal, Step};
use fencepost_core::{AcquireError, Blocking, FencingToken, Lock, Locks, LossReason, ReleaseOutcome, VirtualClock};
use fencepost_testkit::faulty::Faults;
use fencepost_testkit::nodes::Nodes;
use fencepost_testkit::poll;
use fencepost_testkit::steps::{claim, listen, run};

const TTL: Duration = Duration::from_secs(10);
const DELAY: Duration = Duration::from_secs(7);
const MS: Duration = Duration::from_millis(1);

fn both(test: impl Fn(&VirtualClock, &dyn Fn() -> Locks)) {
    for count in [1, 5] {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(count, &clock.clock(), 1, Faults::default());
        test(&clock, &|| nodes.connect().clock(&clock).ttl(TTL).block().expect("memory is there"));
    }
}

fn delayed(locks: &Locks) -> Lock {
    locks.lock("x").lock_delay(DELAY)
}

fn is_free(locks: &Locks) -> bool {
    locks.lock("x").try_acquire().block().expect("an answer").is_some()
}

#[test]
fn after_a_crash_the_next_owner_comes_after_ttl_and_delay_and_not_before() {
    both(|clock, locks| {
        let _lease = delayed(&locks()).acquire().block().expect("free").leak();
        let next = locks();
        let lock = next.lock("x").wait_forever();
        let mut waiting = pin!(lock.acquire());
        assert!(poll::once(waiting.as_mut()).is_none());
        clock.turn(TTL + DELAY - MS);
        assert!(poll::once(waiting.as_mut()).is_none(), "too early");
        // A waiter looks just after the end of the lease it knows of.
        clock.turn(MS * 10);
        assert!(poll::once(waiting.as_mut()).expect("free").expect("its turn").is_held());
    });
}

#[test]
fn a_renewal_keeps_the_delay() {
    both(|clock, locks| {
        let (one, other) = (locks(), locks());
        let guard = delayed(&one).manual_renewal().acquire().block().expect("free");
        clock.turn(TTL / 2);
        guard.renew().block().expect("kept");
        assert!(guard.remaining() <= TTL, "its owner does not count on the delay");
        let _lease = guard.leak();
        clock.turn(TTL + DELAY - MS);
        assert!(!is_free(&other), "the renewal forgot the delay");
        clock.turn(MS);
        assert!(is_free(&other));
    });
}

#[test]
fn a_hold_that_was_lost_is_not_released_cleanly() {
    both(|clock, locks| {
        let (one, other) = (locks(), locks());
        let guard = delayed(&one).manual_renewal().acquire().block().expect("free");
        clock.turn(TTL - MS);
        assert_eq!(guard.lost().block().reason, LossReason::Expired, "it slept");
        let outcome = guard.release().block().expect("an answer");
        assert_eq!(outcome, ReleaseOutcome::NotHeld(Some(LossReason::Expired)));
        assert!(one.shutdown(Duration::ZERO).block().is_empty(), "nothing is left to be sent");
        assert!(!is_free(&other), "freed by a holder that was late");
        clock.turn(DELAY);
        assert!(!is_free(&other), "too early");
        clock.turn(MS);
        assert!(is_free(&other));
    });
}

#[test]
fn ttl_and_delay_together_are_at_most_what_the_store_takes() {
    both(|_, locks| {
        let day = Duration::from_secs(24 * 3600);
        assert!(locks().lock("y").lock_delay(day - TTL).acquire().block().is_ok());
        for delay in [day - TTL + MS, Duration::MAX] {
            match locks().lock("x").lock_delay(delay).acquire().block() {
                Err(AcquireError::Invalid(invalid)) => {
                    assert_eq!(invalid.field, "lock_delay");
                    assert!(invalid.cure.contains("23h59m50s"), "{invalid}");
                }
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn a_lock_that_was_handed_over_rests_for_lease_and_delay_when_nobody_takes_it() {
    let clock = VirtualClock::new();
    let now = FencingToken::at(clock.clock().wall());
    let node = Memory::node(clock.clock(), "node");
    let first = claim("first", None);
    let mut second = Claim::clone(&claim("second", Some(now)));
    second.delay = DELAY;
    let (second, lease) = (Arc::new(second.clone()), second.place().expect("in line").lease);
    let (_ear, told) = listen(&node, &second);
    let acquire = |claim: &Arc<Claim>, token| Step::Acquire {
        claim: claim.clone(),
        attempt: 1,
        token: Proposal::Exactly(token),
        unify: false,
    };
    assert!(matches!(run(&node, acquire(&first, now.offset(10))), Ok(Answer::Granted { .. })));
    assert!(matches!(run(&node, acquire(&second, now.offset(20))), Ok(Answer::Held { .. })));
    let pass = Proposal::Exactly(now.offset(30));
    assert_eq!(
        run(&node, Step::Release { claim: first, raise: None, pass, then: None, only: None }),
        Ok(Answer::Freed)
    );
    assert!(matches!(told.recv(), Ok(Event::HandedOver { .. })));
    // It died before it could renew.
    clock.turn(lease + DELAY - MS);
    let later = |clock: &VirtualClock| FencingToken::at(clock.clock().wall()).offset(10);
    assert!(matches!(run(&node, acquire(&claim("next", None), later(&clock))), Ok(Answer::Held { .. })), "too early");
    clock.turn(MS);
    assert!(matches!(run(&node, acquire(&claim("next", None), later(&clock))), Ok(Answer::Granted { .. })));
}
