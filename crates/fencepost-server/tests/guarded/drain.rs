//! The end: who waits is told to go elsewhere, streams end, what is held stays held.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};

use fencepost_core::Blocking;
use fencepost_server::{Metrics, Settings};
use fencepost_testkit::wait::until;

use super::support::{Answer, PATIENCE, Request, Service, memory};

#[test]
fn waiters_are_sent_elsewhere_streams_end_and_holders_keep_their_leases() {
    let metrics = Metrics::new();
    let locks = memory(&metrics);
    let mut service = Service::on(locks.clone(), Settings::default().metrics(metrics));
    let lease = service.post("/v1/locks/x/try", None, r#"{"ttl_ms":60000}"#);
    assert_eq!(lease.status, 200);
    let mut waiter = service.connect();
    waiter.write_all(&Request::new("POST", "/v1/locks/x/acquire").body(r#"{"wait_ms":60000}"#).bytes()).expect("sent");
    let mut events = BufReader::new(service.connect());
    events.get_mut().write_all(&Request::new("GET", "/v1/events").bytes()).expect("sent");
    let mut line = String::new();
    events.read_line(&mut line).expect("a stream");
    assert!(line.contains("200"), "{line}");
    until("somebody waits", || !locks.inspect("x").block().expect("seen").waiters.is_empty());
    // A client that sits on its connection does not hold up the end.
    let _idle = service.connect();
    let started = Instant::now();
    service.stop();
    let told = Answer::read(&mut waiter);
    assert_eq!((told.status, told.code()), (503, "shutting_down".into()));
    assert!(told.header("retry-after").is_some(), "{told:?}");
    events.read_to_string(&mut line).expect("the stream ends");
    service.ended();
    assert!(started.elapsed() < PATIENCE, "in bounded time");
    // The service is gone, and the lease is not.
    let state = locks.inspect("x").block().expect("seen");
    assert_eq!((state.holders.len(), state.waiters.len()), (1, 0), "{state:?}");
}

#[test]
fn a_request_that_does_not_end_is_cut_when_the_time_is_over() {
    let mut service = Service::start(Settings::default().drain(Duration::from_millis(200)));
    let mut half = service.connect();
    half.write_all(b"POST /v1/locks/x/try HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{")
        .expect("sent");
    assert_eq!(service.get("/readyz", None).status, 200);
    let started = Instant::now();
    service.stop();
    service.ended();
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
}
