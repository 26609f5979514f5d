//! Waking each other. Time is virtual and stands still, so nobody looks by itself: who goes on was told.

use std::pin::pin;
use std::time::Duration;

use fencepost_core::{Blocking, Event, EventKind, Feed, Locks, VirtualClock, Vote};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::poll;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

use crate::common::{Place, until};
use crate::theirs::{Ear, Left, Theirs, channel};
use crate::{THEIR_TTL_MS, TTL, hash, place};

fn in_still_time(place: &Place) -> (VirtualClock, Locks) {
    let clock = VirtualClock::new();
    let locks = place.connect().clock(&clock).block().expect("it is up");
    until("only the test is left", || clock.next_alarm().is_none());
    (clock, locks)
}

fn listeners(server: &Server<Redis>, name: &str) -> i64 {
    server.words(&["PUBSUB", "NUMSUB", &channel(name)])[1].parse().expect("a number")
}

/// Waits until a waiter of ours was refused, listens, and was refused once more.
fn until_listening(events: &mut Feed<Event>) {
    for _ in 0..2 {
        wait_for(events, "x", |kind| matches!(kind, EventKind::Voted(vote) if vote.vote == Vote::Refused));
    }
}

#[test]
fn a_waiter_of_ours_is_woken_by_their_unlock() {
    let place = place();
    let server = &place.servers[0];
    let theirs = Theirs::at(server);
    let (clock, locks) = in_still_time(&place);
    assert!(theirs.lock("x", THEIR_TTL_MS) && theirs.lock("x", THEIR_TTL_MS));
    let mut events = locks.events();
    let lock = locks.lock("x").ttl(TTL).wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    until_listening(&mut events);
    assert_eq!(listeners(server, "x"), 1);
    assert_eq!(theirs.unlock("x"), Left::StillHeld);
    assert!(poll::once(waiting.as_mut()).is_none(), "once more to go");
    assert_eq!(theirs.unlock("x"), Left::Freed);
    let guard = waiting.block().expect("its turn");
    assert!(!theirs.lock("x", THEIR_TTL_MS), "{:?}", hash(server, "x"));
    guard.release().block().expect("released");
    // And nobody listens for ever.
    clock.turn(Duration::from_secs(2));
    until("it still listens: locks that were waited for are waited for again", || listeners(server, "x") == 1);
    until("it has left the channel", || {
        clock.turn(Duration::from_secs(2));
        listeners(server, "x") == 0
    });
}

/// The control: without a word from them it takes a look, and that takes time.
#[test]
fn a_lock_that_was_deleted_without_a_word_is_found_by_looking() {
    let place = place();
    let server = &place.servers[0];
    let (clock, locks) = in_still_time(&place);
    assert!(Theirs::at(server).lock("x", THEIR_TTL_MS));
    let mut events = locks.events();
    let lock = locks.lock("x").ttl(TTL).wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    until_listening(&mut events);
    assert_eq!(listeners(server, "x"), 1);
    server.number(&["DEL", "x"]);
    assert_eq!(server.ask(&["PING"]), "+PONG");
    assert!(poll::once(waiting.as_mut()).is_none(), "nobody told it");
    clock.turn(Duration::from_secs(1));
    waiting.block().expect("it has looked").release().block().expect("released");
}

#[test]
fn a_lock_of_theirs_that_expires_is_noticed() {
    let place = place();
    let locks = place.locks("ours");
    assert!(Theirs::at(&place.servers[0]).lock("x", 300));
    let guard = locks.lock("x").ttl(TTL).wait_forever().acquire().block().expect("free after their ttl");
    guard.release().block().expect("released");
}

#[test]
fn theirs_is_told_when_ours_lets_go_and_not_before() {
    let place = place();
    let (locks, server) = (place.locks("ours"), &place.servers[0]);
    let mut ear = Ear::at(server, "SUBSCRIBE", &channel("x"));
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    guard.renew().block().expect("held");
    // One that gives up, and one that finds it held, have nothing to tell.
    let mut events = locks.events();
    {
        let lock = locks.lock("x").ttl(TTL).unfair().wait_forever();
        let mut waiting = pin!(lock.acquire());
        assert!(poll::once(waiting.as_mut()).is_none());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
    }
    assert!(locks.lock("x").try_acquire().block().expect("an answer").is_none());
    assert_eq!(server.number(&["PUBLISH", &channel("x"), "the test's own word"]), 1);
    assert_eq!(ear.hear(), "the test's own word", "nothing came before it");
    guard.release().block().expect("released");
    assert_eq!(ear.hear(), "0");
    assert!(Theirs::at(server).lock("x", THEIR_TTL_MS));
}

#[test]
fn ours_are_woken_by_ours_over_connections() {
    let place = place();
    let server = &place.servers[0];
    let ((_, first), (_, second)) = (in_still_time(&place), in_still_time(&place));
    let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
    let mut events = second.events();
    let lock = second.lock("x").ttl(TTL).wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    until_listening(&mut events);
    assert_eq!(listeners(server, "x"), 1);
    guard.release().block().expect("released");
    waiting.block().expect("its turn").release().block().expect("released");
}
