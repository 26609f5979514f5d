//! What is refused, and what is said then.

use fencepost_core::Blocking;
use fencepost_core::store::{StoreError, StoreErrorKind};
use fencepost_redis::{Progress, reconfigure};

use crate::crew::{Change, SETTINGS, by_force, start};

fn refused(from: &str, to: &str) -> StoreError {
    let error = reconfigure(("redlock", from), ("redlock", to), &by_force()).expect_err("refused");
    assert_eq!(error.kind, StoreErrorKind::Misconfigured, "{error}");
    error
}

#[test]
fn one_server_under_two_names_is_refused() {
    let change = Change::new(start(4), &[0, 1, 2], &[0, 1, 3]);
    let other_name = change.new_set().replacen("127.0.0.1", "localhost", 1);
    assert!(refused(&change.old(), &other_name).message.contains("are the same server"));
}

#[test]
fn a_server_of_another_cluster_is_refused() {
    let change = Change::new(start(4), &[0, 1, 2], &[0, 1, 3]);
    let theirs = format!("//{}?{SETTINGS}", change.servers[3].address());
    fencepost_redis::init("redlock", &theirs).block().expect("it is there");
    let error = refused(&change.old(), &change.new_set());
    assert!(error.message.contains("belongs to another set") && error.message.contains("fp:marker"), "{error}");
}

#[test]
fn servers_that_are_a_cluster_of_their_own_are_refused_until_that_is_forgotten() {
    let change = Change::new(start(6), &[0, 1, 2], &[3, 4, 5]);
    fencepost_redis::init("redlock", &change.new_set()).block().expect("all are there");
    let error = refused(&change.old(), &change.new_set());
    assert!(error.message.contains("a set of their own already"), "{error}");
    for number in [3, 4, 5] {
        assert_eq!(change.servers[number].number(&["DEL", "fp:marker"]), 1);
    }
    assert!(matches!(change.step(false), Progress::Prepared { .. }));
}

#[test]
fn another_change_that_is_under_way_is_named() {
    let change = Change::new(start(5), &[0, 1, 2], &[0, 1, 3]);
    assert!(matches!(change.step(false), Progress::Prepared { .. }));
    let elsewhere = Change { servers: change.servers, old: vec![0, 1, 2], new: vec![0, 1, 4], gone: Vec::new() };
    let error = refused(&elsewhere.old(), &elsewhere.new_set());
    assert!(error.message.contains("takes part in another change"), "{error}");
    assert!(error.message.contains(&elsewhere.servers[3].address()), "{error}");
}

#[test]
fn a_url_that_nobody_uses_is_refused() {
    let servers = start(4);
    let change = Change { servers, old: vec![0, 1, 2], new: vec![1, 2, 3], gone: Vec::new() };
    assert!(refused(&change.old(), &change.new_set()).message.contains("is it the URL that clients use"));
}

#[test]
fn a_user_who_may_not_see_the_clients_is_denied_and_told_so() {
    let change = Change::new(start(4), &[0, 1, 2], &[0, 1, 3]);
    assert!(matches!(change.step(false), Progress::Prepared { .. }));
    for server in &change.servers {
        let rules = ["ACL", "SETUSER", "default", "-client"];
        assert_eq!(server.ask(&rules), "+OK");
    }
    let error = change.try_step(true).expect_err("who is there cannot be told");
    assert!(error.kind == StoreErrorKind::Denied && error.message.contains("client"), "{error}");
}

#[test]
fn each_server_says_for_whom_it_votes() {
    let change = Change::new(start(4), &[0, 1, 2], &[0, 1, 2, 3]);
    let report = change.try_step(false).expect("all are there");
    assert!(report.warnings[0].contains("4 servers"), "{:?}", report.warnings);
    let votes: Vec<&[&str]> = report.servers.iter().map(|server| &*server.votes_for).collect();
    assert_eq!(votes, [&["old", "both"][..], &["old", "both"], &["old", "both"], &["both"]]);
}

/// They would forget that clients of both use them, and vote beside the old set.
#[test]
fn new_servers_are_no_cluster_of_their_own_in_the_middle_of_a_change() {
    let change = Change::new(start(6), &[0, 1, 2], &[3, 4, 5]);
    assert!(matches!(change.step(false), Progress::Prepared { .. }));
    let markers = || [3, 4, 5].map(|number| change.servers[number].word(&["GET", "fp:marker"]));
    let before = markers();
    let error = fencepost_redis::init("redlock", &change.new_set()).block().expect_err("refused");
    assert!(error.to_string().contains("next="), "{error}");
    assert_eq!(markers(), before);
}
