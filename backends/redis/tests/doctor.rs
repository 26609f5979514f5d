//! Deployments that cannot be good, and what an examination says of each: that, and nothing else.

mod common;

use std::time::Duration;

use common::{KEEPS_EVERYTHING, until};
use fencepost_core::Blocking;
use fencepost_core::doctor::{Report, Severity};
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::findings::{bad, finding};
use fencepost_testkit::ports::free_port;
use fencepost_testkit::preload::Clocks;
use fencepost_testkit::process::{hear, role, say};
use fencepost_testkit::proxy::{Flow, Proxy};
use fencepost_testkit::redis::{Edition, Redis};
use fencepost_testkit::room::{self, Room, SERVERS};
use fencepost_testkit::sentinels::{MASTER, Sentinel, Sentinels};
use fencepost_testkit::server::Server;

const TTL: Duration = Duration::from_secs(30);
const PASSWORD: &str = "canary-d0c7";

fn examined(scheme: &str, rest: &str) -> Report {
    let report = fencepost_redis::examine(scheme, rest, TTL).expect("a URL of ours");
    assert!(!format!("{report:?}").contains(PASSWORD), "a secret: {report:?}");
    report
}

/// An answer may take long: this machine is busy, and what is looked for here is something else.
fn joined(addresses: impl IntoIterator<Item = String>) -> String {
    format!("//{}?answer_within_ms=1000", addresses.into_iter().collect::<Vec<_>>().join(","))
}

/// So many servers like this.
fn some(count: usize, recipe: &Redis) -> Vec<Server<Redis>> {
    (0..count).map(|_| recipe.clone().start()).collect()
}

/// The same as a quorum that is trusted.
fn trusted(count: usize, recipe: &Redis) -> (Vec<Server<Redis>>, String) {
    let servers = some(count, recipe);
    let rest = joined(servers.iter().map(Server::address));
    fencepost_redis::init("redlock", &rest).block().expect("all are there");
    (servers, rest)
}

/// One that forgets nothing.
fn good() -> Redis {
    Redis::new().with(KEEPS_EVERYTHING)
}

#[test]
fn a_good_quorum_has_no_warning() {
    let (_servers, rest) = trusted(5, &Redis::new());
    let report = examined("redlock", &rest);
    assert_eq!(bad(&report), [""; 0]);
    assert!(report.scope.contains("5 servers"), "{}", report.scope);
    // All the same it is told that they are on one machine, and what a restart costs.
    assert_eq!(finding(&report, "one-host").severity, Severity::Notice);
    assert!(finding(&report, "restart-delay").evidence.contains("61s"), "{report:?}");
}

#[test]
fn a_good_server_has_no_warning_and_is_left_as_it_was() {
    let server = good().start();
    fencepost_redis::connect("redis", &format!("//{}", server.address())).block().expect("it is up");
    let before = server.keys();
    let report = examined("redis", &format!("//{}", server.address()));
    assert_eq!(bad(&report), [""; 0]);
    let held: Vec<String> = server.keys().into_iter().filter(|key| !before.contains(key)).collect();
    assert!(held.iter().all(|key| key.starts_with("fp:fence:")), "a lock was left behind: {held:?}");
    for what in ["round trip", "clock", "version"] {
        assert!(report.facts.iter().any(|fact| fact.what == what), "{what} is not told: {report:?}");
    }
}

#[test]
fn a_server_that_is_not_there() {
    let report = examined("redis", &format!("//127.0.0.1:{}", free_port()));
    assert_eq!(bad(&report), ["error unreachable"]);
}

#[test]
fn a_server_that_does_not_let_us_in() {
    let server = good().with(&format!("--requirepass {PASSWORD}")).start();
    assert_eq!(bad(&examined("redis", &format!("//{}", server.address()))), ["error denied"]);
    assert_eq!(bad(&examined("redis", &format!("//:wrong@{}", server.address()))), ["error denied"]);
    assert_eq!(bad(&examined("redis", &format!("//:{PASSWORD}@{}", server.address()))), [""; 0]);
}

#[test]
fn a_replica() {
    let master = good().start();
    let replica = good().with(&format!("--replicaof 127.0.0.1 {}", master.port())).start();
    until("it follows", || replica.ask(&["INFO", "replication"]).contains("master_link_status:up"));
    let report = examined("redis", &format!("//{}", replica.address()));
    assert_eq!(bad(&report), ["error replica"]);
    let said = &finding(&report, "replica").evidence;
    assert!(said.contains(&master.port().to_string()), "{said}");
}

#[test]
fn one_server_under_two_addresses() {
    let servers = some(2, &Redis::new());
    let proxy = Proxy::before(servers[0].address());
    let rest = joined([servers[0].address(), servers[1].address(), proxy.address()]);
    let report = examined("redlock", &rest);
    // Nothing was trusted yet, which is told as well.
    assert_eq!(bad(&report), ["error same-server", "warning young"]);
    assert!(finding(&report, "same-server").evidence.contains(&servers[0].address()), "{report:?}");
}

/// Which servers a lock was tried at: its last token stays there.
fn tried(servers: &[Server<Redis>]) -> usize {
    let has = |server: &&Server<Redis>| server.keys().iter().any(|key| key.contains("fencepost-doctor"));
    servers.iter().filter(has).count()
}

#[test]
fn a_minority_that_is_gone_is_a_warning_and_a_majority_an_error() {
    let (mut servers, rest) = trusted(5, &Redis::new());
    let mut gone = servers.remove(0);
    gone.kill();
    let report = examined("redlock", &rest);
    assert_eq!(bad(&report), ["warning unreachable"], "{report:#?}");
    assert_eq!(finding(&report, "unreachable").place, gone.address());
    assert_eq!(tried(&servers), 4);
    servers.iter_mut().take(2).for_each(Server::kill);
    assert_eq!(bad(&examined("redlock", &rest)), ["error unreachable"]);
}

/// An address that leads to this machine and is none of loopback: who reads it cannot know.
#[test]
fn a_password_that_everybody_may_read() {
    let server = good().with(&format!("--requirepass {PASSWORD}")).start();
    let elsewhere = server.address().replace("127.0.0.1", "0.0.0.0");
    assert_eq!(bad(&examined("redis", &format!("//:{PASSWORD}@{elsewhere}"))), ["warning clear-text"]);
}

#[test]
fn servers_on_one_machine_that_is_not_ours() {
    let allowed = room::allowed();
    assert_eq!(allowed, Ok(()), "another machine is a network namespace here: let this user make one, or be root");
    let mut inside = room::enter("is in a room", "");
    assert_eq!(inside.says("found: "), "warning one-host");
    inside.finish();
}

/// Not a test of its own: what the other processes run.
#[test]
fn in_another_process() {
    match role() {
        Some((role, _)) if role == "is in a room" => {
            let room = Room::furnish();
            let recipe = Redis::new().with(&format!("--bind 127.0.0.1 {SERVERS} --protected-mode no"));
            let servers = some(3, &recipe);
            let rest = joined(servers.iter().map(|server| format!("{SERVERS}:{}", server.port())));
            let mut client = room.client(0, "looks", &rest);
            client.tell("go");
            say(&format!("found: {}", client.says("found: ")));
            client.finish();
        }
        Some((_, rest)) => {
            say("here");
            hear();
            until("the nodes are marked", || fencepost_redis::init("redlock", &rest).block().is_ok());
            say(&format!("found: {}", bad(&examined("redlock", &rest)).join(", ")));
        }
        None => {}
    }
}

#[test]
fn an_even_number_of_servers() {
    let (_servers, rest) = trusted(4, &Redis::new());
    assert_eq!(bad(&examined("redlock", &rest)), ["warning even"]);
}

#[test]
fn a_ttl_that_is_longer_than_the_servers_agreed_on() {
    let servers = some(3, &Redis::new());
    let rest = format!("{}&max_ttl_ms=1000", joined(servers.iter().map(Server::address)));
    fencepost_redis::init("redlock", &rest).block().expect("all are there");
    assert_eq!(bad(&examined("redlock", &rest)), ["error ttl"]);
}

#[test]
fn a_quorum_of_one() {
    let (_servers, rest) = trusted(1, &Redis::new());
    assert_eq!(bad(&examined("redlock", &rest)), ["warning one-server"]);
}

#[test]
fn servers_that_were_just_started_and_know_of_no_set() {
    let servers = some(3, &Redis::new());
    let report = examined("redlock", &joined(servers.iter().map(Server::address)));
    // The trial meets what was told.
    assert_eq!(bad(&report), ["warning probation", "warning young"]);
    assert!(finding(&report, "young").cure.contains("fencepost init"), "{report:?}");
}

#[test]
fn a_server_that_was_restarted_is_on_probation() {
    let (mut servers, rest) = trusted(3, &Redis::new());
    servers[1].kill();
    servers[1].restart();
    let report = examined("redlock", &rest);
    assert_eq!(bad(&report), ["warning probation", "warning young"]);
    assert_eq!(finding(&report, "probation").place, servers[1].address());
}

#[test]
fn servers_of_another_set() {
    let (mut servers, _) = trusted(3, &Redis::new());
    let (others, _) = trusted(1, &Redis::new());
    servers.truncate(2);
    let rest = joined(servers.iter().chain(&others).map(Server::address));
    let report = examined("redlock", &rest);
    assert_eq!(bad(&report), ["error fingerprint"]);
}

#[test]
fn a_ttl_that_others_do_not_have() {
    let (_servers, rest) = trusted(3, &Redis::new());
    assert_eq!(bad(&examined("redlock", &format!("{rest}&max_ttl_ms=30000"))), ["error fingerprint"]);
}

#[test]
fn a_server_that_evicts() {
    let server = good().with("--maxmemory-policy allkeys-lru --maxmemory 100mb").start();
    let report = examined("redis", &format!("//{}", server.address()));
    assert_eq!(bad(&report), ["error evicts"]);
    assert!(finding(&report, "evicts").evidence.contains("allkeys-lru"), "{report:?}");
}

#[test]
fn a_server_that_has_no_limit_evicts_nothing() {
    let server = good().with("--maxmemory-policy allkeys-lru --maxmemory 0").start();
    assert_eq!(bad(&examined("redis", &format!("//{}", server.address()))), Vec::<String>::new());
}

/// It is used all the same: then the report says what nobody has looked at.
#[test]
fn a_server_that_does_not_tell_whether_it_evicts() {
    let server = good().with("--maxmemory-policy allkeys-lru --maxmemory 100mb").start();
    let user = ["ACL", "SETUSER", "ops", "on", ">secret", "~*", "&*", "+@all", "-info", "-config"];
    assert_eq!(server.ask(&user), "+OK");
    let report = examined("redis", &format!("//ops:secret@{}", server.address()));
    assert_eq!(bad(&report), ["warning rights"], "{report:#?}");
    assert!(finding(&report, "rights").evidence.contains("evict"), "{report:#?}");
}

#[test]
fn a_server_with_little_memory_left() {
    let server = good().start();
    // So much that our own connections weigh nothing.
    let junk = "j".repeat(1 << 20);
    (0..20).for_each(|number| drop(server.ask(&["SET", &format!("junk{number}"), &junk])));
    let used = server.ask(&["INFO", "memory"]);
    let used = used.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("it tells");
    let used: u64 = used.trim().parse().expect("a number");
    server.ask(&["CONFIG", "SET", "maxmemory", &(used + used / 20).to_string()]);
    assert_eq!(bad(&examined("redis", &format!("//{}", server.address()))), ["warning memory"]);
}

#[test]
fn a_server_with_few_connections_left() {
    let server = good().with("--maxclients 11").start();
    let kept: Vec<_> = (0..9).map(|_| std::net::TcpStream::connect(server.address()).expect("there is room")).collect();
    until("they are counted", || server.ask(&["INFO", "clients"]).contains("connected_clients:10"));
    let report = examined("redis", &format!("//{}", server.address()));
    drop(kept);
    assert_eq!(bad(&report), ["warning connections"], "{report:#?}");
}

#[test]
fn clocks_that_are_apart() {
    for (behind, severity) in [(Duration::from_secs(3), "warning"), (Duration::from_secs(3600), "error")] {
        let clocks = Clocks::new();
        let servers = [good().preloaded(clocks.environment()).start(), good().start(), good().start()];
        let rest = joined(servers.iter().map(Server::address));
        fencepost_redis::init("redlock", &rest).block().expect("all are there");
        clocks.wall_behind(behind);
        let report = examined("redlock", &rest);
        assert_eq!(bad(&report), [format!("{severity} clock")], "{behind:?}");
        assert_eq!(finding(&report, "clock").place, servers[0].address());
    }
}

#[test]
fn a_server_that_is_far_away() {
    let server = good().start();
    let proxy = Proxy::before(server.address());
    proxy.replies(Flow::Late(Duration::from_millis(30)));
    let report = fencepost_redis::examine("redis", &format!("//{}", proxy.address()), Duration::from_millis(50));
    assert_eq!(bad(&report.expect("a URL of ours")), ["error slow"]);
    assert_eq!(bad(&examined("redis", &format!("//{}", proxy.address()))), [""; 0]);
}

#[test]
fn a_server_that_says_nothing() {
    let server = good().start();
    server.pause();
    assert_eq!(bad(&examined("redis", &format!("//{}", server.address()))), ["error slow"]);
    server.resume();
}

#[test]
fn a_server_that_forgets() {
    for (options, words) in [
        ("", "restart"),
        ("--appendonly yes --appendfsync everysec", "everysec"),
        ("--appendonly yes --appendfsync no", "power cut"),
    ] {
        let server = Redis::new().with(options).start();
        let report = examined("redis", &format!("//{}", server.address()));
        assert_eq!(bad(&report), ["warning forgets"], "{options}");
        assert!(finding(&report, "forgets").evidence.contains(words), "{report:?}");
    }
}

#[test]
fn rights_that_are_missing() {
    let all =
        "+hello +select +info +get +subscribe +unsubscribe +ping +time +scan +config|get +script|load +eval +evalsha";
    let writes = "+set +del +pexpireat +pexpire +pttl +publish +@write +@read +@transaction";
    let user = |rights: &str| format!("--user ops on >{PASSWORD} ~* &* -@all {rights}");
    for (rights, expected) in [
        (format!("{all} {writes}"), vec![]),
        (format!("{all} {writes} -evalsha -eval"), vec!["error rights"]),
        (format!("{all} {writes} -publish -subscribe"), vec!["error rights"]),
    ] {
        let server = good().with(&user(&rights)).start();
        let report = examined("redis", &format!("//ops:{PASSWORD}@{}", server.address()));
        assert_eq!(bad(&report), expected, "{rights}: {report:#?}");
    }
    // Keys that are out of reach.
    let server = good().with(&format!("--user ops on >{PASSWORD} ~other:* &* +@all")).start();
    let report = examined("redis", &format!("//ops:{PASSWORD}@{}", server.address()));
    assert_eq!(bad(&report), ["error rights"], "{report:#?}");
    // A quorum must be told who was started anew.
    let server = good().with(&user(&format!("{all} {writes} -info"))).start();
    let report = examined("redlock", &format!("//ops:{PASSWORD}@{}", server.address()));
    assert!(bad(&report).contains(&"error rights".to_owned()), "{report:#?}");
    assert!(finding(&report, "rights").cure.contains("+info"), "{report:#?}");
}

#[test]
fn a_server_that_is_known_to_be_unsafe() {
    let server = good().edition(Edition::Redis8).start();
    let report = examined("redis", &format!("//{}", server.address()));
    assert_eq!(bad(&report), ["warning version"]);
    assert!(finding(&report, "version").evidence.contains("CVE-20"), "{report:?}");
    let newer = good().edition(Edition::Valkey9).start();
    assert_eq!(bad(&examined("redis", &format!("//{}", newer.address()))), [""; 0]);
}

#[test]
fn a_node_of_a_cluster_that_is_taken_for_a_server() {
    let cluster = Cluster::start();
    let report = examined("redis", &format!("//{}", cluster.servers[0].address()));
    assert_eq!(bad(&report), ["error misconfigured", "warning forgets"], "{report:#?}");
}

#[test]
fn a_cluster() {
    let mut cluster = Cluster::start();
    let rest = format!("//{}", cluster.place());
    assert_eq!(bad(&examined("redis+cluster", &rest)), ["warning failover"]);
    // It has run for too short a time to be trusted by whoever waits after a failover.
    let report = examined("redis+cluster", &format!("{rest}?after_failover=wait"));
    assert!(!bad(&report).contains(&"warning failover".to_owned()), "{report:#?}");
    for server in &cluster.servers {
        let id = cluster.id(0);
        server.ask(&["CLUSTER", "FORGET", &id]);
    }
    cluster.servers[0].ask(&["CLUSTER", "DELSLOTSRANGE", "0", "100"]);
    let first = format!("//{}", cluster.servers[0].address());
    let report = examined("redis+cluster", &first);
    assert_eq!(bad(&report), ["error not-covered", "warning failover"], "{report:#?}");
    cluster.servers.clear();
}

#[test]
fn a_server_that_is_no_cluster() {
    let server = good().start();
    let report = examined("redis+cluster", &format!("//{}", server.address()));
    assert_eq!(bad(&report), ["error misconfigured"]);
}

#[test]
fn sentinels() {
    let mut set = Sentinels::start();
    let rest = format!("//{}", set.place());
    assert_eq!(bad(&examined("redis+sentinel", &rest)), ["warning failover"]);
    let (sentinels, _) = rest.split_once('/').map_or((rest.as_str(), ""), |_| rest.rsplit_once('/').expect("a name"));
    let unknown = examined("redis+sentinel", &format!("{sentinels}/nobody"));
    assert_eq!(bad(&unknown), ["error misconfigured"]);
    set.sentinels[0].kill();
    let report = examined("redis+sentinel", &rest);
    assert_eq!(bad(&report), ["warning failover", "warning unreachable"]);
    let two = format!(
        "//{},{}/{}",
        set.sentinels[1].address(),
        set.sentinels[2].address(),
        rest.rsplit_once('/').expect("a name").1
    );
    assert_eq!(bad(&examined("redis+sentinel", &two)), ["warning failover", "warning few-sentinels"]);
}

#[test]
fn sentinels_that_do_not_agree() {
    let masters = some(2, &Redis::new());
    let watched = [&masters[0], &masters[0], &masters[1]];
    let sentinels = watched.map(|master| Server::start(Sentinel::watching(master.port())));
    let addresses: Vec<String> = sentinels.iter().map(Server::address).collect();
    let report = examined("redis+sentinel", &format!("//{}/{MASTER}", addresses.join(",")));
    assert_eq!(bad(&report), ["error sentinels-disagree", "warning failover"], "{report:#?}");
    let said = &finding(&report, "sentinels-disagree").evidence;
    assert!(masters.iter().all(|master| said.contains(&master.address())), "{said}");
}
