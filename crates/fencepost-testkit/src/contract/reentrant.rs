//! The same actor again: one lease, counted in the client.

use std::time::Duration;

use fencepost_core::{AcquireError, Actor, Blocking, EventKind, LossReason, ReleaseOutcome};

use super::{Subject, is_lost_by, long_ttl, short_ttl, wait_for};

/// And others wait until its last hold is released.
pub fn an_actor_enters_its_lock_again_and_frees_it_with_the_last_release(subject: &impl Subject) {
    let (locks, other) = (subject.locks("one"), subject.locks("other"));
    let me = Actor::new();
    let lock = locks.lock("x").ttl(long_ttl(&locks)).by(&me);
    let outer = lock.acquire().block().expect("free");
    let inner = lock.clone().try_acquire().block().expect("an answer").expect("its own");
    let third = lock.acquire().block().expect("its own");
    assert_eq!((inner.token(), third.token()), (outer.token(), outer.token()));
    assert_eq!(outer.release().block().expect("counted"), ReleaseOutcome::StillHeld { count: 2 });
    assert_eq!(third.release().block().expect("counted"), ReleaseOutcome::StillHeld { count: 1 });
    assert!(inner.is_held());
    assert!(other.lock("x").try_acquire().block().expect("an answer").is_none());
    let token = inner.token();
    assert_eq!(inner.release().block().expect("an answer"), ReleaseOutcome::Freed);
    let next = other.lock("x").try_acquire().block().expect("an answer").expect("it is free");
    assert!(next.token() > token);
}

/// A dropped hold is a released one.
pub fn dropping_a_hold_of_an_actor_counts_as_a_release(subject: &impl Subject) {
    let (locks, other) = (subject.locks("one"), subject.locks("other"));
    let me = Actor::new();
    let lock = locks.lock("x").ttl(long_ttl(&locks)).by(&me);
    let (outer, inner) = (lock.acquire().block().expect("free"), lock.acquire().block().expect("its own"));
    drop(outer);
    assert!(inner.is_held());
    assert!(other.lock("x").try_acquire().block().expect("an answer").is_none());
    assert_eq!(inner.release().block().expect("an answer"), ReleaseOutcome::Freed);
}

/// Another actor of the same process is another, and so is nobody.
pub fn only_the_same_actor_enters_again(subject: &impl Subject) {
    let locks = subject.locks("one");
    let me = Actor::new();
    let held = locks.lock("x").ttl(long_ttl(&locks)).by(&me).acquire().block().expect("free");
    assert!(locks.lock("x").by(&Actor::new()).try_acquire().block().expect("an answer").is_none());
    assert!(locks.lock("x").try_acquire().block().expect("an answer").is_none());
    assert!(locks.lock("y").by(&me).try_acquire().block().expect("an answer").is_some(), "another lock is another");
    drop(held);
}

/// Until the last, not until the first.
pub fn the_lease_of_an_actor_is_renewed_until_its_last_hold_ends(subject: &impl Subject) {
    let (locks, other) = (subject.locks("one"), subject.locks("other"));
    let mut events = locks.events();
    let me = Actor::new();
    let lock = locks.lock("x").ttl(long_ttl(&locks) / 5).by(&me);
    let (outer, inner) = (lock.acquire().block().expect("free"), lock.acquire().block().expect("its own"));
    drop(outer);
    for _ in 0..2 {
        wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Renewed { .. }));
    }
    assert!(inner.is_held());
    assert!(other.lock("x").try_acquire().block().expect("an answer").is_none());
}

/// And acquiring again is a new acquisition, with a new token.
pub fn a_lost_lease_is_lost_for_every_hold_of_the_actor(subject: &impl Subject) {
    let (locks, operator) = (subject.locks("one"), subject.locks("operator"));
    let me = Actor::new();
    let lock = locks.lock("x").ttl(short_ttl(&locks)).by(&me);
    let (outer, inner) = (lock.acquire().block().expect("free"), lock.acquire().block().expect("its own"));
    let token = outer.token();
    operator.force_release("x", "a test").block().expect("an answer").holder.expect("somebody had it");
    for hold in [&outer, &inner] {
        is_lost_by(&hold.lost().block(), &[LossReason::Revoked, LossReason::Expired]);
    }
    assert!(matches!(inner.release().block().expect("an answer"), ReleaseOutcome::NotHeld(Some(_))));
    let again = lock.wait_at_most(Duration::from_secs(60)).acquire().block().expect("free again");
    assert!(again.token() > token, "no way into a lost lease");
    assert!(again.is_held() && !outer.is_held());
    drop(outer);
    assert!(again.is_held(), "the old hold frees nothing of the new one");
}

/// It would wait for itself.
pub fn a_reading_actor_that_wants_to_write_is_refused(subject: &impl Subject) {
    let locks = subject.locks("one");
    let me = Actor::new();
    let lock = locks.lock("x").ttl(long_ttl(&locks)).by(&me).wait_forever();
    let reader = lock.clone().shared().acquire().block().expect("free");
    match lock.acquire().block() {
        Err(AcquireError::Invalid(invalid)) => {
            assert_eq!((invalid.field, invalid.value.as_str()), ("by", "x"));
            assert!(invalid.cure.contains("release the reader"), "{invalid}");
        }
        other => panic!("{other:?}"),
    }
    let again = lock.clone().shared().acquire().block().expect("readers enter again");
    assert_eq!(again.token(), reader.token());
    drop((reader, again));
    assert!(lock.acquire().block().expect("free").is_held());
}

/// The lease stays a writer's: no other reader comes in.
pub fn a_writing_actor_that_wants_to_read_shares_its_own_lease(subject: &impl Subject) {
    let (locks, other) = (subject.locks("one"), subject.locks("other"));
    let me = Actor::new();
    let lock = locks.lock("x").ttl(long_ttl(&locks)).by(&me);
    let writer = lock.acquire().block().expect("free");
    let reader = lock.clone().shared().acquire().block().expect("its own");
    assert_eq!(reader.token().to_string(), format!("r{}", writer.token()));
    assert_eq!(writer.release().block().expect("counted"), ReleaseOutcome::StillHeld { count: 1 });
    assert!(other.lock("x").shared().try_acquire().block().expect("an answer").is_none());
    assert_eq!(reader.release().block().expect("an answer"), ReleaseOutcome::Freed);
}

/// One asks, the other joins.
pub fn two_tasks_of_one_actor_ask_once_and_both_hold(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let ttl = long_ttl(&first);
    let guard = first.lock("x").ttl(ttl).acquire().block().expect("free");
    let mut events = second.events();
    let me = Actor::new();
    std::thread::scope(|scope| {
        let acquire = || second.lock("x").ttl(ttl).wait_forever().by(&me).acquire().block().expect("its turn");
        let tasks = [scope.spawn(acquire), scope.spawn(acquire)];
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        guard.release().block().expect("released");
        let [one, other] = tasks.map(|task| task.join().expect("no panic"));
        assert_eq!(one.token(), other.token());
        assert_eq!(one.release().block().expect("counted"), ReleaseOutcome::StillHeld { count: 1 });
        assert_eq!(other.release().block().expect("an answer"), ReleaseOutcome::Freed);
    });
    let acquired = wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Acquired { .. } | EventKind::Asked));
    assert!(matches!(acquired, EventKind::Acquired { .. }), "one asked");
}
