//! Renewal and loss.

use std::time::Instant;

use fencepost_core::{Blocking, EventKind, LossReason, RenewError};

use super::{Subject, is_lost_by, long_ttl, short_ttl, wait_for};

/// Five renewals are more than one ttl.
pub fn the_watchdog_keeps_a_lock_for_longer_than_its_ttl(subject: &impl Subject) {
    let (holding, other) = (subject.locks("holding"), subject.locks("other"));
    let ttl = short_ttl(&holding) * 3;
    let mut events = holding.events();
    let began = Instant::now();
    let guard = holding.lock("x").ttl(ttl).acquire().block().expect("free");
    for _ in 0..5 {
        // A loss ends the renewals: it is told instead of waited out for ever.
        let told = |kind: &EventKind| matches!(kind, EventKind::Renewed { .. } | EventKind::Lost(_));
        let kind = wait_for(&mut events, "x", told);
        assert!(matches!(kind, EventKind::Renewed { .. }), "{kind:?}");
    }
    assert!(began.elapsed() > ttl, "five renewals in {:?}", began.elapsed());
    assert!(guard.is_held());
    assert!(other.lock("x").try_acquire().block().expect("an answer").is_none());
}

/// By hand, between two steps of work.
pub fn a_manual_renewal_prolongs_the_lease(subject: &impl Subject) {
    let locks = subject.locks("one");
    let guard = locks.lock("x").ttl(long_ttl(&locks)).manual_renewal().acquire().block().expect("free");
    let before = guard.remaining();
    // Time passes with each answer: renewed, the lease has more left than it would have had.
    let passed = Instant::now();
    let left = guard.renew().block().expect("kept");
    assert!(left + passed.elapsed() >= before, "{left:?} left of {before:?}");
}

/// The order that makes a lock a lock: first the holder knows, then another has it.
pub fn without_renewal_loss_is_told_before_the_next_owner_has_it(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let lock = first.lock("x").ttl(short_ttl(&first)).manual_renewal();
    let guard = lock.acquire().block().expect("free");
    let next = second.lock("x").wait_forever().acquire().block().expect("free after the ttl");
    assert!(!guard.is_held(), "two holders");
    assert!(guard.remaining().is_zero());
    is_lost_by(&guard.lost().block(), &[LossReason::Expired]);
    assert_eq!(guard.ensure_held().expect_err("lost").name, "x");
    drop(next);
}

/// Also if the lock is free again, and nobody else wants it.
pub fn a_lost_guard_stays_lost(subject: &impl Subject) {
    let locks = subject.locks("one");
    let guard = locks.lock("x").ttl(short_ttl(&locks)).manual_renewal().acquire().block().expect("free");
    let told = guard.lost().block();
    is_lost_by(&told, &[LossReason::Expired]);
    match guard.renew().block() {
        Err(RenewError::Lost(lost)) => assert_eq!(lost, told),
        other => panic!("{other:?}"),
    }
    assert!(!guard.is_held());
}

/// No lock is renewed for ever by accident.
pub fn the_hold_limit_ends_a_hold(subject: &impl Subject) {
    let locks = subject.locks("one");
    let ttl = short_ttl(&locks) * 3;
    let guard = locks.lock("x").ttl(ttl).max_hold(ttl).acquire().block().expect("free");
    is_lost_by(&guard.lost().block(), &[LossReason::HoldLimit]);
}
