//! Several names at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fencepost_core::{AcquireError, Actor, Blocking, EventKind, Locks, LossReason, ReleaseOutcome};

use super::{Subject, ends_as_busy, is_lost_by, long_ttl, short_ttl, wait_for};

/// Each is a lock of its own, which others meet by its own name.
pub fn all_names_are_held_each_under_its_own_token(subject: &impl Subject) {
    let (locks, other) = (subject.locks("one"), subject.locks("other"));
    let ttl = long_ttl(&locks);
    let all = locks.all_of(["b", "a", "c"]).ttl(ttl).acquire().block().expect("free");
    assert_eq!(all.tokens().keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    for (name, token) in all.tokens() {
        other.check(name, *token).block().expect("it is the newest");
        assert!(other.lock(name).try_acquire().block().expect("an answer").is_none(), "{name}");
    }
    assert!(all.is_held() && all.remaining() <= ttl);
    assert!(all.renew().block().expect("all are renewed") <= ttl);
    let tokens = all.tokens().clone();
    assert_eq!(all.release().block().expect("an answer"), ReleaseOutcome::Freed);
    for name in ["a", "b", "c"] {
        let next = other.lock(name).try_acquire().block().expect("an answer").expect("it is free");
        assert!(next.token() > tokens[name]);
    }
}

/// Whichever of them it is.
pub fn one_held_name_of_several_leaves_nothing_behind(subject: &impl Subject) {
    for held in ["a", "b", "c"] {
        let (first, second) = (subject.locks("first"), subject.locks("second"));
        let ttl = long_ttl(&first);
        let guard = first.lock(held).ttl(ttl).acquire().block().expect("free");
        // Nodes that are gone confirm nothing: then the end of the ttl is waited for.
        let all = || second.all_of(["c", "b", "a"]).ttl(short_ttl(&second));
        assert!(all().try_acquire().block().expect("an answer").is_none());
        ends_as_busy(&all(), "first");
        assert_eq!(second.shutdown(Duration::from_secs(60)).block(), Vec::<String>::new());
        guard.release().block().expect("released");
        for name in ["a", "b", "c"] {
            let state = first.inspect(name).block().expect("an answer");
            assert!(state.holders.is_empty() && state.waiters.is_empty(), "{held} was held: {state:?}");
        }
    }
}

/// And nothing is locked.
pub fn a_bad_list_of_names_is_refused(subject: &impl Subject) {
    let locks = subject.locks("one");
    let too_many: Vec<String> = (0..257).map(|number| format!("n{number}")).collect();
    let lists: [&[&str]; 3] = [&[], &["a", "b", "a"], &["a", "tab\t"]];
    let lists = lists.map(|list| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
    for list in lists.into_iter().chain([too_many]) {
        match locks.all_of(list.clone()).acquire().block() {
            Err(AcquireError::Invalid(invalid)) => assert!(!invalid.cure.is_empty()),
            other => panic!("{list:?}: {other:?}"),
        }
    }
    assert!(locks.inspect("a").block().expect("an answer").holders.is_empty());
}

/// It waits in line for the one that is held, and then has all.
pub fn several_names_are_waited_for_in_one_budget(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let ttl = long_ttl(&first);
    let guard = first.lock("b").ttl(ttl).acquire().block().expect("free");
    let mut events = second.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.all_of(["a", "b", "c"]).ttl(ttl).wait_at_most(ttl * 2).acquire().block());
        wait_for(&mut events, "b", |kind| *kind == EventKind::Waiting);
        let held = |name| first.lock(name).try_acquire().block().expect("an answer").is_none();
        assert!(held("a"), "what comes before it is kept");
        guard.release().block().expect("released");
        let all = waiter.join().expect("no panic").expect("its turn");
        assert_eq!(all.tokens().len(), 3);
        assert!(all.is_held() && held("c"));
    });
}

/// Whatever order they are named in, and beside claims on single names.
pub fn opposite_orders_of_names_never_deadlock(subject: &impl Subject) {
    const TURNS: u32 = 5;
    let connections = [subject.locks("one"), subject.locks("other")];
    let ttl = long_ttl(&connections[0]);
    let inside = AtomicU32::new(0);
    let alone = || {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold b at once");
        std::thread::yield_now();
        inside.fetch_sub(1, Ordering::SeqCst);
    };
    std::thread::scope(|scope| {
        for locks in &connections {
            let take = move |names: [&'static str; 3]| {
                move |locks: &Locks| {
                    let all = locks.all_of(names).ttl(ttl).wait_forever().acquire().block().expect("its turn");
                    alone();
                    all.release().block().expect("released");
                }
            };
            let (up, down) = (take(["a", "b", "c"]), take(["c", "b", "a"]));
            scope.spawn(move || (0..TURNS).for_each(|_| up(locks)));
            scope.spawn(move || (0..TURNS).for_each(|_| down(locks)));
            scope.spawn(move || {
                for _ in 0..TURNS {
                    let one = locks.lock("b").ttl(ttl).wait_forever().acquire().block().expect("its turn");
                    alone();
                    one.release().block().expect("released");
                }
            });
        }
    });
}

/// They are its own already.
pub fn names_that_the_actor_holds_are_entered_again(subject: &impl Subject) {
    let (locks, other) = (subject.locks("one"), subject.locks("other"));
    let ttl = long_ttl(&locks);
    let me = Actor::new();
    let one = locks.lock("b").ttl(ttl).by(&me).acquire().block().expect("free");
    let all = locks.all_of(["a", "b"]).ttl(ttl).by(&me).acquire().block().expect("the other is free");
    assert_eq!(all.tokens()["b"], one.token());
    let again = locks.lock("a").ttl(ttl).by(&me).acquire().block().expect("its own");
    assert_eq!(again.token(), all.tokens()["a"]);
    assert_eq!(again.release().block().expect("counted"), ReleaseOutcome::StillHeld { count: 1 });
    assert_eq!(all.release().block().expect("counted"), ReleaseOutcome::StillHeld { count: 1 });
    assert!(one.is_held());
    assert!(other.lock("b").try_acquire().block().expect("an answer").is_none());
    assert!(other.lock("a").try_acquire().block().expect("an answer").is_some());
}

/// A part is not what was asked for.
pub fn one_lost_name_of_several_is_a_loss(subject: &impl Subject) {
    let (locks, operator) = (subject.locks("one"), subject.locks("operator"));
    let all = locks.all_of(["a", "b"]).ttl(short_ttl(&locks)).acquire().block().expect("free");
    operator.force_release("b", "a test").block().expect("an answer").holder.expect("somebody had it");
    is_lost_by(&all.lost().block(), &[LossReason::Revoked, LossReason::Expired]);
    assert!(!all.is_held() && all.remaining().is_zero());
    drop(all);
    assert_eq!(locks.shutdown(Duration::from_secs(60)).block(), Vec::<String>::new());
    assert!(operator.inspect("a").block().expect("an answer").holders.is_empty(), "the rest goes back too");
}
