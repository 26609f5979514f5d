//! Waiting for replicas: on the connection that wrote, or not at all.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::{is_clean, trouble, until, value};
use fencepost_core::fence::FencedCell;
use fencepost_core::{Actor, Blocking, EventKind, Locks, ReleaseOutcome, RenewError, StoreErrorKind};
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::contract::wait_for;
use fencepost_testkit::proxy::{Flow, Proxy};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

const TTL: Duration = Duration::from_secs(10);

/// A master and a replica that follows it.
struct Pair {
    master: Server<Redis>,
    replica: Server<Redis>,
}

impl Pair {
    fn start() -> Self {
        let master = Redis::new().with("--repl-diskless-sync-delay 0").start();
        let replica = Redis::new().with(&format!("--replicaof 127.0.0.1 {}", master.port())).start();
        until("it follows", || master.ask(&["INFO", "replication"]).contains("state=online"));
        // Online is what the master has sent: the replica may still be reading it.
        let mut writing = Connection::to(&master);
        assert_eq!(writing.ask("SET first 1"), "+OK");
        assert_eq!(writing.ask("WAIT 1 60000"), ":1");
        Self { master, replica }
    }

    fn locks(&self, settings: &str) -> Locks {
        let rest = format!("//{}?{settings}", self.master.address());
        fencepost_redis::connect("redis", &rest).block().expect("it is up")
    }
}

/// A connection that stays: what WAIT answers for is what was written on it.
struct Connection(TcpStream);

impl Connection {
    fn to(server: &Server<Redis>) -> Self {
        Self(TcpStream::connect(server.address()).expect("the server is up"))
    }

    /// The line that a command is answered with.
    fn ask(&mut self, command: &str) -> String {
        self.0.write_all(format!("{command}\r\n").as_bytes()).expect("sent");
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("an answer");
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("text").trim_end().to_owned()
    }
}

/// Why: the number that WAIT answers is about the writes of its own connection.
#[test]
fn wait_on_another_connection_answers_for_another_write() {
    let pair = Pair::start();
    let (mut writing, mut other) = (Connection::to(&pair.master), Connection::to(&pair.master));
    assert_eq!(other.ask("SET before 1"), "+OK");
    assert_eq!(other.ask("WAIT 1 10000"), ":1");
    pair.replica.pause();
    assert_eq!(writing.ask("SET lock:x somebody NX PX 60000"), "+OK");
    assert_eq!(other.ask("WAIT 1 100"), ":1", "it says yes, and no replica has the lock");
    assert_eq!(writing.ask("WAIT 1 100"), ":0", "the connection that wrote it knows");
    pair.replica.resume();
}

#[test]
fn a_grant_that_too_few_replicas_have_is_refused_and_leaves_nothing() {
    let pair = Pair::start();
    let locks = pair.locks("replicas=1&replicas_within_ms=1000");
    // A write before, that the replica has: it must not count for the next.
    locks.lock("before").ttl(TTL).acquire().block().expect("the replica has it").release().block().expect("released");
    for lock in [locks.lock("x").ttl(TTL), locks.lock("x").ttl(TTL).wait_at_most(Duration::ZERO)] {
        pair.replica.pause();
        let error = trouble(lock.acquire().block());
        assert_eq!(error.kind, StoreErrorKind::Unreachable);
        assert!(error.message.contains("only 0 of the 1 replicas"), "{error}");
        until("nothing is left at the master", || is_clean(&pair.master, "x"));
        pair.replica.resume();
        until("nor at the replica", || is_clean(&pair.replica, "x"));
    }
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("the replica is there again");
    assert!(value(&pair.replica, "x").is_some(), "it had it before we did");
    guard.release().block().expect("released");
}

#[test]
fn more_replicas_than_there_are_is_refused_and_says_how_many_did() {
    let pair = Pair::start();
    let error = trouble(pair.locks("replicas=2&replicas_within_ms=1000").lock("x").ttl(TTL).acquire().block());
    assert!(error.message.contains("only 1 of the 2 replicas"), "{error}");
    until("nothing is left", || is_clean(&pair.master, "x"));
}

/// The old deadline stands: the master has it, but a failover may not.
#[test]
fn a_renewal_that_too_few_replicas_have_is_unknown() {
    let pair = Pair::start();
    let locks = pair.locks("replicas=1&replicas_within_ms=1000");
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("the replica has it");
    guard.renew().block().expect("the replica has it");
    pair.replica.pause();
    match guard.renew().block() {
        Err(RenewError::Unknown(error)) => assert!(error.message.contains("only 0 of the 1 replicas"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(guard.is_held());
    pair.replica.resume();
    until("it is renewed again", || guard.renew().block().is_ok());
}

/// A hand-over is the write of another connection.
#[test]
fn a_lock_that_was_handed_over_counts_only_when_the_replicas_have_it() {
    let pair = Pair::start();
    let (first, second) = (pair.locks(""), pair.locks("replicas=1&replicas_within_ms=1000"));
    let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
    let mut events = second.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock("x").ttl(TTL).wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        let before = value(&pair.master, "x");
        pair.replica.pause();
        guard.release().block().expect("the first does not wait for replicas");
        until("it was handed over", || value(&pair.master, "x").is_some_and(|value| Some(value) != before));
        // It has asked, and the replica did not confirm.
        wait_for(
            &mut events,
            "x",
            |kind| matches!(kind, EventKind::Voted(vote) if format!("{vote:?}").contains("Failed")),
        );
        assert!(!waiter.is_finished(), "nobody but the master knows");
        pair.replica.resume();
        let guard = waiter.join().expect("no panic").expect("its turn, and the replica knows");
        assert_eq!(value(&pair.master, "x"), value(&pair.replica, "x"));
        guard.release().block().expect("released");
    });
    until("nothing is left", || is_clean(&pair.master, "x"));
}

#[test]
fn in_a_cluster_the_replicas_of_the_locks_own_master_are_waited_for() {
    let cluster = Cluster::start();
    let rest = format!("//{}?replicas=1&replicas_within_ms=1000", cluster.place());
    let locks = fencepost_redis::connect("redis+cluster", &rest).block().expect("it is up");
    let replica = cluster.replica_of(cluster.owner("lock:x"));
    locks.lock("x").ttl(TTL).acquire().block().expect("the replica has it").release().block().expect("released");
    cluster.servers[replica].pause();
    let error = trouble(locks.lock("x").ttl(TTL).acquire().block());
    assert!(error.message.contains("only 0 of the 1 replicas"), "{error}");
    cluster.servers[replica].resume();
}

/// One replica has confirmed the grant, and the other is promoted: two hold, and the second one's token is higher.
#[test]
fn when_another_replica_than_the_one_that_confirmed_is_promoted_the_token_is_higher() {
    let mut pair = Pair::start();
    let wire = Proxy::before(pair.master.address());
    let (host, port) =
        wire.address().split_once(':').map(|(host, port)| (host.to_owned(), port.to_owned())).expect("both");
    let other = Redis::new().with(&format!("--replicaof {host} {port}")).start();
    let following = || pair.master.ask(&["INFO", "replication"]).matches("state=online").count();
    until("both follow", || following() == 2);
    wire.replies(Flow::Lost);
    let first = pair.locks("replicas=1&replicas_within_ms=1000");
    let guard = first.lock("x").ttl(Duration::from_secs(300)).acquire().block().expect("one replica has it");
    let token = pair.master.number(&["INCR", "control-token"]);
    pair.master.kill();
    wire.close();
    assert_eq!(other.ask(&["REPLICAOF", "NO", "ONE"]), "+OK");
    assert!(value(&other, "x").is_none(), "it has not heard of it");
    let second = fencepost_redis::connect("redis", &format!("//{}", other.address())).block().expect("it is up");
    let next = second.lock("x").ttl(TTL).acquire().block().expect("nobody has it here");
    assert!(guard.is_held() && next.token() > guard.token(), "{} after {}", next.token(), guard.token());
    let resource = FencedCell::new(());
    resource.write(next.token(), ()).expect("the newest token");
    assert!(resource.write(guard.token(), ()).is_err(), "the resource turns the first away");
    assert_eq!(other.number(&["INCR", "control-token"]), token, "the control: a counter repeats its token");
}

/// An entry that failed is no entry: counts are kept by the client, and there is nothing to take back.
#[test]
fn an_acquire_that_too_few_replicas_have_is_not_counted_as_an_entry() {
    let pair = Pair::start();
    let (locks, me) = (pair.locks("replicas=1&replicas_within_ms=1000"), Actor::new());
    let lock = locks.lock("x").ttl(TTL).by(&me);
    pair.replica.pause();
    assert_eq!(trouble(lock.acquire().block()).kind, StoreErrorKind::Unreachable);
    // The control: a count in the server is raised, though its caller is told that it failed and never lowers it.
    let mut counting = Connection::to(&pair.master);
    assert_eq!(counting.ask("HINCRBY control me 1"), ":1");
    assert_eq!(counting.ask("WAIT 1 100"), ":0");
    pair.replica.resume();
    until("nothing is left", || is_clean(&pair.master, "x") && is_clean(&pair.replica, "x"));
    let once = lock.acquire().block().expect("the replica is there again");
    let twice = lock.acquire().block().expect("it is mine");
    assert_eq!(twice.release().block().expect("released"), ReleaseOutcome::StillHeld { count: 1 });
    assert_eq!(once.release().block().expect("released"), ReleaseOutcome::Freed);
    assert!(is_clean(&pair.master, "x"));
    assert_eq!(pair.master.word(&["HGET", "control", "me"]).as_deref(), Some("1"), "the control: never free");
}
