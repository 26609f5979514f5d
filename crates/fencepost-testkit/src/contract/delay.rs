//! Lock delay: a lock that was not released cleanly rests before the next owner has it.

use std::time::Instant;

use fencepost_core::{Blocking, EventKind};

use super::{Subject, long_ttl, short_ttl, wait_for};

/// The ttl and the delay, not less, and not for ever.
pub fn a_lock_that_nobody_released_rests_for_its_delay(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let (ttl, delay) = (short_ttl(&first), short_ttl(&first) * 2);
    let before = Instant::now();
    let lease = first.lock("x").ttl(ttl).lock_delay(delay).acquire().block().expect("free").leak();
    let next = second.lock("x").wait_forever().acquire().block().expect("free in the end");
    let after = before.elapsed();
    assert!(after >= ttl + delay, "granted after {after:?} of a ttl of {ttl:?} and a delay of {delay:?}");
    assert!(next.is_held());
    drop(lease);
}

/// Also one that was handed over in line.
pub fn a_clean_release_frees_at_once_whatever_the_delay(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let (ttl, delay) = (long_ttl(&first), long_ttl(&first) * 2);
    let guard = first.lock("x").ttl(ttl).lock_delay(delay).acquire().block().expect("free");
    let mut events = second.events();
    std::thread::scope(|scope| {
        let lock = second.lock("x").ttl(ttl).lock_delay(delay).wait_at_most(ttl);
        let waiter = scope.spawn(move || lock.acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        guard.release().block().expect("released");
        let next = waiter.join().expect("no panic").expect("long before the delay is over");
        assert!(next.remaining() <= ttl, "its owner does not count on the delay: {:?}", next.remaining());
        next.release().block().expect("released");
    });
    assert!(first.lock("x").try_acquire().block().expect("an answer").is_some());
}

/// To go on with a lease keeps its delay.
pub fn an_adopted_lease_keeps_its_delay(subject: &impl Subject) {
    let (giver, taker) = (subject.locks("giver"), subject.locks("taker"));
    let (ttl, delay) = (short_ttl(&giver), short_ttl(&giver) * 2);
    let lease = giver.lock("x").ttl(ttl).lock_delay(delay).acquire().block().expect("free").leak();
    let lease = lease.expose().parse().expect("its own text");
    let before = Instant::now();
    let again: fencepost_core::Lease = taker.adopt(&lease).block().expect("still there").leak();
    let next = giver.lock("x").wait_forever().acquire().block().expect("free in the end");
    let after = before.elapsed();
    assert!(after >= ttl + delay, "granted after {after:?} of a ttl of {ttl:?} and a delay of {delay:?}");
    drop((next, again));
}
