//! `fencepost doctor`: what people and programs get to read, and the code that scripts go by.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use fencepost_testkit::preload::Clocks;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

use crate::support::Place;

fn codes(report: &serde_json::Value) -> Vec<String> {
    let findings = report["findings"].as_array().expect("a list");
    let word = |finding: &serde_json::Value, key: &str| finding[key].as_str().expect("a text").to_owned();
    findings.iter().map(|finding| format!("{} {}", word(finding, "severity"), word(finding, "code"))).collect()
}

#[test]
fn the_default_store_is_looked_at_and_named_with_what_it_excludes() {
    let place = Place::new();
    let done = place.program(crate::support::PROGRAM).arguments(["doctor"]).end().with_code(0);
    for words in ["sqlite:", "set by default", "scope  every process of this user on this machine", "0 errors"] {
        assert!(done.stdout.contains(words), "{words} is missing:\n{}", done.stdout);
    }
}

#[test]
fn locks_in_memory_exclude_nobody_else() {
    let place = Place::new();
    let report = place.json(&["doctor", "--store", "memory:"]);
    assert!(codes(&report).contains(&"warning nobody-else".to_owned()), "{report}");
}

#[test]
fn it_says_which_source_won() {
    let place = Place::new();
    let report = place.json(&["doctor"]);
    assert_eq!(report["store_source"], "FENCEPOST_STORE");
    assert_eq!(report["ttl_source"], "default");
    assert_eq!(report["ttl_ms"], 30_000);
    let file = format!("sqlite:{}", place.path("other.db").display());
    let report = place.json(&["doctor", "--store", &file]);
    assert_eq!(report["store_source"], "--store");
}

#[test]
fn an_error_is_an_exit_code_and_tells_the_cure() {
    let servers: Vec<Server<Redis>> =
        (0..3).map(|_| Redis::new().with("--maxmemory-policy allkeys-lru --maxmemory 100mb").start()).collect();
    let place = Place::new();
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let store = format!("redlock://:secret@{}", addresses.join(","));
    let done = place.fencepost(["doctor", "--store", &store.replace(":secret@", "")]).end().with_code(1);
    assert!(done.stdout.contains("ERROR evicts"), "{}", done.stdout);
    assert!(done.stdout.contains("cure: CONFIG SET maxmemory-policy noeviction"), "{}", done.stdout);
    for (word, in_summary) in [("ERROR", "error"), ("WARNING", "warning"), ("NOTICE", "notice")] {
        let printed = done.stdout.lines().filter(|line| line.starts_with(word)).count();
        let summary = done.stdout.lines().last().expect("a summary");
        let told = if printed == 1 { format!("1 {in_summary}") } else { format!("{printed} {in_summary}s") };
        assert!(summary.split(", ").any(|part| part == told), "{told}: {}", done.stdout);
    }
    let said = done.stdout.matches("ERROR evicts").count();
    assert_eq!(said, 1, "three servers, one finding: {}", done.stdout);
    let denied = place.fencepost(["doctor", "--json", "--store", &store]).end().with_code(1);
    assert!(!denied.stdout.contains("secret") && !denied.stderr.contains("secret"), "{denied:?}");
}

#[test]
fn a_url_that_cannot_be_used_is_bad_configuration() {
    let place = Place::new();
    place.fencepost(["doctor", "--store", "carrier-pigeon://coop"]).end().with_code(78).saying("this build knows");
    place.fencepost(["doctor", "--store", "redis://a,b"]).end().with_code(78).saying("redlock://");
    place.fencepost(["doctor", "--store", "postgres://a/b?pool=none"]).end().with_code(78).saying("pool");
}

/// A `timedatectl` that says this.
fn clock_keeper(place: &Place, says: &str) -> String {
    place.write("bin/timedatectl", &format!("#!/bin/sh\necho {says}\n"));
    fs::set_permissions(place.path("bin/timedatectl"), Permissions::from_mode(0o755)).expect("our own file");
    format!("{}:{}", place.path("bin").display(), std::env::var("PATH").expect("a path"))
}

#[test]
fn a_clock_that_follows_nobody() {
    let place = Place::new();
    for (says, expected) in [("yes", None), ("no", Some("warning clock-sync")), ("what", Some("notice clock-sync"))] {
        let path = clock_keeper(&place, says);
        let done = place.fencepost(["doctor", "--json"]).set("PATH", &path).end().with_code(0);
        let found = codes(&serde_json::from_str(&done.stdout).expect("JSON"));
        let found = found.iter().find(|code| code.ends_with("clock-sync"));
        assert_eq!(found.map(String::as_str), expected, "{says}");
    }
}

#[test]
fn few_open_files_and_a_machine_that_slept() {
    let place = Place::new();
    let store = format!("sqlite:{}", place.path("locks.db").display());
    let script = format!("ulimit -n 256; exec {} doctor --json --store {store}", crate::support::PROGRAM);
    let done = place.program("sh").arguments(["-c", &script]).end().with_code(0);
    assert!(codes(&serde_json::from_str(&done.stdout).expect("JSON")).contains(&"warning open-files".to_owned()));
    let clocks = Clocks::new();
    clocks.slept(std::time::Duration::from_secs(3600));
    let mut asleep = place.fencepost(["doctor", "--json"]);
    for (name, value) in clocks.environment() {
        asleep = asleep.set(name, value.to_str().expect("UTF-8"));
    }
    let done = asleep.end().with_code(0);
    assert!(
        codes(&serde_json::from_str(&done.stdout).expect("JSON")).contains(&"notice suspend".to_owned()),
        "{done:?}"
    );
}
