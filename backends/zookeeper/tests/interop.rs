//! One lock for Fencepost and for Python's kazoo, both ways.

mod common;

use std::time::Duration;

use common::Place;
use common::kazoo::Kazoo;
use fencepost_core::{Blocking, EventKind, ReleaseOutcome};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::wait::until;

const TTL: Duration = Duration::from_secs(30);

#[test]
fn a_lock_of_kazoo_keeps_us_out_and_its_end_lets_us_in() {
    for place in [Place::on_a_server(), Place::on_an_ensemble()] {
        let locks = place.locks("ours");
        let mut theirs = Kazoo::start(&place.servers(), &place.root);
        assert_eq!(theirs.ask("acquire"), "held");
        for _ in 0..2 {
            assert!(locks.lock("x").try_acquire().block().expect("an answer").is_none());
            assert!(locks.lock("x").shared().try_acquire().block().expect("an answer").is_none());
        }
        let state = locks.inspect("x").block().expect("an answer");
        assert_eq!(state.holders.len(), 1, "{state:?}");
        let their_token = state.holders[0].token.expect("the transaction of its node");
        let mut events = locks.events();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| locks.lock("x").ttl(TTL).wait_at_most(TTL).acquire().block());
            wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
            assert_eq!(theirs.ask("release"), "released");
            let guard = waiter.join().expect("no panic").expect("woken by their release");
            assert!(guard.token() > their_token);
            assert_eq!(theirs.ask("try"), "busy");
        });
    }
}

#[test]
fn a_lock_of_ours_keeps_kazoo_out_and_its_end_lets_it_in() {
    for place in [Place::on_a_server(), Place::on_an_ensemble()] {
        let locks = place.locks("ours");
        let line = || locks.inspect("x").block().expect("an answer").waiters.len();
        let reader = locks.lock("x").ttl(TTL).shared().acquire().block().expect("free");
        let mut theirs = Kazoo::start(&place.servers(), &place.root);
        assert_eq!(theirs.ask("try"), "busy");
        theirs.say("acquire");
        until("it is in line", || line() == 1);
        assert!(locks.lock("x").shared().try_acquire().block().expect("an answer").is_none(), "it overtook");
        reader.release().block().expect("released");
        assert_eq!(theirs.hear(), "held");
        assert_eq!(line(), 0);
        assert_eq!(theirs.ask("release"), "released");
        let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
        theirs.say("acquire");
        until("it is in line", || line() == 1);
        guard.release().block().expect("released");
        assert_eq!(theirs.hear(), "held");
        assert!(locks.lock("x").try_acquire().block().expect("an answer").is_none());
    }
}

/// Its own lock sees nodes of its own kind only, and ours are of Curator's: then two hold. We see theirs all the same.
#[test]
fn a_lock_of_kazoo_without_the_pattern_does_not_see_ours() {
    let place = Place::on_a_server();
    let locks = place.locks("ours");
    let mut plain = Kazoo::start_plain(&place.servers(), &place.root);
    let mut told = Kazoo::start(&place.servers(), &place.root);
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    assert_eq!(told.ask("try"), "busy", "with the pattern it is kept out");
    assert_eq!(plain.ask("try"), "held", "kazoo has learnt to see them: say so in the documentation");
    assert!(guard.is_held(), "two hold it");
    guard.release().block().expect("released");
    assert!(locks.lock("x").try_acquire().block().expect("an answer").is_none(), "we see the other's");
    assert_eq!(plain.ask("release"), "released");
    assert!(locks.lock("x").try_acquire().block().expect("an answer").is_some());
}

/// A hold that goes to another process has another node then: whoever is in line is woken, looks, and waits on.
#[test]
fn a_hold_that_is_passed_on_or_downgraded_keeps_kazoo_waiting() {
    let place = Place::on_a_server();
    let (one, two) = (place.locks("one"), place.locks("two"));
    let guard = one.lock("x").ttl(TTL).acquire().block().expect("free");
    let mut theirs = Kazoo::start(&place.servers(), &place.root);
    theirs.say("acquire");
    until("it is in line", || one.inspect("x").block().expect("an answer").waiters.len() == 1);
    let token = guard.token();
    let guard: fencepost_core::Guard = two.adopt(&guard.leak()).block().expect("still there");
    let reader = guard.downgrade().block().expect("still there");
    let state = one.inspect("x").block().expect("an answer");
    assert_eq!((state.holders.len(), state.holders[0].shared, state.waiters.len()), (1, true, 1), "{state:?}");
    assert_eq!(state.holders[0].token, Some(token));
    assert_eq!(reader.release().block().expect("an answer"), ReleaseOutcome::Freed);
    assert_eq!(theirs.hear(), "held");
    assert!(one.inspect("x").block().expect("an answer").holders[0].token > Some(token));
}

/// An operator may throw out what is not ours, too.
#[test]
fn a_lock_of_kazoo_can_be_thrown_out() {
    let place = Place::on_a_server();
    let locks = place.locks("ours");
    let mut theirs = Kazoo::start(&place.servers(), &place.root);
    assert_eq!(theirs.ask("acquire"), "held");
    let thrown_out = locks.force_release("x", "stuck").block().expect("an answer").holder.expect("somebody");
    let next = locks.lock("x").try_acquire().block().expect("an answer").expect("free");
    assert!(Some(next.token()) > thrown_out.token);
}

/// The names of Curator's mutex, so that whoever locks by them takes part.
#[test]
fn nodes_are_named_as_curator_names_them() {
    let place = Place::on_a_server();
    let locks = place.locks("ours");
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    let mut other = Kazoo::start(&place.servers(), &place.root);
    let [name] = &other.names()[..] else { panic!("one node") };
    let (uuid, number) = name.strip_prefix("_c_").expect("a prefix").split_once("-lock-").expect("a number");
    let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
    assert_eq!((parts, number.len()), (vec![8, 4, 4, 4, 12], 10), "{name}");
    assert_ne!(other.ask(&format!("owner {name}")), "0", "it ends with its session");
    drop(guard);
}
