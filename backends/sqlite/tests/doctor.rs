//! Files that cannot be good, and what an examination says of each: that, and nothing else.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use fencepost_core::doctor::{Report, Severity};
use fencepost_testkit::findings::{bad, finding};
use fencepost_testkit::wait::until;
use rusqlite::Connection;
use tempfile::TempDir;

fn examined(file: &Path) -> Report {
    fencepost_sqlite::examine(file.to_str().expect("UTF-8"), Duration::from_secs(30))
}

/// On a disk: the system's folder for temporary files may be in memory.
fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

#[test]
fn a_good_file_has_no_warning_and_keeps_no_lock() {
    let folder = folder();
    let file = folder.path().join("locks.db");
    let report = examined(&file);
    assert_eq!(bad(&report), [""; 0], "{report:#?}");
    assert!(report.facts.iter().any(|fact| fact.what == "round trip"), "{report:?}");
    let holders = Connection::open(&file)
        .and_then(|file| file.query_row("SELECT count(*) FROM holders", [], |row| row.get::<_, i64>(0)));
    assert_eq!(holders.expect("our own table"), 0, "a lock was left behind");
    let names = Connection::open(&file)
        .and_then(|file| file.query_row("SELECT count(*) FROM locks", [], |row| row.get::<_, i64>(0)));
    assert_eq!(names.expect("our own table"), 1, "each trial left a name behind");
}

#[test]
fn a_file_in_memory() {
    let folder = TempDir::new_in("/dev/shm").expect("a folder in memory");
    assert_eq!(bad(&examined(&folder.path().join("locks.db"))), ["warning file-system"]);
}

#[test]
fn a_place_that_is_no_file() {
    let folder = folder();
    assert_eq!(bad(&examined(folder.path())), ["error misconfigured"]);
    assert_eq!(bad(&examined(&folder.path().join("missing/locks.db"))), ["error misconfigured"]);
}

#[test]
fn a_file_that_everybody_may_write_to() {
    let folder = folder();
    let file = folder.path().join("locks.db");
    examined(&file);
    fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("our own file");
    assert_eq!(bad(&examined(&file)), ["warning rights"]);
}

#[test]
fn the_file_of_another_program() {
    let folder = folder();
    let file = folder.path().join("other.db");
    Connection::open(&file).and_then(|other| other.execute_batch("CREATE TABLE t (x)")).expect("made");
    assert_eq!(bad(&examined(&file)), ["error misconfigured"]);
}

#[test]
fn a_file_whose_journal_somebody_changed() {
    let folder = folder();
    let file = folder.path().join("locks.db");
    examined(&file);
    let changed = || {
        let other = Connection::open(&file)?;
        other.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0))
    };
    until("nobody else has it open", || changed().is_ok_and(|mode| mode == "delete"));
    let report = examined(&file);
    assert_eq!(bad(&report), [""; 0]);
    assert_eq!(finding(&report, "journal-mode").severity, Severity::Notice);
}

#[test]
fn a_file_that_is_spoilt() {
    let folder = folder();
    let file = folder.path().join("locks.db");
    examined(&file);
    until("all of it is in the file", || !folder.path().join("locks.db-wal").exists());
    let mut bytes = fs::read(&file).expect("our own file");
    // The roots of its tables, and not its head.
    let length = bytes.len();
    bytes[4096..length].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fs::write(&file, bytes).expect("our own file");
    assert_eq!(bad(&examined(&file)), ["error spoilt"]);
}
