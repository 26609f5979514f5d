//! Waiting through failures that pass: stores that are away when a run begins, and nodes that come back one by one.

use std::time::{Duration, Instant};

use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
use nix::sys::signal::Signal;

use crate::support::Place;

fn url(server: &Server<Redis>) -> String {
    format!("redis://{}", server.address())
}

/// Three servers that vote; the first forgets nothing.
fn quorum(place: &Place, settings: &str) -> ([Server<Redis>; 3], String) {
    let keeps = Redis::new().with("--appendonly yes --appendfsync always");
    let servers = [keeps.start(), Redis::new().start(), Redis::new().start()];
    let addresses = servers.each_ref().map(Server::address).join(",");
    let store = format!("redlock://{addresses}{settings}");
    place.fencepost(["--store", &store, "init"]).end().with_code(0);
    (servers, store)
}

#[test]
fn a_run_waits_for_a_store_that_is_down_when_it_begins() {
    let place = Place::new();
    for limit in [&["-w", "60s"][..], &[]] {
        let mut server = Redis::new().start();
        let store = url(&server);
        server.kill();
        let arguments = [&["--store", &store, "run"], limit, &["x", "--", "echo", "ran"]].concat();
        let mut run = place.fencepost(arguments).start();
        run.until_it_notes("x: waiting for the store: connect failed: unreachable");
        server.restart();
        assert_eq!(run.line(), "ran");
        run.end().with_code(0);
    }
}

#[test]
fn a_run_that_waits_to_connect_says_nothing_when_quiet_and_can_be_interrupted() {
    let place = Place::new();
    let mut server = Redis::new().start();
    let store = url(&server);
    server.kill();
    let quiet = place.fencepost(["-q", "--store", &store, "run", "-w", "3s", "x", "--", "true"]);
    let done = quiet.end().with_code(69);
    assert!(!done.stderr.contains("waiting"), "{done:?}");
    let mut run = place.fencepost(["--store", &store, "run", "x", "--", "true"]).start();
    run.until_it_notes("waiting for the store");
    run.signal(Signal::SIGTERM);
    run.end().with_code(128 + 15);
}

#[test]
fn who_does_not_wait_fails_at_once_and_a_limit_ends_the_wait_with_its_cause() {
    let place = Place::new();
    for store in ["redis://no-such-host.invalid:6379", "redis://127.0.0.1:1"] {
        place.fencepost(["--store", store, "run", "-n", "x", "--", "true"]).end().with_code(69).saying("unreachable");
        let began = Instant::now();
        let done = place.fencepost(["--store", store, "run", "-w", "2s", "x", "--", "true"]).end().with_code(69);
        assert!(began.elapsed() >= Duration::from_millis(1_700), "{store}: {done:?}");
        done.saying("unreachable");
    }
}

#[test]
fn what_waiting_cannot_cure_ends_it_at_once() {
    let place = Place::new();
    let server = Redis::new().with("--requirepass secret").start();
    let began = Instant::now();
    place.fencepost(["--store", &url(&server), "run", "-w", "60s", "x", "--", "true"]).end().with_code(77);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn connecting_and_waiting_share_one_limit() {
    let place = Place::new();
    let (servers, store) = quorum(&place, "");
    servers[..2].iter().for_each(Server::pause);
    let report = place.path("report.json");
    let report = report.to_str().expect("UTF-8");
    // Those that are paused take a second to be given up.
    let run = ["--store", &store, "run", "-w", "3s", "--report", report, "x", "--", "true"];
    place.fencepost(run).end().with_code(69);
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).expect("JSON");
    let waited = report["waited_ms"].as_u64().expect("a number");
    assert!(waited < 3_000, "connecting took a second of the three: {report}");
}

#[test]
fn a_run_outlasts_one_node_down_one_quarantined_and_one_paused() {
    let place = Place::new();
    let (mut servers, store) = quorum(&place, "");
    servers[0].kill();
    servers[1].ask(&["FLUSHALL"]);
    servers[2].pause();
    let mut run = place.fencepost(["--store", &store, "run", "-w", "60s", "x", "--", "echo", "ran"]).start();
    run.until_it_notes("waiting for the store");
    servers[2].resume();
    servers[0].restart();
    assert_eq!(run.line(), "ran");
    run.end().with_code(0);
}

#[test]
fn a_run_waits_for_the_end_of_a_quarantine_if_that_is_in_time() {
    let place = Place::new();
    let (servers, store) = quorum(&place, "?max_ttl_ms=10000");
    servers.iter().for_each(|server| drop(server.ask(&["FLUSHALL"])));
    let began = Instant::now();
    let run =
        |wait: &str| place.fencepost(["--store", &store, "run", "-w", wait, "--ttl", "5s", "x", "--", "true"]).end();
    run("3s").with_code(69).saying("quarantined");
    run("60s").with_code(0).saying("quarantined");
    assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
}
