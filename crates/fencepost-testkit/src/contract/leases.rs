//! Leases as data.

use std::time::Duration;

use fencepost_core::{Blocking, EventKind, Guard, Lease, LossReason, ReleaseOutcome, RenewError};

use super::{Subject, is_lost_by, long_ttl, short_ttl, wait_for};
use crate::wait::until;

/// Another process goes on with the hold.
pub fn a_leaked_lease_is_adopted_with_its_token(subject: &impl Subject) {
    let (giver, taker) = (subject.locks("giver"), subject.locks("taker"));
    let guard = giver.lock("x").ttl(long_ttl(&giver)).acquire().block().expect("free");
    let token = guard.token();
    let text = guard.leak().expose();
    let lease: Lease = text.parse().expect("its own text");
    assert!(giver.lock("x").try_acquire().block().expect("an answer").is_none(), "still locked");
    let adopted: Guard = taker.adopt(&lease).block().expect("still there");
    assert_eq!(adopted.token(), token);
    assert!(adopted.is_held());
    assert_eq!(adopted.release().block().expect("an answer"), ReleaseOutcome::Freed);
    assert!(giver.lock("x").try_acquire().block().expect("an answer").is_some());
}

/// However often it is adopted: limits to how long a lock may be held count from there.
pub fn an_adopted_lease_is_held_since_its_grant(subject: &impl Subject) {
    let connections = ["giver", "first", "second"].map(|label| subject.locks(label));
    let [giver, takers @ ..] = &connections;
    let mut guard: Guard = giver.lock("x").ttl(long_ttl(giver)).acquire().block().expect("free");
    let held_for = || {
        let holders = giver.inspect("x").block().expect("an answer").holders;
        let [shown] = &holders[..] else { panic!("one holder, not {holders:?}") };
        shown.held_for.expect("it is told")
    };
    for taker in takers {
        let before = held_for() + Duration::from_millis(300);
        until("it is held for a while", || held_for() >= before);
        guard = taker.adopt(&guard.leak()).block().expect("still there");
        assert!(held_for() >= before, "it counts anew: {:?}, not {before:?}", held_for());
    }
    guard.release().block().expect("released");
}

/// Its watchdog ends with the guard.
pub fn a_leaked_lease_is_not_renewed(subject: &impl Subject) {
    let (giver, next) = (subject.locks("giver"), subject.locks("next"));
    let lease = giver.lock("x").ttl(short_ttl(&giver)).acquire().block().expect("free").leak();
    let guard = next.lock("x").wait_forever().acquire().block().expect("free after one ttl");
    assert!(guard.is_held());
    drop(lease);
}

/// Somebody else had it since.
pub fn a_lease_that_is_over_cannot_be_adopted(subject: &impl Subject) {
    let (giver, next) = (subject.locks("giver"), subject.locks("next"));
    let lease = giver.lock("x").ttl(short_ttl(&giver)).acquire().block().expect("free").leak();
    let mut events = next.events();
    let holder = next.lock("x").ttl(long_ttl(&next)).wait_forever().acquire().block().expect("free after one ttl");
    wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Acquired { .. }));
    match giver.adopt(&lease).block() {
        Err(RenewError::Lost(lost)) => is_lost_by(&lost, &[LossReason::TakenOver]),
        other => panic!("{other:?}"),
    }
    assert!(holder.is_held());
    assert_eq!(holder.release().block().expect("an answer"), ReleaseOutcome::Freed, "the attempt released nothing");
}
