//! What other lock libraries get wrong when nodes vote, and that it is not so here. Each name is the opposite of a
//! defect that was found in one of them.

mod common;

use std::pin::pin;
use std::time::Duration;

use common::{PATIENCE, Place, fence, grants, is_clean, once_reachable, trouble, until, value};
use fencepost_core::{AcquireError, Blocking, StoreErrorKind, Vote};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::poll;
use fencepost_testkit::proxy::Flow;
use fencepost_testkit::redis;

const TTL: Duration = Duration::from_secs(10);

/// Somebody else has the lock on the first so many nodes.
fn occupy(place: &Place, count: usize, ttl_ms: &str) {
    for server in &place.servers[..count] {
        assert_eq!(server.ask(&["SET", "lock:x", "theirs", "NX", "PX", ttl_ms]), "+OK");
    }
}

#[test]
fn held_and_unreachable_are_told_apart() {
    let mut place = Place::quorum(3);
    let (first, second) = (place.linked("first"), place.linked("second"));
    let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
    assert!(matches!(second.lock("x").ttl(TTL).acquire().block(), Err(AcquireError::Busy { holder: Some(_), .. })));
    assert!(matches!(second.lock("x").ttl(TTL).try_acquire().block(), Ok(None)));
    place.servers[..2].iter_mut().for_each(|server| server.kill());
    let error = trouble(second.lock("x").ttl(TTL).acquire().block());
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error:?}");
    assert!(error.is_retryable() && error.outcome_unknown());
    assert_eq!(error.votes.len(), 3, "every node is heard: {error:?}");
    assert!(error.votes[..2].iter().all(|vote| matches!(vote.vote, Vote::Failed(_))), "{error:?}");
    drop(guard);
}

#[test]
fn one_hung_node_hangs_nobody() {
    let place = Place::quorum(3);
    let (first, second) = (place.linked("first"), place.linked("second"));
    place.servers[1].pause();
    for _ in 0..10 {
        let guard = first.lock("x").ttl(TTL).acquire().block().expect("two of three");
        assert!(matches!(second.lock("x").ttl(TTL).try_acquire().block(), Ok(None)));
        guard.renew().block().expect("two of three");
        guard.release().block().expect("two of three");
    }
    first.inspect("x").block().expect("two of three");
    // Nor one that hangs before anybody is connected.
    let third = place.locks("third");
    third.lock("x").ttl(TTL).acquire().block().expect("two of three").release().block().expect("two of three");
}

#[test]
fn connecting_works_with_one_node_down() {
    let mut place = Place::quorum(3);
    place.servers[0].kill();
    let locks = place.locks("first");
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("two of three");
    assert_eq!(grants(guard.votes()), 2);
    drop(guard);
    // With a majority down it connects too, and says so when it matters; with all down it says so at once.
    place.servers[1].kill();
    let error = trouble(place.locks("second").lock("x").ttl(TTL).acquire().block());
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    place.servers[2].kill();
    assert_eq!(place.connect().block().expect_err("all are down").kind, StoreErrorKind::Unreachable);
}

#[test]
fn an_even_number_of_nodes_settles_a_tie() {
    for count in [2, 4] {
        let place = Place::quorum(count);
        let locks = place.linked("first");
        occupy(&place, count / 2, "60000");
        assert!(matches!(locks.lock("x").ttl(TTL).try_acquire().block(), Ok(None)), "half is not a majority");
        place.servers[count / 2..].iter().for_each(|server| until("its half is given back", || is_clean(server, "x")));
        place.servers[..count / 2].iter().for_each(|server| drop(server.ask(&["DEL", "lock:x"])));
        let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
        assert!(grants(guard.votes()) > count / 2);
    }
}

#[test]
fn partial_wins_are_given_back() {
    let place = Place::quorum(5);
    let locks = place.linked("first");
    occupy(&place, 3, "60000");
    for wait in [Duration::ZERO, Duration::from_millis(100)] {
        assert!(matches!(
            locks.lock("x").ttl(TTL).wait_at_most(wait).acquire().block(),
            Err(AcquireError::Busy { .. })
        ));
        place.servers[3..].iter().for_each(|server| until("it is given back", || is_clean(server, "x")));
    }
    // The control: a client that keeps what it got without a majority shuts everybody out.
    for server in &place.servers[3..] {
        assert_eq!(server.ask(&["SET", "lock:x", "a loser's", "NX", "PX", "60000"]), "+OK");
    }
    assert_eq!(place.servers[0].number(&["DEL", "lock:x"]), 1);
    assert!(matches!(locks.lock("x").ttl(TTL).try_acquire().block(), Ok(None)), "1, 2 and 2 of 5: nobody has it");
}

#[test]
fn nodes_that_were_late_at_majority_are_renewed_and_released_too() {
    let place = Place::quorum(3).behind_proxies();
    let locks = place.linked("first");
    place.proxies[0].replies(Flow::Late(Duration::from_millis(30)));
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("two of three");
    until("the third has it, too", || value(&place.servers[0], "x").is_some());
    place.servers[0].number(&["PEXPIRE", "lock:x", "5000"]);
    guard.renew().block().expect("two of three");
    until("the third is renewed, too", || place.servers[0].number(&["PTTL", "lock:x"]) > 5000);
    guard.release().block().expect("two of three");
    until("the third is released, too", || is_clean(&place.servers[0], "x"));
}

/// Unfair, so that only trying again helps.
#[test]
fn a_retry_is_not_blocked_by_what_an_earlier_try_left() {
    let place = Place::quorum(3);
    let locks = place.linked("first");
    for lock in [locks.lock("x").unfair(), locks.lock("x")] {
        occupy(&place, 2, "400");
        let guard = lock.ttl(Duration::from_secs(60)).wait_at_most(PATIENCE / 2).acquire().block();
        guard.expect("its own first grants are no obstacle").release().block().expect("released");
        place.servers.iter().for_each(|server| until("nothing is left", || is_clean(server, "x")));
    }
}

/// Every answer is a yes, but it comes when the lease is nearly over.
#[test]
fn a_round_that_overran_the_ttl_is_no_hold_and_releases_what_it_got() {
    let place = Place::quorum(3).behind_proxies();
    let locks = place.connect().answer_within(PATIENCE).block().expect("there");
    place.reach_all(&locks, "first");
    until("the first release is over", || place.servers.iter().all(|server| is_clean(server, "linked first")));
    for proxy in &place.proxies {
        proxy.replies(Flow::Late(Duration::from_millis(700)));
        proxy.take_forwarded();
    }
    let ttl = Duration::from_secs(1);
    let error = trouble(locks.lock("x").ttl(ttl).loss_margin(ttl / 2).acquire().block());
    assert_eq!(error.kind, StoreErrorKind::TooSlow, "{error:?}");
    assert!(error.message.contains("longer ttl"), "{error}");
    for (proxy, server) in place.proxies.iter().zip(&place.servers) {
        until("it was released", || proxy.forwarded(b"EVALSHA") >= 2);
        until("nothing is left", || fence(server, "x") > 0 && is_clean(server, "x"));
    }
}

/// The control: who counts answers without looking at the time holds what is over.
#[test]
fn a_plain_set_whose_answer_comes_late_is_said_to_be_held_and_is_not() {
    let place = Place::one().behind_proxies();
    place.proxies[0].replies(Flow::Late(Duration::from_millis(500)));
    let reply = redis::ask(&place.proxies[0].address(), &["SET", "lock:x", "late", "NX", "PX", "100"]);
    assert_eq!(reply.expect("an answer"), "+OK");
    assert_eq!(place.servers[0].number(&["PTTL", "lock:x"]), -2, "it is not there any more");
}

/// Whenever it is cancelled: the clean-up does not hang on the task that was cancelled.
#[test]
fn a_cancelled_attempt_cleans_up() {
    let place = Place::quorum(3).behind_proxies();
    let locks = place.linked("first");
    for (wait, polls) in [(0, 1), (0, 3), (60, 1), (60, 3)] {
        for held_back in 0..=3 {
            place.proxies[..held_back].iter().for_each(|proxy| proxy.replies(Flow::Held));
            {
                let lock = locks.lock("x").ttl(TTL).wait_at_most(Duration::from_secs(wait));
                let mut acquiring = pin!(lock.acquire());
                let mut guard = None;
                for _ in 0..polls {
                    if guard.is_none() {
                        guard = poll::once(acquiring.as_mut());
                    }
                    std::thread::yield_now();
                }
            }
            place.proxies.iter().for_each(|proxy| proxy.replies(Flow::Pass));
        }
    }
    assert_eq!(locks.shutdown(PATIENCE).block(), Vec::<String>::new());
    place.servers.iter().for_each(|server| until("nothing is left", || is_clean(server, "x")));
    assert!(once_reachable(|| place.locks("second").lock("x").ttl(TTL).acquire().block()).is_ok(), "free");
}

#[test]
fn a_wait_is_more_than_one_try() {
    let place = Place::quorum(3);
    let locks = place.linked("first");
    for lock in [locks.lock("x").unfair(), locks.lock("x")] {
        occupy(&place, 3, "300");
        lock.ttl(TTL).wait_at_most(PATIENCE / 2).acquire().block().expect("free after a while").release().block().ok();
    }
}

/// Hundreds of turns, one connection per node.
#[test]
fn all_operations_share_one_link_per_node() {
    let place = Place::quorum(3);
    let locks = place.linked("first");
    let connections = || -> Vec<i64> {
        let stats = |text: String| {
            let line =
                text.lines().find_map(|line| line.strip_prefix("total_connections_received:").map(str::to_owned));
            line.expect("a number of connections").trim().parse().expect("a number")
        };
        place.servers.iter().map(|server| stats(server.ask(&["INFO", "stats"]))).collect()
    };
    let before = connections();
    for _ in 0..200 {
        locks.lock("x").ttl(TTL).acquire().block().expect("free").release().block().expect("released");
    }
    let made: Vec<i64> = connections().iter().zip(before).map(|(now, before)| now - before).collect();
    assert_eq!(made, [1, 1, 1], "the one that asked");
}
