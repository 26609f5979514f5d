//! A line of processes, some of which are killed: the line moves on, and the others keep their order.

use std::time::{Duration, Instant};

use fencepost_core::{Blocking, FencingToken, Locks};

use crate::process::{Other, say};
use crate::wait::until;

const LOCK: &str = "a line";
const WAITERS: usize = 5;
/// Far longer than a place in line is kept without word from its owner, which is 3 s.
const TTL: Duration = Duration::from_secs(60);
/// Within this the line has moved on: that lease, and what a busy machine takes. Had it been for the ttl, it would be more.
const MOVED_ON: Duration = Duration::from_secs(20);

/// What each process of the line runs: it waits for its turn, tells under which token it had it, and is gone.
///
/// # Panics
/// If it does not get its turn.
pub fn stand_in_line(locks: &Locks) {
    let guard = locks.lock(LOCK).ttl(TTL).wait_forever().acquire().block().expect("its turn");
    say(&format!("had {}", guard.token()));
    guard.release().block().expect("released");
}

/// Five wait, one is killed, the lock is released: for each place in line.
///
/// # Panics
/// If the line does not move on in time, or not in order.
pub fn a_waiter_that_is_killed_is_passed_over_at_each_place(locks: &Locks, start: impl Fn() -> Other) {
    for place in 0..WAITERS {
        let guard = locks.lock(LOCK).ttl(TTL).wait_at_most(TTL).acquire().block().expect("free");
        let mut line = lined_up(locks, &start);
        line.remove(place).kill();
        let began = Instant::now();
        guard.release().block().expect("released");
        moves_on(line, began);
    }
}

/// The first is stopped when the lock is handed to it, and killed: what it was given lasts as long as a place in line.
///
/// # Panics
/// If the line does not move on in time, or not in order.
pub fn a_waiter_that_is_killed_with_the_lock_in_its_hands_costs_its_place_at_most(
    locks: &Locks,
    start: impl Fn() -> Other,
) {
    let guard = locks.lock(LOCK).ttl(TTL).acquire().block().expect("free");
    let mut line = lined_up(locks, &start);
    let mut first = line.remove(0);
    first.stop();
    let began = Instant::now();
    guard.release().block().expect("released");
    first.kill();
    moves_on(line, began);
}

/// One after the other, so that each knows its place.
fn lined_up(locks: &Locks, start: &impl Fn() -> Other) -> Vec<Other> {
    let join = |number| {
        let other = start();
        until("it is in line", || locks.inspect(LOCK).block().is_ok_and(|state| state.waiters.len() > number));
        other
    };
    (0..WAITERS).map(join).collect()
}

/// Everybody gets its turn, in order: tokens rise from one holder to the next.
fn moves_on(line: Vec<Other>, began: Instant) {
    let mut tokens = Vec::new();
    for mut other in line {
        tokens.push(other.says("had ").parse::<FencingToken>().expect("a token"));
        assert!(began.elapsed() < MOVED_ON, "not within {MOVED_ON:?}");
        other.finish();
    }
    assert!(tokens.is_sorted(), "out of order: {tokens:?}");
}
