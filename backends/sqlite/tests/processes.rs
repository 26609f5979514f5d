//! What happens between processes, some of which are killed.

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::Place;
use fencepost_core::{Blocking, Locks};
use fencepost_testkit::process::{Other, await_leave, role, say};
use fencepost_testkit::queue::{self, Order};

const WRITERS: usize = 50;
const ROUNDS: usize = 10;

fn start(place: &Place, role: &str) -> Other {
    Other::start(role, &place.file())
}

/// Not a test of its own: what the other processes run.
#[test]
fn in_another_process() {
    let Some((role, file)) = role() else { return };
    let locks = fencepost_sqlite::connect(&file).block().expect("opens");
    match role.as_str() {
        "holds" => hold(&locks, Duration::from_secs(1)),
        "holds for long" => hold(&locks, Duration::from_secs(60)),
        "waits" => queue::stand_in_line(&locks),
        "counts" => (0..ROUNDS).for_each(|_| count(&locks, &file)),
        role => unreachable!("BUG: no role {role}"),
    }
}

/// Says when it holds, and holds until it is told to end.
fn hold(locks: &Locks, ttl: Duration) {
    let guard = locks.lock("a").ttl(ttl).wait_forever().acquire().block().expect("my turn");
    say("holds");
    await_leave();
    guard.release().block().expect("released");
}

/// Adds one to a number in a file, as only one at a time may.
fn count(locks: &Locks, file: &str) {
    let counter = format!("{file}.counter");
    let guard = locks.lock("counter").wait_forever().acquire().block().expect("my turn");
    let number: u64 = fs::read_to_string(&counter).expect("read").parse().expect("a number");
    fs::write(&counter, (number + 1).to_string()).expect("written");
    guard.release().block().expect("released");
}

#[test]
fn a_release_wakes_the_waiter_of_another_process_at_once() {
    let place = Place::new();
    let locks = place.connect();
    let mut took: Vec<Duration> = Vec::new();
    for _ in 0..9 {
        let guard = locks.lock("a").wait_forever().acquire().block().expect("my turn");
        let mut other = start(&place, "holds for long");
        place.await_waiters("a", 1);
        guard.release().block().expect("released");
        let began = Instant::now();
        other.says("holds");
        took.push(began.elapsed());
        other.finish();
    }
    took.sort_unstable();
    // Without a wake-up it would ask again once a second, and half of them would take half of one.
    assert!(took[4] < Duration::from_millis(300), "{took:?}");
}

#[test]
fn a_waiter_that_was_killed_is_passed_over_at_once() {
    let place = Place::new();
    let locks = place.connect();
    let guard = locks.lock("a").ttl(Duration::from_secs(60)).acquire().block().expect("free");
    let mut first = start(&place, "holds");
    place.await_waiters("a", 1);
    let mut second = start(&place, "holds");
    place.await_waiters("a", 2);
    first.kill();
    guard.release().block().expect("released");
    let began = Instant::now();
    second.says("holds");
    // Nobody waited for the lease, which has most of a minute left.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    second.finish();
}

#[test]
fn a_waiter_that_is_killed_is_passed_over_at_each_place() {
    let place = Place::new();
    queue::a_waiter_that_is_killed_is_passed_over_at_each_place(&place.connect(), Order::Strict, || {
        start(&place, "waits")
    });
}

#[test]
fn a_waiter_that_is_killed_with_the_lock_in_its_hands_costs_its_place_at_most() {
    let place = Place::new();
    let start = || start(&place, "waits");
    queue::a_waiter_that_is_killed_with_the_lock_in_its_hands_costs_its_place_at_most(
        &place.connect(),
        Order::Strict,
        start,
    );
}

#[test]
fn the_lock_of_a_killed_holder_is_free_when_its_lease_ends_and_not_before() {
    let place = Place::new();
    let locks = place.connect();
    let mut holder = start(&place, "holds");
    holder.says("holds");
    let (told, tells) = std::sync::mpsc::channel();
    let waiting = locks.clone();
    let waiter = std::thread::spawn(move || {
        let guard = waiting.lock("a").wait_forever().acquire().block().expect("my turn");
        told.send(Instant::now()).expect("heard");
        drop(guard);
    });
    place.await_waiters("a", 1);
    holder.kill();
    let killed_at = Instant::now();
    let left = locks.inspect("a").block().expect("read").holders[0].expires_in.expect("a lease");
    let took = tells.recv().expect("granted") - killed_at;
    assert!(took + Duration::from_millis(1) >= left, "granted after {took:?}, {left:?} too early");
    assert!(took <= left + Duration::from_secs(10), "granted after {took:?} with {left:?} left");
    waiter.join().expect("no panic");
}

#[test]
fn fifty_processes_count_together_without_an_error() {
    let place = Place::new();
    fs::write(place.path("locks.db.counter"), "0").expect("written");
    let others: Vec<Other> = (0..WRITERS).map(|_| start(&place, "counts")).collect();
    others.into_iter().for_each(Other::finish);
    let counted = fs::read_to_string(place.path("locks.db.counter")).expect("read");
    assert_eq!(counted, (WRITERS * ROUNDS).to_string());
}
