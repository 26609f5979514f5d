//! Every kind of lock under faults: lost, late and repeated messages, nodes that come and go, outages. Whatever
//! happens, nobody has what another has by their own clocks, tokens rise, everybody comes to an end once the network is
//! sound, and nothing is left behind.

mod hold;
mod world;

use std::time::Duration;

use fencepost_testkit::dice::Dice;
use fencepost_testkit::nodes::Kind;
use hold::{PERMITS, Want};
use world::{PLAIN, Tally, Theme, World};

const SEEDS: u64 = 60;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Over one store that mints its tokens, asked in order or by bounds, and over three and five nodes that vote.
fn chaos(theme: &Theme) -> Tally {
    let mut tally = Tally::default();
    for kind in [Kind::InOrder, Kind::Bounded, Kind::Voting(3), Kind::Voting(5)] {
        for seed in 0..SEEDS {
            World::new(theme, kind, seed, &mut tally).run();
        }
    }
    assert!(tally.grants > SEEDS * 6 && tally.lost > 0, "{} shows little: {tally:?}", theme.name);
    tally
}

fn some_names(dice: &mut Dice) -> Vec<&'static str> {
    let mut names: Vec<&str> = NAMES.into_iter().filter(|_| dice.per_mille(600)).collect();
    if names.is_empty() {
        names.push(NAMES[dice.below(4) as usize]);
    }
    names.reverse();
    names
}

fn anything(dice: &mut Dice) -> Want {
    match dice.below(5) {
        0 => Want::Several(some_names(dice)),
        1 => Want::Permits(1 + dice.below(u64::from(PERMITS)) as u32),
        2 => Want::Reader(NAMES[dice.below(2) as usize]),
        _ => Want::Writer(NAMES[dice.below(4) as usize]),
    }
}

#[test]
fn re_entry_is_counted_right_and_its_lease_excludes_all_others() {
    let tally = chaos(&Theme { name: "re-entry", holds: 3, actors: true, ..PLAIN });
    assert!(tally.re_entries > SEEDS * 5, "{} re-entries: it shows little", tally.re_entries);
}

#[test]
fn several_names_are_held_all_or_not_at_all() {
    let tally = chaos(&Theme { name: "several", wants: |dice| Want::Several(some_names(dice)), ..PLAIN });
    assert!(tally.several > SEEDS * 5, "{} of several: it shows little", tally.several);
}

#[test]
fn no_more_permits_are_held_than_there_are() {
    let wants = |dice: &mut Dice| Want::Permits(1 + dice.below(u64::from(PERMITS)) as u32);
    chaos(&Theme { name: "semaphore", wants, ..PLAIN });
}

#[test]
fn a_writer_is_never_beside_a_reader() {
    let wants = |dice: &mut Dice| if dice.per_mille(700) { Want::Reader("x") } else { Want::Writer("x") };
    chaos(&Theme { name: "readers and writers", wants, ..PLAIN });
}

#[test]
fn a_lock_that_nobody_released_rests_for_its_delay() {
    let delay = Duration::from_secs(2);
    let tally = chaos(&Theme { name: "delay", delay, ..PLAIN });
    assert!(tally.crashes > SEEDS, "{} crashes: it shows little", tally.crashes);
}

#[test]
fn those_who_wait_in_a_circle_are_told_and_go_on() {
    let wants = |dice: &mut Dice| Want::Writer(["x", "y"][dice.below(2) as usize]);
    let theme = Theme { name: "deadlock", wants, holds: 2, actors: true, fail_on_deadlock: true, ..PLAIN };
    let tally = chaos(&theme);
    assert!(tally.deadlocks > SEEDS, "{} deadlocks: it shows little", tally.deadlocks);
}

#[test]
fn a_request_to_let_go_is_told_once() {
    let tally = chaos(&Theme { name: "yield", asks: true, ..PLAIN });
    assert!(tally.heard > SEEDS, "{} requests were heard: it shows little", tally.heard);
}

/// All kinds on the same names.
#[test]
fn all_kinds_side_by_side_keep_their_promises() {
    let tally = chaos(&Theme { name: "everything", wants: anything, holds: 1, actors: true, ..PLAIN });
    assert!(tally.several > SEEDS, "{} of several: it shows little", tally.several);
}
