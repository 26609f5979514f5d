//! The audit log: every act of every kind of lock, by whom, in a chain that shows what was changed.

use std::path::Path;

use fencepost_core::Blocking;
use fencepost_history::audit::{Report, check};
use fencepost_server::{AuditLog, Metrics, Settings};
use serde_json::{Value, json};

use super::support::{Files, Service, key, memory};

fn report(path: &Path) -> Report {
    let log = std::fs::read(path).expect("a log");
    check(&log[..], None).expect("read")
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// What each line is about: act, principal, lock.
fn told(path: &Path) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    lines(path)
        .iter()
        .map(|line| format!("{} {} {}", text(&line["act"]), text(&line["principal"]), text(&line["lock"])))
        .collect()
}

#[test]
fn every_act_is_a_line_with_who_what_and_which_token() {
    let files = Files::new();
    let (user, of_user) = key("user", &["acquire:*"]);
    let (boss, of_boss) = key("boss", &["admin:*"]);
    let auth = files.write("auth.toml", &(of_user + &of_boss));
    let log = files.path("audit.jsonl");
    let settings = Settings::default().auth_file(auth).expect("a file").audit(AuditLog::open(&log).expect("a log"));
    let service = Service::start(settings);
    let post = |path: &str, key: &str, body: &str, status: u16| {
        let answer = service.post(path, Some(key), body);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        answer.body
    };
    let lease = post("/v1/locks/a/try", &user, "{}", 200);
    post("/v1/locks/a/renew", &user, &lease, 200);
    post("/v1/locks/a/release", &user, &lease, 200);
    post("/v1/locks/a/release", &user, &lease, 409);
    let lease = post("/v1/locks/a/acquire", &user, r#"{"mode":"shared"}"#, 200);
    post("/v1/locks/a/force-release", &boss, r#"{"reason":"stuck"}"#, 200);
    post("/v1/locks/a/renew", &user, &lease, 409);
    post("/v1/locks/a/force-release", &user, "{}", 403);
    assert_eq!(service.post("/v1/locks/a/try", Some("fpk_nobody"), "{}").status, 401);
    let permits = post("/v1/semaphores/s/acquire", &user, r#"{"permits":3,"take":2}"#, 200);
    post("/v1/semaphores/s/release", &user, &permits, 200);
    let batch = post("/v1/batches/acquire", &user, r#"{"names":["b","c"]}"#, 200);
    post("/v1/batches/release", &user, &batch, 200);
    let term = post("/v1/elections/e/campaign", &user, "{}", 200);
    post("/v1/elections/e/resign", &user, &term, 200);
    drop(service);
    let mut expected = vec![
        "opened - -",
        "granted user a",
        "released user a",
        "granted user a",
        "forced boss a",
        "lost user a",
        "denied user a",
        "denied - -",
    ];
    let (head, rest) = (told(&log)[..expected.len()].to_vec(), told(&log)[expected.len()..].to_vec());
    assert_eq!(head, expected);
    // Several at once come in any order, and permits are any of those that are free.
    let rest: Vec<String> = rest.iter().map(|line| line.split('#').next().unwrap_or_default().to_owned()).collect();
    expected = vec![
        "granted user s/permit",
        "granted user s/permit",
        "released user s/permit",
        "released user s/permit",
        "granted user b",
        "granted user c",
        "released user b",
        "released user c",
        "granted user e",
        "released user e",
    ];
    let sorted = |mut lines: Vec<String>| {
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(rest), sorted(expected.into_iter().map(str::to_owned).collect()));
    let report = report(&log);
    assert!(report.is_clean() && report.missed == 0, "{report:?}");
    let lines = lines(&log);
    let granted: Value = serde_json::from_str(&lease).expect("JSON");
    assert_eq!(lines[3]["token"], granted["token"], "a reader's token is told as one");
    assert_eq!((&lines[4]["why"], &lines[1]["ttl_ms"]), (&json!("stuck"), &json!(30_000)));
    assert_eq!(lines[1]["claim"], lines[2]["claim"], "acts of one acquisition are joined");
    for secret in [&user, &boss, granted["owner"].as_str().expect("an owner")] {
        assert!(!files.read("audit.jsonl").contains(secret));
    }
}

#[test]
fn a_writer_that_reads_on_is_no_fault_and_nobody_makes_anothers_hold_lost() {
    let (files, metrics) = (Files::new(), Metrics::new());
    let log = files.path("audit.jsonl");
    let settings = Settings::default().audit(AuditLog::open(&log).expect("a log"));
    let service = Service::on(memory(&metrics), settings.metrics(metrics));
    let post = |path: &str, body: &Value, status: u16| {
        let answer = service.post(&format!("/v1/locks/a/{path}"), None, &body.to_string());
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        answer.json()
    };
    let mut writer = post("try", &json!({}), 200);
    let stranger = json!({ "owner": "7".repeat(40), "token": writer["token"] });
    post("renew", &stranger, 409);
    let past = service.get("/v1/locks/a/history", None).json();
    assert_eq!((&past["losses"], &past["holds"][0]["end"]), (&json!(0), &Value::Null), "{past}");
    writer["mode"] = json!("shared");
    post("renew", &writer, 200);
    post("renew", &writer, 200);
    let reader = post("try", &json!({ "mode": "shared" }), 200);
    post("release", &writer, 200);
    post("release", &reader, 200);
    drop(service);
    let acts: Vec<Value> = lines(&log).iter().map(|line| line["act"].clone()).collect();
    assert_eq!(acts, ["opened", "granted", "lost", "downgraded", "granted", "released", "released"]);
    let report = report(&log);
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn a_crowd_leaves_a_history_without_fault_and_a_forged_one_is_found() {
    let files = Files::new();
    let log = files.path("audit.jsonl");
    let metrics = Metrics::new();
    let locks = memory(&metrics);
    let service =
        Service::on(locks.clone(), Settings::default().metrics(metrics).audit(AuditLog::open(&log).expect("a log")));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for round in 0..20 {
                    let name = if round % 3 == 0 { "a" } else { "b" };
                    let lease = service.post(&format!("/v1/locks/{name}/acquire"), None, r#"{"wait_ms":60000}"#);
                    assert_eq!(lease.status, 200, "{lease:?}");
                    assert_eq!(service.post(&format!("/v1/locks/{name}/release"), None, &lease.body).status, 200);
                }
            });
        }
    });
    drop(service);
    assert!(locks.inspect("a").block().expect("seen").holders.is_empty());
    let honest = report(&log);
    assert!(honest.is_clean(), "{honest:?}");
    assert_eq!((honest.grants, honest.head.seq), (120, 241));
    // Somebody takes a release out of the story: whoever reads it sees that something is missing.
    let text = files.read("audit.jsonl");
    let victim = text.lines().find(|line| line.contains("\"released\"")).expect("a release");
    let forged = text.replacen(&format!("{victim}\n"), "", 1);
    assert!(check(forged.as_bytes(), None).expect("read").broken.is_some());
}
