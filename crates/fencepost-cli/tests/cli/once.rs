//! `once`: one run per window.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fencepost_testkit::etcd::Etcd;
use fencepost_testkit::postgres::Postgres;
use fencepost_testkit::preload::{Clocks, SlowDisk};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::wait;
use nix::sys::signal::Signal;

use crate::support::{HOLD, Invocation, Place};

const SAY: [&str; 3] = ["sh", "-c", "echo ran $FENCEPOST_LOCK in $FENCEPOST_WINDOW with ${FENCEPOST_TOKEN:+a} token"];
/// A century: no test sees its end.
const EVERY: [&str; 2] = ["--every", "36500d"];

/// `fencepost once job [flags] -- COMMAND`; exits with 7 if somebody else ran it.
fn once(place: &Place, flags: &[&str], command: &[&str]) -> Invocation {
    place.fencepost([&["once", "job", "-E", "7"], flags, &["--"], command].concat())
}

#[test]
fn of_all_who_call_in_a_window_one_runs() {
    let place = Place::new();
    let ran = once(&place, &EVERY, &SAY).end().with_code(0);
    assert_eq!(ran.stdout, "ran cron/job in 1970-01-01T00:00:00Z with a token\n");
    for flags in [&EVERY[..], &["--every", "36500d", "--report", "out.json"]] {
        let skipped = once(&place, flags, &SAY).end().with_code(7);
        assert_eq!((&*skipped.stdout, &*skipped.stderr), ("", ""));
    }
    assert!(place.read("out.json").contains(r#""outcome":"skipped""#));
    let told_nothing = place.fencepost([&["once", "job"], &EVERY[..], &["--"], &SAY].concat());
    assert_eq!(told_nothing.end().with_code(0).stdout, "", "somebody else did it");
    let named = |key: &str| once(&place, &["--window", key], &SAY).end();
    assert_eq!(named("2026-11-15T02").with_code(0).stdout, "ran cron/job in 2026-11-15T02 with a token\n");
    named("2026-11-15T02").with_code(7);
    named("2026-11-15T03").with_code(0);
}

#[test]
fn whoever_calls_while_it_runs_skips_and_all_can_see_it() {
    let place = Place::new();
    let status = || place.json(&["once", "--status", "job"]);
    assert_eq!((&status()["outcome"], &status()["running"]), (&().into(), &().into()));
    let said = place.fencepost(["once", "--status", "job"]).end().with_code(0).stdout;
    assert_eq!(said, "job: has not run yet\n");
    let running = once(&place, &EVERY, &HOLD).start_until_it_says("held");
    once(&place, &EVERY, &SAY).end().with_code(7);
    assert!(status()["running"]["label"].is_string(), "{}", status());
    running.let_go().with_code(0);
    let state = status();
    assert_eq!((&state["outcome"], &state["running"]), (&"done".into(), &().into()));
    assert_eq!((&state["last_window"], &state["error"]), (&"1970-01-01T00:00:00Z".into(), &().into()));
    assert_eq!(state["next"], "2069-12-07T00:00:00Z");
    let said = place.fencepost(["once", "--status", "job"]).end().with_code(0).stdout;
    assert!(said.contains("window 1970-01-01T00:00:00Z, done\ndue next 2069-12-07T00:00:00Z"), "{said}");
}

#[test]
fn a_failed_run_is_done_with_its_own_code() {
    let place = Place::new();
    once(&place, &EVERY, &["sh", "-c", "exit 3"]).end().with_code(3);
    once(&place, &EVERY, &SAY).end().with_code(7);
    let state = place.json(&["once", "--status", "job"]);
    assert_eq!((&state["outcome"], &state["error"]), (&"failed".into(), &"exit code 3".into()));
}

/// The 2 am job of a server in California runs at 2 am there, at 9:00 in UTC in summer and at 10:00 in winter.
#[test]
fn a_job_with_a_time_zone_runs_at_its_hour_there() {
    let place = Place::new();
    let clocks = Clocks::new();
    let at = |rfc3339: &str, flags: &[&str]| {
        let time = humantime::parse_rfc3339(rfc3339).expect("a time");
        match time.duration_since(SystemTime::now()) {
            Ok(ahead) => clocks.wall_ahead(ahead),
            Err(behind) => clocks.wall_behind(behind.duration()),
        }
        let mut call = place.fencepost(flags);
        for (name, value) in clocks.environment() {
            call = call.set(name, value.to_str().expect("a plain path"));
        }
        call.end().with_code(0).stdout
    };
    let flags = ["--at", "02:00", "--tz", "America/Los_Angeles", "--start-within", "1h"];
    let job = [&["once", "report"], &flags[..], &["--", "sh", "-c", "echo $FENCEPOST_WINDOW"]].concat();
    for (now, ran) in [
        ("2026-07-15T08:55:00Z", ""),
        ("2026-07-15T09:00:05Z", "2026-07-15T02:00:00-07:00\n"),
        ("2026-07-15T09:05:05Z", ""),
        ("2026-07-16T10:30:00Z", ""),
        ("2026-12-15T09:59:50Z", ""),
        ("2026-12-15T10:00:05Z", "2026-12-15T02:00:00-08:00\n"),
    ] {
        assert_eq!(at(now, &job), ran, "{now}");
    }
    let status = at("2026-12-15T11:00:00Z", &["once", "--status", "report"]);
    assert!(status.contains(", window 2026-12-15T02:00:00-08:00, done\n"), "{status}");
    assert!(status.ends_with("due next 2026-12-16T02:00:00-08:00, America/Los_Angeles\n"), "{status}");
    let json = at("2026-12-15T11:00:00Z", &["once", "--status", "report", "--json"]);
    assert!(json.contains(r#""next":"2026-12-16T10:00:00Z","next_local":"2026-12-16T02:00:00-08:00""#), "{json}");
    assert!(json.contains(r#""tz":"America/Los_Angeles""#), "{json}");

    let other = ["once", "other", "--cron", "30 2 * * MON-FRI", "--tz", "Europe/Berlin", "--status"];
    let unknown = at("2026-03-27T12:00:00Z", &other);
    assert_eq!(unknown, "other: has not run yet\ndue next 2026-03-30T02:30:00+02:00, Europe/Berlin\n");
}

/// One server dies in the middle of the run, by `kill -9`, and another runs the window; not before the lease is over.
fn another_runs_what_one_died_with(store: Option<&str>) {
    let place = Place::new();
    let ttl = Duration::from_secs(4);
    let flags = ["--every", "36500d", "--ttl", "4s"];
    let call = |command: &[&str]| match store {
        Some(store) => once(&place, &flags, command).set("FENCEPOST_STORE", store),
        None => once(&place, &flags, command),
    };
    if store.is_some_and(|store| store.starts_with("postgres:")) {
        place.fencepost(["init", "--store", store.unwrap_or_default()]).end().with_code(0);
    }
    let began = Instant::now();
    let running = call(&HOLD).start_until_it_says("held");
    call(&SAY).end().with_code(7);
    running.signal(Signal::SIGKILL);
    running.end().with_code(-9);
    wait::until("the lease is over", || match call(&SAY).end() {
        done if done.code == 7 => false,
        done => done.with_code(0).stdout.starts_with("ran"),
    });
    assert!(began.elapsed() >= ttl, "{:?}", began.elapsed());
    call(&SAY).end().with_code(7);
}

#[test]
fn a_window_whose_runner_was_killed_is_run_by_another() {
    another_runs_what_one_died_with(None);
}

#[test]
fn a_window_whose_runner_was_killed_is_run_by_another_on_redis() {
    let server = Redis::new().start();
    another_runs_what_one_died_with(Some(&format!("redis://{}", server.address())));
}

#[test]
fn a_window_whose_runner_was_killed_is_run_by_another_on_postgresql() {
    let server = Postgres::new().start();
    another_runs_what_one_died_with(Some(&server.url()));
}

#[test]
fn a_window_whose_runner_was_killed_is_run_by_another_on_etcd() {
    let server = Etcd::new().start();
    another_runs_what_one_died_with(Some(&format!("etcd://{}", server.address())));
}

/// Nodes that vote keep no records: they decide who runs it, and another store remembers that it was run.
#[test]
fn nodes_that_vote_need_a_store_for_records() {
    let (place, nodes, keeping) = (Place::new(), [(); 3].map(|()| Redis::new().start()), Redis::new().start());
    let addresses = nodes.each_ref().map(|node| node.address().to_string());
    let (store, records) = (format!("redlock://{}", addresses.join(",")), format!("redis://{}", keeping.address()));
    let call = |arguments: &[&str]| place.fencepost(arguments).set("FENCEPOST_STORE", &store);
    call(&["init"]).end().with_code(0);
    let job = ["once", "job", "-E", "7", "--every", "36500d"];
    let run = |flags: &[&str]| call(&[&job[..], flags, &["--"], &SAY].concat());
    let status = ["once", "--status", "job"];
    for refused in
        [run(&[]), call(&status), run(&["--records", &store]), call(&status).set("FENCEPOST_RECORDS", &store)]
    {
        let said = refused.end().with_code(78);
        assert!(said.stdout.is_empty() && said.stderr.contains("keeps no records"), "{said:?}");
        assert!(said.stderr.contains("--records") && said.stderr.contains("FENCEPOST_RECORDS"), "{said:?}");
    }
    run(&["--records", &records]).end().with_code(0);
    run(&["--records", &records]).end().with_code(7);
    run(&[]).set("FENCEPOST_RECORDS", &records).end().with_code(7);
    place.write("fencepost.toml", &format!("records = '{records}'\n"));
    run(&[]).end().with_code(7);
    let said = call(&status).end().with_code(0).stdout;
    assert!(said.contains("window 1970-01-01T00:00:00Z, done"), "{said}");
    // What keeps no records does not need them.
    call(&["run", "x", "--", "true"]).set("FENCEPOST_RECORDS", "redis://127.0.0.1:1").end().with_code(0);
    run(&["--records", "redis://127.0.0.1:1"]).end().with_code(69);
}

#[test]
fn a_run_that_was_told_to_end_is_not_done() {
    let place = Place::new();
    let running = once(&place, &EVERY, &HOLD).start_until_it_says("held");
    running.signal(Signal::SIGTERM);
    running.end().with_code(128 + 15);
    assert!(place.is_free("cron/job"), "released");
    once(&place, &EVERY, &SAY).end().with_code(0);
}

#[test]
fn a_run_is_ended_after_its_most_and_rests_for_its_least() {
    let place = Place::new();
    let flags = ["--every", "36500d", "--at-most", "200ms"];
    once(&place, &flags, &["sleep", "1000"]).end().with_code(80).saying("hold limit");
    once(&place, &flags, &SAY).end().with_code(7);
    let state = place.json(&["once", "--status", "job"]);
    assert_eq!((&state["outcome"], &state["error"]), (&"failed".into(), &"stopped after 200ms".into()));

    let place = Place::new();
    let flags = ["--every", "1ms", "--at-least", "1h"];
    once(&place, &flags, &SAY).end().with_code(0);
    once(&place, &flags, &SAY).end().with_code(7);
}

#[test]
fn a_run_whose_lock_was_taken_away_is_ended_and_not_done() {
    let place = Place::new();
    let running = once(&place, &["--every", "36500d", "--ttl", "6s"], &HOLD).start_until_it_says("held");
    place.fencepost(["release", "cron/job", "--force"]).end().with_code(0);
    running.end().with_code(80).saying("released by force");
    once(&place, &EVERY, &SAY).end().with_code(0);
}

#[test]
fn a_store_that_nobody_named_is_refused() {
    let place = Place::new();
    for arguments in [&["once", "job", "--every", "1d", "--", "true"][..], &["once", "--status", "job"]] {
        let refused = place.fencepost(arguments).unset("FENCEPOST_STORE").end().with_code(78);
        assert!(refused.stderr.contains("all servers share") && refused.stderr.contains("--store"), "{refused:?}");
    }
    let named = format!("sqlite:{}", place.path("shared.db").display());
    let arguments = ["--store", &named, "once", "job", "--every", "36500d", "--", "true"];
    place.fencepost(arguments).unset("FENCEPOST_STORE").end().with_code(0);
    place.write("config/fencepost/fencepost.toml", &format!("store = '{named}'\n"));
    place.fencepost(["once", "--status", "job"]).unset("FENCEPOST_STORE").end().with_code(0);
}

#[test]
fn bad_windows_and_names_are_refused_with_a_cure() {
    let place = Place::new();
    let long = "x".repeat(251);
    for (arguments, words) in [
        (&["once", "job", "--", "true"][..], "--every"),
        (&["once", "job", "--at", "25:00", "--", "true"], "invalid --at \"25:00\": write a time of day as HH:MM"),
        (&["once", "job", "--at", "02:00", "--tz", "Mars/Base", "--", "true"], "invalid --tz \"Mars/Base\""),
        (&["once", "job", "--cron", "0 2 * *", "--", "true"], "five fields"),
        (&["once", "job", "--cron", "0 2 30 2 *", "--", "true"], "never comes"),
        (&["once", "job", "--at", "02:00", "--cron", "0 2 * * *", "--", "true"], "cannot be used with"),
        (&["once", "job", "--every", "1d", "--tz", "UTC", "--", "true"], "--at or --cron"),
        (&["once", "job", "--window", "x", "--start-within", "1h", "--", "true"], "cannot be used with"),
        (&["once", "job", "--at", "02:00", "--start-within", "0s", "--", "true"], "--start-within"),
        (&["once", "job", "--every", "1d", "--window", "x", "--", "true"], "cannot be used with"),
        (&["once", "--status", "job", "--", "true"], "cannot be used with"),
        (&["once", "job", "--every", "1d"], "CMD"),
        (&["once", "job", "--every", "0s", "--", "true"], "at least a millisecond"),
        (&["once", "job", "--window", "", "--", "true"], "1 to 255"),
        (&["once", "job", "--every", "1d", "--at-most", "0s", "--", "true"], "--at-most"),
        (&["once", "job", "--every", "1d", "--at-least", "20000d", "--", "true"], "--at-least"),
        (&["once", "", "--every", "1d", "--", "true"], "name"),
        (&["once", &long, "--every", "1d", "--", "true"], "name"),
        (&["once", "--status", &long], "name"),
    ] {
        place.fencepost(arguments).end().with_code(2).saying(words);
    }
}

/// Each has a job of its own, so each writes several times; the file is not there yet, and a commit takes a while.
#[test]
fn fifty_processes_that_come_to_a_new_file_all_have_their_turn() {
    let (place, disk) = (Place::new(), SlowDisk::new(Duration::from_millis(20)));
    let all: Vec<_> = (0..50)
        .map(|number| {
            let name = format!("job {number}");
            let command = ["once", &name, "-E", "7", "--every", "36500d", "--", "echo", "ran"];
            disk.environment()
                .into_iter()
                .fold(place.fencepost(command), |call, (name, value)| call.set(name, value.to_str().expect("plain")))
                .start()
        })
        .collect();
    for call in all {
        assert_eq!(call.end().with_code(0).stdout, "ran\n");
    }
}

/// Servers whose clocks are up to 5 s apart call it in the same second, just when a window begins by the middle one. With
/// `FENCEPOST_LONG` 50 of them, for 20 windows.
#[test]
fn servers_whose_clocks_differ_run_each_window_once() {
    let (per_clock, windows) = if std::env::var_os("FENCEPOST_LONG").is_some() { (10, 20) } else { (2, 4) };
    let (place, server) = (Place::new(), Redis::new().start());
    let store = format!("redis://{}", server.address());
    let clocks: Vec<(Clocks, i64)> = [-2500, -1250, 0, 1250, 2500].map(|apart| (Clocks::new(), apart)).into();
    let hour = Duration::from_secs(3600);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let first = Duration::from_secs(now().as_secs() / 3600 * 3600) + hour;
    let call = || {
        let command = ["once", "job", "--every", "1h", "--", "sh", "-c", "echo $FENCEPOST_WINDOW >> ran"];
        place.fencepost(command).set("FENCEPOST_STORE", &store)
    };
    // The hour before: else a slow clock might run it while all others try the next one.
    call().end().with_code(0);
    let begins: Vec<Duration> = (0..windows).map(|window| first + window * hour).collect();
    for begin in &begins {
        for (clock, apart) in &clocks {
            let ahead = begin.as_millis() as i64 - now().as_millis() as i64 + apart;
            match u64::try_from(ahead) {
                Ok(ahead) => clock.wall_ahead(Duration::from_millis(ahead)),
                Err(_) => clock.wall_behind(Duration::from_millis(ahead.unsigned_abs())),
            }
        }
        let all = clocks.iter().flat_map(|(clock, _)| std::iter::repeat_n(clock, per_clock));
        let all = all.map(|clock| {
            let mut call = call();
            for (name, value) in clock.environment() {
                call = call.set(name, value.to_str().expect("a plain path"));
            }
            call.start()
        });
        for call in all.collect::<Vec<_>>() {
            call.end().with_code(0);
        }
    }
    let mut runs = BTreeMap::<String, usize>::new();
    place.read("ran").lines().for_each(|window| *runs.entry(window.to_owned()).or_default() += 1);
    for begin in begins {
        let window = humantime::format_rfc3339(UNIX_EPOCH + begin).to_string();
        assert_eq!(runs.remove(&window), Some(1), "{window}");
    }
    // Only the hour before is left.
    assert!(runs.len() <= 1 && runs.values().all(|&times| times == 1), "{runs:?}");
}
