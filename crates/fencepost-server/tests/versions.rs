//! An older client: what one said to a service of its own time, said to the service of today.

mod common;

use std::collections::BTreeMap;

use common::Replica;
use serde_json::Value;

/// One request and its answer per line, as the command spoke through `fencepost+http://` when the interface was 1.0.
const OLDER: &str = include_str!("dialogues/interface-1.0.jsonl");

/// All that was there is there, and of the same kind. More may be there.
fn has_all_of(older: &Value, newer: &Value) -> Result<(), String> {
    match (older, newer) {
        (Value::Object(older), Value::Object(newer)) => older.iter().try_for_each(|(field, older)| {
            let newer = newer.get(field).ok_or_else(|| format!("{field} is gone"))?;
            has_all_of(older, newer).map_err(|why| format!("{field}: {why}"))
        }),
        (Value::Array(older), Value::Array(newer)) => {
            older.first().zip(newer.first()).map_or(Ok(()), |(older, newer)| has_all_of(older, newer))
        }
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Null, _) => Ok(()),
        (older, newer) => Err(format!("{older} has become {newer}")),
    }
}

/// The token of an answer, as digits: tokens of today are others.
fn token(answer: &Value) -> Option<String> {
    answer["token"].as_str().map(|token| token.trim_start_matches('r').to_owned())
}

#[test]
fn what_an_older_client_says_is_understood_and_answered_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = Replica::of(fencepost_sqlite::connect(folder.path().join("locks.db").to_str().expect("UTF-8")));
    let mut tokens = BTreeMap::new();
    let mut said = 0;
    for line in OLDER.lines() {
        let line = tokens
            .iter()
            .fold(line.to_owned(), |line, (older, newer): (&String, &String)| line.replace(older.as_str(), newer));
        let older: Value = serde_json::from_str(&line).expect("a line of JSON");
        let (method, path) = (older["method"].as_str().expect("text"), older["path"].as_str().expect("text"));
        let (status, answer) = match (method, &older["streams"]) {
            ("POST", Value::Bool(true)) => {
                let accept = [("accept", "text/event-stream")];
                let mut stream = service.open(path, &accept, Some(&older["request"]));
                assert!(stream.head().starts_with("HTTP/1.1 200"), "{line}");
                let (kind, answer, _) = stream.event();
                assert_eq!(kind, "granted", "{line}");
                (200, answer)
            }
            ("POST", _) => split(service.post(path, &older["request"])),
            ("PUT", _) => split(service.put(path, &older["request"])),
            _ => split(service.get(path)),
        };
        assert_eq!(Some(u64::from(status)), older["status"].as_u64(), "{line}\n{answer}");
        has_all_of(&older["answer"], &answer).unwrap_or_else(|why| panic!("{why}: {line}\n{answer}"));
        if let (Some(older), Some(newer)) = (token(&older["answer"]), token(&answer)) {
            tokens.insert(older, newer);
        }
        said += 1;
    }
    assert!(said > 20, "{said} lines");
}

fn split(answer: common::Answer) -> (u16, Value) {
    (answer.status, answer.body)
}

#[test]
fn a_newer_client_hears_that_a_field_is_not_known_and_can_ask_before() {
    let service =
        Replica::of(fencepost_core::store::connect(|at| Ok(vec![fencepost_core::store::Memory::new(at.clock)])));
    let newer = serde_json::json!({ "ttl_ms": 1000, "new_in_1_9": true });
    service.post("/v1/locks/a/try", &newer).problem(400, "invalid");
    let said = service.get("/v1/nodes").good();
    let (major, minor) = said["interface"].as_str().and_then(|said| said.split_once('.')).expect("two numbers");
    assert_eq!((major, minor.parse::<u32>().is_ok()), ("1", true));
    service.post("/v2/locks/a/try", &serde_json::json!({})).problem(404, "no_route");
}
