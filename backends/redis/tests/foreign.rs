//! Other libraries' locks on the same keys: redsync, node-redlock, redis-py and their like keep a text there, Redisson
//! a hash.

mod common;

use std::pin::pin;
use std::time::Duration;

use common::{PATIENCE, Place, trouble, value};
use fencepost_core::{AcquireError, Blocking, EventKind, ReleaseOutcome, StoreErrorKind};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::poll;

const TTL: Duration = Duration::from_secs(10);

/// How they release: delete the key if it has their value.
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

fn places() -> [Place; 2] {
    [Place::one(), Place::quorum(3)]
}

/// Takes the lock as they do.
fn take(place: &Place, ttl_ms: &str) -> bool {
    let set = |server: &fencepost_testkit::server::Server<_>| {
        server.word(&["SET", "lock:x", "theirs", "NX", "PX", ttl_ms]).as_deref() == Some("OK")
    };
    place.servers.iter().filter(|server| set(server)).count() > place.servers.len() / 2
}

fn free(place: &Place, value: &str) -> i64 {
    place.servers.iter().map(|server| server.number(&["EVAL", COMPARE_AND_DELETE, "1", "lock:x", value])).sum()
}

#[test]
fn another_librarys_lock_is_held_and_said_to_be_one() {
    for place in places() {
        let locks = place.locks("ours");
        assert!(take(&place, "60000"));
        match locks.lock("x").ttl(TTL).acquire().block() {
            Err(AcquireError::Busy { holder: Some(holder), .. }) => {
                assert_eq!((holder.label.as_str(), holder.token), ("another library's lock", None));
            }
            other => panic!("{other:?}"),
        }
        let state = locks.inspect("x").block().expect("an answer");
        assert_eq!(state.holders[0].label, "another library's lock");
        assert!(state.holders[0].expires_in.is_some_and(|left| left > Duration::ZERO));
        place.servers.iter().for_each(|server| assert_eq!(value(server, "x").as_deref(), Some("theirs")));
    }
}

/// Nobody tells us: the one in line looks now and then, at least once a second.
#[test]
fn a_waiter_gets_the_lock_when_another_library_frees_it_or_lets_it_expire() {
    for place in places() {
        for (ttl_ms, is_freed) in [("60000", true), ("300", false)] {
            let locks = place.locks("ours");
            assert!(take(&place, ttl_ms));
            let mut events = locks.events();
            let lock = locks.lock("x").ttl(TTL).wait_at_most(PATIENCE / 2);
            let mut waiting = pin!(lock.acquire());
            assert!(poll::once(waiting.as_mut()).is_none());
            wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
            if is_freed {
                assert_eq!(usize::try_from(free(&place, "theirs")), Ok(place.servers.len()));
            }
            waiting.block().expect("its turn").release().block().expect("released");
        }
    }
}

#[test]
fn our_lock_is_held_for_another_library_which_cannot_free_it() {
    for place in places() {
        let locks = place.linked("ours");
        let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
        place.until_all_have("x");
        assert!(!take(&place, "60000"), "they find it taken");
        assert_eq!(free(&place, "theirs"), 0, "they compare before they delete");
        guard.renew().block().expect("still ours");
        assert_eq!(guard.release().block().expect("released"), ReleaseOutcome::Freed);
        assert_eq!(locks.shutdown(PATIENCE).block(), Vec::<String>::new());
        assert!(take(&place, "60000"), "it is free for them, too");
    }
}

/// Whether another had the lock since, nobody knows.
#[test]
fn a_lock_whose_key_somebody_deleted_is_lost() {
    let place = Place::one();
    let locks = place.locks("ours");
    for is_taken in [false, true] {
        let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
        place.servers[0].number(&["DEL", "lock:x"]);
        assert!(!is_taken || take(&place, "60000"));
        assert!(guard.renew().block().is_err());
        assert!(!guard.is_held(), "it is told of the loss");
        assert_eq!(value(&place.servers[0], "x").as_deref(), is_taken.then_some("theirs"));
    }
    assert_eq!(locks.shutdown(PATIENCE).block(), Vec::<String>::new());
    assert_eq!(value(&place.servers[0], "x").as_deref(), Some("theirs"), "our release leaves theirs alone");
}

/// A hash is another kind of lock: not ours to read, not ours to overwrite.
#[test]
fn a_key_that_is_no_text_is_another_kind_of_lock_and_stays_as_it_is() {
    for place in places() {
        let locks = place.linked("ours");
        let hash = |server: &fencepost_testkit::server::Server<_>| server.words(&["HGETALL", "lock:x"]);
        for server in &place.servers {
            assert_eq!(server.number(&["HSET", "lock:x", "8743c9c0:1", "1"]), 1);
            assert_eq!(server.number(&["PEXPIRE", "lock:x", "60000"]), 1);
        }
        for wait in [Duration::ZERO, Duration::from_secs(1)] {
            let error = trouble(locks.lock("x").ttl(TTL).wait_at_most(wait).acquire().block());
            assert_eq!(error.kind, StoreErrorKind::OtherKind, "{error:?}");
            assert!(!error.is_retryable() && !error.outcome_unknown());
            assert!(error.to_string().contains("held by another kind of lock"), "{error}");
        }
        let error = trouble_of_shared(&locks);
        assert_eq!(error, StoreErrorKind::OtherKind);
        let votes = place.servers.len() > 1;
        for wait in [Duration::ZERO, Duration::from_secs(1)] {
            // At a server that decides alone the first request is a plain `SET NX`, which does not say what it is refused by.
            let is_told = votes || wait > Duration::ZERO;
            match locks.lock("x").ttl(TTL).unfenced().wait_at_most(wait).acquire().block() {
                Err(AcquireError::Store(error)) if is_told => {
                    assert_eq!(error.kind, StoreErrorKind::OtherKind, "{error:?}");
                }
                Err(AcquireError::Busy { holder: None, .. }) if !is_told => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(locks.inspect("x").block().expect("an answer").holders[0].label, "another kind of lock (a hash)");
        assert!(locks.force_release("x", "test").block().is_err());
        for server in &place.servers {
            assert_eq!(hash(server), ["8743c9c0:1", "1"]);
            assert!(!server.keys().iter().any(|key| key.starts_with("fp:line") || key.contains("fence:{lock:x}")));
        }
    }
}

fn trouble_of_shared(locks: &fencepost_core::Locks) -> StoreErrorKind {
    match locks.lock("x").ttl(TTL).shared().acquire().block() {
        Err(AcquireError::Store(error)) => error.kind,
        other => panic!("{other:?}"),
    }
}

/// Without a prefix, names and our own keys share one space.
#[test]
fn without_a_prefix_our_own_keys_are_neither_locked_nor_listed() {
    for place in places() {
        let place = place.settings("prefix=");
        let locks = place.locks("ours");
        for name in ["fp:marker", "fp:line:{x}"] {
            let error = trouble(locks.lock(name).ttl(TTL).acquire().block());
            assert_eq!(error.kind, StoreErrorKind::Unsupported, "{error:?}");
            assert!(error.to_string().contains("fp:"), "{error}");
            assert!(matches!(
                locks.lock(name).ttl(TTL).unfenced().acquire().block(),
                Err(AcquireError::Store(error)) if error.kind == StoreErrorKind::Unsupported
            ));
            assert!(locks.force_release(name, "test").block().is_err());
        }
        let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
        let mut listing = locks.list("");
        let mut names = Vec::new();
        while let Some(state) = listing.next().block() {
            names.push(state.expect("a page").name);
        }
        assert_eq!(names, ["x"]);
        guard.release().block().expect("released");
        place.servers.iter().for_each(|server| assert!(server.word(&["GET", "fp:marker"]).is_some()));
    }
}
