//! Deployments that cannot be good, and what an examination says of each: that, and nothing else.

use std::time::Duration;

use fencepost_core::doctor::{Report, Severity};
use fencepost_testkit::etcd::{Etcd, EtcdCluster, etcdctl};
use fencepost_testkit::findings::{bad, finding};
use fencepost_testkit::ports::free_port;
use fencepost_testkit::proxy::{Flow, Proxy};
use fencepost_testkit::wait::until;

const PASSWORD: &str = "canary-e7cd";

fn examined_with(place: &str, ttl: Duration) -> Report {
    let report = fencepost_etcd::examine("etcd", &format!("//{place}"), ttl).expect("a URL of ours");
    assert!(!format!("{report:?}").contains(PASSWORD), "a secret: {report:?}");
    report
}

fn examined(place: &str) -> Report {
    examined_with(place, Duration::from_secs(30))
}

fn run(place: &str, words: &str) {
    let output = etcdctl(place).args(words.split(' ')).output().expect("runs");
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_good_cluster_has_no_warning_and_one_that_lost_members_has() {
    let mut cluster = EtcdCluster::start();
    let place = cluster.place();
    let report = examined(&place);
    assert_eq!(bad(&report), [""; 0], "{report:#?}");
    // It is on this machine, so it is only told that anybody may use it.
    assert_eq!(finding(&report, "no-auth").severity, Severity::Notice);
    assert!(report.facts.iter().any(|fact| fact.what == "members"), "{report:?}");
    let one = examined(&cluster.servers[0].address());
    assert_eq!(bad(&one), [""; 0]);
    finding(&one, "not-all-named");
    // A busy machine may take longer for an answer than so short a ttl lets it.
    let short = bad(&examined_with(&place, Duration::from_millis(900)));
    assert!(short.contains(&"warning lease-grain".to_owned()), "{short:?}");
    let gone = cluster.leader(None);
    cluster.servers[gone].kill();
    cluster.leader(Some(gone));
    let lost_one = examined(&place);
    assert_eq!(bad(&lost_one), ["warning unreachable"], "{lost_one:#?}");
    assert_eq!(finding(&lost_one, "unreachable").place, cluster.servers[gone].address());
    let other = (gone + 1) % 3;
    cluster.servers[other].kill();
    // Without a majority those that are gone are not one of several any more.
    until("the last one sees no leader", || bad(&examined(&place)) == ["error no-leader", "error unreachable"]);
}

#[test]
fn what_all_members_know_is_asked_of_one_that_is_there() {
    let mut cluster = EtcdCluster::with("--quota-backend-bytes=200000");
    let place = cluster.place();
    let junk = "j".repeat(60_000);
    until("it is full", || {
        let put = etcdctl(&place).args(["put", "junk", &junk]).output().expect("runs");
        !put.status.success()
    });
    cluster.servers[0].kill();
    cluster.leader(Some(0));
    let report = examined(&place);
    assert_eq!(bad(&report), ["error alarm", "warning unreachable"], "{report:#?}");
    assert_eq!(finding(&report, "alarm").place, cluster.servers[1].address());
    assert!(report.facts.iter().any(|fact| fact.what == "members"), "{report:?}");
}

#[test]
fn a_member_more_that_does_not_help() {
    let cluster = EtcdCluster::start();
    let place = cluster.place();
    let learner = cluster.join(true);
    until("it is told of", || !bad(&examined(&learner.address())).contains(&"error unreachable".to_owned()));
    let report = examined(&learner.address());
    assert_eq!(bad(&report), ["error learner"], "{report:#?}");
    // It does not vote, so the others are as many as before.
    assert_eq!(bad(&examined(&place)), [""; 0]);
    until("it is promoted", || {
        etcdctl(&place).args(["member", "promote", &learner_id(&place)]).status().is_ok_and(|status| status.success())
    });
    assert_eq!(bad(&examined(&format!("{place},{}", learner.address()))), ["warning even"]);
    // A member that is named twice is one all the same.
    let twice = examined(&format!("{},{}", learner.address(), learner.address()));
    assert_eq!(finding(&twice, "same-server").severity, Severity::Notice);
}

/// The name of the member that learns, as others say it.
fn learner_id(place: &str) -> String {
    let list = etcdctl(place).args(["member", "list"]).output().expect("runs");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let line = list.lines().find(|line| line.ends_with("true")).expect("one learns");
    line.split(',').next().expect("a name").to_owned()
}

/// An address that leads to this machine and is none of loopback: who reads it cannot know.
#[test]
fn a_cluster_that_seems_to_be_elsewhere() {
    let server = Etcd::new().start();
    let place = server.address().replace("127.0.0.1", "0.0.0.0");
    assert_eq!(bad(&examined(&place)), ["warning no-auth", "warning one-server"]);
    for words in [&format!("user add root:{PASSWORD}"), "user grant-role root root", "auth enable"] {
        run(&server.address(), words);
    }
    assert_eq!(bad(&examined(&format!("root:{PASSWORD}@{place}"))), ["warning clear-text", "warning one-server"]);
}

#[test]
fn a_server_that_is_alone() {
    let server = Etcd::new().start();
    assert_eq!(bad(&examined(&server.address())), ["warning one-server"]);
}

#[test]
fn a_server_that_is_not_there() {
    assert_eq!(bad(&examined(&format!("127.0.0.1:{}", free_port()))), ["error unreachable"]);
}

#[test]
fn members_of_two_clusters() {
    let servers = [Etcd::new().start(), Etcd::new().start()];
    let report = examined(&format!("{},{}", servers[0].address(), servers[1].address()));
    assert_eq!(bad(&report), ["error different-clusters", "warning one-server"]);
}

#[test]
fn a_cluster_that_is_full() {
    let full = Etcd::new().with("--quota-backend-bytes=200000").start();
    let place = full.address();
    let junk = "j".repeat(60_000);
    until("it is full", || {
        let put = etcdctl(&place).args(["put", "junk", &junk]).output().expect("runs");
        !put.status.success()
    });
    let report = examined(&place);
    assert_eq!(bad(&report), ["error alarm", "warning one-server"], "{report:#?}");
    assert!(finding(&report, "alarm").evidence.contains("NOSPACE"), "{report:?}");
}

#[test]
fn a_cluster_that_wants_to_know_who_we_are() {
    let server = Etcd::new().start();
    let place = server.address();
    for words in [
        &format!("user add root:{PASSWORD}"),
        "user grant-role root root",
        "role add locks",
        "role grant-permission locks --prefix=true readwrite fencepost/",
        &format!("user add app:{PASSWORD}"),
        "user grant-role app locks",
        &format!("user add other:{PASSWORD}"),
        "auth enable",
    ] {
        run(&place, words);
    }
    assert_eq!(bad(&examined(&format!("app:{PASSWORD}@{place}"))), ["warning one-server"]);
    assert_eq!(bad(&examined(&format!("app:wrong@{place}"))), ["error denied", "warning one-server"]);
    assert_eq!(bad(&examined(&format!("other:{PASSWORD}@{place}"))), ["error rights", "warning one-server"]);
}

#[test]
fn a_server_that_is_far_away() {
    let server = Etcd::new().start();
    let proxy = Proxy::before(server.address());
    proxy.replies(Flow::Late(Duration::from_millis(300)));
    let report = examined_with(&proxy.address(), Duration::from_millis(500));
    assert_eq!(bad(&report), ["error slow", "warning one-server"], "{report:#?}");
}
