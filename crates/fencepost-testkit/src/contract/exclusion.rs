//! Mutual exclusion.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fencepost_core::{AcquireError, Blocking};

use super::{Subject, long_ttl, short_ttl};

/// Busy is an answer, with the holder in it.
pub fn second_owner_is_refused_while_first_holds(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let guard = first.lock("x").acquire().block().expect("free");
    assert!(second.lock("x").try_acquire().block().expect("an answer").is_none());
    match second.lock("x").acquire().block() {
        Err(AcquireError::Busy { holder: Some(holder), waited, .. }) => {
            assert_eq!((holder.label.as_str(), waited), ("first", Duration::ZERO));
            assert_eq!(holder.token, Some(guard.token()));
        }
        other => panic!("not busy: {other:?}"),
    }
    assert!(first.lock("x").try_acquire().block().expect("an answer").is_none(), "a connection is not an owner");
    assert!(guard.is_held());
}

/// A lock is its name.
pub fn names_do_not_exclude_each_other(subject: &impl Subject) {
    let locks = subject.locks("one");
    let names = ["x", "X", "x:", "x/", "{x}", "x:fence", "x ", "é"];
    let guards: Vec<_> = names.iter().map(|name| locks.lock(*name).acquire().block().expect("free")).collect();
    assert!(guards.iter().all(|guard| guard.is_held()));
}

/// Many threads over several connections; two holders at once would be seen.
pub fn one_of_many_holds_at_a_time(subject: &impl Subject) {
    const THREADS: u32 = 6;
    const TURNS: u32 = 8;
    let (inside, turns) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let locks = subject.locks(&format!("thread {number}"));
            let (inside, turns) = (&inside, &turns);
            scope.spawn(move || {
                let lock = locks.lock("x").ttl(long_ttl(&locks)).wait_forever();
                for _ in 0..TURNS {
                    let guard = lock.acquire().block().expect("its turn comes");
                    assert!(!inside.swap(true, Ordering::SeqCst), "two holders at once");
                    std::thread::yield_now();
                    turns.fetch_add(1, Ordering::SeqCst);
                    inside.store(false, Ordering::SeqCst);
                    guard.release().block().expect("released");
                }
            });
        }
    });
    assert_eq!(turns.load(Ordering::SeqCst), THREADS * TURNS);
}

/// A holder that vanished blocks for its ttl: not less, and not for ever.
pub fn an_abandoned_lease_excludes_for_its_whole_ttl_and_no_longer(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let ttl = short_ttl(&first);
    let before = Instant::now();
    let lease = first.lock("x").ttl(ttl).acquire().block().expect("free").leak();
    let next = second.lock("x").wait_forever().acquire().block().expect("free in the end");
    assert!(before.elapsed() >= ttl, "granted {:?} after a lease of {ttl:?} began", before.elapsed());
    assert!(next.is_held());
    drop(lease);
}
