//! Services that cannot be good, and what an examination says of each: that, and nothing else.

mod common;

use std::time::Duration;

use common::Place;
use fencepost_core::doctor::Report;
use fencepost_testkit::findings::bad;
use fencepost_testkit::ports::free_port;
use fencepost_testkit::wait::until;

const KEY: &str = "canary-5e4c";

fn examined_with(addresses: &str, ttl: Duration) -> Report {
    let report = fencepost_service::examine("fencepost+http", &format!("//{addresses}"), ttl).expect("a URL of ours");
    assert!(!format!("{report:?}").contains(KEY), "a secret: {report:?}");
    report
}

fn examined(addresses: &str) -> Report {
    examined_with(addresses, Duration::from_secs(30))
}

#[test]
fn a_good_service_has_no_warning() {
    let place = Place::on_sqlite();
    let report = examined(&place.addresses(0));
    assert_eq!(bad(&report), [""; 0], "{report:#?}");
    assert!(report.facts.iter().any(|fact| fact.what == "version"), "{report:?}");
    // One of them is gone.
    let nobody = format!("127.0.0.1:{}", free_port());
    assert_eq!(bad(&examined(&format!("{},{nobody}", place.addresses(0)))), ["warning unreachable"]);
    assert_eq!(bad(&examined(&nobody)), ["error unreachable"]);
    // It lets nobody hold on for a day.
    assert_eq!(bad(&examined_with(&place.addresses(0), Duration::from_secs(86_400))), ["error ttl"]);
}

#[test]
fn replicas_before_different_stores() {
    let (one, other) = (Place::on_sqlite(), Place::on_sqlite());
    let both = format!("{},{}", one.replicas[0].address, other.replicas[0].address);
    assert_eq!(bad(&examined(&both)), ["error different-stores"]);
}

#[test]
fn a_store_that_has_lost_nodes() {
    let mut place = Place::on_redlock();
    assert_eq!(bad(&examined(&place.addresses(0))), [""; 0]);
    // A service tells for a second what its nodes said last.
    let said = |place: &Place, what: &str| until(what, || bad(&examined(&place.addresses(0))) == [what]);
    place.lose(1);
    said(&place, "warning store");
    place.lose(3);
    said(&place, "error store");
}

/// An address that leads to this machine and is none of loopback: who reads it cannot know.
#[test]
fn a_key_that_everybody_may_read() {
    let (place, folder) = (Place::on_sqlite(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("key");
    std::fs::write(&file, KEY).expect("our own file");
    let key = format!("?api_key_file={}", file.display());
    let here = place.replicas[0].address.clone();
    assert_eq!(bad(&examined(&format!("{here}{key}"))), [""; 0]);
    let elsewhere = here.replace("127.0.0.1", "0.0.0.0");
    // A service that asks nobody who they are answers to no such name; the key has been sent all the same.
    assert_eq!(bad(&examined(&format!("{elsewhere}{key}"))), ["error denied", "warning clear-text"]);
}
