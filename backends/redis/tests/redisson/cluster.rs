//! The same in a cluster, where a channel of the same name lives twice: one that all nodes hear, and one of the shard.
//! Redisson uses the second since Redis 7, and the first if it was told to, or is older.

use std::pin::pin;

use fencepost_core::{Blocking, StoreErrorKind, VirtualClock};
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::poll;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

use crate::common::{trouble, until};
use crate::fleets::Place;
use crate::theirs::{Ear, Left, Theirs, channel};
use crate::{THEIR_TTL_MS, TTL};

const WAYS: [(&str, &str); 2] = [("PUBLISH", "SUBSCRIBE"), ("SPUBLISH", "SSUBSCRIBE")];

fn place() -> Place<Cluster> {
    Place::in_a_cluster("layout=redisson")
}

/// What both call the lock `x` of ours.
fn key(place: &Place<Cluster>) -> String {
    let prefix = place.rest.split("prefix=").nth(1).and_then(|rest| rest.split('&').next());
    format!("{}x", prefix.expect("each test has one"))
}

fn owner<'a>(place: &'a Place<Cluster>, key: &str) -> &'a Server<Redis> {
    &place.set.servers[place.set.owner(key)]
}

fn listens(server: &Server<Redis>, count: &str, key: &str) -> bool {
    server.words(&["PUBSUB", count, &channel(key)])[1] == "1"
}

#[test]
fn ours_and_theirs_wake_each_other_whichever_way_theirs_tells() {
    let place = place();
    let key = key(&place);
    let server = owner(&place, &key);
    let clock = VirtualClock::new();
    let locks = place.connect().clock(&clock).block().expect("it is up");
    for (publish, subscribe) in WAYS {
        let theirs = Theirs { publish, ..Theirs::at(server) };
        assert!(theirs.lock(&key, THEIR_TTL_MS));
        let lock = locks.lock("x").ttl(TTL).wait_forever();
        let mut waiting = pin!(lock.acquire());
        assert!(poll::once(waiting.as_mut()).is_none());
        until("ours listens", || listens(server, "NUMSUB", &key) && listens(server, "SHARDNUMSUB", &key));
        assert_eq!(theirs.unlock(&key), Left::Freed);
        let guard = waiting.block().expect("its turn");
        let mut ear = Ear::at(server, subscribe, &channel(&key));
        guard.release().block().expect("released");
        assert_eq!(ear.hear(), "0");
    }
}

/// The new master knows of no listeners: ours subscribe there when they were refused there.
#[test]
fn a_waiter_listens_at_the_new_master_after_a_failover() {
    // Of its own, because it is changed.
    let cluster = Cluster::start();
    let rest = format!("//{}?layout=redisson", cluster.place());
    let locks = fencepost_redis::connect("redis+cluster", &rest).block().expect("it is up");
    let (master, key) = (cluster.owner("x"), "x");
    assert!(Theirs::at(&cluster.servers[master]).lock(key, THEIR_TTL_MS));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| locks.lock("x").ttl(TTL).wait_forever().acquire().block());
        until("ours listens", || listens(&cluster.servers[master], "SHARDNUMSUB", key));
        let replica = cluster.replica_of(master);
        cluster.fail_over(replica);
        let server = &cluster.servers[replica];
        until("ours listens at the new master", || listens(server, "SHARDNUMSUB", key));
        let theirs = Theirs { publish: "SPUBLISH", ..Theirs::at(server) };
        assert_eq!(theirs.unlock(key), Left::Freed);
        waiter.join().expect("no panic").expect("its turn").release().block().expect("released");
    });
}

/// As Redisson has it: braces that do not close leave the channel and the lock in two slots.
#[test]
fn names_whose_braces_do_not_close_are_refused_and_others_are_their_own_keys() {
    let place = place();
    let locks = place.locks("ours");
    let prefix = key(&place).trim_end_matches('x').to_owned();
    for name in ["a{b", "a}b"] {
        let error = trouble(locks.lock(name).ttl(TTL).acquire().block());
        assert_eq!(error.kind, StoreErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("braces"), "{error}");
    }
    for name in ["{tag}one", "{tag}two"] {
        let guard = locks.lock(name).ttl(TTL).acquire().block().expect("free");
        let key = format!("{prefix}{name}");
        assert!(!Theirs::at(owner(&place, &key)).lock(&key, THEIR_TTL_MS), "{key} is ours");
        guard.release().block().expect("released");
    }
    // A map of such a name is passed over by a listing, too.
    let map = format!("{prefix}a}}b");
    owner(&place, &map).number(&["HSET", &map, "a", "1"]);
    assert_eq!(crate::names(&locks), ["{tag}one", "{tag}two"]);
}
