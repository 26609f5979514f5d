//! Who had a lock before, by HTTP: what this replica saw, and what the store knows.

mod common;

use common::{Replica, until};
use fencepost_core::Blocking as _;
use serde_json::{Value, json};

/// Label and end of each hold, newest first.
fn holds(service: &Replica, name: &str) -> Vec<(String, String)> {
    let history = service.get(&format!("/v1/locks/{name}/history")).good();
    let text = |value: &Value| value.as_str().unwrap_or("held").to_owned();
    let holds = history["holds"].as_array().expect("holds");
    holds.iter().map(|hold| (text(&hold["label"]), text(&hold["end"]["how"]))).collect()
}

fn expected(holds: &[(&str, &str)]) -> Vec<(String, String)> {
    holds.iter().map(|(label, end)| ((*label).to_owned(), (*end).to_owned())).collect()
}

#[test]
fn every_way_in_which_a_hold_ends_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("locks.db").to_str().expect("UTF-8").to_owned();
    let [one, two] = [(), ()].map(|()| Replica::of(fencepost_sqlite::connect(&file)));
    assert_eq!(one.get("/v1/locks/a/history").good()["holds"], json!([]));
    let take = |label: &str, ttl: u64| {
        let claim = json!({ "label": label, "ttl_ms": ttl, "wait_ms": 10_000 });
        one.post("/v1/locks/a/acquire", &claim).good()
    };
    let lease = take("released", 20_000);
    one.post("/v1/locks/a/release", &lease).good();
    let lease = take("lost", 200);
    take("forced", 20_000);
    one.post("/v1/locks/a/renew", &lease).problem(409, "not_held");
    one.post("/v1/locks/a/force-release", &json!({ "reason": "stuck" })).good();
    let lease = take("moved", 20_000);
    two.post("/v1/locks/a/release", &lease).good();
    let direct = fencepost_sqlite::connect(&file).block().expect("the store");
    let guard = direct.lock("a").label("past the service").acquire().block().expect("it is free");
    assert_eq!(holds(&one, "a")[0], ("past the service".into(), "held".into()));
    guard.release().block().expect("released");
    let lease = take("last", 20_000);
    // Whoever names no token, and holds nothing, ends nobody's hold.
    one.post("/v1/locks/a/renew", &json!({ "owner": "7".repeat(40) })).problem(409, "not_held");

    let all = holds(&one, "a");
    let ends = expected(&[
        ("last", "held"),
        ("past the service", "unseen"),
        ("moved", "unseen"),
        ("forced", "forced"),
        ("lost", "lost"),
        ("released", "released"),
    ]);
    assert_eq!(all, ends);
    let history = one.get("/v1/locks/a/history").good();
    assert_eq!((&history["grants"], &history["losses"]), (&json!(6), &json!(2)), "{history}");
    assert_eq!(
        (&history["holds"][3]["end"]["by"], &history["holds"][3]["end"]["why"]),
        (&json!("anyone"), &json!("stuck"))
    );
    assert_eq!(history["holds"][0]["token"], lease["token"]);
    let counted: u64 =
        history["hold_times"].as_array().expect("times").iter().filter_map(|t| t["count"].as_u64()).sum();
    assert_eq!(counted, 5, "those that are over: {history}");
    // The other replica saw who has it now, and nobody else.
    assert_eq!(holds(&two, "a"), expected(&[("last", "held")]));
    // What nobody released, and nobody renewed.
    one.post("/v1/locks/b/try", &json!({ "label": "gone", "ttl_ms": 200 })).good();
    until("nobody renewed it", || holds(&one, "b") == expected(&[("gone", "expired")]));
}
