//! Without a place in line: random back-off instead.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fencepost_core::{Blocking, EventKind, Lock, Locks};

use super::{Subject, ends_as_busy, long_ttl, wait_for};
use crate::poll;

fn unfair(locks: &Locks) -> Lock {
    locks.lock("x").ttl(long_ttl(locks)).unfair()
}

/// Back-off instead of a place.
pub fn an_unfair_claim_gets_the_lock_in_the_end(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let guard = unfair(&first).acquire().block().expect("free");
    let mut events = second.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| unfair(&second).wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        guard.release().block().expect("released");
        assert!(waiter.join().expect("no panic").expect("its turn").is_held());
    });
}

/// One at a time, beside those who wait in line; and everybody is served.
pub fn unfair_claims_exclude_and_all_are_served(subject: &impl Subject) {
    const TURNS: u32 = 3;
    let connections = [subject.locks("one"), subject.locks("other")];
    let inside = AtomicU32::new(0);
    let served = std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for locks in &connections {
            for lock in [unfair(locks), unfair(locks), locks.lock("x").ttl(long_ttl(locks))] {
                let inside = &inside;
                workers.push(scope.spawn(move || {
                    let mut turns = 0;
                    while turns < TURNS {
                        let guard = lock.clone().wait_forever().acquire().block().expect("its turn");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                        std::thread::yield_now();
                        assert!(guard.is_held());
                        inside.fetch_sub(1, Ordering::SeqCst);
                        guard.release().block().expect("released");
                        turns += 1;
                    }
                    turns
                }));
            }
        }
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum::<u32>()
    });
    assert_eq!(served, 6 * TURNS);
}

/// Nobody sees it in line, and it leaves nothing there.
pub fn an_unfair_claim_has_no_place_in_line(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let guard = unfair(&first).acquire().block().expect("free");
    let mut events = second.events();
    let shown = || first.inspect("x").block().expect("an answer");
    {
        let lock = unfair(&second).wait_forever();
        let mut acquiring = pin!(lock.acquire());
        assert!(poll::once(acquiring.as_mut()).is_none());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        let state = shown();
        assert!(state.waiters.is_empty(), "{state:?}");
        assert_eq!(state.holders.len(), 1);
    }
    assert_eq!(second.shutdown(Duration::from_secs(60)).block(), Vec::<String>::new());
    guard.release().block().expect("released");
    let state = shown();
    assert!(state.holders.is_empty() && state.waiters.is_empty(), "left behind: {state:?}");
    assert!(first.lock("x").try_acquire().block().expect("an answer").is_some());
}

/// Not before, and not as an error of the store.
pub fn an_unfair_wait_ends_in_time_and_says_who_holds(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let guard = unfair(&first).acquire().block().expect("free");
    ends_as_busy(&unfair(&second), "first");
    assert!(unfair(&second).try_acquire().block().expect("an answer").is_none());
    assert!(guard.is_held());
}
