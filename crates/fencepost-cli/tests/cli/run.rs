//! `run`: lock, run, release.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{HOLD, PROGRAM, Place};

#[test]
fn the_commands_own_code_comes_back() {
    let place = Place::new();
    for code in [0, 1, 7, 255] {
        place.run(&["a"], &["sh", "-c", &format!("exit {code}")]).end().with_code(code);
    }
    place.run(&["a"], &["sh", "-c", "kill -TERM $$"]).end().with_code(128 + 15);
    assert!(place.is_free("a"));
}

#[test]
fn a_command_that_cannot_run_is_127_or_126_and_frees_the_lock() {
    let place = Place::new();
    place.run(&["a"], &["no-such-program"]).end().with_code(127).saying("no such program");
    place.run(&["a"], &["/"]).end().with_code(126).saying("not executable");
    assert!(place.is_free("a"));
}

/// Also for root, whom the modes of files would not keep out.
#[test]
fn a_file_that_this_user_may_not_open_is_77() {
    let place = Place::new();
    place.run(&["a"], &["true"]).end().with_code(0);
    fs::set_permissions(place.path("locks.db"), Permissions::from_mode(0o000)).expect("our own file");
    let store = format!("sqlite:{}", place.path("locks.db").display());
    let run = [PROGRAM, "--store", &store, "run", "a", "--", "true"];
    let run = match fs::metadata("/proc/self").expect("read").uid() {
        0 => {
            let bound = place.program("setpriv").arguments(["--bounding-set=-dac_override,-dac_read_search"]);
            bound.arguments(run)
        }
        _ => place.program(run[0]).arguments(&run[1..]),
    };
    run.end().with_code(77).saying("right to");
}

#[test]
fn input_and_output_belong_to_the_command() {
    let place = Place::new();
    let mut running = place.run(&["-q", "a"], &["cat"]).start();
    running.tell("through");
    assert_eq!(running.line(), "through");
    let done = running.let_go().with_code(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));
}

#[test]
fn arguments_reach_the_command_untouched() {
    let place = Place::new();
    let done = place.run(&["a"], &["printf", "%s|", "a b", "$HOME", "*", "--", "-x", ""]).end();
    assert_eq!(done.stdout, "a b|$HOME|*|--|-x||");
}

#[test]
fn the_command_is_told_of_its_lock() {
    let place = Place::new();
    let told = |flags: &[&str]| -> HashMap<String, String> {
        let done = place.run(flags, &["env"]).end().with_code(0);
        done.stdout.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
    };
    let first = told(&["my lock"]);
    assert_eq!(first["FENCEPOST_LOCK"], "my lock");
    assert_eq!(first["FENCEPOST_HELD"], format!("my%20lock={}", first["FENCEPOST_TOKEN"]));
    assert_eq!(first["FENCEPOST_OWNER"].len(), 40);
    assert!(first["FENCEPOST_EXPIRES_AT"].starts_with("20") && first["FENCEPOST_EXPIRES_AT"].ends_with('Z'));
    let second = told(&["my lock"]);
    let number = |told: &HashMap<String, String>| told["FENCEPOST_TOKEN"].parse::<u64>().expect("digits");
    assert!(number(&second) > number(&first));
    assert!(told(&["--shared", "my lock"])["FENCEPOST_TOKEN"].starts_with('r'));
}

#[test]
fn what_the_command_is_told_is_never_read_as_configuration() {
    let place = Place::new();
    let done = place
        .run(&["a"], &["sh", "-c", "echo $FENCEPOST_LOCK"])
        .set("FENCEPOST_LOCK", "other")
        .set("FENCEPOST_HELD", "a=1,nonsense,%zz=2")
        .set("FENCEPOST_TOKEN", "1")
        .end();
    assert_eq!(done.with_code(0).stdout, "a\n");
}

#[test]
fn a_held_lock_is_not_obtained() {
    let place = Place::new();
    let holder = place.run(&["a"], &HOLD).start_until_it_says("held");
    place.run(&["-n", "a"], &["true"]).end().with_code(75).saying("held by");
    // Long enough for a busy disk to say that somebody has it: without that answer it is "too slow".
    place.run(&["-w", "2s", "a"], &["true"]).end().with_code(75).saying("waited");
    place.run(&["-w", "2.5", "-E", "3", "a"], &["true"]).end().with_code(3);
    let quiet = place.run(&["-q", "-n", "a"], &["true"]).end().with_code(75);
    assert_eq!(quiet.stderr, "");
    place.run(&["-n", "b"], &["true"]).end().with_code(0);
    holder.let_go().with_code(0);
    place.run(&["-n", "a"], &["true"]).end().with_code(0);
}

#[test]
fn without_a_limit_it_waits_until_the_lock_is_free() {
    let place = Place::new();
    let holder = place.run(&["a"], &HOLD).start_until_it_says("held");
    let mut waiter = place.run(&["-v", "a"], &["echo", "my turn"]).start();
    waiter.until_it_notes("waiting for a");
    holder.let_go().with_code(0);
    let done = waiter.end().with_code(0).saying("acquired a").saying("released a");
    assert_eq!(done.stdout, "my turn\n");
}

#[test]
fn readers_share_and_a_writer_does_not() {
    let place = Place::new();
    let one = place.run(&["--shared", "a"], &HOLD).start_until_it_says("held");
    let two = place.run(&["-n", "-s", "a"], &HOLD).start_until_it_says("held");
    place.run(&["-n", "a"], &["true"]).end().with_code(75);
    one.let_go().with_code(0);
    two.let_go().with_code(0);
}

#[test]
fn the_embedded_default_says_how_far_it_reaches() {
    let place = Place::new();
    let words = "this user on this machine only";
    let default = || place.run(&["a"], &["true"]).unset("FENCEPOST_STORE");
    let done = default().end().with_code(0).saying(words);
    assert_eq!(done.stderr.lines().count(), 1);
    assert_eq!(default().arguments::<&str>([]).set("FENCEPOST_STORE", "").end().with_code(0).stderr, done.stderr);
    let quiet = place.run(&["-q", "a"], &["true"]).unset("FENCEPOST_STORE").end();
    assert_eq!(quiet.with_code(0).stderr, "");
    assert_eq!(place.run(&["a"], &["true"]).end().stderr, "");
}

#[test]
fn the_report_tells_the_outcome() {
    let place = Place::new();
    let report = |flags: &[&str], command: &[&str]| -> Value {
        place.run(&[&["--report", "out.json"], flags].concat(), command).end();
        let report = serde_json::from_str(&place.read("out.json")).expect("json");
        std::fs::remove_file(place.path("out.json")).expect("a report");
        report
    };
    let ran = report(&["a"], &["sh", "-c", "exit 4"]);
    assert_eq!((&ran["schema"], &ran["lock"]), (&1.into(), &"a".into()));
    assert_eq!((&ran["outcome"], &ran["exit_code"]), (&"ran".into(), &4.into()));
    assert!(ran["token"].is_string() && ran["waited_ms"].is_u64() && ran["held_ms"].is_u64());
    let holder = place.run(&["a"], &HOLD).start_until_it_says("held");
    let busy = report(&["-n", "-E", "9", "a"], &["true"]);
    assert_eq!((&busy["outcome"], &busy["exit_code"]), (&"not_obtained".into(), &9.into()));
    holder.let_go();
    let refused = report(&["--ttl", "0", "a"], &["true"]);
    assert_eq!((&refused["outcome"], &refused["exit_code"]), (&"refused".into(), &2.into()));
    let left = std::fs::read_dir(place.dir()).expect("a folder").flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains("out.json")));
}

#[test]
fn a_report_that_cannot_be_written_is_known_before_locking() {
    let place = Place::new();
    for path in ["no/such/folder/report.json", ".", "/dev/null", "/dev/stdout"] {
        let done = place.run(&["--report", path, "a"], &["touch", "ran"]).end().with_code(78);
        assert_eq!(done.saying("--report").stderr.lines().count(), 1);
    }
    assert!(!place.path("ran").exists() && !place.path("locks.db").exists());
}

#[test]
fn a_report_is_written_where_a_link_leads() {
    let place = Place::new();
    place.write("report.json", "old");
    std::os::unix::fs::symlink("report.json", place.path("link")).expect("a link");
    place.run(&["--report", "link", "a"], &["true"]).end().with_code(0);
    assert!(place.path("link").is_symlink() && place.read("report.json").contains("\"exit_code\":0"));
}

#[test]
fn twenty_at_once_count_to_twenty_with_rising_tokens() {
    let place = Place::new();
    let story = r#"echo 0 > n; for i in $(seq 20); do fencepost run counter -- sh -c \
        'n=$(cat n); sleep 0.02; echo $((n+1)) > n; echo $FENCEPOST_TOKEN >> t' & done; wait"#;
    let folder = std::path::Path::new(PROGRAM).parent().expect("a folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").expect("a path"));
    place.program("sh").arguments(["-c", story]).set("PATH", &path).end().with_code(0);
    assert_eq!(place.read("n"), "20\n");
    let tokens: Vec<u64> = place.read("t").lines().map(|line| line.parse().expect("digits")).collect();
    assert_eq!(tokens.len(), 20);
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
}

#[test]
fn a_lock_with_a_delay_rests_after_a_crash_and_not_after_a_clean_end() {
    let place = Place::new();
    let flags = ["--ttl", "300ms", "--lock-delay", "700ms", "a"];
    place.run(&flags, &["true"]).end().with_code(0);
    place.run(&["-n", "a"], &["true"]).end().with_code(0);
    let crashing = place.run(&flags, &HOLD).start_until_it_says("held");
    let crashed = std::time::Instant::now();
    crashing.signal(Signal::SIGKILL);
    place.run(&["a"], &["true"]).end().with_code(0);
    assert!(crashed.elapsed() >= std::time::Duration::from_millis(700), "after {:?}", crashed.elapsed());
    place.run(&["--lock-delay", "48h", "a"], &["true"]).end().with_code(2).saying("--lock-delay");
}
