//! The engine in thousands of simulated worlds: no two holders where the documents promise it, no token that falls
//! anywhere, no lost update, nothing left behind. A seed that fails prints the command that runs it again.

use fencepost_sim::{Mode, Plan, all, campaign, explain, run};

/// Seeds that have to count.
const SEEDS: u64 = 10_000;

#[test]
fn ten_thousand_seeds_break_no_rule() {
    let tally = campaign(0..2 * SEEDS, Plan::of, |tally| tally.worthy >= SEEDS || tally.violations.len() > 3);
    println!("{tally}");
    if let Some((seed, ..)) = tally.violations.first() {
        panic!("{}", explain(&Plan::of(*seed)).unwrap_or_default());
    }
    let (events, seed) = tally.busiest;
    assert!(events < 50_000, "seed {seed} has {events} events: somebody goes round in a circle");
    assert!(tally.strict * 2 >= tally.worthy, "only {} of {} are strict", tally.strict, tally.worthy);
    assert!(tally.worthy * 100 >= tally.seeds * 95, "only {} of {} seeds show something", tally.worthy, tally.seeds);
    assert!(tally.overlaps > 0, "wrong clocks never led to two holders: the wild seeds are too tame");
    assert!(tally.writes[1] > 0 && tally.writes[2] == 0, "no write ever came late: the fence was never needed");
}

#[test]
fn without_faults_everyone_is_served_in_turn_and_at_once() {
    let plan = |seed| Plan::new(seed, Mode::Calm, None);
    let tally = campaign(0..1_000, plan, all);
    println!("{tally}");
    if let Some((seed, ..)) = tally.violations.first() {
        panic!("{}", explain(&plan(*seed)).unwrap_or_default());
    }
    assert!(tally.grants > 20_000, "{} grants show little", tally.grants);
}

#[test]
fn one_seed_is_one_run_byte_for_byte() {
    for seed in 0..60 {
        let plan = Plan::of(seed);
        let (one, other) = (run(&plan, true).log, run(&plan, true).log);
        assert!(one.len() > 20_000, "seed {seed} has a log of {} bytes", one.len());
        assert!(one == other, "seed {seed} ran in two ways");
    }
}
