//! What arrives late, or twice, or when nobody is there any more.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::time::Duration;

use common::{PATIENCE, Place, commands, fence, is_clean, until, value};
use fencepost_core::{AcquireError, Blocking, EventKind, Grant, Lock, LossReason, ReleaseOutcome, RenewError};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::poll;
use fencepost_testkit::proxy::Flow;

const TTL: Duration = Duration::from_secs(10);

/// The server runs what it was sent while it was stopped: the acquire, then the release.
#[test]
fn an_acquire_that_was_given_up_while_the_server_was_stopped_leaves_nothing() {
    let place = Place::one();
    let (locks, server) = (place.locks("first"), &place.servers[0]);
    for wait in [Duration::ZERO, TTL] {
        locks.lock("x").ttl(TTL).acquire().block().expect("free").release().block().expect("released");
        let before = fence(server, "x");
        server.pause();
        {
            let lock = locks.lock("x").ttl(TTL).wait_at_most(wait);
            let mut acquiring = pin!(lock.acquire());
            assert!(poll::once(acquiring.as_mut()).is_none(), "the server is stopped");
        }
        server.resume();
        until("both were run", || fence(server, "x") > before);
        until("nothing is left", || is_clean(server, "x"));
    }
    let seen = fence(server, "x");
    let next = locks.lock("x").ttl(TTL).acquire().block().expect("free at once");
    assert!(next.token().as_u64() > seen, "tokens rise over what was given up, too");
}

#[test]
fn a_place_in_line_that_was_given_up_while_the_server_was_stopped_is_not_there() {
    let place = Place::one();
    let (first, second, server) = (place.locks("first"), place.locks("second"), &place.servers[0]);
    let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
    server.pause();
    {
        let lock = second.lock("x").ttl(TTL).wait_forever();
        let mut waiting = pin!(lock.acquire());
        assert!(poll::once(waiting.as_mut()).is_none(), "the server is stopped");
    }
    server.resume();
    assert_eq!(second.shutdown(PATIENCE).block(), Vec::<String>::new());
    assert!(first.inspect("x").block().expect("an answer").waiters.is_empty());
    assert!(!server.keys().iter().any(|key| key.starts_with("fp:line")));
    assert!(guard.is_held());
    guard.renew().block().expect("the fence was not raised above its holder");
}

/// One of three is stopped: the others decide, and what waits for it in its socket is undone by what waits behind it.
#[test]
fn a_stopped_node_keeps_nothing_of_a_lock_that_was_released_meanwhile() {
    let place = Place::quorum(3);
    let locks = place.linked("first");
    place.servers[0].pause();
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("two of three");
    let token = guard.token();
    guard.release().block().expect("two of three");
    place.servers[0].resume();
    until("nothing is left", || is_clean(&place.servers[0], "x") && fence(&place.servers[0], "x") >= token.as_u64());
    let next = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    assert!(next.token() > token);
}

/// The client is gone before the server goes on, both commands were sent.
#[test]
fn a_client_that_is_gone_leaves_nothing_when_its_release_was_sent() {
    let place = Place::one().behind_proxies();
    let (server, proxy) = (&place.servers[0], &place.proxies[0]);
    let locks = place.locks("first");
    server.pause();
    proxy.take_forwarded();
    {
        let lock = locks.lock("x").ttl(TTL);
        let mut acquiring = pin!(lock.acquire());
        assert!(poll::once(acquiring.as_mut()).is_none(), "the server is stopped");
    }
    until("both are on their way", || proxy.forwarded(b"EVALSHA") >= 2);
    proxy.close();
    server.resume();
    until("both were run", || fence(server, "x") > 0);
    until("nothing is left", || is_clean(server, "x"));
}

/// The control: what others send. It is run when nobody waits for it any more, and nothing takes it back.
#[test]
fn a_plain_set_that_arrives_late_is_a_lock_of_nobody() {
    let server = fencepost_testkit::redis::Redis::new().start();
    server.pause();
    {
        let mut stream = TcpStream::connect(server.address()).expect("the system answers for it");
        stream.write_all(b"SET lock:x gone NX PX 60000\r\n").expect("sent");
    }
    server.resume();
    until("it was run", || value(&server, "x").is_some());
}

/// Without a release there is no cure but the ttl: it ends by itself.
#[test]
fn a_client_killed_between_its_set_and_the_answer_holds_for_its_ttl_and_the_next_gets_it() {
    killed_before_the_answer(|lock| lock);
    killed_before_the_answer(Lock::unfenced);
}

fn killed_before_the_answer<G: Grant>(kind: impl Fn(Lock) -> Lock<G>) {
    let place = Place::one().behind_proxies();
    let (server, proxy) = (&place.servers[0], &place.proxies[0]);
    let (locks, ttl) = (place.locks("first"), Duration::from_millis(300));
    let second = fencepost_redis::connect("redis", &format!("//{}", server.address())).block().expect("it is up");
    assert_eq!(server.ask(&["CONFIG", "RESETSTAT"]), "+OK");
    server.pause();
    proxy.take_forwarded();
    let lock = kind(locks.lock("x").ttl(ttl));
    let mut acquiring = pin!(lock.acquire());
    assert!(poll::once(acquiring.as_mut()).is_none(), "the server is stopped");
    until("it is on its way", || proxy.forwarded(b"lock:x") > 0);
    proxy.close();
    server.resume();
    // Counted, not looked at: on a busy machine the ttl may be over before anybody looks.
    until("it was run", || server.ask(&["INFO", "commandstats"]).contains("cmdstat_set:"));
    let guard = second.lock("x").ttl(TTL).wait_at_most(PATIENCE).acquire().block().expect("its ttl is over");
    assert_eq!(guard.release().block().expect("released"), ReleaseOutcome::Freed);
    assert_eq!(second.shutdown(PATIENCE).block(), Vec::<String>::new());
    assert!(is_clean(server, "x"), "nothing is left behind: {:?}", server.keys());
}

/// A release raises the fence to all that was ever proposed: an older command, sent again, finds no gap.
#[test]
fn commands_that_arrive_again_after_their_release_are_refused() {
    let place = Place::one().behind_proxies();
    let (server, proxy) = (&place.servers[0], &place.proxies[0]);
    let (first, second) = (place.locks("first"), place.locks("second"));
    proxy.take_forwarded();
    // An acquire, a renewal, a place in line, a hand-over.
    let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
    guard.renew().block().expect("held");
    let mut events = second.events();
    let lock = second.lock("x").ttl(TTL).wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
    guard.release().block().expect("released");
    let next = waiting.block().expect("its turn");
    next.renew().block().expect("held");
    next.release().block().expect("released");
    let before = (server.keys(), fence(server, "x"));
    let commands = commands(&proxy.take_forwarded());
    assert!(commands.len() >= 6, "two acquires, two renewals, two releases");
    for _ in 0..3 {
        for command in &commands {
            let mut stream = TcpStream::connect(server.address()).expect("the server is up");
            stream.write_all(&[command.as_slice(), b"*1\r\n$4\r\nQUIT\r\n"].concat()).expect("sent");
            let mut reply = String::new();
            stream.read_to_string(&mut reply).expect("an answer");
            assert!(!reply.starts_with('-'), "{reply}");
            assert_eq!((server.keys(), fence(server, "x")), before, "{}", String::from_utf8_lossy(command));
        }
    }
    // The control: a command that nobody gave up does something.
    let last = first.lock("x").ttl(TTL).acquire().block().expect("free");
    assert_ne!(server.keys(), before.0);
    drop(last);
}

#[test]
fn a_holder_cut_off_from_all_nodes_is_told_before_its_validity_ends_and_frees_nobody_after() {
    let place = Place::quorum(3);
    let (first, second) = (place.linked("first"), place.linked("second"));
    let ttl = Duration::from_millis(1500);
    let mut events = first.events();
    let guard = first.lock("x").ttl(ttl).acquire().block().expect("free");
    guard.renew().block().expect("held");
    place.pause_all();
    let lost = guard.lost().block();
    assert_eq!(lost.reason, LossReason::Unreachable);
    let (mut valid_until, mut lost_at) = (Duration::ZERO, None);
    while lost_at.is_none() {
        let event = events.next().block().expect("open").expect("no errors");
        match event.kind {
            EventKind::Acquired { remaining, .. } | EventKind::Renewed { remaining, .. } => {
                valid_until = event.at + remaining;
            }
            EventKind::Lost(_) => lost_at = Some(event.at),
            _ => {}
        }
    }
    assert!(lost_at.is_some_and(|lost_at| lost_at < valid_until), "{lost_at:?}, valid until {valid_until:?}");
    assert!(!guard.is_held() && guard.remaining().is_zero());
    assert!(matches!(guard.renew().block(), Err(RenewError::Lost(_))), "a lost guard stays lost");
    place.resume_all();
    // Its last renewals may still be run, but they hold for a ttl only, and nobody renews them.
    let next = common::once_reachable(|| second.lock("x").ttl(ttl).wait_at_most(PATIENCE).acquire().block());
    let next = next.expect("granted after healing");
    assert!(next.token() > guard.token());
    assert!(matches!(guard.renew().block(), Err(RenewError::Lost(_))));
    let released = guard.release().block().expect("answered");
    assert_eq!(released, ReleaseOutcome::NotHeld(Some(LossReason::Unreachable)));
    next.renew().block().expect("the next owner still has it");
    assert!(matches!(first.lock("x").ttl(ttl).try_acquire().block(), Ok(None)));
    next.release().block().expect("released");
}

/// The command ran, its reply is lost: the client does not know, cleans up, and says so.
#[test]
fn an_acquire_whose_reply_was_lost_is_given_back() {
    let place = Place::one().behind_proxies();
    let (server, proxy) = (&place.servers[0], &place.proxies[0]);
    let locks = place.connect().answer_within(Duration::from_millis(100)).block().expect("there");
    proxy.replies(Flow::Lost);
    let result = locks.lock("x").ttl(TTL).acquire().block();
    assert!(matches!(&result, Err(error @ AcquireError::Store(_)) if error.outcome_unknown()), "{result:?}");
    // Its release gets through, too, though nobody hears of it.
    until("it was given back", || fence(server, "x") > 0 && is_clean(server, "x"));
    proxy.replies(Flow::Pass);
    proxy.cut();
    let guard = common::once_reachable(|| locks.lock("x").ttl(TTL).acquire().block()).expect("free");
    guard.release().block().expect("released");
}

/// The push that hands over is lost with the link: the waiter finds its grant when it asks again.
#[test]
fn a_hand_over_whose_push_was_lost_is_found() {
    let place = Place::one().behind_proxies();
    let (server, proxy) = (&place.servers[0], &place.proxies[0]);
    // The holder has a wire of its own.
    let first = fencepost_redis::connect("redis", &format!("//{}", server.address())).block().expect("there");
    let second = place.locks("second");
    let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
    let mut events = second.events();
    let lock = second.lock("x").ttl(TTL).wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
    proxy.replies(Flow::Lost);
    guard.release().block().expect("released");
    let handed_over = value(server, "x").expect("handed over");
    proxy.replies(Flow::Pass);
    proxy.cut();
    let guard = waiting.block().expect("its turn");
    assert_eq!(value(server, "x").as_deref(), Some(handed_over.as_str()), "the same grant, and one effect");
    assert!(handed_over.contains(&format!("|{}|", guard.token())));
}
