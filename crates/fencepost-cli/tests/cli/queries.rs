//! `ls`, `show`, `release`, `check`.

use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{HOLD, Place};

#[test]
fn a_lock_that_nobody_used_is_a_free_lock() {
    let place = Place::new();
    let done = place.fencepost(["show", "never used"]).end().with_code(0);
    assert_eq!(done.stdout, "never used: free, last token -\n");
    let state = place.json(&["show", "never used"]);
    assert_eq!(state, json!({"schema": 1, "name": "never used", "holders": [], "waiters": [], "last_token": null}));
}

#[test]
fn show_has_holder_and_line() {
    let place = Place::new();
    let holder = place.run(&["--label", "job 1", "a"], &HOLD).start_until_it_says("held");
    let mut waiter = place.run(&["-v", "-s", "--label", "job 2", "a"], &["true"]).start();
    waiter.until_it_notes("waiting");
    let state = place.json(&["show", "a"]);
    assert_eq!(state["holders"][0]["label"], "job 1");
    assert_eq!(state["holders"][0]["shared"], false);
    assert_eq!(state["holders"][0]["token"], state["last_token"]);
    assert!(state["holders"][0]["expires_in_ms"].as_u64().is_some_and(|left| left <= 30_000));
    assert_eq!((&state["waiters"][0]["label"], &state["waiters"][0]["shared"]), (&json!("job 2"), &json!(true)));
    let text = place.fencepost(["show", "a"]).end().stdout;
    assert!(text.contains("HOLDER") && text.contains("job 1") && text.contains("PLACE") && text.contains("job 2"));
    holder.let_go().with_code(0);
    waiter.end().with_code(0);
}

#[test]
fn who_gave_up_waiting_is_out_of_the_line_when_it_ends() {
    let place = Place::new();
    let holder = place.run(&["a"], &HOLD).start_until_it_says("held");
    place.run(&["--wait", "100ms", "a"], &["true"]).end().with_code(75);
    assert_eq!(place.json(&["show", "a"])["waiters"], json!([]));
    holder.let_go().with_code(0);
}

#[test]
fn who_waits_unfairly_is_in_no_line_and_is_served_all_the_same() {
    let place = Place::new();
    let holder = place.run(&["a"], &HOLD).start_until_it_says("held");
    let mut waiter = place.run(&["-v", "--unfair", "a"], &["true"]).start();
    waiter.until_it_notes("waiting");
    assert_eq!(place.json(&["show", "a"])["waiters"], json!([]));
    assert!(!place.fencepost(["show", "a"]).end().stdout.contains("PLACE"));
    holder.let_go().with_code(0);
    waiter.end().with_code(0);
}

#[test]
fn ls_is_in_name_order_by_prefix_and_limit() {
    let place = Place::new();
    for name in ["job/2", "job/1", "other"] {
        place.run(&[name], &["true"]).end().with_code(0);
    }
    let names = |arguments: &[&str]| -> Vec<String> {
        let listing = place.json(&[&["ls"], arguments].concat());
        let locks = listing["locks"].as_array().expect("locks").clone();
        locks.iter().map(|lock| lock["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&["--all"]), ["job/1", "job/2", "other"]);
    assert_eq!(names(&["-a", "job/"]), ["job/1", "job/2"]);
    assert_eq!(names(&["-a", "--limit", "1"]), ["job/1"]);
    assert!(place.fencepost(["ls"]).end().stdout.starts_with("NAME"));
}

#[test]
fn ls_shows_free_locks_only_if_it_is_asked_to() {
    let place = Place::new();
    for name in ["a", "b", "d"] {
        place.run(&[name], &["true"]).end().with_code(0);
    }
    let names = |flags: &[&str]| -> Vec<String> {
        let listing = place.json(&[&["ls"], flags].concat());
        listing["locks"].as_array().expect("locks").iter().map(|lock| lock["name"].to_string()).collect()
    };
    assert!(names(&[]).is_empty());
    let empty = place.fencepost(["ls"]).end().with_code(0);
    assert_eq!(empty.stdout.lines().count(), 1, "the head only: {empty:?}");
    assert_eq!(empty.stderr, "fencepost: no lock is in use; 3 locks are free: --all lists free locks\n");
    assert_eq!(place.fencepost(["ls", "-q"]).end().with_code(0).stderr, "");
    let holder = place.run(&["c"], &HOLD).start_until_it_says("held");
    assert_eq!(names(&[]), ["\"c\""]);
    assert_eq!(names(&["--limit", "1"]), ["\"c\""], "free locks do not count");
    assert_eq!(names(&["--all"]), ["\"a\"", "\"b\"", "\"c\"", "\"d\""]);
    let listed = place.fencepost(["ls"]).end().with_code(0);
    assert_eq!((listed.stdout.lines().count(), &*listed.stderr), (2, ""));
    assert!(place.fencepost(["show", "a"]).end().with_code(0).stdout.starts_with("a: free, last token "));
    let top = |flags: &[&str]| place.fencepost([&["top", "--once"], flags].concat()).end().with_code(0).stdout;
    let has_row = |screen: &str, name: &str| screen.lines().any(|line| line.split_whitespace().next() == Some(name));
    let (in_use, all) = (top(&[]), top(&["--all"]));
    assert!(has_row(&in_use, "c") && !has_row(&in_use, "a"), "{in_use}");
    assert!(has_row(&all, "c") && has_row(&all, "a"), "{all}");
    holder.let_go().with_code(0);
    place.fencepost(["ls", "--all", "--watch"]).end().with_code(2).saying("cannot be used with");
}

#[test]
fn output_into_a_closed_pipe_is_no_panic() {
    let place = Place::new();
    let shell = format!("{} ls --store sqlite:locks.db; echo code $? >&2", crate::support::PROGRAM);
    let done = place.program("sh").arguments(["-c", &format!("({shell}) | true")]).end();
    assert!(!done.stderr.contains("panicked"), "{done:?}");
}

#[test]
fn release_asks_for_force() {
    let place = Place::new();
    let holder = place.run(&["--label", "job 1", "a"], &HOLD).start_until_it_says("held");
    place.fencepost(["release", "a"]).end().with_code(2).saying("--force");
    assert!(!place.is_free("a"));
    let released = place.json(&["release", "a", "--force", "--reason", "stuck"]);
    assert_eq!((&released["name"], &released["holder"]["label"]), (&json!("a"), &json!("job 1")));
    let again = place.fencepost(["release", "a", "--force"]).end().with_code(0);
    assert_eq!(again.stdout, "a was free\n");
    drop(holder);
}

/// Three servers, ready for locks, and their URL.
pub(crate) fn three_that_vote(place: &Place) -> (Vec<Server<Redis>>, String) {
    let servers: Vec<_> = (0..3).map(|_| Redis::new().start()).collect();
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let store = format!("redlock://{}", addresses.join(","));
    place.fencepost(["--store", &store, "init"]).end().with_code(0);
    (servers, store)
}

/// What is held at a node that did not hear of it goes on, so whoever released it has to know which one that is.
#[test]
fn a_release_by_force_names_the_nodes_that_did_not_confirm_it() {
    let place = Place::new();
    let (servers, store) = three_that_vote(&place);
    let silent = servers[2].address();
    let fencepost = |arguments: &[&str]| place.fencepost([&["--store", &store], arguments].concat());
    let all = fencepost(&["release", "a", "--force"]).end().with_code(0);
    assert_eq!(all.stdout, "a was free\n");
    servers[2].pause();
    let one_silent = fencepost(&["release", "a", "--force"]).end().with_code(0);
    let words = format!("a was free; not confirmed by {silent} (");
    assert!(one_silent.stdout.starts_with(&words), "{one_silent:?}");
    assert!(one_silent.stdout.ends_with("): what is held there ends with its lease\n"), "{one_silent:?}");
    let data = fencepost(&["release", "a", "--force", "--json"]).end().with_code(0);
    let data: Value = serde_json::from_str(&data.stdout).expect("JSON");
    assert_eq!(data["unreached"].as_array().map(Vec::len), Some(1), "{data}");
    assert_eq!(data["unreached"][0]["node"], silent, "{data}");
}

#[test]
fn a_run_hears_who_asks_for_its_lock_and_goes_on() {
    let place = Place::new();
    assert_eq!(place.fencepost(["release", "--ask", "a"]).end().with_code(0).stdout, "a was free\n");
    let mut holder = place.run(&["--ttl", "1s", "--label", "job 1", "a"], &HOLD).start_until_it_says("held");
    let ask = ["release", "--ask", "--note", "the disk is full", "a"];
    let asked = place.fencepost(ask).set("FENCEPOST_LABEL", "operator").end().with_code(0);
    assert!(asked.stdout.starts_with("a was held by job 1") && asked.stdout.ends_with("asked for\n"), "{asked:?}");
    holder.until_it_notes("a: operator asks to yield: the disk is full");
    assert!(!place.is_free("a"), "it decides");
    holder.let_go().with_code(0);
    place.fencepost(["release", "--ask", "--force", "a"]).end().with_code(2);
}

#[test]
fn check_tells_a_stale_token_from_the_newest() {
    let place = Place::new();
    let token = || place.run(&["a"], &["sh", "-c", "echo $FENCEPOST_TOKEN"]).end().stdout.trim().to_owned();
    let (old, new) = (token(), token());
    place.fencepost(["check", "a", &new]).end().with_code(0);
    let stale = place.fencepost(["check", "a", &old]).end().with_code(1);
    assert!(stale.stdout.contains(&new));
    let answer = place.json(&["check", "a", &old]);
    assert_eq!(answer, json!({"schema": 1, "name": "a", "token": old, "stale": true, "seen": new}));
    place.fencepost(["check", "a", "r5"]).end().with_code(2).saying("token");
}

#[test]
fn whoever_watches_locks_sees_each_change_and_nothing_else() {
    let place = Place::new();
    let first = place.run(&["--label", "job 1", "a/x"], &HOLD).start_until_it_says("held");
    let other = place.run(&["b"], &HOLD).start_until_it_says("held");
    let mut list = place.fencepost(["ls", "a/", "--watch", "-d", "100ms", "--json"]).start();
    let mut show = place.fencepost(["show", "a/x", "--watch", "-d", "100ms"]).start();
    let mut next = || -> serde_json::Value { serde_json::from_str(&list.line()).expect("a line of JSON") };
    let seen = next();
    assert_eq!((&seen["name"], &seen["holders"][0]["label"]), (&json!("a/x"), &json!("job 1")));
    assert!(show.line().starts_with("a/x: held"));

    let mut second = place.run(&["-v", "--label", "job 2", "a/x"], &HOLD).start();
    second.until_it_notes("waiting");
    let seen = next();
    assert_eq!((&seen["holders"][0]["label"], &seen["waiters"][0]["label"]), (&json!("job 1"), &json!("job 2")));
    first.let_go().with_code(0);
    let seen = next();
    assert_eq!((&seen["holders"][0]["label"], &seen["waiters"]), (&json!("job 2"), &json!([])));
    second.let_go().with_code(0);
    assert_eq!(next()["holders"], json!([]));
    while !show.line().starts_with("a/x: free") {}
    other.let_go().with_code(0);
    list.signal(Signal::SIGKILL);
    show.signal(Signal::SIGKILL);
}

#[test]
fn how_often_to_look_needs_a_watch_and_bounds() {
    let place = Place::new();
    place.fencepost(["ls", "-d", "1s"]).end().with_code(2).saying("--watch");
    place.fencepost(["show", "a", "--watch", "-d", "1ms"]).end().with_code(2).saying("100ms to 1h");
}
