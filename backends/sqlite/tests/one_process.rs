//! Two connections on one file, in one process.

mod common;

use std::time::{Duration, Instant};

use common::Place;
use fencepost_core::store::{Clock, Store};
use fencepost_core::{Blocking, ReleaseOutcome};
use fencepost_sqlite::Sqlite;

#[test]
fn a_second_connection_is_refused_while_the_first_holds() {
    let place = Place::new();
    let (one, two) = (place.connect(), place.connect());
    let guard = one.lock("a").acquire().block().expect("free");
    assert!(two.lock("a").try_acquire().block().expect("answered").is_none());
    assert_eq!(guard.release().block().expect("answered"), ReleaseOutcome::Freed);
    assert!(two.lock("a").try_acquire().block().expect("answered").is_some());
}

#[test]
fn a_waiting_connection_is_handed_the_lock_by_the_release() {
    let place = Place::new();
    let (one, two) = (place.connect(), place.connect());
    let guard = one.lock("a").acquire().block().expect("free");
    let first = guard.token();
    let waiter = std::thread::spawn(move || two.lock("a").wait_forever().acquire().block().expect("my turn").token());
    place.await_waiters("a", 1);
    guard.release().block().expect("answered");
    assert!(waiter.join().expect("no panic") > first);
}

#[test]
fn locks_are_listed_in_name_order_and_by_prefix() {
    let place = Place::new();
    let locks = place.connect();
    let names = ["b/2", "a", "b/1", "b/10", "c"];
    let guards: Vec<_> = names.iter().map(|name| locks.lock(*name).acquire().block().expect("free")).collect();
    let mut feed = locks.list("b/");
    let mut found = Vec::new();
    while let Some(state) = feed.next().block() {
        found.push(state.expect("listed").name);
    }
    assert_eq!(found, ["b/1", "b/10", "b/2"]);
    drop(guards);
}

#[test]
fn readers_share_and_a_writer_waits_for_all_of_them() {
    let place = Place::new();
    let (one, two, three) = (place.connect(), place.connect(), place.connect());
    let first = one.lock("a").shared().acquire().block().expect("free");
    let second = two.lock("a").shared().acquire().block().expect("shared");
    let writer = std::thread::spawn(move || three.lock("a").wait_forever().acquire().block().map(drop));
    place.await_waiters("a", 1);
    first.release().block().expect("answered");
    assert_eq!(place.connect().inspect("a").block().expect("read").waiters.len(), 1);
    second.release().block().expect("answered");
    writer.join().expect("no panic").expect("its turn");
}

#[test]
fn a_revoked_holder_is_told_so() {
    let place = Place::new();
    let (one, two) = (place.connect(), place.connect());
    let guard = one.lock("a").acquire().block().expect("free");
    assert!(two.force_release("a", "test").block().expect("done").holder.is_some());
    let error = guard.renew().block().expect_err("lost");
    assert!(error.to_string().contains("released by force"), "{error}");
}

#[test]
fn the_threads_end_with_the_last_clone() {
    let place = Place::new();
    let store = Sqlite::open(&place.file(), Clock::system().expect("a clock")).expect("opens");
    let clone = store.clone();
    drop(store);
    assert!(clone.label().ends_with("locks.db"));
    drop(clone);
    // The last connection to a file removes its log when it closes.
    place.await_gone("locks.db-wal");
}

#[test]
fn the_socket_file_goes_with_the_store() {
    let place = Place::new();
    let (one, two) = (place.connect(), place.connect());
    let guard = one.lock("a").acquire().block().expect("free");
    assert!(two.lock("a").wait_at_most(Duration::from_millis(1)).acquire().block().is_err());
    drop(guard);
    assert!(two.shutdown(Duration::from_secs(10)).block().is_empty());
    assert!(one.shutdown(Duration::from_secs(10)).block().is_empty());
    drop((one, two));
    place.await_empty("locks.db-wake");
}

#[test]
fn where_no_socket_fits_the_waiter_looks_by_itself() {
    let place = Place::new();
    let folder = place.path(&"deep".repeat(40));
    std::fs::create_dir(&folder).expect("made");
    let file = folder.join("locks.db");
    let connect = || fencepost_sqlite::connect(file.to_str().expect("UTF-8")).block().expect("opens");
    let (one, two) = (connect(), connect());
    let guard = one.lock("a").acquire().block().expect("free");
    let waiter = std::thread::spawn(move || two.lock("a").wait_forever().acquire().block().map(drop));
    common::until("one in line", || one.inspect("a").block().expect("read").waiters.len() == 1);
    let began = Instant::now();
    guard.release().block().expect("answered");
    waiter.join().expect("no panic").expect("its turn");
    // By itself it would ask again after a second, or when the lease of the holder is over.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
