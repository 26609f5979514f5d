//! Signals, and deaths.

use nix::sys::signal::Signal;

use crate::support::{HOLD, Place};

#[test]
fn signals_are_passed_on_to_the_command() {
    let place = Place::new();
    for (signal, name) in [(Signal::SIGTERM, "TERM"), (Signal::SIGINT, "INT"), (Signal::SIGHUP, "HUP")] {
        let script = format!("trap 'echo got {name}; exit 9' {name}; echo held; while :; do read -r line; done");
        let mut running = place.run(&["a"], &["sh", "-c", &script]).start_until_it_says("held");
        running.signal(signal);
        assert_eq!(running.line(), format!("got {name}"));
        running.end().with_code(9);
    }
    assert!(place.is_free("a"));
}

#[test]
fn a_command_that_dies_of_a_passed_signal_is_128_and_the_signal() {
    let place = Place::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let running = place.run(&["a"], &HOLD).start_until_it_says("held");
        running.signal(signal);
        running.end().with_code(128 + signal as i32);
    }
}

#[test]
fn a_signal_while_waiting_leaves_the_line() {
    let place = Place::new();
    let holder = place.run(&["a"], &HOLD).start_until_it_says("held");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut waiter = place.run(&["-v", "--report", "out.json", "a"], &["touch", "ran"]).start();
        waiter.until_it_notes("waiting for a");
        waiter.signal(signal);
        waiter.end().with_code(128 + signal as i32);
        assert_eq!(place.json(&["show", "a"])["waiters"], serde_json::json!([]));
        assert!(place.read("out.json").contains(r#""outcome":"interrupted""#));
    }
    holder.let_go().with_code(0);
    assert!(!place.path("ran").exists());
}

#[test]
fn what_the_parent_ignores_is_ignored() {
    let place = Place::new();
    let script =
        format!("trap '' INT; exec {} run a -- sh -c 'echo held; read -r line; exit 0'", crate::support::PROGRAM);
    let store = format!("sqlite:{}", place.path("locks.db").display());
    let shell = place.program("sh").arguments(["-c", &script]).set("FENCEPOST_STORE", &store);
    let running = shell.start_until_it_says("held");
    running.signal(Signal::SIGINT);
    running.let_go().with_code(0);
}

#[test]
fn a_code_that_the_system_keeps_back_is_our_own_failure() {
    let place = Place::new();
    let run = [crate::support::PROGRAM, "run", "--store", "sqlite:locks.db", "a", "--", "false"];
    let ignoring = place.program("env").arguments(["--ignore-signal=CHLD"]).arguments(run);
    ignoring.end().with_code(125).saying("SIGCHLD");
    assert!(place.is_free("a"));
}

#[test]
fn killing_run_takes_the_command_with_it() {
    let place = Place::new();
    let running = place.run(&["--ttl", "1s", "a"], &["sh", "-c", "echo held; exec cat"]).start_until_it_says("held");
    running.signal(Signal::SIGKILL);
    // The command shares the output: this returns only when it is gone too.
    running.end().with_code(-9);
    place.run(&["-w", "20s", "a"], &["true"]).end().with_code(0);
}

#[test]
fn the_command_has_no_signal_blocked() {
    let place = Place::new();
    let done = place.run(&["a"], &["grep", "SigBlk", "/proc/self/status"]).end();
    assert_eq!(done.stdout, "SigBlk:\t0000000000000000\n");
}
