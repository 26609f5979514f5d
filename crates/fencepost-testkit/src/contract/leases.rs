//! Leases as data.

use std::time::Duration;

use fencepost_core::store::{LockName, OnBehalf, Owner};
use fencepost_core::{Blocking, EventKind, FencingToken, Guard, Lease, LossReason, ReleaseOutcome, RenewError};

use super::{Subject, is_lost_by, long_ttl, short_ttl, wait_for};
use crate::wait::until;

/// Of leases that are put together here.
const TTL: Duration = Duration::from_secs(10);

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
        // Of nodes that vote any may answer, each by a clock of its own.
        let shown = held_for();
        assert!(shown + Duration::from_millis(100) >= before, "it counts anew: {shown:?}, not {before:?}");
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

/// Not even if nobody has had the lock since: whoever knows an owner and a token has no claim by that.
pub fn a_lease_that_is_over_is_not_brought_back(subject: &impl Subject) {
    let (giver, taker) = (subject.locks("giver"), subject.locks("taker"));
    let lease: Lease = giver.lock("x").ttl(short_ttl(&giver)).acquire().block().expect("free").leak();
    let is_free = || giver.inspect("x").block().expect("an answer").holders.is_empty();
    until("its ttl is over", is_free);
    match taker.adopt(&lease).block() {
        Err(RenewError::Lost(lost)) => is_lost_by(&lost, &[LossReason::TakenOver]),
        other => panic!("{other:?}"),
    }
    assert!(is_free());
}

/// A lease is an owner's under its token, and no other.
pub fn another_token_or_owner_renews_nothing(subject: &impl Subject) {
    let (giver, taker) = (subject.locks("giver"), subject.locks("taker"));
    let lease: Lease = giver.lock("x").ttl(long_ttl(&giver)).acquire().block().expect("free").leak();
    let of =
        |owner, token| Lease::<FencingToken>::of(LockName::new("x").expect("valid"), owner, token, TTL, Duration::ZERO);
    let stranger = Owner::from_bytes([7; 20]);
    for (owner, token) in [(lease.owner(), lease.token().next()), (stranger, lease.token())] {
        match taker.renew_lease(&of(owner, token)).block() {
            Err(RenewError::Lost(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(taker.release_lease(&lease, false).block().expect("an answer"), ReleaseOutcome::Freed);
    match taker.renew_lease(&of(stranger, lease.token())).block() {
        Err(RenewError::Lost(_)) => {}
        other => panic!("of a lock that is free: {other:?}"),
    }
    assert!(giver.lock("x").try_acquire().block().expect("an answer").is_some());
}

/// As of an owner that a request chose, which is sent again: the release of its first grant is late.
pub fn a_late_release_ends_no_newer_grant_of_its_owner(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let owner = Owner::from_bytes([7; 20]);
    let acquire = || {
        let behalf = OnBehalf::default().owner(move |_| owner);
        let guard = one.lock("x").ttl(long_ttl(&one)).on_behalf(behalf).acquire().block().expect("free");
        Guard::leak(guard)
    };
    let first = acquire();
    assert_eq!(other.release_lease(&first, true).block().expect("an answer"), ReleaseOutcome::Freed);
    let second = acquire();
    for connection in [&one, &other] {
        let late = connection.release_lease(&first, true).block().expect("an answer");
        assert!(matches!(late, ReleaseOutcome::NotHeld(_)), "{late:?}");
    }
    let adopted = other.adopt(&second).block().expect("still there");
    assert_eq!(adopted.token(), second.token());
    assert_eq!(adopted.release().block().expect("an answer"), ReleaseOutcome::Freed);
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
