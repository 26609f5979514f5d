//! Giving a lock up.

use std::time::Duration;

use fencepost_core::{AcquireError, Blocking, EventKind, LossReason, ReleaseOutcome};

use super::{Subject, is_lost_by, long_ttl, short_ttl, wait_for};

/// A round trip later, not a ttl later.
pub fn a_released_lock_is_free_at_once(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let guard = first.lock("x").ttl(long_ttl(&first)).acquire().block().expect("free");
    assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
    assert!(second.lock("x").try_acquire().block().expect("an answer").is_some());
}

/// No runtime, no waiting; the event tells when it is done.
pub fn dropping_a_guard_frees_the_lock(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let mut events = first.events();
    drop(first.lock("x").ttl(long_ttl(&first)).acquire().block().expect("free"));
    let released = wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Released(_)));
    assert_eq!(released, EventKind::Released(ReleaseOutcome::Freed));
    assert!(second.lock("x").try_acquire().block().expect("an answer").is_some());
}

/// The guard is dropped while the thread unwinds.
pub fn a_panicking_thread_frees_its_lock(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let holder = first.clone();
    let thread = std::thread::spawn(move || {
        let _guard = holder.lock("x").ttl(long_ttl(&holder)).acquire().block().expect("free");
        std::panic::resume_unwind(Box::new("the work failed"));
    });
    assert!(thread.join().is_err());
    let next = second.lock("x").wait_forever().acquire().block().expect("free");
    assert!(next.is_held());
}

/// Neither by an explicit release nor by drop.
pub fn a_late_release_never_frees_the_next_owner(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let lock = first.lock("x").ttl(short_ttl(&first)).manual_renewal();
    let late = lock.acquire().block().expect("free");
    let next = second.lock("x").ttl(long_ttl(&second)).wait_forever().acquire().block().expect("free after the ttl");
    assert_eq!(late.release().block().expect("an answer"), ReleaseOutcome::NotHeld(Some(LossReason::Expired)));
    assert!(lock.try_acquire().block().expect("an answer").is_none(), "the next owner was thrown out");
    assert_eq!(next.release().block().expect("an answer"), ReleaseOutcome::Freed);
}

/// At its next renewal, and it stays out.
pub fn a_forced_release_is_told_to_the_holder(subject: &impl Subject) {
    let (holding, operator) = (subject.locks("holding"), subject.locks("operator"));
    let guard = holding.lock("x").ttl(long_ttl(&holding)).acquire().block().expect("free");
    let thrown_out = operator.force_release("x", "stuck").block().expect("an answer").holder.expect("somebody");
    assert_eq!((thrown_out.label.as_str(), thrown_out.token), ("holding", Some(guard.token())));
    assert!(guard.renew().block().is_err());
    is_lost_by(&guard.lost().block(), &[LossReason::Revoked]);
    let next = operator.lock("x").try_acquire().block().expect("an answer").expect("free");
    assert!(next.token() > guard.token());
    assert_eq!(operator.force_release("free", "").block().expect("an answer").holder, None);
}

/// The end of a server: nothing stays locked, nobody waits on.
pub fn shutdown_sends_outstanding_releases_and_ends_waiting(subject: &impl Subject) {
    let (ending, other) = (subject.locks("ending"), subject.locks("other"));
    let ttl = long_ttl(&ending);
    let held_by_other = other.lock("theirs").ttl(ttl).acquire().block().expect("free");
    let mut events = ending.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| ending.lock("theirs").wait_forever().acquire().block());
        wait_for(&mut events, "theirs", |kind| *kind == EventKind::Waiting);
        drop(ending.lock("mine").ttl(ttl).acquire().block().expect("free"));
        assert_eq!(ending.shutdown(Duration::from_secs(60)).block(), Vec::<String>::new());
        assert!(matches!(waiter.join().expect("no panic"), Err(AcquireError::ShuttingDown)));
    });
    assert!(matches!(ending.lock("mine").acquire().block(), Err(AcquireError::ShuttingDown)));
    assert!(other.lock("mine").try_acquire().block().expect("an answer").is_some());
    assert!(other.inspect("theirs").block().expect("an answer").waiters.is_empty());
    drop(held_by_other);
}
