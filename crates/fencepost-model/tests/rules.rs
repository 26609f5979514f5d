//! With all rules the search finds nothing; without any one of them it finds what goes wrong.

use fencepost_model::fenced::{self, Fenced};
use fencepost_model::queue::{self, Queue};
use fencepost_model::sets::{self, Sets};
use fencepost_model::{Search, System, search};

/// More steps than any search of the tests takes to its end.
const MOST: usize = 40_000_000;
/// Where those are cut off that would take too long for a test; `cargo run --release -p fencepost-model` goes further.
const CUT: usize = 3_000_000;

const GROWING: Sets = Sets { lists: sets::Lists::GROWING, ..Sets::CHANGE };

fn holds(name: &str, system: &impl System) {
    let search = search(system, MOST);
    println!("{name}: all {} states", search.states);
    assert_eq!(search.counterexample, None, "{name}");
    assert!(search.complete, "{name}: cut off after {} states", search.states);
}

fn holds_so_far(name: &str, system: &impl System) {
    let search = search(system, CUT);
    println!("{name}: {} {} states", if search.complete { "all" } else { "the first" }, search.states);
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
fn with_all_rules_one_set_takes_the_place_of_another() {
    holds("two sets, good memories", &Sets::CHANGE);
    holds("two sets, nodes forget one after the other", &Sets { forgets: 2, ..Sets::CHANGE });
    holds("two sets, two nodes forget at once", &Sets { forgets: 2, at_once: 2, unheard: false, ..Sets::CHANGE });
    holds("one node becomes three, which forget one after the other", &Sets { forgets: 2, ..GROWING });
}

#[test]
fn without_any_rule_of_the_change_two_hold() {
    let without = |change: fn(&mut sets::Rules), forgets| {
        let mut system = Sets { forgets, ..Sets::CHANGE };
        change(&mut system.rules);
        system
    };
    let two = "two holders";
    breaks("a majority of all nodes instead of both sets", &without(|rules| rules.both = false, 0), two);
    breaks("nodes take clients of any set", &without(|rules| rules.signs = false, 0), two);
    let early = without(|rules| (rules.closes, rules.everywhere) = (false, false), 0);
    breaks("the new set votes before the old one is closed", &early, two);
    breaks("the old set is closed on a majority only", &without(|rules| rules.everywhere = false, 1), two);
    breaks("old leases are not waited for", &without(|rules| rules.waits = false, 0), two);
    breaks("whoever asks lets a node in that forgot", &without(|rules| rules.vouches = false, 2), two);
    let hasty = Sets { forgets: 2, at_once: 2, ..Sets::CHANGE };
    breaks("two nodes forget at once, and one that votes elsewhere is not waited for", &hasty, two);
    let alone = Sets { lists: GROWING.lists, ..without(|rules| rules.asks = false, 1) };
    breaks("nodes that know nothing vouch for themselves", &alone, two);
}

/// What the manual warns of: nobody is left who could know better.
#[test]
fn an_old_set_that_forgot_as_a_whole_comes_back() {
    let all = Sets { forgets: 3, at_once: 3, unheard: false, ..Sets::CHANGE };
    breaks("all nodes of the old set forget at once", &all, "two holders");
}

#[test]
fn with_all_rules_the_line_has_one_holder_at_a_time() {
    for first in [0, 1] {
        holds(&format!("the line, {first} first"), &Queue { asks: [1, 1], yields: [0, 0], first, ..Queue::SMALL });
    }
    holds_so_far("the line, one asks again and yields", &Queue::SMALL);
    holds_so_far("the line, with renewal", &Queue { renews: true, ..Queue::SMALL });
}

/// A asks, and two nodes grant; what is on its way to the third is lost.
const ASKS: &str = "A asks under 1";
const GRANTS: &str = "a node: Acquire of A arrives, 1, attempt 1, pass 0";
const IS_LOST: &str = "lost: Acquire of A, 1, attempt 1";
const READS: &str = "A reads from a node: granted 1, attempt 1";

/// A gave back one of two grants, and put both under a new token before the give-back arrived: it holds.
const GAVE_BACK: &[&str] = &[
    ASKS,
    GRANTS,
    GRANTS,
    IS_LOST,
    READS,
    "A yields what it has, pass 2",
    READS,
    "A asks again (Unify) under 3",
    "lost: Unify of A, 3, attempt 3",
    "a node: Unify of A arrives, 3, attempt 3, pass 0",
    "a node: Unify of A arrives, 3, attempt 3, pass 0",
    "A reads from a node: granted 3, attempt 3",
    "A reads from a node: granted 3, attempt 3",
];
/// A was granted by one node, asked again, and has yielded what it had.
const YIELDED: &[&str] = &[
    ASKS,
    GRANTS,
    READS,
    IS_LOST,
    IS_LOST,
    "A asks again under 1",
    "last: a node: Acquire of A arrives, 1, attempt 2, pass 0",
    "A yields what it has, pass 2",
];
/// A holds under 1, and proposed 2 before it knew.
const PROPOSED_MORE: &[&str] = &[ASKS, GRANTS, GRANTS, IS_LOST, "A asks again (Acquire) under 2", READS, READS];
/// A was granted by two nodes, and asked again before it read that.
const ASKED_TWICE: &[&str] = &[ASKS, GRANTS, GRANTS, IS_LOST, "A asks again under 1"];
/// A was granted under 1 by one node and under 2 by another, and has not read it.
const TWO_TOKENS: &[&str] = &[
    ASKS,
    GRANTS,
    IS_LOST,
    IS_LOST,
    "A asks again (Acquire) under 2",
    "lost: Acquire of A, 2, attempt 2",
    "a node: Acquire of A arrives, 2, attempt 2, pass 0",
];
/// A holds under 1, and proposed 3 before it knew; one of its grants ended too early, and B was granted under 2.
const CAME_LATE: &[&str] = &[
    ASKS,
    GRANTS,
    GRANTS,
    IS_LOST,
    "A asks again (Acquire) under 3",
    READS,
    READS,
    "lost: Acquire of A, 3, attempt 2",
    "a node: the grant of A is over",
    "B asks under 2",
    "a node: Acquire of B arrives, 2, attempt 1, pass 0",
    "a node: Acquire of B arrives, 2, attempt 1, pass 0",
];

/// A gave a grant back, which has not arrived, and holds under 2 by the two other nodes.
const GIVES_BACK_LATE: &[&str] = &[
    ASKS,
    GRANTS,
    READS,
    IS_LOST,
    IS_LOST,
    "A yields what it has, pass 2",
    "A asks again under 2",
    "a node: Acquire of A arrives, 2, attempt 3, pass 0",
    "a node: Acquire of A arrives, 2, attempt 3, pass 0",
    "lost: Acquire of A, 2, attempt 3",
    "A reads from a node: granted 2, attempt 3",
    "A reads from a node: granted 2, attempt 3",
];

/// Searches from there without the rule, which has to be found wanting, and with it.
fn needs(name: &str, system: Queue, change: fn(&mut queue::Rules), wanted: &str) {
    let mut without = system;
    change(&mut without.rules);
    breaks(name, &without, wanted);
    holds_so_far(&format!("{name}: not so"), &system);
}

#[test]
fn without_any_rule_of_the_line_something_goes_wrong() {
    let two = "two hold at a time";
    let from = |start, asks, yields| Queue { start, asks, yields: [yields, 0], ..Queue::SMALL };
    needs("(a), a give-back frees any token", from(GAVE_BACK, [3, 1], 1), |rules| rules.exact = false, two);
    let yielded = Queue { first: 1, ..from(YIELDED, [3, 1], 1) };
    needs("(b), what was given back counts", yielded, |rules| rules.void = false, two);
    let more = from(PROPOSED_MORE, [2, 1], 0);
    needs("(c), a release carries the token of the hold", more, |rules| rules.highest = false, "still taken");
    needs("(d), dated from the newest attempt", from(ASKED_TWICE, [2, 1], 0), |rules| rules.dated = false, two);
    let tokens = from(TWO_TOKENS, [2, 1], 0);
    needs("the highest of two tokens is taken", tokens, |rules| rules.same = false, "the same token");
    let late = Queue { renews: true, jumps: true, ..from(CAME_LATE, [3, 1], 0) };
    needs("R3, a renewal counts a newer grant", late, |rules| rules.newer = false, "a renewal succeeds");
    let gave_back = Queue { renews: true, ..from(GIVES_BACK_LATE, [4, 1], 1) };
    needs("R3, a renewal leaves an older grant as it is", gave_back, |rules| rules.stamp = false, two);
}
