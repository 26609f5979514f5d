//! What can be seen.

use std::time::{Duration, Instant};

use fencepost_core::{Actor, Blocking, EventKind};

use super::{Subject, long_ttl, wait_for};
use crate::wait::until;

/// Long enough to be told from the time that an answer takes.
const WAITED: Duration = Duration::from_millis(1500);

/// Also of a lock that nobody ever used.
pub fn a_free_lock_is_a_state_and_not_an_error(subject: &impl Subject) {
    let locks = subject.locks("one");
    let never = locks.inspect("never used").block().expect("an answer");
    assert!(never.holders.is_empty() && never.waiters.is_empty() && never.last_token.is_none());
    let guard = locks.lock("x").acquire().block().expect("free");
    let token = guard.token();
    guard.release().block().expect("released");
    let used = locks.inspect("x").block().expect("an answer");
    assert!(used.holders.is_empty());
    assert_eq!(used.last_token, Some(token), "the fence is remembered");
}

/// Label, token, actor, time left; the line in order, also who acts.
pub fn the_holder_and_the_line_can_be_seen(subject: &impl Subject) {
    let (holding, waiting) = (subject.locks("holding"), subject.locks("waiting"));
    let ttl = long_ttl(&holding);
    let (holder, waiter) = (Actor::new(), Actor::new());
    let guard = holding.lock("x").ttl(ttl).by(&holder).acquire().block().expect("free");
    let mut events = waiting.events();
    std::thread::scope(|scope| {
        let line = scope.spawn(|| waiting.lock("x").wait_forever().by(&waiter).acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        let state = holding.inspect("x").block().expect("an answer");
        let [shown] = &state.holders[..] else { panic!("one holder, not {:?}", state.holders) };
        assert_eq!((shown.label.as_str(), shown.token, shown.shared), ("holding", Some(guard.token()), false));
        assert!(shown.expires_in.is_some_and(|left| left <= ttl), "{shown:?}");
        assert_eq!(state.waiters.iter().map(|waiter| waiter.label.as_str()).collect::<Vec<_>>(), ["waiting"]);
        assert_eq!((shown.actor, state.waiters[0].actor), (Some(holder.id()), Some(waiter.id())));
        guard.release().block().expect("released");
        line.join().expect("no panic").expect("its turn").release().block().expect("released");
    });
}

/// However long its holder had waited before.
pub fn how_long_a_lock_is_held_counts_from_the_grant(subject: &impl Subject) {
    let (holding, waiting) = (subject.locks("holding"), subject.locks("waiting"));
    let guard = holding.lock("x").ttl(long_ttl(&holding)).acquire().block().expect("free");
    std::thread::scope(|scope| {
        let line = scope.spawn(|| waiting.lock("x").ttl(long_ttl(&waiting)).wait_forever().acquire().block());
        let state = || holding.inspect("x").block().expect("an answer");
        until("it has waited for long", || state().waiters.first().is_some_and(|waiter| waiter.waited >= WAITED));
        let released = Instant::now();
        guard.release().block().expect("released");
        let next = line.join().expect("no panic").expect("its turn");
        // With its first renewal at the latest, which comes at once after a wait in line.
        until("the time that it waited does not count", || {
            let holders = state().holders;
            let [shown] = &holders[..] else { panic!("one holder, not {holders:?}") };
            shown.held_for.expect("it is told") <= released.elapsed() + WAITED / 2
        });
        next.release().block().expect("released");
    });
}

/// Page by page, each name once.
pub fn locks_are_listed_by_prefix_in_order_over_pages(subject: &impl Subject) {
    let locks = subject.locks("one");
    let names: Vec<String> = (0..40).map(|number| format!("job/{number:03}")).collect();
    let others = ["jo", "jobs", "k"].map(|name| locks.lock(name).acquire().block().expect("free"));
    let guards: Vec<_> = names.iter().rev().map(|name| locks.lock(name).acquire().block().expect("free")).collect();
    let mut feed = locks.list("job/");
    let mut listed = Vec::new();
    while let Some(state) = feed.next().block() {
        listed.push(state.expect("an answer").name);
    }
    assert_eq!(listed, names);
    drop((guards, others));
}
