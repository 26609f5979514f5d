//! Deployments that cannot be safe, and rights that are missing: refused, with the cure, and without a secret.

mod common;

use common::{Place, trouble, until, value};
use fencepost_core::{AcquireError, Blocking, StoreError, StoreErrorKind};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

/// Must not be seen in anything that we say.
const CANARY: &str = "canary-3f9a";

/// Connects and acquires; answers what was refused, wherever it was.
fn refusal(scheme: &str, rest: &str) -> StoreError {
    match fencepost_redis::connect(scheme, rest).block() {
        Err(error) => error,
        Ok(locks) => trouble(locks.lock("x").acquire().block()),
    }
}

fn assert_refused(error: &StoreError, kind: &StoreErrorKind, cure: &str) {
    assert_eq!(error.kind, *kind, "{error:?}");
    assert!(error.message.contains(cure), "{error}");
    assert!(!format!("{error} {error:?}").contains(CANARY), "a secret: {error:?}");
    assert!(!error.is_retryable(), "somebody has to mend it first: {error}");
}

fn is_untouched(server: &Server<Redis>) -> bool {
    value(server, "x").is_none()
}

#[test]
fn a_replica_is_refused() {
    let master = Redis::new().start();
    let replica = Redis::new().with(&format!("--replicaof 127.0.0.1 {}", master.port())).start();
    until("it follows", || replica.ask(&["INFO", "replication"]).contains("master_link_status:up"));
    let alone = refusal("redis", &format!("//{}", replica.address()));
    assert_refused(&alone, &StoreErrorKind::Misconfigured, "name a master");
    let voting = refusal("redlock", &format!("//{}", replica.address()));
    assert_refused(&voting, &StoreErrorKind::Misconfigured, "name a master");
    assert!(is_untouched(&master));
}

/// A fail-over while we are connected: writes are refused, and the node is not used any more.
#[test]
fn a_master_that_became_a_replica_is_refused() {
    let (master, other) = (Redis::new().start(), Redis::new().start());
    let locks = fencepost_redis::connect("redis", &format!("//{}", other.address())).block().expect("a master");
    let guard = locks.lock("x").acquire().block().expect("free");
    assert_eq!(other.ask(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]), "+OK");
    assert!(guard.renew().block().is_err());
    let error = trouble(locks.lock("y").acquire().block());
    assert_refused(&error, &StoreErrorKind::Misconfigured, "name a master");
}

#[test]
fn a_server_that_evicts_is_refused() {
    for policy in ["allkeys-lru", "volatile-ttl", "allkeys-random"] {
        let server = Redis::new().with(&format!("--maxmemory-policy {policy} --maxmemory 100mb")).start();
        for scheme in ["redis", "redlock"] {
            let error = refusal(scheme, &format!("//{}", server.address()));
            assert_refused(&error, &StoreErrorKind::Misconfigured, "set noeviction");
            assert!(error.message.contains(policy), "{error}");
        }
    }
}

/// What it would do without a limit, it cannot do: several managed services come like that.
#[test]
fn a_server_that_has_no_limit_of_memory_is_used_whatever_its_policy() {
    for policy in ["allkeys-lru", "volatile-lru"] {
        let server = Redis::new().with(&format!("--maxmemory-policy {policy} --maxmemory 0")).start();
        let rest = format!("//{}", server.address());
        let locks = fencepost_redis::connect("redis", &rest).block().expect("it evicts nothing");
        drop(locks.lock("x").acquire().block().expect("free"));
        server.ask(&["FLUSHALL"]);
        fencepost_redis::init("redlock", &rest).block().expect("it evicts nothing");
    }
}

/// Who may not read the configuration is told by INFO; who may read neither goes on with one server.
#[test]
fn a_server_that_does_not_let_us_read_its_configuration_is_used() {
    for (name, rules) in [("no-config", ["-config"].as_slice()), ("no-word", &["-config", "-info"])] {
        let server = Redis::new().with("--maxmemory 0 --maxmemory-policy allkeys-lru").start();
        let rules = [["+@all", "~*", "&*"].as_slice(), rules].concat();
        let locks = fencepost_redis::connect("redis", &user(&server, name, &rules)).block().expect("it goes on");
        drop(locks.lock("x").acquire().block().expect("free"));
    }
}

/// It is asked anew with every link.
#[test]
fn a_server_that_was_told_to_evict_is_refused_once_a_link_is_made_again() {
    let server = Redis::new().start();
    let locks =
        fencepost_redis::connect("redis", &format!("//{}", server.address())).block().expect("it evicts nothing");
    drop(locks.lock("x").acquire().block().expect("free"));
    for (option, value) in [("maxmemory", "100mb"), ("maxmemory-policy", "volatile-ttl")] {
        assert_eq!(server.ask(&["CONFIG", "SET", option, value]), "+OK");
    }
    assert!(locks.lock("x").acquire().block().is_ok(), "the link is the old one");
    server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    server.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let mut refused = None;
    until("the link was made again", || {
        let outcome = locks.lock("y").acquire().block();
        refused = outcome.err().map(|error| error.to_string()).filter(|error| error.contains("noeviction"));
        refused.is_some()
    });
    assert!(refused.is_some_and(|error| error.contains("volatile-ttl")));
}

/// The control: what such a server does to a lock that is held.
#[test]
fn a_server_that_evicts_throws_held_locks_away() {
    let server = Redis::new().with("--maxmemory-policy allkeys-random --maxmemory 2mb").start();
    server.ask(&["SET", "lock:x", "somebody", "NX", "PX", "600000"]);
    let junk = "j".repeat(10_000);
    let mut number = 0;
    until("the lock is gone before its ttl", || {
        number += 1;
        server.ask(&["SET", &format!("junk{number}"), &junk]);
        is_untouched(&server)
    });
}

#[test]
fn one_server_under_two_names_is_refused() {
    let (one, two) = (Redis::new().start(), Redis::new().start());
    let rest = format!("//127.0.0.1:{},localhost:{},{}", one.port(), one.port(), two.address());
    let error = refusal("redlock", &rest);
    assert_refused(&error, &StoreErrorKind::Misconfigured, "each node must be a server of its own");
    assert!(is_untouched(&one) && is_untouched(&two));
    let error = refusal("redlock", &format!("//{},{}", one.address(), one.address()));
    assert_refused(&error, &StoreErrorKind::Misconfigured, "listed twice");
}

#[test]
fn a_client_with_another_list_of_nodes_is_refused() {
    let place = Place::quorum(3);
    let guard = place.locks("first").lock("x").acquire().block().expect("free");
    let addresses: Vec<String> = place.servers.iter().map(Server::address).collect();
    let fewer = format!("//{}", addresses[..2].join(","));
    let spare = Redis::new().start();
    let more = format!("//{},{}", addresses.join(","), spare.address());
    let other_ttl = format!("//{}?max_ttl_ms=1000", addresses.join(","));
    let other_spelling = format!("//{}", addresses.join(",").replace("127.0.0.1", "localhost"));
    for rest in [fewer, more, other_ttl, other_spelling] {
        let error = refusal("redlock", &rest);
        assert_refused(&error, &StoreErrorKind::Misconfigured, "every client must list the same nodes");
        assert!(error.message.contains(&addresses[0]), "it says which cluster it belongs to: {error}");
    }
    assert!(guard.is_held());
    // It is not put out of the cluster by that.
    assert!(place.locks("second").lock("y").acquire().block().is_ok(), "one cluster");
}

/// The control: two of three and three of five are majorities, and do not meet.
#[test]
fn majorities_of_different_lists_grant_one_lock_twice() {
    let servers: Vec<Server<Redis>> = (0..5).map(|_| Redis::new().start()).collect();
    let plain =
        |server: &Server<Redis>, owner: &str| server.ask(&["SET", "lock:x", owner, "NX", "PX", "60000"]) == "+OK";
    let of_three = servers[..2].iter().filter(|server| plain(server, "lists three")).count();
    let of_five = servers.iter().filter(|server| plain(server, "lists five")).count();
    assert!(of_three * 2 > 3 && of_five * 2 > 5, "both have won: {of_three} of 3, {of_five} of 5");
}

/// Alone it would grant what the cluster holds.
#[test]
fn a_client_of_one_server_is_refused_at_a_node_of_a_cluster() {
    let place = Place::quorum(3);
    let locks = place.linked("first");
    let error = refusal("redis", &format!("//{}", place.servers[0].address()));
    assert_refused(&error, &StoreErrorKind::Misconfigured, "every client must list the same nodes");
    let guard = locks.lock("x").acquire().block().expect("free");
    guard.renew().block().expect("held");
    until("the node still votes", || value(&place.servers[0], "x").is_some());
    assert!(place.locks("second").lock("y").acquire().block().is_ok(), "one cluster");
}

#[test]
fn a_cluster_is_refused_at_a_server_that_is_used_alone_until_it_is_marked() {
    let place = Place::one();
    let guard = place.locks("alone").lock("x").acquire().block().expect("free");
    let rest = format!("//{}", place.servers[0].address());
    let error = refusal("redlock", &rest);
    assert_refused(&error, &StoreErrorKind::Misconfigured, "fencepost init");
    guard.release().block().expect("released");
    fencepost_redis::init("redlock", &rest).block().expect("an operator's word");
    let locks = fencepost_redis::connect("redlock", &rest).block().expect("marked");
    assert!(locks.lock("x").acquire().block().is_ok(), "free");
}

#[test]
fn a_wrong_password_is_denied_without_a_word_about_it() {
    let server = Redis::new().with("--requirepass right").start();
    let address = server.address();
    for (credentials, cure) in
        [(format!(":{CANARY}@"), "password"), (format!("somebody:{CANARY}@"), "password"), (String::new(), "password")]
    {
        for scheme in ["redis", "redlock"] {
            let error = refusal(scheme, &format!("//{credentials}{address}"));
            assert_refused(&error, &StoreErrorKind::Denied, cure);
        }
    }
    let rest = format!("//:right@{address}");
    let locks = fencepost_redis::connect("redis", &rest).block().expect("the right one");
    locks.lock("x").acquire().block().expect("free").release().block().expect("released");
    let said = format!("{locks:?} {:?}", fencepost_redis::connect("redis", &rest));
    assert!(!said.contains("right"), "{said}");
    let error = fencepost_redis::init("redlock", &format!("//:{CANARY}@{address}")).block().expect_err("denied");
    assert_refused(&error, &StoreErrorKind::Denied, "password");
}

/// The password is in no error, whatever goes wrong with a link that had it.
#[test]
fn a_password_is_in_no_error_of_a_link_that_broke() {
    let mut server = Redis::new().with(&format!("--requirepass {CANARY}")).start();
    let rest = format!("//:{CANARY}@{}", server.address());
    let locks = fencepost_redis::connect("redis", &rest).block().expect("the right one");
    let guard = locks.lock("x").acquire().block().expect("free");
    server.kill();
    let said = [
        format!("{:?}", guard.renew().block()),
        format!("{:?}", locks.lock("y").acquire().block()),
        format!("{:?}", locks.inspect("y").block()),
        format!("{locks:?} {guard:?}"),
        format!("{:?}", guard.release().block()),
        format!("{:?}", fencepost_redis::connect("redis", &rest).block().expect_err("dead")),
        format!("{:?}", fencepost_redis::connect("redis", &format!("//:{CANARY}@nowhere.invalid")).block()),
        format!("{:?}", fencepost_redis::connect("redis", &format!("//:{CANARY}@a:b:c")).block()),
    ];
    assert!(!said.iter().any(|said| said.contains(CANARY)), "{said:?}");
}

#[test]
fn a_user_who_lacks_rights_is_denied_and_told_which() {
    // No scripts; nothing about the server; no keys; not the keys of locks; no subscription.
    for (name, rules) in [
        ("no-scripts", ["+@all", "~*", "&*", "-eval", "-evalsha"].as_slice()),
        ("no-info", &["+@all", "~*", "&*", "-info"]),
        ("no-keys", &["+@all", "&*"]),
        ("no-locks", &["+@all", "~fp:*", "&*"]),
        ("no-channels", &["+@all", "~*", "resetchannels"]),
    ] {
        for scheme in ["redis", "redlock"] {
            // A server alone is trusted whatever happened to it: it need not tell about itself.
            if (name, scheme) == ("no-info", "redis") {
                continue;
            }
            let server = Redis::new().start();
            fencepost_redis::init("redlock", &format!("//{}", server.address())).block().expect("all rights");
            if scheme == "redis" {
                server.ask(&["FLUSHALL"]);
            }
            let error = refusal(scheme, &user(&server, name, rules));
            let cure = if name == "no-info" { "+info" } else { "an ACL user needs" };
            assert_refused(&error, &StoreErrorKind::Denied, cure);
            assert!(is_untouched(&server), "{name}");
        }
    }
    // What we need, and no more.
    let server = Redis::new().start();
    let enough = user(&server, "enough", &["+@all", "-@dangerous", "+info", "~lock:*", "~fp:*", "&fp:inbox:*"]);
    let locks = fencepost_redis::connect("redis", &enough).block().expect("enough rights");
    let guard = locks.lock("x").acquire().block().expect("free");
    guard.renew().block().expect("held");
    assert_eq!(locks.inspect("x").block().expect("an answer").holders.len(), 1);
    guard.release().block().expect("released");
}

/// Makes a user with these rights; answers how to connect as them.
fn user(server: &Server<Redis>, name: &str, rules: &[&str]) -> String {
    let secret = format!(">{CANARY}");
    let words: Vec<&str> = ["ACL", "SETUSER", name, "on", &secret].iter().chain(rules).copied().collect();
    assert_eq!(server.ask(&words), "+OK");
    format!("//{name}:{CANARY}@{}", server.address())
}

/// One bad node of three does not stop the others, and is named in the votes.
#[test]
fn a_minority_that_is_refused_does_not_stop_the_others() {
    let place = Place::quorum(3);
    let evict = |server: &Server<Redis>| {
        assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory", "100mb"]), "+OK");
        assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]), "+OK");
    };
    evict(&place.servers[0]);
    let locks = place.locks("first");
    let guard = locks.lock("x").acquire().block().expect("two of three");
    assert!(value(&place.servers[0], "x").is_none(), "it has no vote");
    drop(guard);
    evict(&place.servers[1]);
    let error = match place.connect().block() {
        Err(error) => AcquireError::Store(error),
        Ok(locks) => locks.lock("x").acquire().block().expect_err("one of three"),
    };
    assert!(error.to_string().contains("set noeviction"), "{error}");
}
