//! Files of older programs.

mod common;

use common::Place;
use fencepost_core::store::Clock;
use fencepost_core::{Actor, Blocking};

/// As the first version made it, with somebody who holds `x`.
fn made_by_version_1(place: &Place) {
    let file = rusqlite::Connection::open(place.file()).expect("opens");
    file.execute_batch(include_str!("version_1.sql")).expect("made");
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
    file.execute("INSERT INTO meta VALUES (1, ?1, 0)", [boot_id.trim()]).expect("written");
    file.pragma_update(None, "application_id", 0x4670_7374).expect("written");
    file.pragma_update(None, "user_version", 1).expect("written");
    let now = i64::try_from(Clock::system().expect("a clock").now().as_nanos()).expect("this century");
    file.execute("INSERT INTO locks VALUES ('x', 7, 0)", []).expect("written");
    let holder = "INSERT INTO holders VALUES ('x', ?1, 7, 0, 'old program', ?2, ?3, 1)";
    file.execute(holder, ("ab".repeat(20), now, now + 600_000_000_000)).expect("written");
}

#[test]
fn the_file_of_an_older_program_is_brought_up_to_date_with_its_locks() {
    let place = Place::new();
    made_by_version_1(&place);
    let locks = place.connect();
    let state = locks.inspect("x").block().expect("read");
    assert_eq!(state.holders.len(), 1);
    assert_eq!((state.holders[0].label.as_str(), state.holders[0].actor), ("old program", None));
    assert!(locks.lock("x").try_acquire().block().expect("an answer").is_none(), "the old program holds it");
    let me = Actor::new();
    let guard = locks.lock("y").by(&me).acquire().block().expect("free");
    // A file that is up to date already.
    let state = place.connect().inspect("y").block().expect("read");
    assert_eq!(state.holders[0].actor, Some(me.id()));
    drop(guard);
}
