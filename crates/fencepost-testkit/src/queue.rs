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

/// How far a store keeps the order of its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Whoever came first is served first.
    Strict,
    /// Nodes that vote order by ticket, each for itself. Where some take a process that was killed for one that listens, or
    /// have not heard of one that waits, a later ticket may have the majority first: such inversions are counted, and
    /// stay the exception.
    ByTicket,
}

impl Order {
    fn allows(self, swapped: usize, pairs: usize) {
        println!("{swapped} of {pairs} neighbours in line changed places");
        let most = if self == Self::Strict { 0 } else { pairs / 3 };
        assert!(swapped <= most, "{swapped} of {pairs} neighbours in line changed places");
    }
}

/// What each process of the line runs: it waits for its turn, tells under which token it had it, and is gone.
///
/// # Panics
/// If it does not get its turn.
pub fn stand_in_line(locks: &Locks) {
    let lock = locks.lock(LOCK).ttl(TTL).label(std::process::id().to_string());
    let guard = lock.wait_forever().acquire().block().expect("its turn");
    say(&format!("had {}", guard.token()));
    guard.release().block().expect("released");
}

/// Five wait, one is killed, the lock is released: for each place in line.
///
/// # Panics
/// If the line does not move on in time, or not in order.
pub fn a_waiter_that_is_killed_is_passed_over_at_each_place(locks: &Locks, order: Order, start: impl Fn() -> Other) {
    let (mut swapped, mut pairs) = (0, 0);
    for place in 0..WAITERS {
        let guard = locks.lock(LOCK).ttl(TTL).wait_at_most(TTL).acquire().block().expect("free");
        let mut line = lined_up(locks, order, &start);
        line.remove(place).kill();
        let began = Instant::now();
        guard.release().block().expect("released");
        pairs += line.len() - 1;
        swapped += moves_on(line, began);
    }
    order.allows(swapped, pairs);
}

/// The first is stopped when the lock is handed to it, and killed: what it was given lasts as long as a place in line.
///
/// # Panics
/// If the line does not move on in time, or not in order.
pub fn a_waiter_that_is_killed_with_the_lock_in_its_hands_costs_its_place_at_most(
    locks: &Locks,
    order: Order,
    start: impl Fn() -> Other,
) {
    let guard = locks.lock(LOCK).ttl(TTL).acquire().block().expect("free");
    let mut line = lined_up(locks, order, &start);
    let mut first = line.remove(0);
    first.stop();
    let began = Instant::now();
    guard.release().block().expect("released");
    first.kill();
    let pairs = line.len() - 1;
    order.allows(moves_on(line, began), pairs);
}

/// One after the other, so that each knows its place. Answers them as the store has them in line.
fn lined_up(locks: &Locks, order: Order, start: &impl Fn() -> Other) -> Vec<Other> {
    let shown = || locks.inspect(LOCK).block().map(|state| state.waiters).unwrap_or_default();
    let join = |number| {
        let other = start();
        until("it is in line", || shown().len() > number);
        other
    };
    let mut line: Vec<Other> = (0..WAITERS).map(join).collect();
    let arrived: Vec<u32> = line.iter().map(Other::id).collect();
    let shown: Vec<u32> = shown().iter().filter_map(|waiter| waiter.label.parse().ok()).collect();
    line.sort_by_key(|other| shown.iter().position(|id| *id == other.id()));
    assert!(order == Order::ByTicket || shown == arrived, "{shown:?} came as {arrived:?}");
    line
}

/// Everybody gets its turn. Answers how often one came before its neighbour in line: tokens rise from one holder to the
/// next.
fn moves_on(line: Vec<Other>, began: Instant) -> usize {
    let mut tokens = Vec::new();
    for mut other in line {
        tokens.push(other.says("had ").parse::<FencingToken>().expect("a token"));
        assert!(began.elapsed() < MOVED_ON, "not within {MOVED_ON:?}");
        other.finish();
    }
    tokens.windows(2).filter(|pair| pair[0] > pair[1]).count()
}
