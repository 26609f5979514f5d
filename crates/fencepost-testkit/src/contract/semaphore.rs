//! So many permits, each a lock of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use fencepost_core::{AcquireError, Blocking, EventKind, Locks, LossReason, ReleaseOutcome};

use super::{Subject, is_lost_by, long_ttl, short_ttl, wait_for};

/// Over connections, each in a slot of its own.
pub fn no_more_permits_are_held_than_there_are(subject: &impl Subject) {
    let connections = [subject.locks("one"), subject.locks("two")];
    let ttl = long_ttl(&connections[0]);
    let semaphore = |locks: &Locks| locks.semaphore("s", 3).ttl(ttl);
    let mut guards: Vec<_> = [0, 1, 0].map(|number| semaphore(&connections[number]).acquire().block()).into();
    let mut guards: Vec<_> = guards.drain(..).map(|guard| guard.expect("a permit is left")).collect();
    let mut slots: Vec<u32> = guards.iter().map(|guard| guard.permit().slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2]);
    for locks in &connections {
        assert!(semaphore(locks).try_acquire().block().expect("an answer").is_none());
        match semaphore(locks).acquire().block() {
            Err(AcquireError::Busy { holder: Some(holder), .. }) => assert!(["one", "two"].contains(&&*holder.label)),
            other => panic!("{other:?}"),
        }
    }
    let freed = guards.remove(1);
    let before = freed.permit();
    assert_eq!(freed.release().block().expect("an answer"), ReleaseOutcome::Freed);
    let next = semaphore(&connections[1]).try_acquire().block().expect("an answer").expect("one is free");
    assert_eq!(next.permit().slot, before.slot);
    assert!(next.permit().token > before.token, "tokens of a slot rise");
}

/// All of them or nothing.
pub fn several_permits_are_taken_at_once_or_not_at_all(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let ttl = long_ttl(&one);
    let three = one.semaphore("s", 4).take(3).ttl(ttl).acquire().block().expect("four are free");
    assert_eq!(three.permits().len(), 3);
    assert!(other.semaphore("s", 4).take(2).try_acquire().block().expect("an answer").is_none());
    let last = other.semaphore("s", 4).ttl(ttl).try_acquire().block().expect("an answer").expect("one is left");
    assert!(three.permits().iter().all(|permit| permit.slot != last.permit().slot));
    assert_eq!(three.release().block().expect("an answer"), ReleaseOutcome::Freed);
    let three = other.semaphore("s", 4).take(3).ttl(ttl).try_acquire().block().expect("an answer");
    assert!(three.is_some_and(|three| three.is_held()));
}

/// And nothing is locked.
pub fn bad_numbers_of_permits_are_refused(subject: &impl Subject) {
    let locks = subject.locks("one");
    for (permits, take, field) in [(0, 1, "permits"), (257, 1, "permits"), (3, 0, "take"), (3, 4, "take")] {
        match locks.semaphore("s", permits).take(take).acquire().block() {
            Err(AcquireError::Invalid(invalid)) => assert_eq!(invalid.field, field),
            other => panic!("{take} of {permits}: {other:?}"),
        }
    }
    for name in ["", "a/permit#1", &"x".repeat(241)] {
        assert!(matches!(locks.semaphore(name, 3).acquire().block(), Err(AcquireError::Invalid(_))), "{name:?}");
    }
    for name in ["s/permit#0", "s/permit#line"] {
        assert!(matches!(locks.lock(name).acquire().block(), Err(AcquireError::Invalid(_))), "{name:?}");
    }
}

/// A semaphore and a lock of the same name have nothing to do with each other.
pub fn a_semaphore_is_not_the_lock_of_its_name(subject: &impl Subject) {
    let locks = subject.locks("one");
    let lock = locks.lock("s").ttl(long_ttl(&locks)).acquire().block().expect("free");
    let permit = locks.semaphore("s", 1).try_acquire().block().expect("an answer");
    assert!(permit.is_some() && lock.is_held());
}

/// Without a ttl having to end.
pub fn a_waiter_has_a_permit_when_one_is_released(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let ttl = long_ttl(&first);
    let all = first.semaphore("s", 3).take(3).ttl(ttl).acquire().block().expect("free");
    let mut events = second.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.semaphore("s", 3).take(2).ttl(ttl / 5).wait_at_most(ttl).acquire().block());
        wait_for(&mut events, "s/permit#2", |kind| *kind == EventKind::Waiting);
        assert!(first.semaphore("s", 3).try_acquire().block().expect("an answer").is_none());
        all.release().block().expect("released");
        let two = waiter.join().expect("no panic").expect("within its ttl");
        assert_eq!(two.permits().len(), 2);
        assert!(two.is_held());
    });
    assert_eq!(second.shutdown(Duration::from_secs(60)).block(), Vec::<String>::new());
    for name in ["s/permit#0", "s/permit#1", "s/permit#2", "s/permit#line"] {
        let state = first.inspect(name).block().expect("an answer");
        assert!(state.holders.is_empty() && state.waiters.is_empty(), "left behind: {state:?}");
    }
}

/// First come, first served, over connections; and a try does not overtake them.
pub fn permits_go_out_in_order_of_arrival(subject: &impl Subject) {
    const WAITERS: usize = 4;
    let holding = subject.locks("holding");
    if !holding.guarantees().fifo {
        return;
    }
    let ttl = long_ttl(&holding);
    let all = holding.semaphore("s", 2).take(2).ttl(ttl).acquire().block().expect("free");
    let connections: Vec<Locks> = (0..WAITERS).map(|number| subject.locks(&number.to_string())).collect();
    let (served, order) = mpsc::channel();
    std::thread::scope(|scope| {
        for (number, locks) in connections.iter().enumerate() {
            let (mut events, served) = (locks.events(), served.clone());
            scope.spawn(move || {
                let guard = locks.semaphore("s", 2).take(2).ttl(ttl).wait_forever().acquire().block();
                let guard = guard.expect("its turn");
                served.send(number).expect("the test listens");
                guard.release().block().expect("released");
            });
            let waits_at = if number == 0 { "s/permit#1" } else { "s/permit#line" };
            wait_for(&mut events, waits_at, |kind| *kind == EventKind::Waiting);
        }
        all.release().block().expect("released");
    });
    drop(served);
    assert_eq!(order.iter().collect::<Vec<_>>(), (0..WAITERS).collect::<Vec<_>>());
}

/// Also if they want different numbers, and together more than there are.
pub fn those_who_want_several_permits_do_not_wait_for_each_other(subject: &impl Subject) {
    const TURNS: u32 = 4;
    const PERMITS: u32 = 3;
    let connections = [subject.locks("one"), subject.locks("other")];
    let ttl = long_ttl(&connections[0]);
    let inside = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for locks in &connections {
            for take in 1..=PERMITS {
                let inside = &inside;
                scope.spawn(move || {
                    let semaphore = locks.semaphore("s", PERMITS).take(take).ttl(ttl).wait_forever();
                    for _ in 0..TURNS {
                        let guard = semaphore.acquire().block().expect("its turn");
                        let now = inside.fetch_add(take, Ordering::SeqCst) + take;
                        assert!(now <= PERMITS, "{now} of {PERMITS} permits are held");
                        std::thread::yield_now();
                        assert!(guard.is_held());
                        inside.fetch_sub(take, Ordering::SeqCst);
                        guard.release().block().expect("released");
                    }
                });
            }
        }
    });
}

/// The others go back with it.
pub fn one_lost_permit_of_several_is_a_loss(subject: &impl Subject) {
    let (locks, operator) = (subject.locks("one"), subject.locks("operator"));
    let two = locks.semaphore("s", 2).take(2).ttl(short_ttl(&locks)).acquire().block().expect("free");
    operator.force_release("s/permit#1", "a test").block().expect("an answer").holder.expect("somebody had it");
    is_lost_by(&two.lost().block(), &[LossReason::Revoked, LossReason::Expired]);
    drop(two);
    let wait = Duration::from_secs(60);
    let next = operator.semaphore("s", 2).take(2).wait_at_most(wait).acquire().block();
    assert!(next.expect("both are free").is_held());
}

/// They share the lower slots.
pub fn callers_that_disagree_about_the_permits_share_the_lower_slots(subject: &impl Subject) {
    let locks = subject.locks("one");
    let ttl = long_ttl(&locks);
    let two = locks.semaphore("s", 2).take(2).ttl(ttl).acquire().block().expect("free");
    let third = locks.semaphore("s", 3).ttl(ttl).try_acquire().block().expect("an answer").expect("one more");
    assert_eq!(third.permit().slot, 2);
    assert!(locks.semaphore("s", 3).try_acquire().block().expect("an answer").is_none());
    drop(two);
}
