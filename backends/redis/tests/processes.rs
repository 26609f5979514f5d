//! What happens between processes, some of which are killed.

mod common;

use std::time::Duration;

use common::{PATIENCE, Place};
use fencepost_core::{Blocking, Grant, Guard, Lock, Permit};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::process::{Other, await_leave, role, say};
use fencepost_testkit::queue::{self, Order};
use fencepost_testkit::turns::{self, History, Kind, Turn};

const TTL: Duration = Duration::from_secs(10);
const PERMITS: u32 = 3;

fn start(place: &Place, role: &str) -> Other {
    let scheme = if place.quorum { "redlock" } else { "redis" };
    Other::start(role, &format!("{scheme} {}", place.rest()))
}

/// Not a test of its own: what the other processes run.
#[test]
fn in_another_process() {
    let Some((role, place)) = role() else { return };
    let (scheme, rest) = place.split_once(' ').expect("a scheme and the rest");
    // As `Place` connects: a busy machine may keep a process waiting for longer than a node's answer takes.
    let connect = fencepost_redis::connect(scheme, rest).answer_within(Duration::from_secs(1));
    let locks = connect.block().expect("the servers are there");
    match role.as_str() {
        "waits" => queue::stand_in_line(&locks),
        "reads" => {
            let lock = locks.lock("x").ttl(TTL).shared().wait_at_most(PATIENCE);
            take_turns(&lock, 1, |guard| (Kind::Reads, guard.token().to_string().trim_start_matches('r').to_owned()));
        }
        "writes" => {
            let lock = locks.lock("x").ttl(TTL).wait_at_most(PATIENCE);
            take_turns(&lock, 1, |guard| (Kind::Writes, guard.token().to_string()));
        }
        "permits" => {
            let lock = locks.semaphore("s", PERMITS).ttl(TTL).wait_at_most(PATIENCE);
            let shown = |permit: Permit| (Kind::Permit(permit.slot), permit.token.to_string());
            // Longer than it takes to pass the turn on, so that all permits are out at times.
            take_turns(&lock, 10, |guard| shown(guard.permit()));
        }
        role => unreachable!("BUG: no role {role}"),
    }
}

/// Says that it is ready; when told, takes turns for a while, and tells of each in the end.
fn take_turns<G: Grant>(lock: &Lock<G>, trips: u32, shown: impl Fn(&Guard<G>) -> (Kind, String)) {
    say("ready");
    await_leave();
    let end = turns::now() + u64::try_from(length().as_nanos()).expect("not for centuries");
    let mut turns = Vec::new();
    while turns::now() < end {
        let asked = turns::now();
        let guard = lock.acquire().block().expect("its turn");
        let from = turns::now();
        // The work: round trips to the servers, who look at the hold.
        let renewed = (0..trips).try_for_each(|_| guard.renew().block().map(drop));
        let until = turns::now();
        if renewed.is_ok() && guard.is_held() {
            let (kind, token) = shown(&guard);
            let token = token.parse().expect("digits");
            turns.push(Turn { process: std::process::id(), kind, asked, from, until, token });
        } else {
            say(&format!("lost: {renewed:?}"));
        }
        guard.release().block().expect("released");
    }
    turns.iter().for_each(|turn| say(&turn.to_line()));
}

/// A few seconds, or thirty if `FENCEPOST_LONG` is set.
fn length() -> Duration {
    Duration::from_secs(if std::env::var_os("FENCEPOST_LONG").is_some() { 30 } else { 3 })
}

/// Processes in these roles take turns; what they noted, and how many holds were lost.
fn contest(place: &Place, roles: &[(&str, usize)]) -> (History, usize) {
    let roles = roles.iter().flat_map(|(role, count)| std::iter::repeat_n(*role, *count));
    let mut others: Vec<Other> = roles.map(|role| start(place, role)).collect();
    others.iter_mut().for_each(|other| drop(other.says("ready")));
    others.iter_mut().for_each(Other::give_leave);
    let (mut turns, mut lost) = (Vec::new(), 0);
    for mut other in others {
        for line in other.rest() {
            turns.extend(Turn::from_line(other.id(), &line));
            lost += usize::from(line.starts_with("lost"));
        }
        other.finish();
    }
    (History::new(turns), lost)
}

/// Sixteen read and four write; nobody is beside a writer, and no writer waits for long.
#[test]
fn twenty_processes_read_and_write_on_five_servers() {
    let (history, lost) = contest(&Place::quorum(5), &[("reads", 16), ("writes", 4)]);
    assert_eq!(history.violations(0), Vec::<String>::new());
    let writes = history.turns().iter().filter(|turn| turn.kind == Kind::Writes).count();
    let (together, rounds, inversions) = (history.most_at_once(), history.rounds_of_readers(), history.inversions());
    println!(
        "{} turns, {writes} of them writers', up to {together} at once, {lost} lost; at most {rounds} rounds of readers \
         before a writer; {inversions:?}",
        history.turns().len()
    );
    assert!(writes > 4 && together > 1, "the test shows little");
    assert!(rounds <= 2, "a writer waited for {rounds} rounds of readers");
}

#[test]
fn twenty_processes_share_three_permits_on_five_servers() {
    let (history, lost) = contest(&Place::quorum(5), &[("permits", 20)]);
    assert_eq!(history.violations(PERMITS as usize), Vec::<String>::new());
    let together = history.most_at_once();
    println!("{} turns, up to {together} at once, {lost} lost", history.turns().len());
    assert_eq!(together, PERMITS as usize, "the test shows little");
}

mod one_server {
    use super::*;

    #[test]
    fn a_waiter_that_is_killed_is_passed_over_at_each_place() {
        passed_over(&Place::one());
    }

    #[test]
    fn a_waiter_that_is_killed_with_the_lock_in_its_hands_costs_its_place_at_most() {
        costs_its_place(&Place::one());
    }
}

mod redlock_of_five {
    use super::*;

    #[test]
    fn a_waiter_that_is_killed_is_passed_over_at_each_place() {
        passed_over(&Place::quorum(5));
    }

    #[test]
    fn a_waiter_that_is_killed_with_the_lock_in_its_hands_costs_its_place_at_most() {
        costs_its_place(&Place::quorum(5));
    }
}

fn order(place: &Place) -> Order {
    if place.quorum { Order::ByTicket } else { Order::Strict }
}

fn passed_over(place: &Place) {
    let (locks, start) = (place.locks("first"), || start(place, "waits"));
    queue::a_waiter_that_is_killed_is_passed_over_at_each_place(&locks, order(place), start);
}

fn costs_its_place(place: &Place) {
    let (locks, start) = (place.locks("first"), || start(place, "waits"));
    queue::a_waiter_that_is_killed_with_the_lock_in_its_hands_costs_its_place_at_most(&locks, order(place), start);
}
