//! Older and newer services: this client with what one said when the interface was 1.0, and with more than it knows.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use fencepost_core::{Blocking as _, Locks};
use serde_json::{Value, json};

const OLDER: &str = include_str!("../../../crates/fencepost-server/tests/dialogues/interface-1.0.jsonl");

/// A service that says again what one said, changed by this. Its thread ends with the test.
fn saying(change: impl Fn(&mut Value) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let lines: Vec<Value> = OLDER.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(&mut stream.expect("a connection"), &lines, &change);
        }
    });
    address
}

fn answer(stream: &mut TcpStream, lines: &[Value], change: &impl Fn(&mut Value)) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let (mut first, mut length) = (String::new(), 0);
    let _ = reader.read_line(&mut first);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() <= 2 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut request = vec![0; length];
    let _ = reader.read_exact(&mut request);
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // An older service refuses a field that it does not know.
    // A lease is sent back in one form.
    let verb = path.rsplit('/').next().map_or("", |verb| if verb == "renew" { "release" } else { verb });
    let asked: Value = serde_json::from_slice(&request).unwrap_or_default();
    let alike = lines
        .iter()
        .filter(|line| line["method"] == method && line["path"].as_str().is_some_and(|path| path.ends_with(verb)));
    let known: Vec<&String> =
        alike.filter_map(|line| line["request"].as_object()).flat_map(|body| body.keys()).collect();
    for field in asked.as_object().into_iter().flat_map(|body| body.keys()) {
        assert!(known.contains(&field), "{method} {path}: `{field}` is not of 1.0, which knew {known:?}");
    }
    let line = lines.iter().find(|line| line["method"] == method && line["path"] == path && line["status"] == 200);
    let (mut said, streams) = match line {
        Some(line) => (line["answer"].clone(), line["streams"] == true),
        // Nobody held a lock for long enough to renew it.
        None if path.ends_with("/renew") => (json!({ "ttl_ms": 30_000 }), false),
        None => panic!("nobody asked {method} {path} then"),
    };
    change(&mut said);
    if path == "/v1/nodes" {
        assert!(said.get("fifo").is_some(), "{said}");
    }
    let (kind, body) = match streams {
        true => ("text/event-stream", format!("event: granted\ndata: {said}\n\n")),
        false => ("application/json", said.to_string()),
    };
    let head = format!("content-type: {kind}\r\ncontent-length: {}\r\nconnection: close", body.len());
    let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").as_bytes());
}

fn connect(address: &str) -> Result<Locks, fencepost_core::StoreError> {
    fencepost_service::connect("fencepost+http", &format!("//{address}")).block()
}

/// What every client does.
fn works(address: &str) {
    let locks = connect(address).expect("understood");
    let guard = locks.lock("outer").acquire().block().expect("granted");
    guard.renew().block().expect("renewed");
    assert_eq!(locks.inspect("outer").block().expect("read").holders.len(), 1);
    guard.release().block().expect("released");
    let waits = locks.lock("backup").wait_at_most(Duration::from_secs(60));
    waits.acquire().block().expect("granted").release().block().expect("released");
    let leads = locks.election("leader").payload("10.0.0.7:80").campaign().block().expect("leads");
    leads.resign().block().expect("resigned");
    let job = locks.once_per_window("report", "2026-11-16");
    let ran = job.run(async |_: &_| Ok::<_, std::io::Error>(())).block().expect("noted");
    assert_eq!(ran, Some(()));
}

#[test]
fn an_older_service_is_understood() {
    works(&saying(|_| ()));
}

/// Something that nobody knows today, in everything.
fn more(said: &mut Value) {
    match said {
        Value::Object(fields) => {
            fields.values_mut().for_each(more);
            fields.insert("new_in_1_9".into(), json!({ "of": ["another", "kind"] }));
        }
        Value::Array(items) => items.iter_mut().for_each(more),
        _ => {}
    }
}

#[test]
fn what_a_newer_service_says_beyond_that_is_left_alone() {
    works(&saying(|said| {
        more(said);
        if said.get("fifo").is_some() {
            said["interface"] = "1.9".into();
        }
    }));
}

#[test]
fn another_major_version_is_refused_before_anything_is_done() {
    let refused = connect(&saying(|said| said["interface"] = "2.0".into())).expect_err("refused");
    assert!(refused.to_string().contains("version 2"), "{refused}");
}
