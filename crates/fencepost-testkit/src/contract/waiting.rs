//! Waiting: in line, for as long as told.

use std::pin::pin;
use std::sync::mpsc;
use std::time::Duration;

use fencepost_core::{Blocking, EventKind, Locks};

use super::{Subject, ends_as_busy, long_ttl, wait_for};
use crate::poll;

/// Without a ttl having to end.
pub fn a_waiter_has_the_lock_when_it_is_released(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let ttl = long_ttl(&first);
    let guard = first.lock("x").ttl(ttl).acquire().block().expect("free");
    let token = guard.token();
    let mut events = second.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock("x").ttl(ttl).wait_at_most(ttl).acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        guard.release().block().expect("released");
        let next = waiter.join().expect("no panic").expect("within its ttl");
        assert!(next.token() > token);
        assert!(next.is_held() && next.remaining() <= ttl);
    });
}

/// First come, first served, over connections.
pub fn waiters_are_served_in_order_of_arrival(subject: &impl Subject) {
    const WAITERS: usize = 5;
    let holding = subject.locks("holding");
    if !holding.guarantees().fifo {
        return;
    }
    let ttl = long_ttl(&holding);
    let guard = holding.lock("x").ttl(ttl).acquire().block().expect("free");
    let connections: Vec<Locks> = (0..WAITERS).map(|number| subject.locks(&number.to_string())).collect();
    let (served, order) = mpsc::channel();
    std::thread::scope(|scope| {
        for (number, locks) in connections.iter().enumerate() {
            let (mut events, served) = (locks.events(), served.clone());
            scope.spawn(move || {
                let guard = locks.lock("x").ttl(ttl).wait_forever().acquire().block().expect("its turn");
                served.send(number).expect("the test listens");
                guard.release().block().expect("released");
            });
            wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        }
        let line = holding.inspect("x").block().expect("an answer").waiters;
        assert_eq!(line.iter().map(|waiter| waiter.label.as_str()).collect::<Vec<_>>(), ["0", "1", "2", "3", "4"]);
        guard.release().block().expect("released");
    });
    drop(served);
    assert_eq!(order.iter().collect::<Vec<_>>(), (0..WAITERS).collect::<Vec<_>>());
}

/// Not before, and with the holder's label.
pub fn a_wait_ends_in_time_and_says_who_holds(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let guard = first.lock("x").ttl(long_ttl(&first)).acquire().block().expect("free");
    ends_as_busy(&second.lock("x"), "first");
    assert_eq!(second.shutdown(Duration::from_secs(60)).block(), Vec::<String>::new());
    assert!(first.inspect("x").block().expect("an answer").waiters.is_empty());
    drop(guard);
}

/// Dropping the future is enough.
pub fn a_waiter_that_gave_up_is_out_of_the_line(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let guard = first.lock("x").ttl(long_ttl(&first)).acquire().block().expect("free");
    let mut events = second.events();
    {
        let lock = second.lock("x").wait_forever();
        let mut acquiring = pin!(lock.acquire());
        assert!(poll::once(acquiring.as_mut()).is_none());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
    }
    assert_eq!(second.shutdown(Duration::from_secs(60)).block(), Vec::<String>::new());
    assert!(first.inspect("x").block().expect("an answer").waiters.is_empty());
    guard.release().block().expect("released");
    assert!(first.lock("x").try_acquire().block().expect("an answer").is_some(), "handed to one who had gone");
}

/// Whoever waits comes first.
pub fn trying_does_not_overtake_those_in_line(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let ttl = long_ttl(&first);
    let guard = first.lock("x").ttl(ttl).acquire().block().expect("free");
    let mut events = second.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock("x").ttl(ttl).wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        guard.release().block().expect("released");
        assert!(first.lock("x").try_acquire().block().expect("an answer").is_none(), "it overtook");
        drop(waiter.join().expect("no panic").expect("its turn"));
    });
}

/// Of one process the first contends; the others cost the store nothing.
pub fn many_threads_of_one_process_share_one_place_in_line(subject: &impl Subject) {
    const WAITERS: usize = 20;
    let (holding, waiting) = (subject.locks("holding"), subject.locks("waiting"));
    let ttl = long_ttl(&holding);
    let guard = holding.lock("x").ttl(ttl).acquire().block().expect("free");
    let mut events = waiting.events();
    let mut tokens = std::thread::scope(|scope| {
        let lock = || waiting.lock("x").ttl(ttl).wait_forever();
        let acquire = move || {
            let guard = lock().acquire().block().expect("its turn");
            let token = guard.token();
            guard.release().block().expect("released");
            token
        };
        let waiters: Vec<_> = (0..WAITERS).map(|_| scope.spawn(acquire)).collect();
        let (mut asked, mut in_line) = (0, false);
        while asked < WAITERS || !in_line {
            match wait_for(&mut events, "x", |_| true) {
                EventKind::Asked => asked += 1,
                EventKind::Waiting => in_line = true,
                _ => {}
            }
        }
        assert_eq!(holding.inspect("x").block().expect("an answer").waiters.len(), 1);
        guard.release().block().expect("released");
        waiters.into_iter().map(|waiter| waiter.join().expect("no panic")).collect::<Vec<_>>()
    });
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), WAITERS);
}
