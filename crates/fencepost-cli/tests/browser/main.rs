//! The dashboard in a real browser, in front of a real service with real clients. The stories are in `driver/`; this
//! starts them, and the servers that they need.
//!
//! Screenshots are written to `target/dashboard`.
#![cfg(feature = "serve")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::{find, find_in_setup};

fn here(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs a story to its end. A line `ask …` of it is answered by `answer`, the rest is shown if it fails.
fn story(name: &str, store: &str, mut answer: impl FnMut(&str)) {
    let folder = tempfile::tempdir().expect("a folder");
    let pictures = here("../../target/dashboard");
    std::fs::create_dir_all(&pictures).expect("a folder for pictures");
    let mut node = Command::new(find("node", "nodejs"))
        .arg(here("tests/browser/driver").join(format!("{name}.mjs")))
        .env("FENCEPOST_PROGRAM", env!("CARGO_BIN_EXE_fencepost"))
        .env("FENCEPOST_BROWSER", find("chromium", "chromium"))
        .env("FENCEPOST_SETUP", find_in_setup("browser/node_modules"))
        .env("FENCEPOST_PICTURES", pictures)
        .env("FENCEPOST_CLIENT", here("../../clients/typescript"))
        .env("FENCEPOST_COMPILER", find_in_setup("sdk-node/node_modules"))
        .env("FENCEPOST_FOLDER", folder.path())
        .env("FENCEPOST_STORE", store.replace("{folder}", &folder.path().display().to_string()))
        .env("HOME", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node starts");
    let (mut words, said) = (node.stdin.take().expect("piped"), BufReader::new(node.stdout.take().expect("piped")));
    let mut told = Vec::new();
    for line in said.lines().map_while(Result::ok) {
        match line.strip_prefix("ask ") {
            Some(question) => {
                answer(question);
                writeln!(words, "done").expect("it listens");
            }
            None => told.push(line),
        }
    }
    let status = node.wait().expect("it ended");
    println!("{}", told.join("\n"));
    assert!(status.success(), "{name}: {status}");
}

const FILE: &str = "sqlite:{folder}/locks.db";

fn nothing(question: &str) {
    panic!("nobody can answer {question:?} here");
}

#[test]
fn the_table_lives_and_a_lock_has_its_past_and_its_line() {
    story("live", FILE, nothing);
}

#[test]
fn a_key_shows_what_it_may_and_only_admins_take_locks_and_only_when_sure() {
    story("keys", FILE, nothing);
}

#[test]
fn ten_thousand_locks_are_a_few_rows() {
    story("many", FILE, nothing);
}

#[test]
fn it_is_legible_by_day_by_night_on_a_phone_and_without_eyes() {
    story("looks", FILE, nothing);
}

#[test]
fn a_page_of_the_service_locks_with_the_client_for_typescript() {
    story("client", FILE, nothing);
}

#[test]
fn reports_are_whole_and_tell_bad_from_good() {
    story("reports", FILE, nothing);
}

#[test]
fn a_broken_quorum_is_seen_at_a_glance() {
    let mut nodes: Vec<_> = (0..5).map(|_| Redis::new().start()).collect();
    let addresses: Vec<String> = nodes.iter().map(|node| node.address()).collect();
    story("quorum", &format!("redlock://{}", addresses.join(",")), |question| {
        let number: usize = question.strip_prefix("stop ").and_then(|number| number.parse().ok()).expect("a node");
        nodes[number].kill();
    });
}
