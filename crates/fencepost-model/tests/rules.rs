//! With all rules the search finds nothing; without any one of those of the votes it finds what goes wrong.

use fencepost_model::fenced::{self, Fenced};
use fencepost_model::queue::Queue;
use fencepost_model::{Search, System, search};

/// More steps than any search of the tests takes to its end.
const MOST: usize = 40_000_000;
/// Where those are cut off that would take too long for a test; `cargo run --release -p fencepost-model` goes further.
const CUT: usize = 3_000_000;

fn holds(name: &str, system: &impl System) {
    let search = search(system, MOST);
    println!("{name}: all {} states", search.states);
    assert_eq!(search.counterexample, None, "{name}");
    assert!(search.complete, "{name}: cut off after {} states", search.states);
}

fn holds_so_far(name: &str, system: &impl System) {
    let search = search(system, CUT);
    println!("{name}: the first {} states", search.states);
    assert_eq!(search.counterexample, None, "{name}");
}

fn breaks(name: &str, system: &impl System, wanted: &str) {
    let Search { states, counterexample, .. } = search(system, MOST);
    let Some((why, steps)) = counterexample else { panic!("{name}: nothing found in {states} states") };
    println!("{name}: {why}, in {} steps ({states} states)", steps.len());
    for (number, step) in (1..).zip(&steps) {
        println!("  {number:>2}. {step}");
    }
    assert!(why.contains(wanted), "{name}: {why}");
}

#[test]
fn with_all_rules_tokens_rise_whatever_the_clocks_do() {
    holds("two attempts, grants that end at any moment", &Fenced::ORDER);
    holds("the same with a renewal", &Fenced { renews: true, expiries: 1, ..Fenced::ORDER });
}

#[test]
fn with_all_rules_and_good_clocks_one_holds_at_a_time() {
    holds("two attempts, good clocks", &Fenced::EXCLUSION);
}

#[test]
fn with_all_rules_a_node_may_forget() {
    holds_so_far("two attempts, one node forgets", &Fenced { tokens: 5, expiries: 0, ..Fenced::MEMORY });
    for tokens in [[2, 4, 0], [2, 5, 0], [1, 4, 0], [2, 3, 0], [3, 2, 0]] {
        let directed = Fenced { directed: Some(tokens), expiries: 0, ..Fenced::MEMORY };
        holds(&format!("one node forgets, tokens {} and {}", tokens[0], tokens[1]), &directed);
    }
    let directed = Fenced { attempts: 3, directed: Some([2, 4, 3]), expiries: 1, ..Fenced::ORDER };
    holds("three attempts, chosen tokens", &directed);
}

#[test]
fn without_any_rule_of_the_votes_something_goes_wrong() {
    let without = |change: fn(&mut fenced::Rules), mut system: Fenced| {
        change(&mut system.rules);
        system
    };
    let two = "two hold at a time";
    let order = "token";
    let exclusion = Fenced { attempts: 3, directed: Some([1, 2, 3]), expiries: 0, ..Fenced::EXCLUSION };
    breaks("R1, the owner is not compared", &without(|rules| rules.owner = false, exclusion), two);
    breaks("R2, a release raises nothing", &without(|rules| rules.raise = false, Fenced::EXCLUSION), "still taken");
    let renewal = Fenced { renews: true, ..Fenced::ORDER };
    breaks("R3, a renewal re-creates", &without(|rules| rules.recreate = false, renewal), "renewal succeeds");
    let memory = Fenced { expiries: 0, ..Fenced::MEMORY };
    breaks("R4, no quarantine", &without(|rules| rules.quarantine = false, memory), order);
    breaks("R5, no lower bound", &without(|rules| rules.floor = false, memory), order);
    breaks("R5, no upper bound", &without(|rules| rules.ceiling = false, memory), order);
    breaks("R6, the fence ends with the grant", &without(|rules| rules.fence_stays = false, Fenced::ORDER), "token");
}

#[test]
fn with_all_rules_the_line_has_one_holder_at_a_time() {
    for first in [0, 1] {
        holds(&format!("the line, {first} first"), &Queue { asks: [1, 1], yields: [0, 0], first, ..Queue::SMALL });
    }
    holds_so_far("the line, one asks again and yields", &Queue::SMALL);
    holds_so_far("the line, with renewal", &Queue { renews: true, ..Queue::SMALL });
}
