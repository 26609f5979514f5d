//! What happens between processes, some of which are killed.

mod common;

use std::time::Duration;

use common::Place;
use fencepost_core::Blocking;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::process::{Other, role};
use fencepost_testkit::queue;

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
        role => unreachable!("BUG: no role {role}"),
    }
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

fn passed_over(place: &Place) {
    queue::a_waiter_that_is_killed_is_passed_over_at_each_place(&place.locks("first"), || start(place, "waits"));
}

fn costs_its_place(place: &Place) {
    let start = || start(place, "waits");
    queue::a_waiter_that_is_killed_with_the_lock_in_its_hands_costs_its_place_at_most(&place.locks("first"), start);
}
