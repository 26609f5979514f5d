//! Locks by HTTP, as any client sees them.

mod common;

use common::{Open, Replica, until};
use fencepost_core::VirtualClock;
use fencepost_core::store::{self, Memory};
use serde_json::{Value, json};

fn service() -> Replica {
    Replica::of(store::connect(|at| Ok(vec![Memory::new(at.clock)])))
}

/// 20 bytes that nobody else has in the same test.
fn owner(digit: char) -> String {
    digit.to_string().repeat(40)
}

#[test]
fn a_lock_is_taken_renewed_and_released_by_sending_its_lease_back() {
    let service = service();
    let lease = service.post("/v1/locks/a%2Fb/try", &json!({ "ttl_ms": 20_000, "label": "one" })).good();
    assert_eq!((lease["name"].as_str(), lease["ttl_ms"].as_u64()), (Some("a/b"), Some(20_000)));

    let held = service.post("/v1/locks/a%2Fb/try", &json!({})).problem(423, "held");
    assert_eq!(held["holder"]["label"], "one");
    assert_eq!(held["holder"].get("owner"), None, "only the grant itself carries the secret");

    let renewed = service.post("/v1/locks/a%2Fb/renew", &lease).good();
    assert_eq!(renewed, json!({ "ttl_ms": 20_000 }));
    let state = service.get("/v1/locks/a%2Fb").good();
    assert_eq!(state["holders"][0]["token"], lease["token"]);
    assert_eq!(service.post("/v1/locks/a%2Fb/release", &lease).good(), json!({ "outcome": "freed" }));
    assert_eq!(service.get("/v1/locks/a%2Fb").good()["holders"], json!([]));

    service.post("/v1/locks/a%2Fb/renew", &lease).problem(409, "not_held");
    service.post("/v1/locks/a%2Fb/release", &lease).problem(409, "not_held");
}

#[test]
fn the_owner_alone_is_enough_to_renew_and_release() {
    let service = service();
    let lease = service.post("/v1/locks/a/try", &json!({ "ttl_ms": 20_000 })).good();
    let mine = json!({ "owner": lease["owner"], "ttl_ms": 25_000 });
    assert_eq!(service.post("/v1/locks/a/renew", &mine).good()["ttl_ms"], 25_000);
    // Absent, lost and not yours are one answer.
    let others = json!({ "owner": owner('7') });
    let not_mine = service.post("/v1/locks/a/renew", &others).problem(409, "not_held");
    let absent = service.post("/v1/locks/never/renew", &others).problem(409, "not_held");
    assert_eq!(not_mine, absent);
    service.post("/v1/locks/a/release", &others).problem(409, "not_held");
    service.post("/v1/locks/a/release", &json!({ "owner": lease["owner"] })).good();
}

#[test]
fn whoever_lost_a_lock_neither_keeps_it_beside_the_next_nor_makes_their_token_stale() {
    let service = service();
    let lost = |mode: &str| {
        let claim = json!({ "ttl_ms": 200, "mode": mode });
        let lease = service.post("/v1/locks/a/try", &claim).good();
        until("it is over", || service.get("/v1/locks/a").good()["holders"] == json!([]));
        json!({ "owner": lease["owner"] })
    };
    let (writer, reader) = (lost("exclusive"), lost("shared"));
    let holders = || service.get("/v1/locks/a").good()["holders"].as_array().expect("a list").len();
    let next = service.post("/v1/locks/a/try", &json!({ "mode": "shared" })).good();
    for mine in [&writer, &reader, &json!({ "owner": owner('7') })] {
        service.post("/v1/locks/a/renew", mine).problem(409, "not_held");
        service.post("/v1/locks/a/release", mine).problem(409, "not_held");
        assert_eq!(holders(), 1, "nobody came in beside the reader");
    }
    // Of several readers, each is known by its owner.
    let second = service.post("/v1/locks/a/try", &json!({ "mode": "shared" })).good();
    assert_eq!(service.post("/v1/locks/a/renew", &json!({ "owner": next["owner"] })).good()["ttl_ms"], 30_000);
    service.post("/v1/locks/a/release", &json!({ "owner": next["owner"] })).good();
    service.post("/v1/locks/a/release", &json!({ "owner": second["owner"] })).good();

    let next = service.post("/v1/locks/a/try", &json!({})).good();
    for mine in [&writer, &reader] {
        service.post("/v1/locks/a/renew", mine).problem(409, "not_held");
        service.post("/v1/locks/a/release", mine).problem(409, "not_held");
    }
    let token = next["token"].as_str().expect("text");
    assert_eq!(service.get(&format!("/v1/locks/a/tokens/{token}")).good()["current"], token);
    service.post("/v1/locks/a/release", &next).good();
}

#[test]
fn an_array_is_no_object() {
    let service = service();
    for path in ["try", "renew", "release", "force-release", "ask"] {
        service.post(&format!("/v1/locks/a/{path}"), &json!([])).problem(400, "invalid");
    }
    let claim = json!({ "permits": 2, "take": 1 });
    let lease = service.post("/v1/semaphores/s/try", &claim).good();
    let permit = &lease["permits"][0];
    let rows = json!({ "owner": lease["owner"], "permits": [[permit["slot"], permit["token"]]] });
    service.post("/v1/semaphores/s/release", &rows).problem(400, "invalid");
    service.post("/v1/semaphores/s/release", &json!({ "owner": lease["owner"], "permits": [permit] })).good();
}

#[test]
fn an_older_token_is_stale() {
    let service = service();
    let first = service.post("/v1/locks/a/try", &json!({})).good();
    let check = |lease: &Value| service.get(&format!("/v1/locks/a/tokens/{}", lease["token"].as_str().expect("text")));
    assert_eq!(check(&first).good()["current"], first["token"]);
    service.post("/v1/locks/a/release", &first).good();
    let second = service.post("/v1/locks/a/try", &json!({})).good();
    assert_eq!(check(&first).problem(412, "stale")["seen"], second["token"]);
    check(&second).good();
}

#[test]
fn a_waiter_has_the_lock_when_it_is_released_and_a_wait_ends_in_time() {
    let service = service();
    let first = service.post("/v1/locks/a/try", &json!({ "label": "one" })).good();
    let held = service.post("/v1/locks/a/acquire", &json!({ "wait_ms": 50 })).problem(423, "held");
    assert!(held["waited_ms"].as_u64().expect("a number") >= 50, "{held}");
    assert_eq!(held["holder"]["label"], "one");

    let waits = service.open("/v1/locks/a/acquire", &[], Some(&json!({ "ttl_ms": 20_000, "wait_ms": 60_000 })));
    service.await_waiters("a", 1);
    service.post("/v1/locks/a/release", &first).good();
    let second = waits.answer().good();
    let number = |lease: &Value| lease["token"].as_str().and_then(|token| token.parse::<u64>().ok()).expect("digits");
    assert!(number(&second) > number(&first));
    // It lasts for its whole ttl, not only for what a hand-over lasts.
    let left = service.get("/v1/locks/a").good()["holders"][0]["expires_in_ms"].as_u64().expect("a number");
    assert!(left > 15_000, "{left}");
}

#[test]
fn a_waiter_whose_connection_breaks_is_out_of_the_line_at_once() {
    // Time stands still: nobody leaves the line because its place is over.
    let clock = VirtualClock::new();
    let service = Replica::of(store::connect(|at| Ok(vec![Memory::new(at.clock)])).clock(&clock));
    let first = service.post("/v1/locks/a/try", &json!({})).good();
    let body = json!({ "wait_ms": 60_000, "label": "gone" });
    let gone = service.open("/v1/locks/a/acquire", &[], Some(&body));
    service.await_waiters("a", 1);
    let stays = service.open("/v1/locks/a/acquire", &[], Some(&json!({ "wait_ms": 60_000, "label": "stays" })));
    service.await_waiters("a", 2);
    let streams = service.open("/v1/locks/a/acquire", &[("accept", "text/event-stream")], Some(&body));
    service.await_waiters("a", 3);
    drop(gone);
    drop(streams);
    service.await_waiters("a", 1);
    service.post("/v1/locks/a/release", &first).good();
    stays.answer().good();
    assert_eq!(service.get("/v1/locks/a").good()["holders"][0]["label"], "stays");
}

#[test]
fn a_stream_tells_that_it_waits_and_then_the_lease() {
    let service = service();
    let first = service.post("/v1/locks/a/try", &json!({ "label": "one" })).good();
    let body = json!({ "wait_ms": 60_000 });
    let mut stream = service.open("/v1/locks/a/acquire", &[("accept", "text/event-stream")], Some(&body));
    assert!(stream.head().starts_with("HTTP/1.1 200"));
    let (kind, data, _) = stream.event();
    assert_eq!((kind.as_str(), &data["holder"]["label"]), ("waiting", &json!("one")));
    assert!(data["ticket"].is_string());
    service.post("/v1/locks/a/release", &first).good();
    let (kind, lease, _) = stream.event();
    assert_eq!(kind, "granted");
    service.post("/v1/locks/a/release", &lease).good();

    let first = service.post("/v1/locks/a/try", &json!({})).good();
    let body = json!({ "wait_ms": 50 });
    let mut stream = service.open("/v1/locks/a/acquire", &[("accept", "text/event-stream")], Some(&body));
    stream.head();
    let kinds: Vec<String> = (0..2).map(|_| stream.event().0).collect();
    assert_eq!(kinds, ["waiting", "problem"]);
    service.post("/v1/locks/a/release", &first).good();
}

#[test]
fn a_repeated_request_is_the_same_claim() {
    let service = service();
    let key = [("idempotency-key", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6")];
    let ask =
        |headers: &[(&str, &str)], body: &Value| service.open("/v1/locks/a/acquire", headers, Some(body)).answer();
    let first = ask(&key, &json!({})).good();
    assert_eq!(ask(&key, &json!({})).good(), first, "the same owner, the same token");
    ask(&[("idempotency-key", "another")], &json!({})).problem(423, "held");
    service.post("/v1/locks/a/release", &first).good();
    // A key stands for a claim on one lock.
    let other = service.open("/v1/locks/b/acquire", &key, Some(&json!({}))).answer().good();
    assert_ne!(other["owner"], first["owner"]);

    let chosen = json!({ "owner": owner('3') });
    let first = ask(&[], &chosen).good();
    assert_eq!(first["owner"], owner('3'));
    assert_eq!(ask(&[], &chosen).good(), first);
    for bad in [json!({ "owner": "short" }), json!({ "owner": owner('x') })] {
        let problem = ask(&[], &bad).problem(400, "invalid");
        assert_eq!((problem["field"].as_str(), problem["value"].as_str()), (Some("owner"), Some("(hidden)")));
    }
}

#[test]
fn a_release_that_is_sent_again_ends_no_newer_grant_of_its_key() {
    let service = service();
    let key = [("idempotency-key", "order 7")];
    let acquire = || service.open("/v1/locks/a/acquire", &key, Some(&json!({}))).answer().good();
    let first = acquire();
    service.post("/v1/locks/a/release", &first).good();
    let second = acquire();
    assert_eq!(second["owner"], first["owner"]);
    service.post("/v1/locks/a/release", &first).problem(409, "not_held");
    assert_eq!(service.get("/v1/locks/a").good()["holders"][0]["token"], second["token"]);
    service.post("/v1/locks/a/release", &second).good();
}

#[test]
fn a_renewal_brings_no_lease_back_that_is_over_or_was_never_granted() {
    let service = service();
    let lease = service.post("/v1/locks/a/try", &json!({})).good();
    service.post("/v1/locks/a/release", &lease).good();
    let stranger = json!({ "owner": owner('5'), "token": lease["token"] });
    service.post("/v1/locks/a/renew", &stranger).problem(409, "not_held");
    service.post("/v1/locks/never-used/renew", &json!({ "owner": owner('5'), "token": "9" })).problem(409, "not_held");
    for lock in ["a", "never-used"] {
        assert_eq!(service.get(&format!("/v1/locks/{lock}")).good()["holders"], json!([]), "{lock}");
    }
}

#[test]
fn a_repeat_takes_the_place_of_the_request_that_waits() {
    let service = service();
    let first = service.post("/v1/locks/a/try", &json!({})).good();
    let body = json!({ "owner": owner('4'), "wait_ms": 60_000 });
    let waits = service.open("/v1/locks/a/acquire", &[], Some(&body));
    service.await_waiters("a", 1);
    let again = service.open("/v1/locks/a/acquire", &[], Some(&body));
    waits.answer().problem(409, "superseded");
    service.await_waiters("a", 1);
    service.post("/v1/locks/a/release", &first).good();
    assert_eq!(again.answer().good()["owner"], owner('4'));
}

#[test]
fn a_release_takes_a_waiting_claim_out_of_the_line() {
    let service = service();
    service.post("/v1/locks/a/try", &json!({})).good();
    let body = json!({ "owner": owner('4'), "wait_ms": 60_000 });
    let waits = service.open("/v1/locks/a/acquire", &[], Some(&body));
    service.await_waiters("a", 1);
    service.post("/v1/locks/a/release", &json!({ "owner": owner('4'), "token": "1" })).problem(409, "not_held");
    waits.answer().problem(409, "superseded");
    service.await_waiters("a", 0);
}

#[test]
fn readers_hold_together_and_a_writer_becomes_a_reader_by_renewing() {
    let service = service();
    let mut writer = service.post("/v1/locks/a/try", &json!({})).good();
    service.post("/v1/locks/a/try", &json!({ "mode": "shared" })).problem(423, "held");
    writer["mode"] = json!("shared");
    service.post("/v1/locks/a/renew", &writer).good();
    let reader = service.post("/v1/locks/a/try", &json!({ "mode": "shared" })).good();
    assert!(reader["token"].as_str().expect("text").starts_with('r'), "{reader}");
    service.post("/v1/locks/a/try", &json!({})).problem(423, "held");
    service.post("/v1/locks/a/renew", &json!({ "owner": reader["owner"] })).good();
    service.post("/v1/locks/a/renew", &reader).good();
    for lease in [&reader, &writer] {
        service.post("/v1/locks/a/release", lease).good();
    }
    service.post("/v1/locks/a/try", &json!({})).good();
}

#[test]
fn who_is_thrown_out_or_asked_hears_of_it_with_the_next_renewal() {
    let service = service();
    let lease = service.post("/v1/locks/a/try", &json!({ "label": "one" })).good();
    let asked = service.post("/v1/locks/a/ask", &json!({ "note": "backup", "label": "two" })).good();
    assert_eq!(asked["holder"]["label"], "one");
    let renewed = service.post("/v1/locks/a/renew", &lease).good();
    assert_eq!(
        (&renewed["yield_requested"]["by"], &renewed["yield_requested"]["note"]),
        (&json!("two"), &json!("backup"))
    );

    let others = json!({ "reason": "stuck", "token": "1" });
    service.post("/v1/locks/a/force-release", &others).problem(409, "not_held");
    service.post("/v1/locks/a/renew", &lease).good();
    let meant = json!({ "reason": "stuck", "token": lease["token"] });
    let forced = service.post("/v1/locks/a/force-release", &meant).good();
    assert_eq!(forced["holder"]["label"], "one");
    assert_eq!(service.post("/v1/locks/a/renew", &lease).problem(409, "not_held")["reason"], "revoked");
    service.post("/v1/locks/a/force-release", &meant).problem(409, "not_held");
    assert_eq!(service.post("/v1/locks/a/force-release", &json!({})).good()["holder"], Value::Null);
    assert_eq!(service.post("/v1/locks/a/ask", &json!({})).good()["holder"], Value::Null);
}

#[test]
fn locks_are_listed_by_prefix_page_by_page() {
    let service = service();
    for name in ["x%2F1", "x%2F2", "x%2F3", "y"] {
        service.post(&format!("/v1/locks/{name}/try"), &json!({})).good();
    }
    let names = |page: &Value| -> Vec<String> {
        let locks = page["locks"].as_array().expect("a list");
        locks.iter().map(|state| state["name"].as_str().expect("text").to_owned()).collect()
    };
    let page = service.get("/v1/locks?prefix=x%2F&limit=2").good();
    assert_eq!((names(&page), page["next"].as_str()), (vec!["x/1".to_owned(), "x/2".to_owned()], Some("x/2")));
    let page = service.get("/v1/locks?prefix=x%2F&limit=2&after=x%2F2").good();
    assert_eq!((names(&page), page.get("next")), (vec!["x/3".to_owned()], None));
    assert_eq!(names(&service.get("/v1/locks?contended=true").good()), Vec::<String>::new());
}

#[test]
fn a_wait_that_closes_a_circle_of_actors_fails_if_it_asked_for_that() {
    let service = service();
    let (one, two) = ("00000000000000a1", "00000000000000a2");
    service.post("/v1/locks/a/try", &json!({ "actor": one })).good();
    let second = service.post("/v1/locks/b/try", &json!({ "actor": two })).good();
    let waits = service.open("/v1/locks/b/acquire", &[], Some(&json!({ "actor": one, "wait_ms": 60_000 })));
    service.await_waiters("b", 1);
    let closes = json!({ "actor": two, "wait_ms": 60_000, "fail_on_deadlock": true });
    let problem = service.post("/v1/locks/a/acquire", &closes).problem(409, "deadlock");
    assert_eq!(problem["cycle"].as_array().map(Vec::len), Some(2));
    service.post("/v1/locks/b/release", &second).good();
    waits.answer().good();
    assert_eq!(service.get("/v1/deadlocks").good(), json!({ "deadlocks": [] }));
}

#[test]
fn what_makes_no_sense_is_refused_with_a_problem() {
    let service = service();
    let long = "x".repeat(300);
    for (path, body, field) in [
        ("/v1/locks/a/try", json!({ "ttl_ms": 1 }), "ttl"),
        ("/v1/locks/a/try", json!({ "ttl_ms": u64::MAX }), "ttl_ms"),
        ("/v1/locks/a/try", json!({ "wait_ms": 5 }), "wait_ms"),
        ("/v1/locks/a/acquire", json!({ "wait_ms": 86_400_000 }), "wait_ms"),
        ("/v1/locks/a/try", json!({ "ttl": 5000 }), "body"),
        ("/v1/locks/a/try", json!({ "mode": "both" }), "body"),
        ("/v1/locks/a/try", json!({ "actor": "me" }), "actor"),
        ("/v1/locks/a/try", json!({ "label": long }), "label"),
        ("/v1/locks/a/acquire", json!({ "ticket": "r1" }), "ticket"),
        ("/v1/locks/a%0Ab/try", json!({}), "name"),
        (&format!("/v1/locks/{long}/try"), json!({}), "name"),
        ("/v1/locks/a/ask", json!({ "note": long }), "note"),
        ("/v1/semaphores/s/try", json!({ "permits": 0 }), "permits"),
        ("/v1/semaphores/s/try", json!({ "permits": 2, "take": 3 }), "take"),
        ("/v1/batches/try", json!({ "names": [] }), "names"),
        ("/v1/batches/try", json!({ "names": ["a", "a"] }), "names"),
        ("/v1/elections/e/campaign", json!({ "payload": long }), "payload"),
    ] {
        let problem = service.post(path, &body).problem(400, "invalid");
        assert_eq!(problem["field"], field, "{path} {body}: {problem}");
    }
    service.get("/v1/locks?limit=many").problem(400, "invalid");
    service.get("/v1/locks/a/tokens/zero").problem(400, "invalid");
    service.get("/nowhere").problem(404, "no_route");
    service.get("/v1/locks/a/try").problem(405, "method");
    service.post("/v1/locks/a/try", &json!({ "label": "x".repeat(20_000) })).problem(413, "too_large");
    assert_eq!(service.get("/v1/locks").good(), json!({ "locks": [] }), "nothing was locked");
}

#[test]
fn whoever_waits_is_told_to_ask_elsewhere_when_the_service_ends() {
    let mut service = service();
    service.post("/v1/locks/a/try", &json!({})).good();
    let waits = service.open("/v1/locks/a/acquire", &[], Some(&json!({ "wait_ms": 60_000 })));
    let stream = [("accept", "text/event-stream")];
    let mut streams = service.open("/v1/locks/a/acquire", &stream, Some(&json!({ "wait_ms": 60_000 })));
    let mut events: Open = service.open("/v1/events", &[], None);
    service.await_waiters("a", 2);
    service.stop();
    waits.answer().problem(503, "shutting_down");
    streams.head();
    assert_eq!(streams.event().0, "waiting");
    assert_eq!(streams.event().1["code"], "shutting_down");
    events.head();
    loop {
        let (kind, data, _) = events.event();
        if kind == "problem" {
            assert_eq!(data["code"], "shutting_down");
            break;
        }
    }
}

#[test]
fn two_replicas_exclude_each_other_and_either_renews_what_the_other_granted() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("locks.db").to_str().expect("UTF-8").to_owned();
    let [one, two] = [(), ()].map(|()| Replica::of(fencepost_sqlite::connect(&file)));
    let lease = one.post("/v1/locks/a/try", &json!({ "ttl_ms": 20_000 })).good();
    two.post("/v1/locks/a/try", &json!({})).problem(423, "held");
    two.post("/v1/locks/a/renew", &lease).good();
    let waits = one.open("/v1/locks/a/acquire", &[], Some(&json!({ "wait_ms": 60_000 })));
    two.await_waiters("a", 1);
    two.post("/v1/locks/a/release", &lease).good();
    let lease = waits.answer().good();
    // The same key is the same claim at either of them.
    two.post("/v1/locks/a/release", &lease).good();
    let key = [("idempotency-key", "k-1")];
    let first = one.open("/v1/locks/a/acquire", &key, Some(&json!({}))).answer().good();
    assert_eq!(two.open("/v1/locks/a/acquire", &key, Some(&json!({}))).answer().good(), first);
    until("the file is known to be shared", || two.get("/v1/locks/a").good()["holders"][0]["token"] == first["token"]);
}
