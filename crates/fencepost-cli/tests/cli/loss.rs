//! The lock is lost while the command runs.

use std::time::{Duration, Instant};

use fencepost_testkit::proxy::{Flow, Proxy};
use fencepost_testkit::redis::Redis;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{HOLD, Place};

/// Does not hear SIGTERM, and does not end by itself.
const STUBBORN: [&str; 3] = ["sh", "-c", "trap '' TERM; echo held; exec sleep 1000"];

#[test]
fn a_forced_release_ends_the_command_within_the_lease() {
    let place = Place::new();
    let running = place.run(&["--ttl", "6s", "--report", "out.json", "a"], &HOLD).start_until_it_says("held");
    place.fencepost(["release", "a", "--force"]).end().with_code(0);
    let forced = Instant::now();
    running.end().with_code(80).saying("released by force");
    assert!(forced.elapsed() < Duration::from_secs(6));
    let report: Value = serde_json::from_str(&place.read("out.json")).expect("json");
    assert_eq!((&report["outcome"], &report["exit_code"]), (&"lost".into(), &80.into()));
    assert_eq!(report["lost_reason"], "it was released by force");
}

#[test]
fn a_command_may_end_in_its_own_way() {
    let place = Place::new();
    let script = "trap 'echo tidied; exit 3' TERM; echo held; while :; do read -r line; done";
    let mut running =
        place.run(&["--ttl", "2s", "--kill-after", "900ms", "a"], &["sh", "-c", script]).start_until_it_says("held");
    place.fencepost(["release", "a", "--force"]).end().with_code(0);
    assert_eq!(running.line(), "tidied");
    running.end().with_code(80);
}

#[test]
fn a_command_that_ignores_term_is_killed_within_the_lease() {
    let place = Place::new();
    let started = Instant::now();
    let flags = ["--ttl", "10s", "--kill-after", "300ms", "--max-hold", "200ms", "a"];
    place.run(&flags, &STUBBORN).start_until_it_says("held").end().with_code(80).saying("hold limit");
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(10), "{took:?}");
    assert!(place.is_free("a"));
}

#[test]
fn on_lost_kill_gives_no_time() {
    let place = Place::new();
    let script = "trap 'echo tidied' TERM; echo held; while :; do read -r line; done";
    let flags = ["--ttl", "20s", "--on-lost", "kill", "--max-hold", "100ms", "a"];
    let done = place.run(&flags, &["sh", "-c", script]).start_until_it_says("held").end().with_code(80);
    assert_eq!(done.stdout, "");
}

#[test]
fn on_lost_ignore_lets_the_command_finish_and_reports_the_loss() {
    let place = Place::new();
    let flags = ["--on-lost", "ignore", "--ttl", "1s", "--report", "out.json", "a"];
    let running = place.run(&flags, &["sh", "-c", "echo held; read -r line; exit 5"]).start_until_it_says("held");
    place.fencepost(["release", "a", "--force"]).end().with_code(0);
    // Renewed at a third of the ttl: by the end of this one the first run has heard of it, or will by the clock.
    place.run(&["--max-hold", "1s", "--ttl", "1s", "a"], &["sleep", "1000"]).end().with_code(80);
    running.let_go().with_code(5).saying("was lost while the command ran on");
    assert!(place.read("out.json").contains(r#""outcome":"lost""#));
}

#[test]
fn everything_below_the_command_is_ended() {
    let place = Place::new();
    let script = "sleep 1000 & setsid sleep 1000 & (trap '' TERM; sleep 1000) & echo held; wait";
    let flags = ["--ttl", "2s", "--kill-after", "100ms", "--max-hold", "200ms", "a"];
    // All share the output: this returns only when they are gone.
    place.run(&flags, &["sh", "-c", script]).start_until_it_says("held").end().with_code(80);
}

#[test]
fn the_command_of_a_nested_run_is_ended_with_the_outer_lock() {
    let place = Place::new();
    let inner = format!("{} run b -- sh -c 'trap \"\" TERM; echo held; sleep 1000; :'", crate::support::PROGRAM);
    let flags = ["--ttl", "2s", "--kill-after", "100ms", "--max-hold", "500ms", "a"];
    place.run(&flags, &["sh", "-c", &inner]).start_until_it_says("held").end().with_code(80);
}

#[test]
fn a_run_that_slept_past_its_lease_ends_its_command_at_once() {
    let place = Place::new();
    let running = place.run(&["--ttl", "1s", "a"], &STUBBORN).start_until_it_says("held");
    running.signal(Signal::SIGSTOP);
    // The lease is over when somebody else has the lock.
    place.run(&["-w", "20s", "a"], &["true"]).end().with_code(0);
    running.signal(Signal::SIGCONT);
    // By itself it would go on for a quarter of an hour.
    running.end().with_code(80).saying("lease was over");
}

#[test]
fn a_command_that_ended_while_run_slept_past_its_lease_was_not_protected() {
    let place = Place::new();
    let mut running = place.run(&["--ttl", "1s", "a"], &HOLD).start_until_it_says("held");
    running.signal(Signal::SIGSTOP);
    place.run(&["-w", "20s", "a"], &["true"]).end().with_code(0);
    running.tell("go on");
    running.signal(Signal::SIGCONT);
    running.end().with_code(80);
}

#[test]
fn a_log_that_nobody_reads_does_not_stop_renewals() {
    let runs: [(&str, &[&str]); 3] = [
        ("a", &["run", "-v", "--ttl", "1s", "a"]),
        ("a", &["elect", "-v", "--ttl", "1s", "a"]),
        ("cron/a", &["once", "-v", "--ttl", "1s", "--every", "1h", "a"]),
    ];
    for (name, run) in runs {
        let place = Place::new();
        let run = place.fencepost([run, &["--"], &HOLD].concat());
        let (running, _pipe) = run.start_unread_until_it_says("held");
        place.fencepost(["release", "--ask", "--note", "the disk is full", name]).end().with_code(0);
        // Waits for three times the ttl, and the holder is alive.
        place.run(&["-w", "3s", name], &["echo", "beside it"]).end().with_code(75);
        running.let_go().with_code(0);
    }
}

#[test]
fn a_log_that_nobody_reads_does_not_keep_a_command_beyond_its_lease() {
    let place = Place::new();
    let run = place.run(&["-v", "--ttl", "1s", "a"], &HOLD);
    let (running, _pipe) = run.start_unread_until_it_says("held");
    place.fencepost(["release", "--ask", "--note", "the disk is full", "a"]).end().with_code(0);
    place.fencepost(["release", "--force", "a"]).end().with_code(0);
    // The command would go on for as long as its standard input is open.
    running.end().with_code(80);
}

#[test]
fn a_loss_that_only_the_release_finds_is_a_loss() {
    let place = Place::new();
    // The next renewal is ten seconds away: nobody hears of the loss before the command ends.
    let lost = |flags: &[&str]| {
        let command = ["sh", "-c", "echo held; read -r line; exit 5"];
        let flags = [flags, &["--ttl", "30s", "--report", "out.json", "a"]].concat();
        let running = place.run(&flags, &command).start_until_it_says("held");
        place.fencepost(["release", "--force", "a"]).end().with_code(0);
        let done = running.let_go();
        assert!(place.read("out.json").contains(r#""outcome":"lost""#), "{}", place.read("out.json"));
        done
    };
    lost(&[]).with_code(80).saying("a was lost while the command ran");
    lost(&["-q"]).with_code(80);
    lost(&["--on-lost", "ignore"]).with_code(5).saying("a was lost while the command ran");
}

#[test]
fn a_release_whose_answer_was_lost_is_no_loss() {
    let server = Redis::new().start();
    let proxy = Proxy::before(server.address());
    let (through, beside) = (format!("redis://{}", proxy.address()), format!("redis://{}", server.address()));
    let place = Place::new();
    let run = place.fencepost(["--store", &through, "run", "a", "--", "sh", "-c", "echo held; read -r line; exit 5"]);
    let running = run.start_until_it_says("held");
    proxy.replies(Flow::Lost);
    let ended = std::thread::spawn(move || running.let_go());
    // The release has run.
    place.fencepost(["--store", &beside, "run", "a", "--", "true"]).end().with_code(0);
    proxy.replies(Flow::Pass);
    proxy.cut();
    ended.join().expect("it ends").with_code(5);
}
