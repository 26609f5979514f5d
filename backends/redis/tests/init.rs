//! `fencepost init`: it makes a new cluster ready, and nothing else.

mod common;

use std::time::Duration;

use common::{Place, until, value};
use fencepost_core::{AcquireError, Blocking, Locks, StoreError, StoreErrorKind};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

const TTL: Duration = Duration::from_secs(60);

fn init(place: &Place) -> Result<(), StoreError> {
    fencepost_redis::init("redlock", &place.rest()).block()
}

fn refusal(place: &Place) -> StoreError {
    let error = init(place).expect_err("refused");
    assert!(error.kind == StoreErrorKind::Misconfigured && !error.is_retryable(), "{error:?}");
    error
}

fn empty(server: &Server<Redis>) {
    assert_eq!(server.ask(&["FLUSHALL"]), "+OK");
}

/// A majority would grant it at once.
fn assert_not_granted(locks: &Locks, name: &str) {
    assert!(!matches!(locks.lock(name).ttl(TTL).try_acquire().block(), Ok(Some(_))), "it is held by another");
}

#[test]
fn init_is_refused_while_a_lock_is_seen_on_any_node() {
    let place = Place::quorum(3);
    let (holder, other) = (place.linked("holder"), place.linked("other"));
    let guard = holder.lock("x").ttl(TTL).manual_renewal().acquire().block().expect("free");
    place.until_all_have("x");
    place.servers[..2].iter().for_each(empty);
    let error = refusal(&place);
    assert!(error.message.contains(&place.servers[2].address()) && error.message.contains("\"x\""), "{error}");
    assert!(place.servers[..2].iter().all(|server| server.word(&["GET", "fp:marker"]).is_none()), "none is trusted");
    assert_not_granted(&other, "x");
    guard.release().block().expect("answered");
    until("it is released", || value(&place.servers[2], "x").is_none());
    init(&place).expect("no lease runs any more");
    assert!(other.lock("x").ttl(TTL).acquire().block().is_ok(), "all vote");
}

#[test]
fn init_is_refused_while_readers_hold_a_lock() {
    let place = Place::quorum(3);
    let guard = place.locks("reader").lock("x").shared().ttl(TTL).acquire().block().expect("free");
    assert!(refusal(&place).message.contains("\"x\""));
    guard.release().block().expect("released");
    until("it is released", || place.servers.iter().all(|server| value(server, "x").is_none()));
    init(&place).expect("no lease runs any more");
}

/// Another library may have locked it without a ttl, and Fencepost refuses such a lock as held, too.
#[test]
fn init_is_refused_while_a_key_without_a_ttl_has_the_name_of_a_lock() {
    let place = Place::quorum(3);
    place.servers[1].ask(&["SET", "lock:x", "of some program"]);
    let error = refusal(&place);
    for words in [&place.servers[1].address(), "\"lock:x\"", "no ttl", "?prefix="] {
        assert!(error.message.contains(words), "{words:?} is not in {error}");
    }
    place.servers[1].ask(&["DEL", "lock:x"]);
    init(&place).expect("nothing has the name of a lock");
}

/// Then every key of the database has the name of a lock, also those of a cache.
#[test]
fn with_an_empty_prefix_only_locks_of_fencepost_keep_init_from_a_server() {
    let place = Place::voting(vec![Redis::new(); 3], "prefix=");
    for command in [
        &["SET", "a-cache", "entry", "EX", "60"][..],
        &["SET", "settings", "of some program"],
        &["SET", "looks", "0123456789012345678901234567890123456789", "EX", "60"],
        &["HSET", "a-session", "user", "1"],
        &["EXPIRE", "a-session", "60"],
    ] {
        place.servers[0].ask(command);
    }
    init(&place).expect("none of these is a lock");
    let locks = place.locks("holder");
    let is_there = |server: &Server<Redis>| server.word(&["EXISTS", "x"]).as_deref() == Some("1");
    for shared in [false, true] {
        let lock = locks.lock("x").ttl(TTL);
        let (mut writer, mut reader) = (None, None);
        match shared {
            false => writer = Some(lock.acquire().block().expect("free")),
            true => reader = Some(lock.shared().acquire().block().expect("free")),
        }
        until("every server has granted it", || place.servers.iter().all(is_there));
        assert!(refusal(&place).message.contains("\"x\""), "shared: {shared}");
        // Also without the fence, which may be gone earlier than the lock.
        place.servers.iter().for_each(|server| drop(server.ask(&["DEL", "fp:fence:{x}"])));
        assert!(refusal(&place).message.contains("\"x\""), "shared: {shared}, without the fence");
        drop((writer, reader));
        until("it is released", || !place.servers.iter().any(is_there));
    }
    init(&place).expect("no lease runs any more");
    assert_eq!(place.servers[0].word(&["GET", "a-cache"]).as_deref(), Some("entry"));
}

#[test]
fn a_lock_whose_lease_is_over_is_none() {
    let place = Place::quorum(3);
    let locks = place.locks("holder");
    let lease =
        locks.lock("x").ttl(Duration::from_millis(100)).manual_renewal().acquire().block().expect("free").leak();
    // Of two readers the one with the longer lease is gone, and the key lasts as long as that would have.
    let longer = locks.lock("read").shared().ttl(TTL).acquire().block().expect("free");
    let other = place.locks("other");
    let shorter = other
        .lock("read")
        .shared()
        .ttl(Duration::from_secs(1))
        .manual_renewal()
        .acquire()
        .block()
        .expect("shared")
        .leak();
    longer.release().block().expect("released");
    let readers = || locks.inspect("read").block().expect("an answer").holders.len();
    until("the other reader's lease is over", || readers() == 0);
    assert!(place.servers.iter().any(|server| value(server, "read").is_some()), "the key is still there");
    until("its lease is over", || place.servers.iter().all(|server| value(server, "x").is_none()));
    init(&place).expect("its fence is no lock");
    drop((lease, shorter));
}

#[test]
fn init_is_refused_when_a_node_does_not_answer_and_trusts_none() {
    let mut place = Place { servers: Vec::new(), proxies: Vec::new(), quorum: true, settings: "", down: 0 };
    place.servers.extend((0..3).map(|_| Redis::new().start()));
    place.servers[2].kill();
    let error = init(&place).expect_err("one is missing");
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}");
    assert!(error.message.contains(&place.servers[2].address()), "{error}");
    for server in &place.servers[..2] {
        assert_eq!(server.keys(), Vec::<String>::new(), "it is as it was");
    }
}

/// Who reads that a node keeps still is told of `init` only where nothing can be held yet.
#[test]
fn a_quarantined_node_is_said_to_need_init_in_a_new_cluster_only() {
    let said = |place: &Place| {
        let mut said = None;
        until("a node keeps still", || {
            let error = match place.connect().block() {
                Err(error) => error,
                Ok(locks) => match locks.lock("x").ttl(TTL).acquire().block() {
                    Err(AcquireError::Store(error)) => error,
                    _ => return false,
                },
            };
            said = matches!(error.kind, StoreErrorKind::Quarantined { .. }).then_some(error.message);
            said.is_some()
        });
        said.expect("BUG: just found")
    };
    let servers = (0..3).map(|_| Redis::new().start()).collect();
    let new = Place { servers, proxies: Vec::new(), quorum: true, settings: "", down: 0 };
    assert!(said(&new).contains("fencepost init"), "{}", said(&new));
    let mut used = Place::quorum(3);
    used.servers[2].kill();
    empty(&used.servers[0]);
    assert!(!said(&used).contains("fencepost init"), "{}", said(&used));
}
