//! Real faults on real servers: clocks that jump, processes that are stopped and killed, networks that are cut, disks that
//! are full or forget. Beside each stands its control: the wrong way to do it, which fails. docs/faults.md has the list.

mod boundaries;
mod breaks;
mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod disks;
mod exhaustion;
mod holders;
mod lost_tokens;
mod partitions;

use std::time::{Duration, Instant};

use common::PATIENCE;
use fencepost_core::{Blocking, Locks, StoreErrorKind};
use fencepost_testkit::process::role;

/// Connects another process to `SCHEME REST`, as the tests themselves connect. On a busy machine the first try may be too
/// slow.
fn connect(place: &str) -> Locks {
    let (scheme, rest) = place.split_once(' ').expect("a scheme and the rest");
    let started = Instant::now();
    loop {
        match fencepost_redis::connect(scheme, rest).answer_within(Duration::from_secs(1)).block() {
            Ok(locks) => return locks,
            Err(error) => {
                let slow = matches!(error.kind, StoreErrorKind::Unreachable | StoreErrorKind::TooSlow);
                assert!(slow && started.elapsed() < PATIENCE, "{error}");
            }
        }
    }
}

/// Not a test of its own: what the other processes run.
#[test]
fn in_another_process() {
    let Some((role, place)) = role() else { return };
    match role.as_str() {
        "sleeps" => clocks::sleeps(&place),
        "believes another time" => clocks::believes_another_time(&place),
        "takes when told" => lost_tokens::takes_when_told(&place),
        "is paused" => holders::is_paused(&place),
        "is killed" => holders::is_killed(&place),
        "is starved" => exhaustion::is_starved(&place),
        "is cut off" => partitions::is_cut_off(&place),
        "is in a room" => partitions::is_in_a_room(&place),
        role => unreachable!("BUG: no role {role}"),
    }
}
