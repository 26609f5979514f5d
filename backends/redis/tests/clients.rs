//! Clients against each other, and against servers that break their links, forget their scripts or go away.

mod common;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use common::{
    KEEPS_EVERYTHING, PATIENCE, Place, fence, is_clean, once_reachable, scripts_run, until, until_heard, value,
};
use fencepost_core::{Blocking, EventKind, FencingToken, Guard, Locks, ReleaseOutcome};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::poll;
use fencepost_testkit::proxy::Flow;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

const TTL: Duration = Duration::from_secs(10);

/// Breaks all links of clients, but not the one that says so.
fn kill_links(server: &Server<Redis>) {
    for kind in ["normal", "pubsub"] {
        server.number(&["CLIENT", "KILL", "TYPE", kind]);
    }
}

/// Counts who holds at the same time.
#[derive(Default)]
struct Room(AtomicU32);

impl Room {
    fn alone(&self, guard: &Guard) {
        assert_eq!(self.0.fetch_add(1, Ordering::SeqCst), 0, "two hold at once");
        thread::yield_now();
        self.0.fetch_sub(1, Ordering::SeqCst);
        assert!(guard.is_held(), "nothing here takes as long as the ttl");
    }
}

/// Takes the lock again and again; answers the tokens.
fn take_turns(locks: &Locks, room: &Room, turns: usize) -> Vec<FencingToken> {
    let lock = locks.lock("x").ttl(TTL).wait_at_most(PATIENCE);
    let turn = |_| {
        let guard = lock.acquire().block().expect("its turn comes");
        room.alone(&guard);
        let token = guard.token();
        assert_eq!(guard.release().block().expect("released"), ReleaseOutcome::Freed);
        token
    };
    (0..turns).map(turn).collect()
}

/// The order of the list is not part of what a cluster is: both are the same, and nobody is first at another node.
#[test]
fn clients_that_list_the_nodes_in_opposite_order_exclude_each_other() {
    let place = Place::quorum(3);
    let backwards: Vec<String> = place.servers.iter().rev().map(Server::address).collect();
    let forward = place.locks("forward");
    let backward = fencepost_redis::connect("redlock", &format!("//{}", backwards.join(",")));
    let backward = backward.label("backward").answer_within(Duration::from_secs(1)).block().expect("one cluster");
    let room = Room::default();
    for _ in 0..5 {
        // A lease that nobody renews: both want the lock while it ends, on one node after the other.
        let lease = forward.lock("x").ttl(Duration::from_millis(100)).acquire().block().expect("free").leak();
        let tokens = thread::scope(|scope| {
            let other = scope.spawn(|| take_turns(&backward, &room, 10));
            let mut tokens = take_turns(&forward, &room, 10);
            tokens.extend(other.join().expect("never both"));
            tokens
        });
        let mut unique = tokens.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), tokens.len(), "no token is given twice");
        drop(lease);
    }
}

#[test]
fn forgotten_scripts_are_sent_again_with_one_effect_and_no_error() {
    for place in [Place::one(), Place::quorum(3)] {
        let (first, second) = (place.locks("first"), place.locks("second"));
        let (room, done) = (Room::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    place.servers.iter().for_each(|server| drop(server.ask(&["SCRIPT", "FLUSH"])));
                }
            });
            let other = scope.spawn(|| take_turns(&second, &room, 40));
            for tokens in [take_turns(&first, &room, 40), other.join().expect("no error")] {
                assert!(tokens.is_sorted_by(|one, next| one < next), "tokens rise");
            }
            let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
            guard.renew().block().expect("held");
            assert_eq!(first.inspect("x").block().expect("an answer").holders.len(), 1);
            for _ in 0..20 {
                let guard = first.lock("plain").ttl(TTL).unfenced().acquire().block().expect("free");
                guard.renew().block().expect("held");
                assert_eq!(guard.release().block().expect("released"), ReleaseOutcome::Freed);
            }
            done.store(true, Ordering::SeqCst);
        });
    }
}

/// All servers that a waiter stands in line at end and come back: it is in line again without asking for another place.
#[test]
fn a_waiter_outlives_a_restart_of_every_server() {
    let keeps = || Redis::new().with(KEEPS_EVERYTHING);
    let three = Place::voting(vec![keeps(), keeps(), keeps()], "max_ttl_ms=60000");
    for mut place in [Place::alone(keeps()), three] {
        let connect = |label: &str| place.connect().label(label).answer_within(Duration::from_secs(2));
        let (first, second) = (connect("first").block().expect("there"), connect("second").block().expect("there"));
        place.servers.iter().for_each(|server| until_heard(server, 2));
        let long = Duration::from_secs(60);
        let guard = first.lock("x").ttl(long).acquire().block().expect("free");
        let token = guard.token();
        let mut events = second.events();
        let lock = second.lock("x").ttl(long).wait_at_most(PATIENCE);
        let mut waiting = pin!(lock.acquire());
        assert!(poll::once(waiting.as_mut()).is_none());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        for number in 0..place.servers.len() {
            place.servers[number].restart();
            until_heard(&place.servers[number], 2);
        }
        assert!(guard.is_held());
        // The releaser goes on until the links are up.
        drop(guard);
        let next = waiting.block().expect("its turn");
        assert!(next.token() > token);
        let mut claims = Vec::new();
        while let Some(Some(Ok(event))) = poll::once(pin!(events.next())) {
            claims.extend((event.kind == EventKind::Asked).then_some(event.claim));
        }
        assert!(claims.is_empty(), "there was no new claim");
    }
}

#[test]
fn a_broken_link_loses_neither_a_hold_nor_a_place_in_line() {
    for place in [Place::one(), Place::quorum(3)] {
        let (first, second) = (place.locks("first"), place.locks("second"));
        let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
        let mut events = second.events();
        let lock = second.lock("x").ttl(TTL).wait_at_most(PATIENCE);
        let mut waiting = pin!(lock.acquire());
        assert!(poll::once(waiting.as_mut()).is_none());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        for _ in 0..3 {
            place.servers.iter().for_each(kill_links);
            until("it is renewed over new links", || guard.renew().block().is_ok());
        }
        assert!(guard.is_held());
        let token = guard.token();
        guard.release().block().expect("released");
        assert!(waiting.block().expect("its turn").token() > token);
    }
}

/// Whenever a link breaks: before, during and after the commands of a turn.
#[test]
fn links_that_break_all_the_time_cost_no_exclusion_and_leave_nothing() {
    let place = Place::quorum(3);
    let (first, second) = (place.locks("first"), place.locks("second"));
    let (room, done) = (Room::default(), AtomicBool::new(false));
    let take_turn = |locks: &Locks| {
        // A lock that somebody kept would stay longer than anybody here waits.
        let lock = locks.lock("x").ttl(Duration::from_secs(60)).wait_at_most(PATIENCE / 2);
        let guard = once_reachable(|| lock.acquire().block()).expect("its turn comes");
        room.alone(&guard);
        let token = guard.token();
        // Unknown: the releaser goes on by itself.
        let _ = guard.release().block();
        token
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for server in place.servers.iter().cycle() {
                if done.load(Ordering::SeqCst) {
                    return;
                }
                kill_links(server);
                until_heard(server, 2);
            }
        });
        let other = scope.spawn(|| (0..20).map(|_| take_turn(&second)).collect::<Vec<_>>());
        let ours: Vec<_> = (0..20).map(|_| take_turn(&first)).collect();
        for tokens in [ours, other.join().expect("never both")] {
            assert!(tokens.is_sorted_by(|one, next| one < next), "tokens rise");
        }
        done.store(true, Ordering::SeqCst);
    });
    for locks in [first, second] {
        assert_eq!(locks.shutdown(PATIENCE).block(), Vec::<String>::new());
    }
    place.servers.iter().for_each(|server| until("nothing is left", || is_clean(server, "x")));
}

/// Requests arrive, replies do not: the others decide, and the deaf node's part is undone.
#[test]
fn a_node_whose_replies_are_lost_neither_delays_nor_keeps_a_lock() {
    let place = Place::quorum(3).behind_proxies();
    let locks = place.linked("first");
    place.proxies[0].replies(Flow::Lost);
    for _ in 0..5 {
        let guard = locks.lock("x").ttl(TTL).acquire().block().expect("two of three");
        guard.renew().block().expect("two of three");
        guard.release().block().expect("two of three");
    }
    until("its part is undone", || fence(&place.servers[0], "x") > 0 && is_clean(&place.servers[0], "x"));
}

/// Half open: neither side hears of the other, and nobody closes anything.
#[test]
fn a_link_that_fell_silent_is_replaced() {
    let place = Place::one().behind_proxies();
    let locks = place.locks("first");
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    place.proxies[0].requests(Flow::Lost);
    place.proxies[0].replies(Flow::Lost);
    assert!(guard.renew().block().is_err(), "nobody answers");
    place.proxies[0].requests(Flow::Pass);
    place.proxies[0].replies(Flow::Pass);
    until("it is renewed over a new link", || guard.renew().block().is_ok());
    assert!(guard.is_held());
    guard.release().block().expect("released");
    assert!(value(&place.servers[0], "x").is_none());
}

#[test]
fn several_free_names_are_one_script_on_every_server_and_a_held_one_changes_nothing() {
    for place in [Place::one(), Place::quorum(3)] {
        let (locks, other) = (place.linked("one"), place.linked("other"));
        let names: Vec<String> = (0..20).map(|number| format!("name {number}")).collect();
        until("every server has done all that went before", || {
            let done = |server| ["linked one", "linked other"].iter().all(|name| value(server, name).is_none());
            place.servers.iter().all(done)
        });
        let before: Vec<u64> = place.servers.iter().map(scripts_run).collect();
        let all = locks.all_of(names.clone()).ttl(TTL).acquire().block().expect("free");
        names.iter().for_each(|name| place.until_all_have(name));
        let after: Vec<u64> = place.servers.iter().map(scripts_run).collect();
        assert!(after.iter().zip(&before).all(|(after, before)| after - before == 1), "{before:?} {after:?}");
        for (name, token) in all.tokens() {
            assert!(place.servers.iter().all(|server| fence(server, name) == token.as_u64()), "{name}");
        }
        let tokens = all.tokens().clone();
        all.release().block().expect("released");
        let held = other.lock("name 7").ttl(TTL).acquire().block().expect("free");
        assert!(locks.all_of(names.clone()).ttl(TTL).try_acquire().block().expect("an answer").is_none());
        held.release().block().expect("released");
        let all = locks.all_of(names).ttl(TTL).wait_at_most(PATIENCE).acquire().block().expect("free in the end");
        assert!(all.tokens().iter().all(|(name, token)| *token > tokens[name]));
    }
}
