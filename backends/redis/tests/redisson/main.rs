//! Redisson's layout: ours and theirs share a lock. What one of theirs does is done here by the commands that it sends.

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod faults;
#[path = "../fleets/mod.rs"]
mod fleets;
mod sharing;
mod theirs;

use std::pin::pin;
use std::time::Duration;

use common::{Place, trouble, until};
use fencepost_core::{AcquireError, Actor, Blocking, EventKind, Locks, LossReason, ReleaseOutcome, StoreErrorKind};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::poll;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
use theirs::{Ear, Left, Theirs, channel};

const TTL: Duration = Duration::from_secs(10);
const THEIR_TTL_MS: u32 = 60_000;

fn place() -> Place {
    Place::one().settings("layout=redisson")
}

/// The fields of a lock and their counts.
fn hash(server: &Server<Redis>, name: &str) -> Vec<String> {
    server.words(&["HGETALL", name])
}

/// The last token of a lock.
fn last(server: &Server<Redis>, name: &str) -> u64 {
    let fence = server.word(&["GET", &format!("fp:fence:{{{name}}}")]);
    let last = fence.and_then(|fence| fence.split('|').next().map(str::to_owned));
    last.map_or(0, |digits| digits.parse().expect("a token"))
}

fn names(locks: &Locks) -> Vec<String> {
    let mut listing = locks.list("");
    let mut names = Vec::new();
    while let Some(state) = listing.next().block() {
        names.push(state.expect("a page").name);
    }
    names
}

#[test]
fn a_lock_of_ours_is_a_hash_with_one_field_that_reads_like_theirs() {
    let place = place();
    let (locks, server) = (place.locks("ours"), &place.servers[0]);
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    let fields = hash(server, "x");
    let [field, count] = &fields[..] else { panic!("{fields:?}") };
    assert_eq!(count, "1");
    let (client, thread) = field.split_once(':').expect("client-id:number");
    assert_eq!(client.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{client}");
    assert!(thread.parse::<i64>().is_ok(), "a number, as Java has it: {thread}");
    assert!((1..=10_000).contains(&server.number(&["PTTL", "x"])));
    assert_eq!(last(server, "x"), guard.token().as_u64());
    assert_eq!(server.keys(), ["fp:fence:{x}", "fp:held:{x}", "fp:marker", "x"]);
    guard.release().block().expect("released");
    assert_eq!(server.keys(), ["fp:fence:{x}", "fp:marker"]);
    assert!(!locks.guarantees().fifo, "there is no line");
}

#[test]
fn a_prefix_stands_before_names_only_if_it_is_given() {
    let place = Place::one().settings("layout=redisson&prefix=app:");
    let locks = place.locks("ours");
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    assert_eq!(hash(&place.servers[0], "app:x").len(), 2);
    assert!(!Theirs::at(&place.servers[0]).lock("app:x", THEIR_TTL_MS));
    drop(guard);
}

/// Names that have braces of their own, and one that differs by them only.
#[test]
fn names_with_braces_are_their_own_keys() {
    let place = place();
    let (locks, server) = (place.locks("ours"), &place.servers[0]);
    let guards = ["x", "{x}", "a{b}c", "a{b", "a}b"].map(|name| locks.lock(name).ttl(TTL).acquire().block());
    for (name, guard) in ["x", "{x}", "a{b}c", "a{b", "a}b"].into_iter().zip(guards) {
        let guard = guard.expect("free");
        assert!(!Theirs::at(server).lock(name, THEIR_TTL_MS), "{name} is ours");
        let state = locks.inspect(name).block().expect("an answer");
        assert_eq!((state.holders[0].token, &*state.holders[0].label), (Some(guard.token()), "ours"));
        let mut ear = Ear::at(server, "SUBSCRIBE", &channel(name));
        guard.release().block().expect("released");
        assert_eq!(ear.hear(), "0");
    }
    assert_eq!(names(&locks), ["a{b", "a{b}c", "a}b", "x", "{x}"], "by their fences");
}

/// One of theirs may hold it twice: that is theirs to count.
#[test]
fn theirs_excludes_ours_until_its_last_unlock_and_is_named_by_its_field() {
    let place = place();
    let (locks, theirs) = (place.locks("ours"), Theirs::at(&place.servers[0]));
    assert!(theirs.lock("x", THEIR_TTL_MS) && theirs.lock("x", THEIR_TTL_MS), "it enters twice");
    for left in [Left::StillHeld, Left::Freed] {
        match locks.lock("x").ttl(TTL).acquire().block() {
            Err(AcquireError::Busy { holder: Some(holder), .. }) => {
                assert_eq!((holder.label, holder.token), (format!("Redisson {}", theirs.field), None));
                assert!(holder.expires_in.is_some_and(|left| left > Duration::ZERO));
            }
            other => panic!("{other:?}"),
        }
        let state = locks.inspect("x").block().expect("an answer");
        assert_eq!(state.holders[0].label, format!("Redisson {}", theirs.field));
        assert_eq!(names(&locks), ["x"], "a lock that only they ever had is listed");
        assert_eq!(theirs.unlock("x"), left);
    }
    assert!(locks.lock("x").ttl(TTL).try_acquire().block().expect("an answer").is_some());
}

#[test]
fn ours_excludes_theirs_which_can_neither_end_nor_prolong_it() {
    let place = place();
    let (locks, theirs) = (place.locks("ours"), Theirs::at(&place.servers[0]));
    for unfenced in [false, true] {
        let actor = Actor::new();
        let lock = locks.lock("x").ttl(TTL).by(&actor);
        let fenced = (!unfenced).then(|| lock.clone().acquire().block().expect("free"));
        let plain = unfenced.then(|| lock.clone().unfenced().acquire().block().expect("free"));
        let again = lock.clone().unfenced().acquire().block().expect("entered again");
        assert!(!theirs.lock("x", THEIR_TTL_MS));
        assert_eq!(theirs.unlock("x"), Left::NotTheirs);
        assert!(!theirs.renew("x", THEIR_TTL_MS));
        assert_eq!(hash(&place.servers[0], "x")[1], "1", "what the actor has twice is counted here");
        assert!(matches!(again.release().block().expect("an answer"), ReleaseOutcome::StillHeld { count: 1 }));
        assert!(!theirs.lock("x", THEIR_TTL_MS), "still held");
        if let Some(guard) = fenced {
            guard.renew().block().expect("still ours");
            assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
        }
        if let Some(guard) = plain {
            guard.renew().block().expect("still ours");
            assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
        }
        assert!(theirs.lock("x", THEIR_TTL_MS), "we gave it up");
        assert_eq!(theirs.unlock("x"), Left::Freed);
    }
}

/// They write down no token, so ours go on where ours ended.
#[test]
fn tokens_rise_over_what_they_held_in_between() {
    let place = place();
    let (locks, theirs) = (place.locks("ours"), Theirs::at(&place.servers[0]));
    let mut before = None;
    for _ in 0..5 {
        let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
        assert!(before.is_none_or(|before| guard.token() > before), "{before:?}");
        before = Some(guard.token());
        guard.release().block().expect("released");
        assert!(theirs.lock("x", THEIR_TTL_MS));
        let state = locks.inspect("x").block().expect("an answer");
        assert_eq!(state.last_token, before, "theirs has none");
        assert_eq!(theirs.unlock("x"), Left::Freed);
    }
}

#[test]
fn the_watchdog_prolongs_the_hash_as_long_as_its_field_is_there() {
    let place = place();
    let (locks, server) = (place.locks("ours"), &place.servers[0]);
    let mut events = locks.events();
    let guard = locks.lock("x").ttl(Duration::from_millis(600)).acquire().block().expect("free");
    for _ in 0..6 {
        wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Renewed { .. }));
        assert!(!Theirs::at(server).lock("x", THEIR_TTL_MS), "kept beyond its ttl");
    }
    // What is gone stays gone: nobody knows whether they had it meanwhile.
    server.number(&["DEL", "x"]);
    assert_eq!(guard.lost().block().reason, LossReason::TakenOver);
    assert!(hash(server, "x").is_empty());
}

/// Like their own `forceUnlock`: the hash is gone, and whoever waits is told.
#[test]
fn a_forced_release_ends_theirs_and_ours_and_tells_both() {
    let place = place();
    let (locks, server) = (place.locks("ours"), &place.servers[0]);
    let theirs = Theirs::at(server);
    let mut ear = Ear::at(server, "SUBSCRIBE", &channel("x"));
    assert!(theirs.lock("x", THEIR_TTL_MS));
    let thrown_out = locks.force_release("x", "test").block().expect("an answer").holder.expect("it was held");
    assert_eq!(thrown_out.label, format!("Redisson {}", theirs.field));
    assert_eq!(ear.hear(), "0");
    assert_eq!(theirs.unlock("x"), Left::NotTheirs);
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    let thrown_out = locks.force_release("x", "test").block().expect("an answer").holder.expect("it was held");
    assert_eq!(thrown_out.token, Some(guard.token()));
    assert_eq!(ear.hear(), "0");
    assert!(guard.renew().block().is_err());
    assert_eq!(guard.lost().block().reason, LossReason::Revoked);
    assert!(locks.force_release("x", "test").block().expect("an answer").holder.is_none(), "it is free");
    assert!(theirs.lock("x", THEIR_TTL_MS));
}

#[test]
fn only_ours_can_be_asked_to_yield() {
    let place = place();
    let (locks, theirs) = (place.locks("ours"), Theirs::at(&place.servers[0]));
    assert!(locks.ask_to_yield("x", "soon").block().expect("an answer").is_none(), "it is free");
    assert!(theirs.lock("x", THEIR_TTL_MS));
    let error = locks.ask_to_yield("x", "soon").block().expect_err("they do not listen");
    assert_eq!(error.kind, StoreErrorKind::Unsupported);
    assert!(error.to_string().contains(theirs.field), "{error}");
    theirs.unlock("x");
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    locks.ask_to_yield("x", "soon").block().expect("an answer").expect("it is held");
    guard.renew().block().expect("held");
    assert_eq!(guard.yield_requested().block().note, "soon");
}

/// A string is a lock of another library's, or of our other layout; a hash may be a map, or a lock of readers.
#[test]
fn what_is_no_such_lock_is_another_kind_and_stays_as_it_is() {
    let place = place();
    let (locks, server) = (place.locks("ours"), &place.servers[0]);
    let other_layout = fencepost_redis::connect("redis", &format!("//{}?prefix=", server.address())).block();
    let other_layout = other_layout.expect("it is up");
    let guard = other_layout.lock("text").ttl(TTL).acquire().block().expect("free");
    server.number(&["HSET", "map", "colour", "red"]);
    server.number(&["HSET", "large", "a", "1", "b", "2"]);
    let theirs = "285475da-9417-4f16-9f5a-1a4e0e3d3c2b:33";
    server.number(&["HSET", "readers", "mode", "read", theirs, "1"]);
    server.number(&["LPUSH", "list", "one"]);
    let kinds = [("text", "string"), ("map", "hash"), ("large", "hash"), ("readers", "hash"), ("list", "list")];
    for (name, kind) in kinds {
        let before = server.ask(&["DEBUG", "DIGEST-VALUE", name]);
        for wait in [Duration::ZERO, Duration::from_secs(1)] {
            let error = trouble(locks.lock(name).ttl(TTL).wait_at_most(wait).acquire().block());
            assert_eq!(error.kind, StoreErrorKind::OtherKind, "{name}: {error:?}");
            assert!(error.to_string().contains("held by another kind of lock"), "{error}");
        }
        assert_eq!(locks.force_release(name, "test").block().expect_err(name).kind, StoreErrorKind::OtherKind);
        assert_eq!(locks.ask_to_yield(name, "").block().expect_err(name).kind, StoreErrorKind::OtherKind);
        let state = locks.inspect(name).block().expect("an answer");
        assert_eq!(state.holders[0].label, format!("another kind of lock (a {kind})"));
        assert_eq!(server.ask(&["DEBUG", "DIGEST-VALUE", name]), before, "{name} was changed");
    }
    assert_eq!(names(&locks), ["text"], "only what was locked is a lock");
    guard.renew().block().expect("the other layout still has it");
    let ours = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    let error = trouble(other_layout.lock("x").ttl(TTL).acquire().block());
    assert_eq!(error.kind, StoreErrorKind::OtherKind);
    assert!(error.to_string().contains("layout=redisson"), "{error}");
    drop(ours);
}

/// More maps than a page has places.
#[test]
fn a_listing_is_of_locks_only_however_many_maps_there_are() {
    let place = place();
    let (locks, server) = (place.locks("ours"), &place.servers[0]);
    let fill = "for at = 1, 3000 do redis.call('HSET', string.format('map%04.0f', at), 'a', at) end return 1";
    assert_eq!(server.number(&["EVAL", fill, "0"]), 1);
    let wanted = ["a", "map0500x", "z"];
    let guards = wanted.map(|name| locks.lock(name).ttl(TTL).acquire().block().expect("free"));
    assert!(Theirs::at(server).lock("map2999x", THEIR_TTL_MS));
    assert_eq!(names(&locks), ["a", "map0500x", "map2999x", "z"]);
    drop(guards);
}

#[test]
fn readers_are_refused_and_nothing_is_locked() {
    let place = place();
    let locks = place.locks("ours");
    for wait in [Duration::ZERO, Duration::from_secs(1)] {
        match locks.lock("x").ttl(TTL).wait_at_most(wait).shared().acquire().block() {
            Err(AcquireError::Store(error)) => {
                assert_eq!(error.kind, StoreErrorKind::Unsupported);
                assert!(error.to_string().contains("layout=redisson"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(place.servers[0].keys(), ["fp:marker"]);
}

/// Waits of other connections are not seen: nobody writes them down. Those of one's own are.
#[test]
fn deadlocks_inside_one_connection_are_seen() {
    let place = place();
    let (locks, other) = (place.locks("ours"), place.locks("other"));
    let (one, two) = (Actor::new(), Actor::new());
    let lock = |name: &str, actor: &Actor| locks.lock(name).ttl(TTL).by(actor).wait_forever();
    let _a = lock("a", &one).acquire().block().expect("free");
    let _b = lock("b", &two).acquire().block().expect("free");
    let (first, second) = (lock("b", &one), lock("a", &two));
    let (mut first, mut second) = (pin!(first.acquire()), pin!(second.acquire()));
    assert!(poll::once(first.as_mut()).is_none() && poll::once(second.as_mut()).is_none());
    until("the circle is seen", || !locks.deadlocks().block().expect("an answer").is_empty());
    assert!(other.deadlocks().block().expect("an answer").is_empty(), "nobody else can know");
}
