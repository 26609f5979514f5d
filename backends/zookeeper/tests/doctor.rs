//! Deployments that cannot be good, and what an examination says of each: that, and nothing else.

use std::time::Duration;

use fencepost_core::Blocking;
use fencepost_core::doctor::Report;
use fencepost_testkit::findings::{bad, finding};
use fencepost_testkit::ports::free_port;
use fencepost_testkit::wait::until;
use fencepost_testkit::zookeeper::{Ensemble, ZooKeeper};

const PASSWORD: &str = "canary-2007";

fn examined_with(place: &str, ttl: Duration) -> Report {
    let report = fencepost_zookeeper::examine("zk", &format!("//{place}"), ttl).expect("a URL of ours");
    assert!(!format!("{report:?}").contains(PASSWORD), "a secret: {report:?}");
    report
}

fn examined(place: &str) -> Report {
    examined_with(place, Duration::from_secs(30))
}

#[test]
fn a_good_ensemble_has_no_warning_and_one_that_lost_servers_has() {
    let mut ensemble = Ensemble::start();
    let place = ensemble.place();
    let report = examined(&place);
    assert_eq!(bad(&report), [""; 0], "{report:#?}");
    for what in ["mode", "version", "session", "round trip"] {
        assert!(report.facts.iter().any(|fact| fact.what == what), "{what} is not told: {report:?}");
    }
    let gone = ensemble.leader(None);
    ensemble.servers[gone].kill();
    ensemble.leader(Some(gone));
    let lost_one = || examined(&place);
    until("the other two serve", || bad(&lost_one()) == ["warning unreachable"]);
    let other = (gone + 1) % 3;
    ensemble.servers[other].kill();
    until("the last one serves nobody", || bad(&examined(&place)) == ["error no-leader", "warning unreachable"]);
}

#[test]
fn a_server_that_only_reads() {
    let mut ensemble = Ensemble::that_reads_alone();
    let place = ensemble.place();
    assert_eq!(bad(&examined(&place)), [""; 0]);
    ensemble.servers[0].kill();
    ensemble.servers[1].kill();
    until("the last one only reads", || bad(&examined(&place)) == ["error read-only", "warning unreachable"]);
}

#[test]
fn a_number_of_servers_that_bears_no_more_than_one_less() {
    let ensemble = Ensemble::of_some(4, 0);
    assert_eq!(bad(&examined(&ensemble.place())), ["warning even"]);
}

#[test]
fn a_server_that_has_no_vote() {
    let ensemble = Ensemble::of_some(3, 1);
    let report = examined(&ensemble.place());
    assert_eq!(bad(&report), [""; 0], "{report:#?}");
    assert_eq!(finding(&report, "observer").place, ensemble.servers[3].address());
}

#[test]
fn a_server_that_is_alone() {
    let server = ZooKeeper::new().start();
    assert_eq!(bad(&examined(&server.address())), ["warning one-server"]);
    let other = ZooKeeper::new().start();
    let both = format!("{},{}", server.address(), other.address());
    assert_eq!(bad(&examined(&both)), ["error different-clusters"]);
    // What is locked for another user's locks.
    let locks = fencepost_zookeeper::connect("zk", &format!("//app:{PASSWORD}@{}/guarded", server.address()));
    drop(locks.block().expect("let in").lock("x").acquire().block().expect("free"));
    let report = examined(&format!("other:{PASSWORD}@{}/guarded", server.address()));
    assert_eq!(bad(&report), ["error rights", "warning one-server"], "{report:#?}");
}

#[test]
fn a_server_that_is_not_there() {
    assert_eq!(bad(&examined(&format!("127.0.0.1:{}", free_port()))), ["error unreachable"]);
}

#[test]
fn sessions_that_are_too_short_or_too_long() {
    let server = ZooKeeper::new().longest_session(Duration::from_secs(10)).start();
    let report = examined(&server.address());
    assert_eq!(bad(&report), ["error session-limits", "warning one-server"]);
    assert!(finding(&report, "session-limits").evidence.contains("10s"), "{report:?}");
    let slow = ZooKeeper::new().shortest_session(Duration::from_secs(20)).start();
    let report = examined_with(&slow.address(), Duration::from_secs(2));
    assert_eq!(bad(&report), ["warning one-server", "warning session-limits"], "{report:#?}");
}
