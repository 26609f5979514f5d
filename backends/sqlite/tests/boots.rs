//! Boot ids: a container may have one of its own although it shares the kernel, and with it the file and the clock.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use common::Place;
use fencepost_core::{Blocking, StoreErrorKind};
use fencepost_testkit::process::{Other, await_leave, hear, role, say};

/// Starts a process whose `/proc` shows this boot id: in a mount namespace of its own, as a container is.
fn start_under(boot_id: &str, place: &Place, role: &str) -> Other {
    let shown = place.path(boot_id);
    fs::write(&shown, format!("{boot_id}\n")).expect("written");
    let mut command = Command::new("unshare");
    if fs::metadata("/proc/self").expect("read").uid() != 0 {
        command.arg("--map-root-user");
    }
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(shown).arg(std::env::current_exe().expect("this program"));
    Other::start_by(command, role, &place.file())
}

/// Not a test of its own: what the other processes run.
#[test]
fn in_another_process() {
    let Some((role, file)) = role() else { return };
    match role.as_str() {
        "holds" => hold(&file),
        "tries" => attempt(&file),
        "reads" => keep_open(&file),
        role => unreachable!("BUG: no role {role}"),
    }
}

/// Holds `a`, and says at each word that it hears whether it still does.
fn hold(file: &str) {
    let locks = fencepost_sqlite::connect(file).block().expect("opens");
    let guard = locks.lock("a").acquire().block().expect("free");
    say("holds");
    while hear().is_some() {
        guard.renew().block().expect("nobody took it");
        say("still holds");
    }
    guard.release().block().expect("released");
}

/// Says what becomes of one attempt to get `a`.
fn attempt(file: &str) {
    match fencepost_sqlite::connect(file).block() {
        Ok(locks) => match locks.lock("a").try_acquire().block().expect("answered") {
            Some(guard) => say(&format!("outcome: got it under {}", guard.token())),
            None => say("outcome: held by another"),
        },
        Err(error) => say(&format!("outcome: refused ({:?}) {error}", error.kind)),
    }
}

/// What an older program does that has the file open: it holds nothing but SQLite's own locks.
fn keep_open(file: &str) {
    let connection = rusqlite::Connection::open(file).expect("opens");
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("read");
    assert_eq!(mode, "wal");
    connection.query_row("SELECT count(*) FROM holders", [], |row| row.get::<_, i64>(0)).expect("read");
    say("reads");
    await_leave();
}

fn attempt_under(boot_id: &str, place: &Place) -> String {
    start_under(boot_id, place, "tries").says("outcome: ")
}

fn assert_refused(outcome: &str, place: &Place) {
    assert!(outcome.starts_with("refused (Misconfigured)"), "{outcome}");
    assert!(outcome.contains(&place.file()) && outcome.contains("boot id"), "{outcome}");
}

#[test]
fn a_live_lease_is_not_cleared_by_a_process_under_another_boot_id() {
    let place = Place::new();
    let mut holder = Other::start("holds", &place.file());
    holder.says("holds");
    assert_refused(&attempt_under("other", &place), &place);
    holder.tell("renew");
    holder.says("still holds");
    holder.finish();
    let outcome = attempt_under("other", &place);
    assert!(outcome.starts_with("got it"), "nobody has the file open any more: {outcome}");
}

#[test]
fn processes_under_one_boot_id_share_the_file_whatever_it_is() {
    let place = Place::new();
    let mut holder = start_under("container", &place, "holds");
    holder.says("holds");
    assert_eq!(attempt_under("container", &place), "held by another");
    let error = fencepost_sqlite::connect(&place.file()).block().expect_err("refused");
    assert_eq!(error.kind, StoreErrorKind::Misconfigured);
    holder.finish();
}

#[test]
fn an_older_program_that_has_the_file_open_counts() {
    let place = Place::new();
    drop(place.connect());
    place.await_gone("locks.db-wal");
    let mut older = Other::start("reads", &place.file());
    older.says("reads");
    assert_refused(&attempt_under("other", &place), &place);
    older.finish();
    let outcome = attempt_under("other", &place);
    assert!(outcome.starts_with("got it"), "{outcome}");
}

#[test]
fn a_process_that_had_to_close_the_file_after_trouble_counts() {
    let place = Place::new();
    let locks = place.connect();
    let guard = locks.lock("a").acquire().block().expect("free");
    let file = rusqlite::Connection::open(place.file()).expect("opens");
    file.execute_batch("ALTER TABLE locks RENAME TO hidden").expect("renamed");
    assert!(locks.inspect("a").block().is_err(), "trouble: the file is closed until the next step");
    file.execute_batch("ALTER TABLE hidden RENAME TO locks").expect("renamed");
    drop(file);
    assert_refused(&attempt_under("other", &place), &place);
    guard.renew().block().expect("still ours");
}
