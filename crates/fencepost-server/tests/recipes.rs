//! Jobs and keys by HTTP, with two replicas in front of one store: begun at one, finished at the other.

mod common;

use std::time::Duration;

use common::{Replica, until};
use fencepost_core::{Blocking as _, Connect, Once};
use fencepost_testkit::redis::Redis;
use serde_json::{Value, json};

/// Two replicas, and a connection of the library's own, on each store.
fn each(story: impl Fn(&Replica, &Replica, &dyn Fn() -> Connect)) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("locks.db").to_str().expect("UTF-8").to_owned();
    let server = Redis::new().start();
    let rest = format!("//{}", server.address());
    let stores: [&dyn Fn() -> Connect; 2] =
        [&|| fencepost_sqlite::connect(&file), &|| fencepost_redis::connect("redis", &rest)];
    for connect in stores {
        story(&Replica::of(connect()), &Replica::of(connect()), connect);
    }
}

const DAY_MS: u64 = 24 * 3600 * 1000;
const HASH: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn finish(lease: &Value) -> Value {
    json!({ "owner": lease["owner"], "token": lease["token"] })
}

#[test]
fn a_window_runs_once_whoever_asks_and_wherever_it_is_finished() {
    each(|one, two, connect| {
        let daily = json!({ "every_ms": DAY_MS, "label": "one" });
        let lease = one.post("/v1/windows/report/start", &daily).good();
        assert!(lease["window"].as_str().is_some_and(|began| began.ends_with("T00:00:00.000Z")), "{lease}");
        assert_eq!(lease["name"], "cron/report");
        let held = two.post("/v1/windows/report/start", &daily).problem(423, "held");
        assert_eq!(held["holder"]["label"], "one");
        assert_eq!(two.get("/v1/windows/report").good()["running"]["label"], "one");

        two.post("/v1/windows/report/renew", &lease).good();
        // The lease as it came is enough to say that all went well.
        assert_eq!(two.post("/v1/windows/report/finish", &lease).good(), json!({}));
        one.post("/v1/windows/report/finish", &lease).good();
        one.post("/v1/windows/report/start", &daily).problem(409, "done");

        let state = one.get("/v1/windows/report").good();
        assert_eq!((&state["failed"], &state["running"]), (&Value::Null, &Value::Null));
        assert_eq!(state["last_window"], lease["window"]);
        assert!(state["next"].as_str() > state["last_run"].as_str(), "{state}");
        // The library sees the same job.
        let locks = connect().block().expect("a store");
        let job = locks.once_per_window("report", Duration::from_millis(DAY_MS));
        let ran = job.run(async |_: &_| Ok::<_, std::io::Error>(())).block().expect("an answer");
        assert_eq!(ran, None, "it has run today");
    });
}

#[test]
fn a_run_that_failed_is_done_and_says_why() {
    each(|one, two, _| {
        let lease = one.post("/v1/windows/import/start", &json!({ "window": "2026-11-16" })).good();
        assert_eq!(lease["window"], "2026-11-16");
        let mut failed = finish(&lease);
        failed["error"] = json!("no such file");
        two.post("/v1/windows/import/finish", &failed).good();
        one.post("/v1/windows/import/start", &json!({ "window": "2026-11-16" })).problem(409, "done");
        assert_eq!(one.get("/v1/windows/import").good()["failed"], "no such file");
        let next = one.post("/v1/windows/import/start", &json!({ "window": "2026-11-17" })).good();
        two.post("/v1/windows/import/finish", &finish(&next)).good();
        assert_eq!(two.get("/v1/windows/import").good()["failed"], Value::Null);
    });
}

#[test]
fn a_runner_that_died_is_followed_by_another_and_its_late_end_is_refused() {
    each(|one, two, _| {
        let once = json!({ "window": "w", "ttl_ms": 1000 });
        let dead = one.post("/v1/windows/job/start", &once).good();
        two.post("/v1/windows/job/start", &once).problem(423, "held");
        let mut next = Value::Null;
        until("its lease is over", || {
            let answer = two.post("/v1/windows/job/start", &json!({ "window": "w" }));
            next = answer.body;
            answer.status == 200
        });
        let stale = one.post("/v1/windows/job/finish", &finish(&dead)).problem(412, "stale");
        assert_eq!(stale["seen"], next["token"]);
        one.post("/v1/windows/job/renew", &dead).problem(409, "not_held");
        // Whoever knows the token but not the secret finishes nothing.
        let stranger = json!({ "owner": "7".repeat(40), "token": next["token"] });
        one.post("/v1/windows/job/finish", &stranger).problem(409, "not_held");
        one.post("/v1/windows/job/finish", &finish(&next)).good();
        two.post("/v1/windows/job/start", &once).problem(409, "done");
    });
}

#[test]
fn a_run_that_takes_too_long_is_told_to_stop_and_counts_as_failed() {
    each(|one, two, _| {
        let lease = one.post("/v1/windows/slow/start", &json!({ "window": "w", "at_most_ms": 300 })).good();
        assert_eq!(lease["max_hold_ms"], 300);
        let mut refused = Value::Null;
        until("it was held for so long", || {
            // Whether or not the client says so: the run was begun with a limit.
            let answer = two.post("/v1/windows/slow/renew", &finish(&lease));
            refused = answer.body;
            answer.status == 409
        });
        assert_eq!((&refused["code"], &refused["reason"]), (&json!("not_held"), &json!("hold_limit")));
        assert_eq!(one.get("/v1/windows/slow").good()["failed"], "stopped after 300ms");
        // Whoever did not hear it hears it again, and keeps nothing.
        two.post("/v1/windows/slow/renew", &finish(&lease)).problem(409, "not_held");
        one.post("/v1/windows/slow/start", &json!({ "window": "w" })).problem(409, "done");
    });
}

#[test]
fn work_may_take_longer_than_its_outcome_is_kept() {
    each(|one, two, _| {
        let brief = json!({ "payload_hash": HASH, "keep_ms": 1 });
        let lease = one.post("/v1/records/brief/start", &brief).good()["lease"].clone();
        let mut done = finish(&lease);
        done["result"] = json!(1);
        two.post("/v1/records/brief/finish", &done).good();
        until("it is forgotten", || one.post("/v1/records/brief/start", &brief).good()["state"] == "run");
    });
}

/// A request to begin that was held up on its way.
#[test]
fn what_begins_work_and_comes_late_does_not_undo_its_outcome() {
    each(|one, two, connect| {
        let locks = connect().block().expect("a store");
        let lease = one.post("/v1/records/late/start", &json!({ "payload_hash": HASH })).good()["lease"].clone();
        let begun = locks.records().read("once/late").block().expect("an answer").expect("begun");
        let mut done = finish(&lease);
        done["result"] = json!("paid");
        two.post("/v1/records/late/finish", &done).good();
        let again = locks.records().put("once/late", begun.token, begun.value, Duration::from_secs(60)).block();
        assert!(again.is_err(), "it is older than the outcome");
        let told = one.post("/v1/records/late/start", &json!({ "payload_hash": HASH })).good();
        assert_eq!((&told["state"], &told["result"]), (&json!("done"), &json!("paid")));
    });
}

#[test]
fn a_job_rests_for_as_long_as_it_was_told() {
    each(|one, two, _| {
        let ask = |at_least: u64, window: &str| json!({ "window": window, "at_least_ms": at_least });
        let lease = one.post("/v1/windows/rests/start", &ask(DAY_MS, "a")).good();
        two.post("/v1/windows/rests/finish", &finish(&lease)).good();
        two.post("/v1/windows/rests/start", &ask(0, "b")).problem(409, "done");
        let lease = one.post("/v1/windows/brief/start", &ask(400, "a")).good();
        two.post("/v1/windows/brief/finish", &finish(&lease)).good();
        until("it has rested", || two.post("/v1/windows/brief/start", &ask(0, "b")).status == 200);
    });
}

#[test]
fn a_start_that_is_sent_again_is_the_same_run() {
    each(|one, two, _| {
        let mine = json!({ "window": "w", "owner": "5".repeat(40) });
        let lease = one.post("/v1/windows/again/start", &mine).good();
        assert_eq!(two.post("/v1/windows/again/start", &mine).good()["token"], lease["token"]);
        let key = json!({ "payload_hash": HASH, "owner": "6".repeat(40) });
        let started = one.post("/v1/records/again/start", &key).good();
        assert_eq!(two.post("/v1/records/again/start", &key).good(), started);
    });
}

#[test]
fn work_for_a_key_is_done_once_and_all_others_get_its_result() {
    each(|one, two, connect| {
        let ask = json!({ "payload_hash": HASH, "label": "one" });
        let started = one.post("/v1/records/order-17/start", &ask).good();
        assert_eq!(started["state"], "run");
        let lease = &started["lease"];
        two.post("/v1/records/order-17/start", &ask).problem(423, "held");
        let other = json!({ "payload_hash": "0".repeat(64) });
        two.post("/v1/records/order-17/start", &other).problem(422, "other_payload");
        two.post("/v1/records/order-17/renew", lease).good();

        let waits = json!({ "payload_hash": HASH, "wait_ms": 60_000 });
        let waits = one.open("/v1/records/order-17/start", &[], Some(&waits));
        one.await_waiters("once%2Forder-17", 1);
        let mut done = finish(lease);
        done["result"] = json!({ "receipt": 1 });
        two.post("/v1/records/order-17/finish", &done).good();
        let replayed = json!({ "state": "done", "result": { "receipt": 1 } });
        assert_eq!(waits.answer().good(), replayed);
        assert_eq!(one.post("/v1/records/order-17/start", &ask).good(), replayed);
        one.post("/v1/records/order-17/finish", &done).good();
        assert_eq!(two.get("/v1/locks/once%2Forder-17").good()["holders"], json!([]));
        // The library sees the same key: the payload is `hello`.
        let locks = connect().block().expect("a store");
        let work = async |_: &_| Ok::<_, std::io::Error>(Value::Null);
        let found = locks.once_per_key("order-17", "hello").run(work).block().expect("an answer");
        assert_eq!(found, Once::Replayed(json!({ "receipt": 1 })));
    });
}

#[test]
fn after_a_failure_the_next_caller_works_unless_it_is_kept() {
    each(|one, two, _| {
        let ask = json!({ "payload_hash": HASH });
        let first = one.post("/v1/records/k/start", &ask).good();
        let mut failed = finish(&first["lease"]);
        failed["error"] = json!("no funds");
        two.post("/v1/records/k/finish", &failed).good();
        let second = one.post("/v1/records/k/start", &ask).good();
        assert_eq!(second["state"], "run");
        one.post("/v1/records/k/finish", &failed).problem(412, "stale");
        let mut kept = finish(&second["lease"]);
        (kept["error"], kept["keep_failure"]) = (json!("no account"), json!(true));
        two.post("/v1/records/k/finish", &kept).good();
        let told = json!({ "state": "failed", "error": "no account" });
        assert_eq!(one.post("/v1/records/k/start", &ask).good(), told);
        // `null` is a result.
        let lease = one.post("/v1/records/n/start", &ask).good()["lease"].clone();
        two.post("/v1/records/n/finish", &finish(&lease)).problem(400, "invalid");
        let mut done = finish(&lease);
        done["result"] = Value::Null;
        two.post("/v1/records/n/finish", &done).good();
        assert_eq!(two.post("/v1/records/n/start", &ask).good(), json!({ "state": "done", "result": null }));
    });
}

#[test]
fn a_worker_that_died_is_followed_by_another() {
    each(|one, two, _| {
        let dead = one.post("/v1/records/k/start", &json!({ "payload_hash": HASH, "ttl_ms": 1000 })).good();
        let next = two.post("/v1/records/k/start", &json!({ "payload_hash": HASH, "wait_ms": 60_000 })).good();
        assert_eq!(next["state"], "run");
        let mut late = finish(&dead["lease"]);
        late["result"] = json!("late");
        assert_eq!(one.post("/v1/records/k/finish", &late).problem(412, "stale")["seen"], next["lease"]["token"]);
        let mut done = finish(&next["lease"]);
        done["result"] = json!("in time");
        one.post("/v1/records/k/finish", &done).good();
        assert_eq!(two.post("/v1/records/k/start", &json!({ "payload_hash": HASH })).good()["result"], "in time");
    });
}

#[test]
fn a_lock_is_renewed_for_as_long_as_its_claim_said() {
    each(|one, two, _| {
        let lease = one.post("/v1/locks/a/try", &json!({ "max_hold_ms": 300 })).good();
        assert_eq!(lease["max_hold_ms"], 300);
        let mut refused = Value::Null;
        until("it was held for so long", || {
            let answer = two.post("/v1/locks/a/renew", &lease);
            refused = answer.body;
            answer.status == 409
        });
        assert_eq!(refused["reason"], "hold_limit");
        // It is held still, for what its last renewal gave it: time to stop.
        let before = one.get("/v1/locks/a").good()["holders"][0]["expires_in_ms"].as_u64().expect("held");
        two.post("/v1/locks/a/renew", &lease).problem(409, "not_held");
        let after = one.get("/v1/locks/a").good()["holders"][0]["expires_in_ms"].as_u64().expect("held");
        assert!(after <= before, "{after} > {before}");
        // Nobody else learns how long it is held.
        let mut stranger = lease.clone();
        stranger["owner"] = json!("7".repeat(40));
        assert_eq!(two.post("/v1/locks/a/renew", &stranger).problem(409, "not_held").get("reason"), None);
        two.post("/v1/locks/a/release", &lease).good();

        for (route, claim) in [
            ("semaphores/s", json!({ "permits": 2, "max_hold_ms": 1 })),
            ("batches", json!({ "names": ["x", "y"], "max_hold_ms": 1 })),
        ] {
            let lease = one.post(&format!("/v1/{route}/try"), &claim).good();
            until("refused", || {
                let answer = two.post(&format!("/v1/{route}/renew"), &lease);
                answer.body["reason"] == "hold_limit"
            });
        }
        // A leader leads for as long as it likes, unless told.
        let lease = one.post("/v1/elections/e/campaign", &json!({})).good();
        assert_eq!(lease.get("max_hold_ms"), None);
    });
}

#[test]
fn what_makes_no_sense_is_refused_by_its_field() {
    let service =
        Replica::of(fencepost_core::store::connect(|at| Ok(vec![fencepost_core::store::Memory::new(at.clock)])));
    let refused = |path: &str, body: Value| {
        let field = service.post(path, &body).problem(400, "invalid")["field"].clone();
        field.as_str().expect("a field").to_owned()
    };
    for (body, field) in [
        (json!({}), "window"),
        (json!({ "every_ms": 1000, "window": "w" }), "window"),
        (json!({ "every_ms": 0 }), "window"),
        (json!({ "every_ms": u64::MAX }), "every_ms"),
        (json!({ "window": "" }), "window"),
        (json!({ "window": "w", "at_most_ms": 0 }), "at_most_for"),
        (json!({ "window": "w", "at_least_ms": u64::MAX }), "at_least_for"),
        (json!({ "window": "w", "ttl_ms": 0 }), "ttl"),
    ] {
        assert_eq!(refused("/v1/windows/w/start", body.clone()), field, "{body}");
    }
    for (body, field) in [
        (json!({ "payload_hash": "abc" }), "payload_hash"),
        (json!({ "payload_hash": "Z".repeat(64) }), "payload_hash"),
        (json!({ "payload_hash": "é".repeat(32) }), "payload_hash"),
        (json!({ "payload_hash": HASH, "keep_ms": 0 }), "keep_ms"),
        (json!({ "payload_hash": HASH, "max_hold_ms": 0 }), "max_hold_ms"),
    ] {
        assert_eq!(refused("/v1/records/k/start", body.clone()), field, "{body}");
    }
    refused(&format!("/v1/windows/{}/start", "x".repeat(251)), json!({ "window": "w" }));
    refused("/v1/windows/w/finish", json!({ "owner": "7".repeat(40), "token": "1", "error": "x".repeat(5000) }));
    service.post("/v1/windows/w/finish", &json!({ "owner": "7".repeat(40), "token": "1" })).problem(409, "not_held");

    // Whoever may write the record may have put anything there.
    let lease = service.post("/v1/locks/cron%2Fodd/try", &json!({})).good();
    let put = |note: &str| {
        let value = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, note);
        let body = json!({ "token": lease["token"], "value": value, "keep_ms": 60_000 });
        service.put("/v1/locks/cron%2Fodd/record", &body).good();
    };
    put(r#"{"began_ms":18446744073709551615,"window_ms":18446744073709551615,"every_ms":18446744073709551615}"#);
    assert_eq!(service.get("/v1/windows/odd").good()["last_run"], Value::Null);
    put("no JSON");
    service.get("/v1/windows/odd").problem(409, "other_kind");
}
