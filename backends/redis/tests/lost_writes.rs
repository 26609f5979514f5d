//! The classic violation, with real servers: a master grants a lock and dies before its replica has heard of it; the
//! replica is promoted, and a second client gets the lock. Replication is asynchronous, so nothing in Redis prevents it.
//! What the fencing token is for: it is higher, and the resource turns the first client away.

mod common;

use std::time::{Duration, Instant};

use common::Place;
use fencepost_core::fence::FencedCell;
use fencepost_core::{AcquireError, Blocking, Guard, Locks, StoreErrorKind};
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::sentinels::Sentinels;
use fencepost_testkit::server::Server;
use fencepost_testkit::wait::{PATIENCE, until};

/// Long enough that nobody renews while a test runs.
const TTL: Duration = Duration::from_secs(300);

/// From here on replicas hear nothing of this master any more.
fn cut_off_replicas(master: &Server<Redis>) {
    assert_eq!(master.ask(&["ACL", "SETUSER", "default", "-psync", "-sync"]), "+OK");
    until("no replica is linked", || {
        master.ask(&["CLIENT", "KILL", "TYPE", "replica"]);
        master.ask(&["INFO", "replication"]).contains("connected_slaves:0")
    });
}

/// A lock as it is often written: SET NX, and a counter as its token. In the slot of the lock.
fn counted_lock(server: &Server<Redis>, owner: &str) -> (bool, i64) {
    let granted = server.ask(&["SET", "control:{lock:x}", owner, "NX", "PX", "300000"]) == "+OK";
    (granted, server.number(&["INCR", "control-token:{lock:x}"]))
}

fn acquire(locks: &Locks) -> Guard {
    locks.lock("x").ttl(TTL).wait_at_most(PATIENCE).acquire().block().expect("the master grants it")
}

/// What the first client has, and the master does not outlive.
struct First {
    guard: Guard,
    resource: FencedCell<&'static str>,
    /// The token of the control.
    counted: i64,
}

/// The first client locks; no replica hears of it.
fn first_locks(locks: &Locks, master: &Server<Redis>) -> First {
    cut_off_replicas(master);
    let (guard, resource) = (acquire(locks), FencedCell::new("empty"));
    resource.write(guard.token(), "by the first").expect("the newest token");
    let (granted, counted) = counted_lock(master, "first");
    assert!(granted);
    First { guard, resource, counted }
}

/// The second client locks, at the master that was promoted.
fn second_locks(first: &First, locks: &Locks, master: &Server<Redis>) {
    let First { guard: before, resource, counted } = first;
    let after = acquire(locks);
    assert!(before.is_held() && after.is_held(), "two hold at once: this is what cannot be promised");
    assert!(after.token() > before.token(), "{} after {}", after.token(), before.token());
    resource.write(after.token(), "by the second").expect("the newest token");
    let stale = resource.write(before.token(), "by the first again").expect_err("a newer holder was there");
    assert_eq!((stale.token, stale.seen), (before.token(), after.token()));
    assert_eq!(resource.read(), "by the second");
    assert_eq!(counted_lock(master, "second"), (true, *counted), "a counter grants twice, and repeats its token");
}

#[test]
fn behind_sentinels_a_lost_write_breaks_exclusion_but_the_token_is_higher_and_the_fence_rejects_the_first() {
    let mut set = Sentinels::start();
    let rest = format!("//{}", set.place());
    let connect = || fencepost_redis::connect("redis+sentinel", &rest).block().expect("it is up");
    let (one, two, master) = (connect(), connect(), set.master());
    let first = first_locks(&one, &set.servers[master]);
    set.servers[master].kill();
    set.until_moved_from(master);
    second_locks(&first, &two, &set.servers[set.master()]);
}

#[test]
fn in_a_cluster_a_lost_write_breaks_exclusion_but_the_token_is_higher_and_the_fence_rejects_the_first() {
    let mut cluster = Cluster::start();
    let rest = format!("//{}", cluster.place());
    let connect = || fencepost_redis::connect("redis+cluster", &rest).block().expect("it is up");
    let (one, two, master) = (connect(), connect(), cluster.owner("lock:x"));
    let replica = cluster.replica_of(master);
    let first = first_locks(&one, &cluster.servers[master]);
    cluster.servers[master].kill();
    until("the replica is the master", || cluster.is_master(replica));
    second_locks(&first, &two, &cluster.servers[replica]);
}

/// The same loss, but a majority remembers.
#[test]
fn with_five_masters_that_vote_the_second_client_is_refused_when_two_have_lost_the_write() {
    let mut place = Place::quorum(5);
    let (one, two) = (place.linked("first"), place.linked("second"));
    let guard = one.lock("x").ttl(Duration::from_secs(60)).acquire().block().expect("free");
    place.until_all_have("x");
    // What a replica that had heard of nothing would be: empty, in the place of its master.
    place.servers.iter_mut().take(2).for_each(Server::restart);
    assert!(common::value(&place.servers[0], "x").is_none(), "it has forgotten");
    until("the second client is refused by the three others", || {
        match two.lock("x").ttl(Duration::from_secs(60)).acquire().block() {
            Err(AcquireError::Busy { .. }) => true,
            Err(AcquireError::Store(error)) if error.is_retryable() => false,
            other => panic!("{other:?}"),
        }
    });
    assert!(guard.is_held());
}

/// R4 for a set that fails over: whoever asks for it pays with time, and nobody holds twice.
#[test]
fn behind_sentinels_a_promoted_master_grants_nothing_until_every_lease_is_over_when_asked_to_wait() {
    let mut set = Sentinels::start();
    let rest = format!("//{}?after_failover=wait&max_ttl_ms=2000", set.place());
    fencepost_redis::init("redis+sentinel", &rest).block().expect("a new set");
    waits(
        &rest,
        "redis+sentinel",
        &mut set,
        |set| {
            let master = set.master();
            cut_off_replicas(&set.servers[master]);
            master
        },
        |set, master| {
            set.servers[master].kill();
            set.until_moved_from(master);
        },
    );
}

#[test]
fn in_a_cluster_a_promoted_master_grants_nothing_until_every_lease_is_over_when_asked_to_wait() {
    let mut cluster = Cluster::start();
    let rest = format!("//{}?after_failover=wait&max_ttl_ms=2000", cluster.place());
    fencepost_redis::init("redis+cluster", &rest).block().expect("a new cluster");
    waits(
        &rest,
        "redis+cluster",
        &mut cluster,
        |cluster| {
            let master = cluster.owner("lock:x");
            cut_off_replicas(&cluster.servers[master]);
            master
        },
        |cluster, master| {
            let replica =
                (0..6).find(|number| *number != master && follows(cluster, *number, master)).expect("a replica");
            cluster.servers[master].kill();
            until("the replica is the master", || cluster.is_master(replica));
        },
    );
}

fn follows(cluster: &Cluster, replica: usize, master: usize) -> bool {
    let port = cluster.servers[master].port();
    cluster.servers[replica].ask(&["INFO", "replication"]).contains(&format!("master_port:{port}"))
}

fn waits<S>(
    rest: &str,
    scheme: &str,
    set: &mut S,
    cut_off: impl FnOnce(&S) -> usize,
    fail_over: impl FnOnce(&mut S, usize),
) {
    let connect = || fencepost_redis::connect(scheme, rest).block().expect("it is up");
    let (one, two) = (connect(), connect());
    let ttl = Duration::from_secs(2);
    let master = cut_off(set);
    let before = one.lock("x").ttl(ttl).acquire().block().expect("trusted").token();
    fail_over(set, master);
    // By now the lease may be over; the new master must not know that, and keeps still.
    let mut quarantined = None;
    let after = loop {
        // Before the server is asked: what it says is left began no earlier.
        let asked = Instant::now();
        match two.lock("x").ttl(ttl).acquire().block() {
            Ok(guard) => break guard,
            Err(AcquireError::Store(error)) => match error.kind {
                StoreErrorKind::Quarantined { left } => drop(quarantined.get_or_insert((asked, left))),
                StoreErrorKind::Unreachable | StoreErrorKind::TooSlow => {}
                _ => panic!("{error}"),
            },
            Err(other) => panic!("{other}"),
        }
    };
    let (since, left) = quarantined.expect("it was on probation first");
    assert!(left > ttl, "longer than any lease");
    // What is left is rounded up, and counted by the server's wall clock, which may run a little faster than ours.
    let (waited, least) = (since.elapsed(), left.mul_f64(0.99) - Duration::from_millis(2));
    assert!(waited >= least, "never before its probation is over: {waited:?} of {left:?}");
    assert!(after.token() > before);
}
