//! What is said when the file cannot be used, and what happens once it can.

mod common;

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use common::Place;
use fencepost_core::{Blocking, StoreError, StoreErrorKind};
use fencepost_testkit::process::{Other, role, say};

fn refusal(file: &str) -> StoreError {
    let error = fencepost_sqlite::connect(file).block().expect_err("refused");
    let message = error.to_string();
    assert!(message.contains(file) && !message.contains('\n'), "{message}");
    error
}

/// Not a test of its own: what a process without special rights does.
#[test]
fn in_another_process() {
    let Some((_, file)) = role() else { return };
    let said = match fencepost_sqlite::connect(&file).block() {
        Ok(locks) => {
            locks.lock("a").try_acquire().block().map(|_| "opened".to_owned()).unwrap_or_else(|error| error.to_string())
        }
        Err(error) => format!("{:?} {error}", error.kind),
    };
    say(&format!("outcome: {said}"));
}

/// What a process is told that may do no more than the modes of files say, as root may.
fn without_special_rights(file: &str) -> String {
    let mut command = Command::new(env::current_exe().expect("this program"));
    if fs::metadata("/proc/self").expect("read").uid() == 0 {
        command = Command::new("setpriv");
        command.arg("--bounding-set=-dac_override,-dac_read_search");
        command.arg(env::current_exe().expect("this program"));
    }
    Other::start_by(command, "opens", file).says("outcome: ")
}

/// Runs a test that mounts something: as root, or as root of a name space of its own.
fn as_root(name: &str, test: impl FnOnce()) {
    if fs::metadata("/proc/self").expect("read").uid() == 0 {
        return test();
    }
    let this = env::current_exe().expect("this program");
    let run = Command::new("unshare").args(["--map-root-user", "--mount"]).arg(this).args(["--exact", name]).status();
    assert!(run.expect("unshare(1)").success(), "failed as root of a name space; run it as root to see more");
}

/// A small file system of its own.
struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn new(at: &'a Path, options: &str) -> Self {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).status();
        assert!(mount.expect("mount(8)").success());
        Self(at)
    }

    /// Refused while somebody still has a file open there for writing.
    fn remount(&self, options: &str) {
        let options = format!("remount,bind,{options}");
        let mount = || Command::new("mount").args(["-o", &options]).arg(self.0).output().expect("mount(8)");
        common::until("remounted", || mount().status.success());
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let place = Place::new();
    fs::write(place.file(), "no database, but somebody's text, and long enough to be one".repeat(20)).expect("written");
    let before = fs::read(place.file()).expect("read");
    assert_eq!(refusal(&place.file()).kind, StoreErrorKind::Unexpected);
    assert_eq!(fs::read(place.file()).expect("read"), before);
}

#[test]
fn the_database_of_another_program_is_refused_and_left_alone() {
    let place = Place::new();
    let file = rusqlite::Connection::open(place.file()).expect("opens");
    file.execute_batch("CREATE TABLE theirs (x)").expect("written");
    drop(file);
    let before = fs::read(place.file()).expect("read");
    let error = refusal(&place.file());
    assert!(error.kind == StoreErrorKind::Misconfigured && error.message.contains("another program"), "{error}");
    assert_eq!(fs::read(place.file()).expect("read"), before);
}

#[test]
fn a_newer_schema_is_refused_with_the_cure() {
    let place = Place::new();
    drop(place.connect());
    place.await_gone("locks.db-wal");
    rusqlite::Connection::open(place.file())
        .expect("opens")
        .pragma_update(None, "user_version", 1000)
        .expect("written");
    let error = refusal(&place.file());
    assert!(error.kind == StoreErrorKind::Misconfigured && error.message.contains("update this program"), "{error}");
}

#[test]
fn a_folder_or_a_missing_folder_is_refused_and_nothing_is_made() {
    let place = Place::new();
    fs::create_dir(place.path("locks.db")).expect("made");
    assert!(refusal(&place.file()).message.contains("is a folder"));
    let missing = place.path("missing/locks.db");
    let error = fencepost_sqlite::connect(missing.to_str().expect("UTF-8")).block().expect_err("refused");
    assert!(error.message.contains("create the folder"), "{error}");
    assert!(!place.path("missing").exists());
}

#[test]
fn a_read_only_folder_is_refused_and_nothing_is_made() {
    as_root("a_read_only_folder_is_refused_and_nothing_is_made", || {
        let place = Place::new();
        let folder = place.path("small");
        fs::create_dir(&folder).expect("made");
        let _mount = Mount::new(&folder, "ro,size=1m");
        let file = folder.join("locks.db");
        let error = fencepost_sqlite::connect(file.to_str().expect("UTF-8")).block().expect_err("refused");
        assert!(error.kind == StoreErrorKind::Denied && error.message.contains("right to write"), "{error}");
        assert_eq!(folder.read_dir().expect("read").count(), 0);
    });
}

#[test]
fn a_file_that_became_read_only_is_denied_until_it_can_be_written_again() {
    as_root("a_file_that_became_read_only_is_denied_until_it_can_be_written_again", || {
        let place = Place::new();
        let folder = place.path("small");
        fs::create_dir(&folder).expect("made");
        let mount = Mount::new(&folder, "size=4m");
        let file = folder.join("locks.db");
        let path = file.to_str().expect("UTF-8");
        drop(fencepost_sqlite::connect(path).block().expect("opens"));
        mount.remount("ro");
        assert_eq!(refusal(path).kind, StoreErrorKind::Denied);
        mount.remount("rw");
        fencepost_sqlite::connect(path).block().expect("opens again");
    });
}

/// Each file that a store opens: SQLite says of all of them that it cannot open them, and not why.
#[test]
fn a_file_that_this_user_may_not_open_is_denied() {
    for ending in ["", "-wal", "-shm", "-gate", "-open"] {
        let place = Place::new();
        let keeps_it_open = place.connect();
        keeps_it_open.lock("b").acquire().block().expect("free").release().block().expect("released");
        assert_eq!(without_special_rights(&place.file()), "opened");
        let locked = format!("{}{ending}", place.file());
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).expect("ours");
        let said = without_special_rights(&place.file());
        assert!(said.starts_with("Denied") && said.contains("right to"), "{locked}: {said}");
    }
}

#[test]
fn a_full_disk_is_said_and_locks_work_again_once_there_is_room() {
    as_root("a_full_disk_is_said_and_locks_work_again_once_there_is_room", || {
        let place = Place::new();
        let folder = place.path("small");
        fs::create_dir(&folder).expect("made");
        let _mount = Mount::new(&folder, "size=1m");
        let file = folder.join("locks.db");
        let locks = fencepost_sqlite::connect(file.to_str().expect("UTF-8")).block().expect("opens");
        let guard = locks.lock("before").acquire().block().expect("free");
        let ballast = folder.join("ballast");
        let filled = std::io::copy(&mut std::io::repeat(1), &mut File::create(&ballast).expect("made"));
        assert!(filled.is_err(), "the disk is full");
        // Some steps still fit into the log.
        let error = (0..10_000).find_map(|n| locks.lock(format!("lock {n}")).acquire().block().err()).expect("no room");
        let message = error.to_string();
        assert!(message.contains("locks.db") && message.contains("disk"), "{message}");
        assert!(message.contains("no lock is granted or renewed"), "a lock may be lost by that: {message}");
        fs::remove_file(&ballast).expect("removed");
        drop(locks.lock("after").acquire().block().expect("there is room again"));
        assert!(guard.is_held());
        guard.renew().block().expect("still ours");
    });
}

#[test]
fn a_foreign_writer_only_delays() {
    let place = Place::new();
    let locks = place.connect();
    let foreign = rusqlite::Connection::open(place.file()).expect("opens");
    foreign.execute_batch("BEGIN IMMEDIATE").expect("the file is theirs");
    let state = locks.inspect("a").block().expect("who only reads does not wait");
    let waiting = locks.clone();
    let acquired = std::thread::spawn(move || waiting.lock("a").acquire().block().map(drop));
    assert!(state.holders.is_empty() && !acquired.is_finished());
    foreign.execute_batch("COMMIT").expect("done");
    acquired.join().expect("no panic").expect("granted");
}
