//! What is counted, and what the dashboard and the alerts expect to be.

use std::collections::BTreeSet;

use fencepost_core::Blocking;
use fencepost_core::store::{Clock, Memory, connect};
use fencepost_server::{Metrics, Settings};
use fencepost_testkit::faulty::{Faults, Link};
use fencepost_testkit::nodes::Nodes;
use fencepost_testkit::wait::until;

use super::support::Service;

const DASHBOARD: &str = include_str!("../../../../packaging/grafana/fencepost.json");
const ALERTS: &str = include_str!("../../../../packaging/prometheus/alerts.yml");

/// Every name of ours in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words.filter(|word| word.starts_with("fencepost_")).map(str::to_owned).collect()
}

fn story(service: &Service) {
    let lease = service.post("/v1/locks/canary-name/try", None, "{}");
    assert_eq!(service.post("/v1/locks/canary-name/try", None, "{}").status, 423);
    assert_eq!(service.post("/v1/locks/canary-name/renew", None, &lease.body).status, 200);
    assert_eq!(service.post("/v1/locks/canary-name/release", None, &lease.body).status, 200);
    assert_eq!(service.post("/v1/locks/canary-name/release", None, &lease.body).status, 409);
    assert_eq!(service.get("/v1/locks/canary-name", None).status, 200);
    assert_eq!(service.get("/no/such/canary-name", None).status, 404);
}

#[test]
fn a_story_is_counted_without_the_names_of_locks() {
    let service = Service::start(Settings::default());
    story(&service);
    let metrics = service.get("/metrics", None);
    assert_eq!(
        (metrics.status, metrics.header("content-type")),
        (200, Some("application/openmetrics-text; version=1.0.0; charset=utf-8"))
    );
    for line in [
        "fencepost_http_requests_total{method=\"POST\",route=\"/v1/locks/{id}/try\",status=\"200\"} 1",
        "fencepost_http_requests_total{method=\"POST\",route=\"/v1/locks/{id}/try\",status=\"423\"} 1",
        "fencepost_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"} 1",
        "fencepost_acquire_total{outcome=\"acquired\"} 1",
        "fencepost_acquire_total{outcome=\"refused\"} 1",
        "fencepost_acquire_seconds_count 2",
        "fencepost_hold_seconds_count 1",
        "fencepost_renew_lateness_seconds_count 1",
        "fencepost_renew_total{outcome=\"renewed\"} 1",
        "fencepost_release_total{outcome=\"freed\"} 1",
        "fencepost_ready 1",
    ] {
        assert!(metrics.body.lines().any(|have| have == line), "{line} is not in:\n{}", metrics.body);
    }
    assert!(!metrics.body.contains("canary-name"));
}

#[test]
fn the_dashboard_and_the_alerts_use_what_there_is() {
    // Only nodes that vote have votes.
    let counted = Metrics::new();
    let nodes = connect(|opening| {
        Ok((0..3).map(|node| Memory::node(opening.clock.clone(), &format!("node-{node}"))).collect())
    });
    let locks = nodes.observer(counted.clone()).block().expect("nodes");
    let service = Service::on(locks, Settings::default().metrics(counted));
    story(&service);
    let metrics = service.get("/metrics", None).body;
    let mut there = BTreeSet::new();
    for line in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a type");
        match kind {
            "counter" => there.extend([format!("{name}_total")]),
            "histogram" => there.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}"))),
            _ => there.extend([name.to_owned()]),
        }
    }
    let used: BTreeSet<String> = names(DASHBOARD).union(&names(ALERTS)).cloned().collect();
    assert!(used.len() > 10, "{used:?}");
    let missing: Vec<_> = used.difference(&there).collect();
    assert!(missing.is_empty(), "{missing:?} are not among {there:?}");
    serde_json::from_str::<serde_json::Value>(DASHBOARD).expect("JSON");
    // And each alert is explained to whoever it wakes.
    let page = include_str!("../../../../docs/operations.md");
    for alert in ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(page.contains(&format!("`{alert}`")), "docs/operations.md does not say what to do about {alert}");
    }
}

#[test]
fn a_replica_says_whether_it_lives_and_whether_it_is_ready() {
    let service = Service::start(Settings::default());
    assert_eq!(service.get("/healthz", None).json()["status"], "ok");
    assert_eq!(service.get("/readyz", None).json()["status"], "ready");
}

#[test]
fn a_replica_without_a_majority_is_not_ready_until_it_has_one_again() {
    let nodes = Nodes::new(3, &Clock::system().expect("a clock"), 1, Faults::default());
    let service = Service::on(nodes.connect().block().expect("nodes"), Settings::default());
    let says = |status: u16| until("it says how it is", || service.get("/readyz", None).status == status);
    nodes.set_links(1, Link::Refused);
    says(200);
    nodes.set_links(2, Link::Refused);
    says(503);
    let answer = service.get("/readyz", None);
    assert_eq!(answer.code(), "unreachable");
    assert!(!answer.body.contains("node-"), "strangers hear nothing of nodes: {answer:?}");
    assert!(service.get("/metrics", None).body.contains("fencepost_ready 0\n"));
    assert_eq!(service.get("/healthz", None).status, 200, "the process lives");
    nodes.set_links(2, Link::Up);
    says(200);
}
