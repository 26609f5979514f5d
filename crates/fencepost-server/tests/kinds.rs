//! Semaphores, several names, elections, records and events by HTTP.

mod common;

use common::Replica;
use fencepost_core::store::{self, Memory};
use serde_json::{Value, json};

fn service() -> Replica {
    Replica::of(store::connect(|at| Ok(vec![Memory::new(at.clock)])))
}

#[test]
fn no_more_permits_are_held_than_there_are() {
    let service = service();
    let two = service.post("/v1/semaphores/s/try", &json!({ "permits": 3, "take": 2 })).good();
    assert_eq!(two["permits"].as_array().map(Vec::len), Some(2));
    service.post("/v1/semaphores/s/try", &json!({ "permits": 3, "take": 2 })).problem(423, "held");
    let one = service.post("/v1/semaphores/s/try", &json!({ "permits": 3 })).good();
    assert_ne!(one["owner"], two["owner"]);
    service.post("/v1/semaphores/s/renew", &two).good();
    let waits = service.open("/v1/semaphores/s/acquire", &[], Some(&json!({ "permits": 3, "wait_ms": 60_000 })));
    service.await_waiters("s%2Fpermit%230", 1);
    service.post("/v1/semaphores/s/release", &two).good();
    waits.answer().good();
    service.post("/v1/semaphores/s/renew", &two).problem(409, "not_held");
    service.post("/v1/semaphores/s/release", &two).problem(409, "not_held");
    service.post("/v1/semaphores/s/release", &json!({ "owner": one["owner"], "permits": [] })).problem(400, "invalid");
}

#[test]
fn a_batch_that_is_asked_for_again_is_the_same_and_permits_cannot_be() {
    let service = service();
    let key = [("idempotency-key", "5f2c")];
    let claim = json!({ "names": ["b", "a"], "ttl_ms": 20_000 });
    let taken = |body: &Value| service.open("/v1/batches/try", &key, Some(body)).answer();
    let first = taken(&claim).good();
    assert_eq!(taken(&claim).good(), first);
    service.post("/v1/batches/try", &claim).problem(423, "held");
    let chosen = json!({ "names": ["c", "d"], "owner": "7".repeat(40) });
    let second = service.post("/v1/batches/acquire", &chosen).good();
    assert_eq!(service.post("/v1/batches/acquire", &chosen).good(), second);
    for lease in [&first, &second] {
        service.post("/v1/batches/renew", lease).good();
        service.post("/v1/batches/release", lease).good();
    }
    service.post("/v1/batches/try", &claim).good();
    let permits = service.open("/v1/semaphores/s/try", &key, Some(&json!({ "permits": 2 }))).answer();
    assert_eq!(permits.problem(400, "invalid")["field"], "Idempotency-Key");
}

#[test]
fn several_names_are_held_each_under_its_own_token_or_none() {
    let service = service();
    let held = service.post("/v1/locks/b/try", &json!({})).good();
    service.post("/v1/batches/try", &json!({ "names": ["a", "b"] })).problem(423, "held");
    service.post("/v1/locks/a/try", &json!({ "ttl_ms": 500 })).good();
    let waits = service.open("/v1/batches/acquire", &[], Some(&json!({ "names": ["b", "c"], "wait_ms": 60_000 })));
    service.await_waiters("b", 1);
    service.post("/v1/locks/b/release", &held).good();
    let batch = waits.answer().good();
    assert_eq!(
        batch["tokens"].as_object().map(|tokens| tokens.keys().cloned().collect()),
        Some(vec!["b".to_owned(), "c".to_owned()])
    );
    service.post("/v1/batches/renew", &batch).good();
    service.post("/v1/locks/c/try", &json!({})).problem(423, "held");
    service.post("/v1/batches/release", &batch).good();
    service.post("/v1/locks/c/try", &json!({})).good();
    service.post("/v1/batches/renew", &batch).problem(409, "not_held");
}

#[test]
fn a_leader_is_seen_with_its_payload_and_observers_see_each_change() {
    let service = service();
    let mut observer = service.open("/v1/elections/e/observe", &[], None);
    observer.head();
    assert_eq!(observer.event(), ("leader".to_owned(), Value::Null, String::new()));
    let lease = service.post("/v1/elections/e/campaign", &json!({ "payload": "10.0.0.7:80", "label": "one" })).good();
    let (_, leader, _) = observer.event();
    assert_eq!((&leader["payload"], &leader["token"]), (&json!("10.0.0.7:80"), &lease["token"]));
    service.post("/v1/elections/e/campaign", &json!({})).problem(423, "held");
    let next = service.open("/v1/elections/e/campaign", &[], Some(&json!({ "wait_ms": 60_000, "label": "two" })));
    service.await_waiters("e", 1);
    let seen = service.get("/v1/elections/e").good();
    assert_eq!((&seen["leader"]["label"], &seen["candidates"][0]["label"]), (&json!("one"), &json!("two")));
    service.post("/v1/elections/e/renew", &lease).good();
    service.post("/v1/elections/e/resign", &lease).good();
    next.answer().good();
    service.post("/v1/elections/e/resign", &lease).problem(409, "not_held");
}

#[test]
fn a_record_is_written_by_the_newest_token_only() {
    let service = service();
    assert_eq!(service.get("/v1/locks/a/record").good(), json!({ "record": null }));
    let old = service.post("/v1/locks/a/try", &json!({})).good();
    service.post("/v1/locks/a/release", &old).good();
    let new = service.post("/v1/locks/a/try", &json!({})).good();
    let put = |lease: &Value, value: &str| {
        service.put("/v1/locks/a/record", &json!({ "token": lease["token"], "value": value, "keep_ms": 60_000 }))
    };
    put(&old, "b2xk").good();
    service.post("/v1/locks/a/record/seal", &json!({ "token": new["token"] })).good();
    assert_eq!(put(&old, "b2xk").problem(412, "stale")["seen"], new["token"]);
    put(&new, "bmV3").good();
    assert_eq!(service.get("/v1/locks/a/record").good()["record"]["value"], "bmV3");
    put(&new, "no base64!").problem(400, "invalid");
    let large = "A".repeat(512 * 1024 * 4 / 3 + 4);
    put(&new, &large).problem(400, "invalid");
}

#[test]
fn events_go_on_where_they_were_and_say_what_was_missed() {
    let service = service();
    let mut events = service.open("/v1/events?prefix=a", &[], None);
    events.head();
    // Once somebody listens: the first event comes from what happens after that.
    let (first, id) = loop {
        service.post("/v1/locks/a1/try", &json!({}));
        let (kind, data, id) = events.event();
        if kind == "acquired" {
            break (data, id);
        }
    };
    assert_eq!(first["name"], "a1");
    drop(events);
    service.post("/v1/locks/b/try", &json!({})).good();
    let lease = service.post("/v1/locks/a2/try", &json!({})).good();

    let mut events = service.open("/v1/events?prefix=a2", &[("last-event-id", &id)], None);
    events.head();
    let (kind, data, _) = events.event();
    assert_eq!((kind.as_str(), &data["name"]), ("asked", &json!("a2")), "what happened while nobody listened");
    loop {
        let (kind, data, _) = events.event();
        assert_eq!(data["name"], "a2");
        if kind == "acquired" {
            assert_eq!(data["token"], lease["token"]);
            break;
        }
    }
    let mut events = service.open("/v1/events", &[("last-event-id", "another-7")], None);
    events.head();
    assert_eq!(events.event().0, "missed");
}

#[test]
fn the_store_says_what_it_can_do_and_the_interface_describes_itself() {
    let service = service();
    let nodes = service.get("/v1/nodes").good();
    assert_eq!((&nodes["fifo"], &nodes["records"]), (&json!(true), &json!(true)));
    assert_eq!(nodes["nodes"][0]["vote"], "granted");
    let described = service.get("/openapi.json").good();
    assert!(
        described["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")),
        "{}",
        described["openapi"]
    );
    assert!(described["paths"]["/v1/locks/{id}/acquire"]["post"].is_object());
}
