//! Runs that wait for each other in a circle.

use std::time::{Duration, Instant};

use fencepost_testkit::redis::Redis;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{PROGRAM, Place, Running};

/// Holds one lock, says so, and asks for the other inside when it is told to.
fn nested(place: &Place, store: &str, label: &str, outer: &str, inner: &[&str]) -> Running {
    let script = format!("echo held; read -r line; {PROGRAM} run -v --label {label} {} -- true", inner.join(" "));
    let run = place.run(&["--label", label, outer], &["sh", "-c", &script]);
    run.set("FENCEPOST_STORE", store).start_until_it_says("held")
}

/// On every kind of store.
fn everywhere(story: impl Fn(&Place, &str)) {
    let place = Place::new();
    story(&place, &format!("sqlite:{}", place.path("locks.db").display()));
    let server = Redis::new().start();
    story(&Place::new(), &format!("redis://{}", server.address()));
    let (servers, place) = ([(); 3].map(|()| Redis::new().start()), Place::new());
    let store = format!("redlock://{}", servers.each_ref().map(|server| server.address()).join(","));
    place.fencepost(["init"]).set("FENCEPOST_STORE", &store).end().with_code(0);
    story(&place, &store);
}

#[test]
fn two_runs_in_opposite_order_are_shown_as_a_deadlock() {
    everywhere(|place, store| {
        let deadlocks =
            |flag: &[&str]| place.fencepost([&["deadlocks"], flag].concat()).set("FENCEPOST_STORE", store).end();
        assert_eq!(deadlocks(&[]).with_code(0).stdout, "no deadlock\n");
        let mut one = nested(place, store, "job-1", "a", &["b"]);
        let mut other = nested(place, store, "job-2", "b", &["a"]);
        one.tell("go");
        other.tell("go");
        one.until_it_notes("waiting");
        other.until_it_notes("waiting");
        let began = Instant::now();
        let found = deadlocks(&["--json"]).with_code(1);
        // Two seconds, and what a busy machine takes.
        assert!(began.elapsed() < Duration::from_secs(10), "found after {:?}", began.elapsed());
        let found: serde_json::Value = serde_json::from_str(&found.stdout).expect("JSON");
        let cycle = found["cycles"][0].as_array().expect("a cycle");
        let told = cycle.iter().map(|lock| (&lock["name"], &lock["holders"][0]["label"], &lock["waiters"][0]["label"]));
        let (a, b, job_1, job_2) = (&json!("a"), &json!("b"), &json!("job-1"), &json!("job-2"));
        assert_eq!(told.collect::<Vec<_>>(), [(a, job_1, job_2), (b, job_2, job_1)]);
        let text = deadlocks(&[]).with_code(1).stdout;
        assert!(
            text.starts_with("deadlock 1: a -> b -> a\n") && text.contains("job-1") && text.contains("FOR"),
            "{text}"
        );
        one.signal(Signal::SIGTERM);
        one.end().with_code(143);
        other.end().with_code(0);
        deadlocks(&[]).with_code(0);
    });
}

#[test]
fn a_run_that_fails_on_deadlock_ends_with_a_clear_error_and_the_other_goes_on() {
    everywhere(|place, store| {
        let mut one = nested(place, store, "job-1", "a", &["--fail-on-deadlock", "b"]);
        let mut other = nested(place, store, "job-2", "b", &["--fail-on-deadlock", "a"]);
        one.tell("go");
        one.until_it_notes("waiting");
        other.tell("go");
        // They may begin to wait so close together that either is the last.
        let ends = [one.end(), other.end()];
        let (failed, went_on) = if ends[0].code == 0 { (&ends[1], &ends[0]) } else { (&ends[0], &ends[1]) };
        assert_eq!((failed.code, went_on.code), (75, 0), "{ends:?}");
        for words in ["deadlock: \"a\" is held by job-1", "; \"b\" is held by job-2"] {
            assert!(failed.stderr.contains(words), "{words:?} is not in {failed:?}");
        }
    });
}
