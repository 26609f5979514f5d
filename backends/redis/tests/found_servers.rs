//! Servers that are found: by sentinels that lie, fall silent or go away, by nodes that are no masters, behind wires that
//! are cut; and what is said to those whose URL cannot work.

mod common;

use std::pin::pin;
use std::time::Duration;

use common::{PATIENCE, fence, is_clean, once_reachable, scripts_run, trouble, until, value};
use fencepost_core::{AcquireError, Blocking, Locks, StoreError, StoreErrorKind};
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::poll;
use fencepost_testkit::proxy::{Flow, Proxy};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::sentinels::{MASTER, Sentinel, Sentinels};
use fencepost_testkit::server::Server;

const TTL: Duration = Duration::from_secs(10);

fn connect(scheme: &str, rest: &str) -> Locks {
    fencepost_redis::connect(scheme, rest).block().expect("it is up")
}

/// A server that clients reach by a wire only, because that is what they are told.
struct Wired {
    server: Server<Redis>,
    proxy: Proxy,
    scheme: &'static str,
    rest: String,
    _sentinel: Option<Server<Sentinel>>,
}

impl Wired {
    fn behind_a_sentinel() -> Self {
        let server = Redis::new().start();
        let proxy = Proxy::before(server.address());
        let port = proxy.address().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        let sentinel = Server::start(Sentinel::watching(port));
        let rest = format!("//{}/{MASTER}", sentinel.address());
        Self { server, proxy, scheme: "redis+sentinel", rest, _sentinel: Some(sentinel) }
    }

    fn in_a_cluster() -> Self {
        let server = Redis::new().with(&Cluster::options()).start();
        let proxy = Proxy::before(server.address());
        let port = proxy.address().rsplit_once(':').map(|(_, port)| port.to_owned()).expect("a port");
        assert_eq!(server.ask(&["CONFIG", "SET", "cluster-announce-port", &port]), "+OK");
        assert_eq!(server.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "+OK");
        until("it is a cluster", || server.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
        let rest = format!("//{}", proxy.address());
        Self { server, proxy, scheme: "redis+cluster", rest, _sentinel: None }
    }

    /// The grant is there, and its answer never comes: the client is gone.
    fn kills_a_client_between_the_grant_and_its_answer(&self) {
        let (locks, ttl) = (connect(self.scheme, &self.rest), Duration::from_millis(500));
        self.proxy.replies(Flow::Held);
        let lock = locks.lock("x").ttl(ttl);
        let mut acquiring = pin!(lock.acquire());
        assert!(poll::once(acquiring.as_mut()).is_none(), "its answer is held back");
        until("it was granted", || fence(&self.server, "x") > 0);
        let token = fence(&self.server, "x");
        self.proxy.close();
        until("its ttl is over", || is_clean(&self.server, "x"));
        self.proxy.replies(Flow::Pass);
        self.proxy.reopen();
        let next = connect(self.scheme, &self.rest);
        let guard = once_reachable(|| next.lock("x").ttl(TTL).acquire().block()).expect("free");
        assert!(guard.token().as_u64() > token);
    }

    /// The client lives, and does not know: it cleans up, and sends nothing twice.
    fn cuts_a_link_between_the_grant_and_its_answer(&self) {
        let locks = connect(self.scheme, &self.rest);
        self.proxy.replies(Flow::Lost);
        self.proxy.take_forwarded();
        let lock = locks.lock("x").ttl(TTL);
        let mut acquiring = pin!(lock.acquire());
        assert!(poll::once(acquiring.as_mut()).is_none(), "its answer is lost");
        until("it was granted", || fence(&self.server, "x") > 0);
        assert_eq!(self.proxy.forwarded(b"EVALSHA"), 1, "it was sent once");
        self.proxy.replies(Flow::Pass);
        self.proxy.cut();
        let result = acquiring.block();
        assert!(matches!(&result, Err(error @ AcquireError::Store(_)) if error.outcome_unknown()), "{result:?}");
        until("it was given back", || is_clean(&self.server, "x"));
    }
}

#[test]
fn behind_a_sentinel_a_client_killed_between_the_grant_and_its_answer_holds_for_its_ttl_only() {
    Wired::behind_a_sentinel().kills_a_client_between_the_grant_and_its_answer();
}

#[test]
fn in_a_cluster_a_client_killed_between_the_grant_and_its_answer_holds_for_its_ttl_only() {
    Wired::in_a_cluster().kills_a_client_between_the_grant_and_its_answer();
}

#[test]
fn behind_a_sentinel_a_grant_whose_answer_was_lost_is_never_sent_again_but_given_back() {
    Wired::behind_a_sentinel().cuts_a_link_between_the_grant_and_its_answer();
}

#[test]
fn in_a_cluster_a_grant_whose_answer_was_lost_is_never_sent_again_but_given_back() {
    Wired::in_a_cluster().cuts_a_link_between_the_grant_and_its_answer();
}

#[test]
fn a_sentinel_that_is_dead_and_one_that_is_stopped_are_passed_over() {
    let mut set = Sentinels::start();
    let rest = format!("//{}", set.place());
    let early = connect("redis+sentinel", &rest);
    set.sentinels[0].kill();
    set.sentinels[1].pause();
    let locks = connect("redis+sentinel", &rest);
    // A link that breaks has to be found again, with one sentinel left.
    let master = set.master_of(2);
    for kind in ["normal", "pubsub"] {
        set.servers[master].number(&["CLIENT", "KILL", "TYPE", kind]);
    }
    for locks in [&locks, &early] {
        let guard = once_reachable(|| locks.lock("x").ttl(TTL).acquire().block()).expect("free");
        guard.release().block().expect("released");
    }
    set.sentinels[1].resume();
}

/// No link breaks and nothing is asked: the master itself says that it is none any more.
#[test]
fn a_master_that_became_a_replica_is_left_at_once() {
    let set = Sentinels::start();
    let locks = connect("redis+sentinel", &format!("//{}", set.place()));
    let old = set.master();
    locks.lock("x").ttl(TTL).acquire().block().expect("free").release().block().expect("released");
    set.fail_over();
    let guard = once_reachable(|| locks.lock("x").ttl(TTL).acquire().block()).expect("free at the new master");
    assert!(set.master() != old && value(&set.servers[set.master()], "x").is_some());
    guard.release().block().expect("released");
}

/// One server has them all. What was not sent to the old master is proposed anew to the next.
#[test]
fn behind_sentinels_several_free_names_are_one_script() {
    let set = Sentinels::start();
    let locks = connect("redis+sentinel", &format!("//{}", set.place()));
    for round in 0..2 {
        let names: Vec<String> = (0..20).map(|number| format!("name {number}")).collect();
        // By now the link is up, and every script is known.
        for _ in 0..2 {
            let lock = locks.all_of(["linked", "too"]).ttl(TTL).wait_at_most(PATIENCE);
            lock.acquire().block().expect("free").release().block().expect("released");
        }
        let before = scripts_run(&set.servers[set.master()]);
        let all = locks.all_of(names.clone()).ttl(TTL).acquire().block().expect("free");
        assert_eq!(scripts_run(&set.servers[set.master()]) - before, 1, "round {round}");
        assert_eq!(all.tokens().len(), names.len());
        all.release().block().expect("released");
        set.fail_over();
        set.until_whole();
    }
}

#[test]
fn a_cluster_is_found_by_any_of_its_nodes_also_by_a_replica() {
    let cluster = Cluster::start();
    for server in &cluster.servers {
        let locks = connect("redis+cluster", &format!("//{}", server.address()));
        for name in ["a", "b", "c", "d"] {
            locks.lock(name).ttl(TTL).acquire().block().expect("free").release().block().expect("released");
        }
    }
    // By another name than the cluster's own.
    let locks = connect("redis+cluster", &format!("//localhost:{}", cluster.servers[4].port()));
    locks.lock("x").ttl(TTL).acquire().block().expect("free").release().block().expect("released");
}

#[test]
fn sentinels_and_servers_have_passwords_of_their_own() {
    let server = Redis::new().with("--requirepass serve").start();
    let sentinel = Server::start(Sentinel::watching(server.port()).with("requirepass watch"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "watch\n").expect("written");
    let place = format!(":serve@{}/{MASTER}", sentinel.address());
    let locks = connect("redis+sentinel", &format!("//{place}?sentinel_password_file={}", file.path().display()));
    locks.lock("x").ttl(TTL).acquire().block().expect("free").release().block().expect("released");
    let denied = refusal("redis+sentinel", &format!("//{place}"));
    assert_eq!(denied.kind, StoreErrorKind::Denied);
    assert!(denied.message.contains("sentinel_password_file"), "{denied}");
    let rest = format!("//:wrong@{}/{MASTER}?sentinel_password_file={}", sentinel.address(), file.path().display());
    let refused = refusal("redis+sentinel", &rest);
    assert_eq!(refused.kind, StoreErrorKind::Denied);
    assert!(refused.message.contains("password_file"), "{refused}");
    for secret in ["serve", "watch", "wrong"] {
        assert!(!format!("{locks:?} {denied:?} {refused:?}").contains(secret), "{secret} in {denied:?} {refused:?}");
    }
}

fn refusal(scheme: &str, rest: &str) -> StoreError {
    match fencepost_redis::connect(scheme, rest).block() {
        Err(error) => error,
        Ok(locks) => trouble(locks.lock("x").acquire().block()),
    }
}

/// The field, the value and the cure.
#[test]
fn a_url_that_cannot_work_says_what_is_wrong_and_what_to_write() {
    for (scheme, rest, words) in [
        ("redis+sentinel", "//a,b", ["redis+sentinel:…", "/MASTER_NAME"]),
        ("redis+sentinel", "a/main", ["redis+sentinel:…", "redis+sentinel://SENTINEL:PORT"]),
        ("redis+sentinel", "//a/main/x", ["redis+sentinel:…", "number of a database"]),
        ("redis+sentinel", "//a:0/main", ["\"a:0\"", "1 to 65535"]),
        ("redis+sentinel", "//a,:p@b/main", ["redis+sentinel:…", "before the first server"]),
        ("redis+sentinel", "//a/main?after_failover=maybe", ["after_failover \"maybe\"", "go_on"]),
        ("redis+sentinel", "//a/main?replicas=0", ["replicas \"0\"", "1 to 100"]),
        ("redis+sentinel", "//a/main?replicas=1&replicas_within_ms=2000", ["replicas_within_ms \"2000\"", "1 to 1000"]),
        ("redis+sentinel", "//a/main?replicas_within_ms=5", ["replicas_within_ms \"5\"", "replicas="]),
        ("redis+cluster", "//a?sentinel_user=x", ["sentinel_user", "redis+sentinel://"]),
        ("redis+cluster", "//a/3", ["db \"3\"", "database 0 only"]),
        ("redis+cluster", "//a?prefix={x}", ["prefix \"{x}\"", "leave them out"]),
        ("redis+cluster", "//a?ca_file=/x", ["ca_file", "rediss+cluster://"]),
        ("redis", "//a?after_failover=wait", ["after_failover", "redis+sentinel://"]),
        ("redis", "//a,b", ["redis:…", "redis+cluster://A,B,C"]),
        ("redlock", "//a?replicas=1", ["replicas", "leave it out"]),
    ] {
        let error = refusal(scheme, rest);
        assert_eq!(error.kind, StoreErrorKind::Misconfigured, "{rest}: {error}");
        for words in words {
            assert!(error.message.contains(words), "{rest}: {error} does not say {words}");
        }
    }
}

#[test]
fn a_server_of_another_kind_than_the_url_says_is_named_as_what_it_is() {
    let (single, cluster) = (Redis::new().start(), Wired::in_a_cluster());
    let sentinel = Wired::behind_a_sentinel();
    let (sentinel_at, _) = sentinel.rest.split_once("/main").expect("its name");
    for (scheme, rest, words) in [
        ("redis", format!("//{}", cluster.proxy.address()), "redis+cluster://"),
        ("redlock", format!("//{}", cluster.proxy.address()), "redis+cluster://"),
        ("redis+cluster", format!("//{}", single.address()), "redis://"),
        ("redis+sentinel", format!("//{}/main", single.address()), "it is no sentinel"),
        ("redis+sentinel", format!("{sentinel_at}/mian"), "\"mian\""),
    ] {
        let error = refusal(scheme, &rest);
        assert_eq!(error.kind, StoreErrorKind::Misconfigured, "{scheme}:{rest}: {error}");
        assert!(error.message.contains(words), "{scheme}:{rest}: {error}");
    }
}

#[test]
fn nobody_there_is_unreachable_and_says_who_was_asked() {
    for (scheme, rest) in [("redis+sentinel", "//127.0.0.1:1,127.0.0.1:2/main"), ("redis+cluster", "//127.0.0.1:1")] {
        let error = refusal(scheme, rest);
        assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}");
        assert!(error.message.contains("127.0.0.1:1") && error.message.contains("refused"), "{error}");
    }
}
