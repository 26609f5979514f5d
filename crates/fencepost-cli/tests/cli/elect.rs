//! `elect` and `leader`.

use nix::sys::signal::Signal;

use crate::support::{HOLD, Place};

/// Says its term, then leads on until its standard input ends.
const LEAD: [&str; 3] = ["sh", "-c", "echo leads $FENCEPOST_TOKEN; read -r line; exit 7"];

fn term(line: &str) -> u64 {
    line.strip_prefix("leads ").and_then(|term| term.parse().ok()).unwrap_or_else(|| panic!("{line:?}"))
}

#[test]
fn a_command_runs_only_while_leading_and_the_next_one_follows_it() {
    let place = Place::new();
    let elect = |payload| place.fencepost([&["elect", "--payload", payload, "x", "--"], &LEAD[..]].concat());
    let mut first = elect("10.0.0.1:80").start();
    let first_term = term(&first.line());
    let leader = place.json(&["leader", "x"])["leader"].clone();
    assert_eq!((&leader["payload"], &leader["token"]), (&"10.0.0.1:80".into(), &first_term.to_string().into()));
    let mut second = elect("10.0.0.2:80").start();
    // It ends by itself: its code comes back, and the next one leads.
    first.let_go().with_code(7);
    let second_term = term(&second.line());
    assert!(second_term > first_term);
    let done = place.fencepost(["leader", "x"]).end().with_code(0);
    assert!(done.stdout.contains("at 10.0.0.2:80") && done.stdout.contains(&second_term.to_string()), "{done:?}");
    second.let_go().with_code(7);
    let done = place.fencepost(["leader", "x"]).end().with_code(1);
    assert_eq!(done.stdout, "x: nobody leads\n");
}

#[test]
fn a_leader_that_was_deposed_ends_its_command_and_campaigns_again() {
    let place = Place::new();
    let mut running = place.fencepost([&["elect", "--ttl", "3s", "x", "--"], &LEAD[..]].concat()).start();
    let first = term(&running.line());
    place.fencepost(["release", "x", "--force"]).end().with_code(0);
    running.until_it_notes("campaigning again");
    let second = term(&running.line());
    assert!(second > first, "{second} after {first}");
    running.let_go().with_code(7);
    assert!(place.is_free("x"));
}

#[test]
fn a_leader_that_slept_past_its_lease_ends_its_command_and_stands_in_line_again() {
    let place = Place::new();
    let mut running = place.fencepost([&["elect", "--ttl", "1s", "x", "--"], &LEAD[..]].concat()).start();
    let first = term(&running.line());
    running.signal(Signal::SIGSTOP);
    let mut other = place.fencepost([&["elect", "x", "--"], &LEAD[..]].concat()).start();
    let second = term(&other.line());
    running.signal(Signal::SIGCONT);
    running.until_it_notes("campaigning again");
    other.let_go().with_code(7);
    let third = term(&running.line());
    assert!(first < second && second < third, "{first}, {second}, {third}");
    running.let_go().with_code(7);
}

#[test]
fn an_interrupted_candidate_leaves_the_line() {
    let place = Place::new();
    let leader = place.run(&["x"], &HOLD).start_until_it_says("held");
    let mut candidate = place.fencepost([&["-v", "elect", "x", "--"], &LEAD[..]].concat()).start();
    candidate.until_it_notes("waiting for x");
    candidate.signal(Signal::SIGTERM);
    candidate.end().with_code(128 + 15);
    assert_eq!(place.json(&["show", "x"])["waiters"], serde_json::json!([]));
    leader.let_go().with_code(0);
}

#[test]
fn whoever_watches_sees_each_leader() {
    let place = Place::new();
    let mut watch = place.fencepost(["leader", "x", "--watch", "--json"]).start();
    let mut next = || -> serde_json::Value { serde_json::from_str(&watch.line()).expect("a line of JSON") };
    assert_eq!(next()["leader"], serde_json::Value::Null);
    let mut leader = place.fencepost([&["elect", "--payload", "p", "x", "--"], &LEAD[..]].concat()).start();
    let term = term(&leader.line());
    let seen = next();
    assert_eq!((&seen["leader"]["token"], &seen["leader"]["payload"]), (&term.to_string().into(), &"p".into()));
    leader.let_go().with_code(7);
    assert_eq!(next()["leader"], serde_json::Value::Null);
    watch.signal(Signal::SIGKILL);
}

#[test]
fn what_a_candidate_cannot_publish_is_refused() {
    let place = Place::new();
    let long = "x".repeat(256);
    place.fencepost(["elect", "--payload", &long, "x", "--", "true"]).end().with_code(2).saying("--payload");
    place.fencepost(["elect", "x"]).end().with_code(2).saying("usage");
    place.fencepost(["leader", ""]).end().with_code(2).saying("name");
}
