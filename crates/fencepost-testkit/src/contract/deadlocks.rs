//! Actors that wait for each other in a circle.

use std::pin::pin;

use fencepost_core::{AcquireError, Actor, Blocking, EventKind, Lock, Locks};

use super::{Subject, long_ttl, wait_for};
use crate::poll;

fn lock(locks: &Locks, name: &str, actor: &Actor) -> Lock {
    locks.lock(name).ttl(long_ttl(locks)).wait_forever().by(actor)
}

fn cycles(locks: &Locks) -> Vec<Vec<String>> {
    let cycles = locks.deadlocks().block().expect("an answer");
    cycles.into_iter().map(|cycle| cycle.into_iter().map(|state| state.name).collect()).collect()
}

/// By anybody, with holders, waiters and their ages, and no longer than it lasts.
pub fn two_locks_in_opposite_order_are_seen_as_a_deadlock(subject: &impl Subject) {
    let (one, other, third) = (subject.locks("one"), subject.locks("other"), subject.locks("third"));
    if !one.guarantees().fifo {
        return;
    }
    let (a, b) = (Actor::new(), Actor::new());
    let held_by_a = lock(&one, "x", &a).acquire().block().expect("free");
    let held_by_b = lock(&other, "y", &b).acquire().block().expect("free");
    let (mut first, mut second) = (one.events(), other.events());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| lock(&one, "y", &a).acquire().block());
        wait_for(&mut first, "y", |kind| *kind == EventKind::Waiting);
        assert!(cycles(&third).is_empty(), "a chain is no cycle");
        {
            let wanted = lock(&other, "x", &b);
            let mut closing = pin!(wanted.acquire());
            assert!(poll::once(closing.as_mut()).is_none());
            wait_for(&mut second, "x", |kind| *kind == EventKind::Waiting);
            let deadlocks = third.deadlocks().block().expect("an answer");
            let [cycle] = &deadlocks[..] else { panic!("one cycle, not {deadlocks:?}") };
            let seen: Vec<_> = cycle
                .iter()
                .map(|state| (state.name.as_str(), state.holders[0].actor, state.waiters[0].actor))
                .collect();
            assert_eq!(seen, [("x", Some(a.id()), Some(b.id())), ("y", Some(b.id()), Some(a.id()))]);
        }
        held_by_b.release().block().expect("released");
        waiting.join().expect("no panic").expect("its turn").release().block().expect("released");
    });
    assert!(cycles(&third).is_empty(), "it is over");
    held_by_a.release().block().expect("released");
}

/// And what it waited for is left behind clean; the other goes on.
pub fn a_wait_that_closes_a_cycle_fails_if_its_actor_asked_for_it(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    if !one.guarantees().fifo {
        return;
    }
    let (a, b) = (Actor::new(), Actor::new().fail_on_deadlock());
    let held_by_a = lock(&one, "x", &a).acquire().block().expect("free");
    let held_by_b = lock(&other, "y", &b).acquire().block().expect("free");
    let mut events = one.events();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| lock(&one, "y", &a).acquire().block());
        wait_for(&mut events, "y", |kind| *kind == EventKind::Waiting);
        match lock(&other, "x", &b).acquire().block() {
            Err(error @ AcquireError::Deadlock { .. }) => {
                let said = error.to_string();
                assert!(said.contains("\"x\" is held by one") && said.contains("who waits for \"y\""), "{said}");
                let AcquireError::Deadlock { cycle, .. } = error else { unreachable!("BUG: matched above") };
                assert_eq!(cycle.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["x", "y"]);
            }
            unexpected => panic!("{unexpected:?}"),
        }
        held_by_b.release().block().expect("released");
        waiting.join().expect("no panic").expect("its turn").release().block().expect("released");
    });
    held_by_a.release().block().expect("released");
    assert!(one.lock("x").try_acquire().block().expect("an answer").is_some(), "handed to one who had gone");
}

/// The store knows only the first that a process has in line.
pub fn a_deadlock_of_one_behind_another_of_its_process_is_seen_there(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    if !one.guarantees().fifo {
        return;
    }
    let (a, b, bystander) = (Actor::new(), Actor::new(), Actor::new());
    let held_by_a = lock(&one, "x", &a).acquire().block().expect("free");
    let held_by_b = lock(&other, "y", &b).acquire().block().expect("free");
    let (mut first, mut second) = (one.events(), other.events());
    {
        let (before, behind, closing) = (lock(&one, "y", &bystander), lock(&one, "y", &a), lock(&other, "x", &b));
        let mut before = pin!(before.acquire());
        assert!(poll::once(before.as_mut()).is_none());
        wait_for(&mut first, "y", |kind| *kind == EventKind::Waiting);
        let (mut behind, mut closing) = (pin!(behind.acquire()), pin!(closing.acquire()));
        assert!(poll::once(behind.as_mut()).is_none() && poll::once(closing.as_mut()).is_none());
        wait_for(&mut second, "x", |kind| *kind == EventKind::Waiting);
        assert_eq!(cycles(&one), [["x", "y"]]);
    }
    held_by_a.release().block().expect("released");
    held_by_b.release().block().expect("released");
}
