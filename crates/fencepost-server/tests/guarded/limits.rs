//! How much one may ask for: beyond it a clear refusal, and nothing is kept.

use std::io::Write;
use std::time::Duration;

use fencepost_core::Blocking;
use fencepost_server::{Metrics, Rate};
use fencepost_testkit::wait::until;

use super::support::{Answer, Files, Request, Service, key, limited, memory};

#[test]
fn acquisitions_of_one_principal_have_a_rate_and_others_do_not_pay_for_it() {
    let files = Files::new();
    let (one, of_one) = key("one", &["acquire:*"]);
    let (other, of_other) = key("other", &["acquire:*"]);
    let auth = files.write("auth.toml", &(of_one + &of_other));
    // So slow that no second passes for it here.
    let settings = limited(|limits| limits.rate = Rate { per_second: 0.001, burst: 3.0 });
    let service = Service::start(settings.auth_file(auth).expect("a file"));
    let take = |key: &str, number: u32| service.post(&format!("/v1/locks/{number}/try"), Some(key), "{}");
    assert!((0..3).all(|number| take(&one, number).status == 200));
    let refused = take(&one, 3);
    assert_eq!((refused.status, refused.code()), (429, "limit".into()));
    let wait: u64 = refused.header("retry-after").expect("told when").parse().expect("seconds");
    assert!((900..=1000).contains(&wait), "{wait}");
    assert_eq!(take(&other, 4).status, 200);
    // What is held can always be kept and given back.
    let lease = take(&other, 5).body;
    assert!((0..9).all(|_| service.post("/v1/locks/5/renew", Some(&other), &lease).status == 200));
    assert_eq!(service.post("/v1/locks/5/release", Some(&other), &lease).status, 200);
}

#[test]
fn locks_of_one_principal_are_counted_until_they_are_given_back_or_over() {
    let service = Service::start(limited(|limits| limits.locks = 2));
    let take = |name: &str, ttl_ms: u64| {
        service.post(&format!("/v1/locks/{name}/try"), None, &format!("{{\"ttl_ms\":{ttl_ms}}}"))
    };
    let first = take("a", 60_000);
    assert_eq!((first.status, take("b", 200).status), (200, 200));
    until("the second is over", || take("c", 60_000).status == 200);
    let refused = take("d", 60_000);
    assert_eq!((refused.status, refused.code()), (429, "limit".into()));
    let batch = service.post("/v1/batches/try", None, r#"{"names":["e","f"]}"#);
    assert_eq!((batch.status, batch.code()), (429, "limit".into()));
    assert_eq!(service.post("/v1/locks/a/release", None, &first.body).status, 200);
    assert_eq!(take("d", 60_000).status, 200);
}

#[test]
fn a_line_has_an_end_for_each_lock_and_for_all() {
    let metrics = Metrics::new();
    let locks = memory(&metrics);
    let settings = limited(|limits| (limits.waiters, limits.waiters_per_lock) = (3, 2));
    let service = Service::on(locks.clone(), settings.metrics(metrics));
    for name in ["x", "y"] {
        assert_eq!(service.post(&format!("/v1/locks/{name}/try"), None, "{}").status, 200);
    }
    let wait = |name: &str| {
        let mut stream = service.connect();
        let request = Request::new("POST", &format!("/v1/locks/{name}/acquire")).body(r#"{"wait_ms":60000}"#);
        stream.write_all(&request.bytes()).expect("sent");
        stream
    };
    let waiting = |number: u32| {
        let line = format!("fencepost_waiting {number}\n");
        until("they wait", || service.get("/metrics", None).body.contains(&line));
    };
    let in_line = [wait("x"), wait("x")];
    waiting(2);
    let refused = Answer::read(&mut wait("x"));
    assert_eq!((refused.status, refused.code()), (429, "limit".into()), "of this lock");
    let third = wait("y");
    waiting(3);
    let refused = Answer::read(&mut wait("y"));
    assert_eq!((refused.status, refused.code()), (429, "limit".into()), "of all");
    assert!(refused.header("retry-after").is_some());
    // Who goes away makes room, at once.
    drop((in_line, third));
    waiting(0);
    until("the line is empty", || locks.inspect("x").block().expect("seen").waiters.is_empty());
}

#[test]
fn streams_are_counted_and_whoever_closes_one_makes_room() {
    let service = Service::start(limited(|limits| limits.watchers = 2));
    let watch = |path: &str| {
        let mut stream = service.connect();
        stream.write_all(&Request::new("GET", path).bytes()).expect("sent");
        stream
    };
    let begun = |mut stream: std::net::TcpStream| {
        let mut first = [0; 12];
        std::io::Read::read_exact(&mut stream, &mut first).expect("an answer");
        (String::from_utf8_lossy(&first[9..]).into_owned(), stream)
    };
    let (events, leaders) = (begun(watch("/v1/events")), begun(watch("/v1/elections/e/observe")));
    assert_eq!((events.0.as_str(), leaders.0.as_str()), ("200", "200"));
    let refused = Answer::read(&mut watch("/v1/events"));
    assert_eq!((refused.status, refused.code()), (429, "limit".into()));
    drop(leaders);
    until("there is room", || begun(watch("/v1/events")).0 == "200");
}

#[test]
fn sizes_and_times_have_limits_that_are_told() {
    let service = Service::start(limited(|limits| limits.body_time = Duration::from_millis(100)));
    let post = |path: &str, body: &str| service.post(path, None, body);
    let large = format!("{{\"label\":\"{}\"}}", "x".repeat(20_000));
    for (path, body, status, says) in [
        ("/v1/locks/x/try", large.as_str(), 413, "too_large"),
        ("/v1/locks/x/try", r#"{"ttl_ms":999999999}"#, 400, "invalid"),
        ("/v1/locks/x/try", r#"{"ttl_ms":-1}"#, 400, "invalid"),
        ("/v1/locks/x/acquire", r#"{"wait_ms":999999999}"#, 400, "invalid"),
        (&format!("/v1/locks/{}/try", "x".repeat(256)), "{}", 400, "invalid"),
        ("/v1/locks/a%00b/try", "{}", 400, "invalid"),
    ] {
        let answer = post(path, body);
        assert_eq!((answer.status, answer.code().as_str()), (status, says), "{path} {answer:?}");
    }
    // A body that does not come.
    let mut slow = service.connect();
    let bytes = Request::new("POST", "/v1/locks/x/try").body(r#"{"ttl_ms":1000}"#).bytes();
    slow.write_all(&bytes[..bytes.len() - 1]).expect("sent");
    let answer = Answer::read(&mut slow);
    assert_eq!((answer.status, answer.code()), (408, "slow_body".into()));
    assert_eq!(post("/v1/locks/x/try", "{}").status, 200, "and nothing was taken meanwhile");
}
