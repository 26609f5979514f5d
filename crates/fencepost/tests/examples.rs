//! Every example in both modes: without the lock it shows the bug, with it the bug is gone.

use std::path::PathBuf;
use std::process::Command;

use fencepost_testkit::redis::Redis;

/// The example, what it says without the lock, and what with it.
const EXAMPLES: [(&str, &str, &str); 5] = [
    ("payment", "charged $200 for an order of $100", "charged $100 for an order of $100"),
    ("cron", "5 servers sent 5 report(s)", "5 servers sent 1 report(s)"),
    ("tickets", "10 user(s) have the last ticket", "1 user(s) have the last ticket"),
    ("leader", "3 of 3 schedulers worked at once", "1 of 3 schedulers worked at once"),
    ("stampede", "20 readers, 20 rebuild(s)", "20 readers, 1 rebuild(s)"),
];

/// Built with the tests of this package.
fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("this program");
    let target = tests.parent().and_then(|deps| deps.parent()).expect("the folder of all programs");
    let program = target.join("examples").join(name);
    assert!(program.exists(), "build it: cargo build -p fencepost --all-features --examples");
    program
}

fn says(name: &str, arguments: &[&str], expected: &str) {
    let state = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(program(name));
    command.args(arguments).env("XDG_STATE_HOME", state.path()).env("HOME", state.path());
    let output = command.output().expect("it starts");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.trim_end(), expected, "{name} {arguments:?}: {errors}");
    assert!(output.status.success(), "{name} {arguments:?}: {errors}");
}

#[test]
fn every_example_shows_the_bug_and_how_it_is_gone_on_the_embedded_store() {
    for (name, without, with) in EXAMPLES {
        says(name, &["without"], without);
        says(name, &["with"], with);
    }
}

#[test]
fn every_example_works_on_redis() {
    let server = Redis::new().start();
    let store = format!("redis://{}", server.address());
    for (name, _, with) in EXAMPLES {
        says(name, &["with", &store], with);
    }
}

#[test]
fn an_example_told_nothing_says_how_to_use_it() {
    let output = Command::new(program("payment")).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
}
