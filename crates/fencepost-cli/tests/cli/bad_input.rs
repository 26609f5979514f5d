//! Whatever is said wrongly is answered in one line, with the right code, and nothing is locked.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::support::Place;

fn run<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["run"], arguments, &["--", "touch", "ran"]].concat()
}

#[test]
fn bad_input_is_answered_in_one_line_and_locks_nothing() {
    let place = Place::new();
    let long = "x".repeat(10_000);
    let cases: Vec<(Vec<&str>, i32, &str)> = vec![
        (run(&[""]), 2, "name"),
        (run(&[&long]), 2, "10000 bytes"),
        (run(&["a\nb"]), 2, "control character"),
        (run(&["--ttl", "0", "a"]), 2, "ttl"),
        (run(&["--ttl", "-5s", "a"]), 2, "negative"),
        (run(&["--ttl", "-1", "a"]), 2, "negative"),
        (run(&["--ttl", "999d", "a"]), 2, "\"999d\": this store takes"),
        (run(&["--ttl", "87600h", "a"]), 2, "\"87600h\""),
        (run(&["--ttl", "100000000", "a"]), 2, "\"100000000\""),
        (vec!["bench", "--for", "7200"], 2, "\"7200\": measure"),
        (run(&["--ttl", "soon", "a"]), 2, "not a duration"),
        (run(&["--ttl", &long, "a"]), 2, "--ttl"),
        (run(&["--wait", "-1", "a"]), 2, "negative"),
        (run(&["--wait", "100000h", "a"]), 2, "--wait \"100000h\""),
        (run(&["--wait", "1", "-n", "a"]), 2, "cannot be used with"),
        (run(&["--kill-after", "20s", "a"]), 2, "--kill-after \"20s\": at most half of the ttl: 15s"),
        (run(&["--max-hold", "0", "a"]), 2, "--max-hold"),
        (run(&["--on-lost", "panic", "a"]), 2, "--on-lost"),
        (run(&["--label", "a\nb", "a"]), 2, "label"),
        (run(&["-E", "256", "a"]), 2, "256"),
        (run(&["--store", "carrier-pigeon://roof", "a"]), 78, "carrier-pigeon"),
        (run(&["--store", "", "a"]), 78, "store"),
        (run(&["--store", "sqlite:/no/such/folder/locks.db", "a"]), 78, "/no/such/folder"),
        (vec!["run", "a"], 2, "CMD"),
        (vec!["run", "a", "--"], 2, "CMD"),
        (vec!["run", "a", "true"], 2, "-- <CMD>"),
        (vec!["run"], 2, "NAME"),
        (vec!["fly"], 2, "fly"),
        (vec!["show", ""], 2, "name"),
        (vec!["release", "", "--force"], 2, "name"),
        (vec!["check", "a", "12x"], 2, "token"),
        (vec!["check", "", "12"], 2, "name"),
    ];
    for (arguments, code, words) in cases {
        let done = place.fencepost(&arguments).end();
        let shown: Vec<String> = arguments.iter().map(|argument| argument.chars().take(30).collect()).collect();
        assert_eq!(done.code, code, "{shown:?}: {done:?}");
        assert!(done.stderr.contains(words), "{shown:?}: {done:?}");
        assert!(done.stderr.starts_with("fencepost: "), "{shown:?}: {done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{shown:?}: {done:?}");
        assert!(done.stderr.len() < 600, "{shown:?}: {done:?}");
    }
    assert!(!place.path("ran").exists());
    assert_eq!(place.json(&["ls", "--all"])["locks"], serde_json::json!([]));
}

#[test]
fn a_duration_is_repeated_as_it_was_typed_wherever_it_was_typed() {
    let place = Place::new();
    let run = || place.run(&["a"], &["touch", "ran"]);
    run().set("FENCEPOST_TTL", "9999h").end().with_code(78).saying("FENCEPOST_TTL: invalid ttl \"9999h\"");
    place.write("fencepost.toml", "ttl = '999d'\n");
    run().end().with_code(78).saying("fencepost.toml: invalid ttl \"999d\"");
    assert!(!place.path("ran").exists());
}

#[test]
fn the_program_alone_prints_its_help_and_scripts_see_a_failure() {
    let place = Place::new();
    for arguments in [&[][..], &["audit"]] {
        let done = place.fencepost(arguments).end().with_code(2);
        let text = [done.stdout, done.stderr].concat();
        assert!(text.contains("Usage: fencepost") && text.contains("Commands:"), "{text}");
    }
    assert!(place.fencepost([""; 0]).end().stderr.contains("run          Run a command while holding a lock"));
}

#[test]
fn a_name_that_is_not_utf8_is_a_usage_error() {
    let place = Place::new();
    let arguments = ["run".as_ref(), OsStr::from_bytes(b"\xff\xfe"), "--".as_ref(), "true".as_ref()];
    let done = place.fencepost(arguments).end().with_code(2).saying("UTF-8");
    assert_eq!(done.stderr.lines().count(), 1);
}

#[test]
fn the_commands_own_arguments_need_not_be_utf8() {
    let place = Place::new();
    let arguments = ["run", "a", "--", "printf", "%s"].map(OsStr::new);
    let done = place.fencepost(arguments).arguments([OsStr::from_bytes(b"\xff")]).end().with_code(0);
    assert_eq!(done.stdout, "\u{fffd}");
}
