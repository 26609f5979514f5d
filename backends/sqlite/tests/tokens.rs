//! Tokens rise, whatever happens to the file; leases do not outlive the machine's boot.

mod common;

use std::fs;
use std::time::Duration;

use common::Place;
use fencepost_core::{Blocking, FencingToken, Locks, VirtualClock};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn next_token(locks: &Locks) -> FencingToken {
    let guard = locks.lock("a").acquire().block().expect("free");
    let token = guard.token();
    guard.release().block().expect("released");
    token
}

/// Closes a connection and waits until its file is whole.
fn close(place: &Place, locks: Locks) {
    assert!(locks.shutdown(Duration::from_secs(10)).block().is_empty());
    drop(locks);
    place.await_gone("locks.db-wal");
}

#[test]
fn tokens_rise_over_a_reopened_file_also_while_the_clock_stands_still() {
    let (place, time) = (Place::new(), VirtualClock::new());
    let mut last = None;
    for _ in 0..3 {
        let locks = fencepost_sqlite::connect(&place.file()).clock(&time).block().expect("opens");
        let token = next_token(&locks);
        assert!(Some(token) > last);
        last = Some(token);
        close(&place, locks);
    }
}

#[test]
fn a_lock_that_nobody_used_for_a_day_is_forgotten_and_its_next_token_is_higher() {
    let (place, time) = (Place::new(), VirtualClock::new());
    let connect = || fencepost_sqlite::connect(&place.file()).clock(&time).block().expect("opens");
    let locks = connect();
    let before = next_token(&locks);
    close(&place, locks);
    time.turn(DAY - Duration::from_secs(1));
    let locks = connect();
    assert_eq!(locks.inspect("a").block().expect("read").last_token, Some(before), "not yet");
    close(&place, locks);
    time.turn(Duration::from_secs(3600));
    let locks = connect();
    assert_eq!(locks.inspect("a").block().expect("read").last_token, None, "forgotten");
    assert!(next_token(&locks) > before);
}

#[test]
fn a_token_ahead_of_the_clock_is_never_forgotten() {
    let (place, time) = (Place::new(), VirtualClock::new());
    let connect = || fencepost_sqlite::connect(&place.file()).clock(&time).block().expect("opens");
    let (wall, locks) = (time.clock().wall(), connect());
    time.set_wall(wall + 10 * DAY);
    let before = next_token(&locks);
    close(&place, locks);
    time.set_wall(wall);
    time.turn(2 * DAY);
    let locks = connect();
    assert_eq!(locks.inspect("a").block().expect("read").last_token, Some(before));
    assert!(next_token(&locks) > before);
}

#[test]
fn a_restored_backup_never_lowers_the_next_token() {
    let place = Place::new();
    let locks = place.connect();
    next_token(&locks);
    close(&place, locks);
    fs::copy(place.file(), place.path("backup")).expect("copied");
    let locks = place.connect();
    let newest = (0..20).map(|_| next_token(&locks)).max().expect("tokens");
    close(&place, locks);
    fs::rename(place.path("backup"), place.file()).expect("restored");
    assert!(next_token(&place.connect()) > newest);
}

#[test]
fn a_file_that_was_replaced_under_a_running_program_is_noticed() {
    let place = Place::new();
    let locks = place.connect();
    let before = next_token(&locks);
    for ending in ["", "-wal", "-shm"] {
        fs::remove_file(format!("{}{ending}", place.file())).expect("removed");
    }
    let guard = place.connect().lock("a").acquire().block().expect("a new file");
    assert!(guard.token() > before);
    assert!(locks.lock("a").try_acquire().block().expect("answered").is_none(), "both see the same file");
}

#[test]
fn holders_of_another_boot_are_gone_and_their_tokens_are_remembered() {
    let place = Place::new();
    let locks = place.connect();
    let guard = locks.lock("a").acquire().block().expect("free");
    let token = guard.token();
    let lease = guard.leak();
    close(&place, locks);
    let file = rusqlite::Connection::open(place.file()).expect("opens");
    file.execute("UPDATE meta SET boot_id = 'another'", []).expect("written");
    drop(file);
    let locks = place.connect();
    let state = locks.inspect("a").block().expect("read");
    assert!(state.holders.is_empty(), "{state:?}");
    assert_eq!(state.last_token, Some(token));
    assert!(next_token(&locks) > token);
    assert!(locks.adopt(&lease).block().is_err(), "it was taken over since");
}
