//! `top`, in a real terminal.

use std::fs;

use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::find;
use fencepost_testkit::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{HOLD, PROGRAM, Place, Running};
use crate::tmux::Terminal;

const USUAL: (u16, u16) = (100, 30);

fn file(place: &Place) -> String {
    format!("sqlite:{}", place.path("locks.db").display())
}

fn holder(place: &Place, store: &str, label: &str, name: &str) -> Running {
    let run = place.run(&["--label", label, name], &HOLD).set("FENCEPOST_STORE", store);
    run.start_until_it_says("held")
}

fn waiter(place: &Place, store: &str, label: &str, name: &str) -> Running {
    let run = place.run(&["-v", "--label", label, name], &["true"]).set("FENCEPOST_STORE", store);
    let mut waiter = run.start();
    waiter.until_it_notes("waiting");
    waiter
}

/// Changes the file itself.
fn past_the_library(place: &Place, statement: &str) {
    let script =
        "import sqlite3, sys; db = sqlite3.connect('locks.db', timeout=60); db.execute(sys.argv[1]); db.commit()";
    let python = find("python3", "python3").display().to_string();
    place.program(&python).arguments(["-c", script, statement]).end().with_code(0);
}

/// The seconds in the bar of a row.
fn seconds_left(terminal: &Terminal, name: &str) -> Option<u32> {
    let row = terminal.row(name)?;
    let bar = row.split_once('[')?.1.split_once("s]")?.0;
    bar.trim_start_matches(['|', ' ']).parse().ok()
}

#[test]
fn a_lock_comes_shrinks_has_a_line_and_goes() {
    let place = Place::new();
    let store = file(&place);
    let terminal = Terminal::top(&place, USUAL, &store, "-d 100ms");
    terminal.until("No lock is in use");
    let first = holder(&place, &store, "web-1", "nightly");
    terminal.until_row("nightly", "web-1");
    terminal.until("In use 1  Contended 0  Free 0  All 1");
    let before = seconds_left(&terminal, "nightly").expect("a bar");
    wait::until("the bar shrinks", || seconds_left(&terminal, "nightly").is_some_and(|now| now < before));
    let waiters = [waiter(&place, &store, "job-2", "nightly"), waiter(&place, &store, "job-3", "nightly")];
    terminal.until_row("nightly", "2 job-2 › job-3");
    terminal.press(&["Enter"]);
    terminal.until("In line (2)");
    let screen = terminal.screen();
    let place_of = |words: &str| screen.find(words).unwrap_or_else(|| panic!("{words} is not in\n{screen}"));
    assert!(place_of("1  job-2") < place_of("2  job-3"), "{screen}");
    for words in ["Lock · held · 2 wait · last token", "web-1", "mode       exclusive", "time left  [", "actor"] {
        place_of(words);
    }
    terminal.press(&["Escape"]);
    terminal.until("NAME");
    first.let_go().with_code(0);
    waiters.into_iter().for_each(|waiter| drop(waiter.end().with_code(0)));
    // It stays in sight for a moment; what counts is that it is free.
    terminal.until("Free 1  All 1");
    terminal.until("No lock is in use");
}

#[test]
fn rows_are_sorted_filtered_searched_and_chosen() {
    let place = Place::new();
    let store = file(&place);
    let _held = ["c", "a", "b"].map(|name| holder(&place, &store, &format!("by-{name}"), &format!("job/{name}")));
    let _waits = waiter(&place, &store, "late", "job/b");
    place.run(&["old"], &["true"]).end().with_code(0);
    let terminal = Terminal::top(&place, USUAL, &store, "");
    let order = || -> Vec<String> {
        let screen = terminal.screen();
        let names = screen.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with("job/")));
        names.map(ToOwned::to_owned).collect()
    };
    let until_order = |names: [&str; 3]| wait::until(&format!("{names:?}"), || order() == names);
    until_order(["job/b", "job/a", "job/c"]);
    terminal.press(&["N"]);
    until_order(["job/a", "job/b", "job/c"]);
    terminal.press(&["I"]);
    until_order(["job/c", "job/b", "job/a"]);
    terminal.press(&["F6"]);
    terminal.until("Sort by");
    terminal.press(&["Home", "Enter"]);
    until_order(["job/a", "job/b", "job/c"]);
    terminal.press(&["\\", "b", "y", "-", "c"]);
    terminal.until_so("only c", |_| order() == ["job/c"]);
    terminal.press(&["Escape"]);
    until_order(["job/a", "job/b", "job/c"]);
    terminal.press(&["/", "l", "a", "t", "e", "Enter", "Enter"]);
    terminal.until("In line (1)");
    assert!(terminal.screen().starts_with("job/b\n"), "the one that late waits for");
    terminal.press(&["q", "Tab", "Tab"]);
    terminal.until_row("old", "free");
    terminal.press(&["F1"]);
    terminal.until("Keys of fencepost top");
    terminal.press(&["q", "d"]);
    terminal.until("None, ");
}

#[test]
fn a_lock_is_released_by_force_only_after_a_yes() {
    let place = Place::new();
    let store = file(&place);
    let held = holder(&place, &store, "web-1", "nightly");
    let terminal = Terminal::top(&place, USUAL, &store, "-d 200ms");
    terminal.until_row("nightly", "web-1");
    terminal.press(&["k"]);
    terminal.until("Release nightly by force? Held by web-1");
    terminal.press(&["n"]);
    terminal.until("nothing was done");
    assert!(!place.is_free("nightly"));
    terminal.press(&["a"]);
    terminal.until("Ask for nightly?");
    terminal.press(&["y"]);
    terminal.until("nightly was held by web-1");
    terminal.until("was asked for");
    terminal.press(&["F9"]);
    terminal.until("[y/N]");
    terminal.press(&["y"]);
    terminal.until("it is released");
    terminal.until("Free 1  All 1");
    held.end().with_code(80);
}

#[test]
fn a_view_only_takes_nothing_away() {
    let place = Place::new();
    let store = file(&place);
    let held = holder(&place, &store, "web-1", "nightly");
    let terminal = Terminal::top(&place, USUAL, &store, "--read-only");
    terminal.until_row("nightly", "web-1");
    terminal.press(&["k", "y"]);
    terminal.press(&["k"]);
    terminal.until("this is a view only");
    assert!(!place.is_free("nightly"));
    held.let_go().with_code(0);
}

#[test]
fn every_way_out_gives_the_terminal_back() {
    let place = Place::new();
    let terminal = Terminal::open(&place, USUAL, &[("FENCEPOST_STORE", &file(&place))]);
    let start = || {
        terminal.line(&format!("clear; echo before; sh -c 'echo $$ > pid; exec {PROGRAM} top -d 200ms'; echo code=$?"));
        terminal.until("No lock is in use");
        assert!(!terminal.screen().contains("before"), "a screen of its own");
        Pid::from_raw(place.read("pid").trim().parse().expect("a process id"))
    };
    let is_back = |code: u8| {
        terminal.until(&format!("code={code}\n"));
        let screen = terminal.screen();
        assert!(screen.starts_with("before\n") && !screen.contains("NAME"), "{screen}");
        terminal.line("stty -a | tr ' ;' '\\n' | grep -x -e echo -e icanon -e opost | wc -l | sed s/^/modes=/");
        terminal.until("modes=3");
    };
    for keys in [["q"], ["F10"], ["C-c"]] {
        start();
        terminal.press(&keys);
        is_back(0);
    }
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)] {
        kill(start(), signal).expect("it is there");
        is_back(code);
    }
}

#[test]
fn it_is_suspended_and_goes_on() {
    let place = Place::new();
    let terminal = Terminal::top(&place, USUAL, &file(&place), "-d 200ms");
    terminal.until("No lock is in use");
    for _ in 0..2 {
        terminal.press(&["C-z"]);
        terminal.until("Stopped");
        assert!(!terminal.screen().contains("No lock is in use"));
        terminal.line("clear; fg");
        terminal.until("No lock is in use");
        terminal.press(&["F1"]);
        terminal.until("Keys of fencepost top");
        terminal.press(&["q"]);
        terminal.until("No lock is in use");
    }
}

#[test]
fn it_follows_the_size_of_the_terminal() {
    let place = Place::new();
    let store = file(&place);
    let _held = holder(&place, &store, "web-1", "nightly");
    let terminal = Terminal::top(&place, (120, 40), &store, "");
    terminal.until("TOKEN");
    let rows = |screen: &str| screen.lines().count();
    for (size, gone, kept) in
        [((80, 24), "TOKEN", "KIND"), ((40, 12), "KIND", "HOLDER"), ((20, 5), "HOLDER", "nightly")]
    {
        terminal.resize(size.0, size.1);
        terminal.until_so(&format!("{size:?}"), |screen| {
            rows(screen) == usize::from(size.1) && !screen.contains(gone) && screen.contains(kept)
        });
    }
    terminal.resize(120, 40);
    terminal.until("TOKEN");
    terminal.until_row("nightly", "web-1");
}

#[test]
fn a_hostile_label_is_only_text() {
    let place = Place::new();
    let store = file(&place);
    let _held = holder(&place, &store, "web-1", "nightly \u{202e}漢字");
    // The library would refuse it.
    let label = "char(27) || '[2J' || char(27) || ']0;owned' || char(7) || 'x'";
    past_the_library(&place, &format!("UPDATE holders SET label = {label}"));
    let terminal = Terminal::top(&place, USUAL, &store, "");
    terminal.until_row("nightly \\u{202e}漢字", "\\u{1b}[2J");
    terminal.press(&["Enter"]);
    terminal.until("\\u{1b}[2J\\u{1b}]0;owned\\u{7}x");
    terminal.press(&["k"]);
    terminal.until("by force? Held by \\u{1b}[2J");
    terminal.press(&["n"]);
}

#[test]
fn a_dead_node_and_a_broken_quorum_are_seen_at_a_glance() {
    let place = Place::new();
    let mut nodes: Vec<_> = (0..5).map(|_| Redis::new().start()).collect();
    let addresses: Vec<String> = nodes.iter().map(|node| node.address()).collect();
    let store = format!("redlock://{}", addresses.join(","));
    place.fencepost(["init"]).set("FENCEPOST_STORE", &store).end().with_code(0);
    let _held = holder(&place, &store, "web-1", "nightly");
    let terminal = Terminal::top(&place, USUAL, &store, "-d 200ms");
    terminal.until_row("nightly", "web-1");
    terminal.until("5 of 5 answer, 3 must");
    nodes[3].kill();
    terminal.until("4 of 5 answer, 3 must");
    terminal.until(&format!("{} unreachable, for", addresses[3]));
    terminal.until_row("nightly", "web-1");
    terminal.press(&["n"]);
    terminal.until("4 of 5 answer, 3 must. Locks go on.");
    terminal.until_row(&addresses[3], "unreachable");
    terminal.until_row(&addresses[0], "answers");
    terminal.press(&["Escape"]);
    nodes[0].kill();
    nodes[1].kill();
    terminal.until("2 of 5 answer, 3 must");
    terminal.until("The store has been away for");
}

#[test]
fn keys_work_while_the_store_is_silent_or_gone_and_it_comes_back() {
    let place = Place::new();
    let mut server = Redis::new().start();
    let store = format!("redis://{}", server.address());
    // For longer than the server is silent, however busy the machine is.
    let hold = place.run(&["--ttl", "5m", "--label", "web-1", "nightly"], &HOLD).set("FENCEPOST_STORE", &store);
    let _held = hold.start_until_it_says("held");
    let terminal = Terminal::top(&place, USUAL, &store, "-d 200ms");
    terminal.until_row("nightly", "web-1");
    server.pause();
    // Does not answer for some seconds, and is away after that.
    terminal.until("The store ");
    terminal.press(&["F1"]);
    terminal.until("Keys of fencepost top");
    terminal.press(&["q"]);
    terminal.until_row("nightly", "web-1");
    server.resume();
    terminal.until_gone("The store");
    server.kill();
    terminal.until("The store has been away for");
    terminal.press(&["F6"]);
    terminal.until("Sort by");
    terminal.press(&["Escape"]);
    server.restart();
    terminal.until_gone("The store has been away");
}

#[test]
fn colours_are_left_out_on_request() {
    let place = Place::new();
    let store = file(&place);
    let terminal = Terminal::open(&place, USUAL, &[("FENCEPOST_STORE", &store)]);
    // Not 39 and 49, by which tmux tells that there is none.
    let is_coloured = |text: &str| ["[30m", "[36m", "[42m", "[46m", "[90m"].iter().any(|code| text.contains(code));
    for (variable, coloured) in [("NO_COLOR=", true), ("NO_COLOR=1", false)] {
        terminal.line(&format!("clear; {variable} {PROGRAM} top"));
        terminal.until("No lock is in use");
        assert_eq!(is_coloured(&terminal.colours()), coloured, "{:?}", terminal.colours());
        terminal.press(&["q"]);
        terminal.until_gone("No lock is in use");
    }
}

#[test]
fn ten_thousand_locks_stay_at_hand() {
    let place = Place::new();
    let store = file(&place);
    place.run(&["first"], &["true"]).end().with_code(0);
    let numbers = "WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x < 10000)";
    let rows = "SELECT printf('lock/%05d', x), 7, (SELECT max(used_at_ms) FROM locks) FROM n";
    past_the_library(&place, &format!("INSERT INTO locks {numbers} {rows}"));
    let terminal = Terminal::top(&place, USUAL, &store, "");
    terminal.until("All 10 000  of the first 10 000");
    terminal.press(&["Tab", "Tab", "N", "End"]);
    terminal.until("lock/09998");
    terminal.press(&["PPage"]);
    terminal.until("lock/09974");
    terminal.press(&["Home"]);
    terminal.until("first");
    terminal.press(&["/", "0", "7", "7", "7", "7"]);
    terminal.until("lock/07777");
}

#[test]
fn without_a_terminal_there_is_a_cure_and_one_reading_as_text() {
    let place = Place::new();
    place.fencepost(["top"]).end().with_code(2).saying("fencepost top --once");
    place.fencepost(["top", "--json"]).end().with_code(2).saying("ls --json");
    place.fencepost(["top", "-d", "50ms"]).end().with_code(2).saying("50ms");
    place.fencepost(["top", "--limit", "0"]).end().with_code(2).saying("--limit");
    let dumb = Terminal::open(&place, USUAL, &[("FENCEPOST_STORE", &file(&place))]);
    dumb.line(&format!("TERM=dumb {PROGRAM} top"));
    dumb.until("TERM=dumb");
    let held = place.run(&["--label", "web-1", "nightly"], &HOLD).start_until_it_says("held");
    let done = place.fencepost(["top", "--once"]).end().with_code(0);
    let row = done.stdout.lines().find(|line| line.starts_with("nightly")).expect("a row");
    assert!(row.contains("web-1") && row.contains("s]"), "{row}");
    assert!(!done.stdout.contains('\u{1b}') && done.stdout.contains("In use 1"), "{}", done.stdout);
    // However wide somebody says that it is.
    for columns in ["0", "1", "18446744073709551615"] {
        let done = place.fencepost(["top", "--once"]).set("COLUMNS", columns).end().with_code(0);
        assert!(done.stdout.lines().all(|line| line.chars().count() <= 1000), "COLUMNS={columns}");
    }
    place.fencepost(["top", "-b", "--store", "redis://127.0.0.1:1"]).end().with_code(69);
    held.let_go().with_code(0);
    assert!(fs::exists(place.path("locks.db")).expect("readable"));
}
