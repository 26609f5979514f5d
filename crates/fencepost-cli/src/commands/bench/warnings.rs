//! What speaks against the figures. Whoever reads them should know.

use std::ops::Range;
use std::time::Duration;

use super::findings::{Findings, MEASURES, Measured};
use super::plan::Plan;
use super::trouble::TroubleData;
use super::workload::Workload;
use crate::histogram::spoken;

/// So many are needed for a p99 that is more than one outlier.
const SAMPLES_P99: u64 = 1_000;
/// And for a median that is worth comparing.
const SAMPLES_MIN: u64 = 100;
/// If rounds lie further apart, something else went on.
const SPREAD_MAX: f64 = 2.0;
/// Fewer rounds tell nothing of chance.
const ROUNDS_MIN: u32 = 3;
/// Of the cores: above, others were at work.
const LOAD_MAX: f64 = 0.5;
/// A wait that lasts longer than the rest of its turn is not counted: above this part of a turn many are missing.
const TURN_PARTS: u32 = 4;
/// A renewal is due at a third of the ttl and is tried again; a p99 above this part of it eats that reserve up.
const TTL_PARTS: u32 = 10;

/// More clients than so many on each core wait for each other.
const CLIENTS_PER_CORE: usize = 8;

/// One line each, the gravest first.
pub(super) fn warnings(findings: &Findings) -> Vec<String> {
    let (plan, stores) = (&findings.plan, &findings.stores);
    let named = |measured: &Measured, lines: Vec<String>| {
        let name = if stores.len() > 1 { format!("{}: ", measured.store) } else { String::new() };
        lines.into_iter().map(|line| format!("{name}{line}")).collect::<Vec<_>>()
    };
    let mut lines: Vec<String> = stores.iter().flat_map(|measured| named(measured, troubles(measured, plan))).collect();
    if findings.interrupted {
        lines.push("ended early: later turns are missing".into());
    }
    lines.extend(surroundings(findings));
    lines.extend(stores.iter().flat_map(|measured| named(measured, doubts(measured, plan))));
    lines
}

/// What went wrong.
fn troubles(measured: &Measured, plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    let left = &measured.left;
    if !left.held.is_empty() {
        let (names, ttl) = (left.held.join(", "), humantime::format_duration(plan.ttl));
        lines.push(format!("nobody confirmed the release of {names}; free in {ttl} at the latest"));
    }
    if let Some(why) = &left.unknown {
        lines.push(format!("whether anything is still locked could not be seen: {why}"));
    }
    lines.extend(measured.troubles.iter().map(|TroubleData { operation, kind, count, example }| {
        let times = if *count == 1 { "once".into() } else { format!("{count} times") };
        format!("{operation} failed {times}: {kind}: {example}")
    }));
    lines
}

/// What makes its figures poor.
fn doubts(measured: &Measured, plan: &Plan) -> Vec<String> {
    let shared = "all clients share one connection, because that is where it lives";
    let shared = (measured.connections < plan.clients).then(|| shared.to_owned());
    let few = [
        few(measured, plan.clients, 0..SAMPLES_MIN, "too few samples to say much"),
        few(measured, plan.clients, SAMPLES_MIN..SAMPLES_P99, "too few samples for a p99 and above"),
    ];
    let others = [cut_off(measured, plan), slow(measured, plan.ttl), wide(measured), shared];
    [empty(measured, plan.clients)].into_iter().chain(few).chain(others).flatten().collect()
}

/// Rates are of the time until the last answer, and rounds without one have none.
fn empty(measured: &Measured, clients: usize) -> Option<String> {
    let told = measured.series.iter().filter_map(|series| {
        let (all, empty) =
            (series.rounds.len(), series.rounds.iter().filter(|round| round.latency.count() == 0).count());
        (empty > 0).then(|| format!("{}: {empty} of {all}", series.workload.told(clients)))
    });
    let told = told.collect::<Vec<_>>().join("; ");
    (!told.is_empty()).then(|| format!("rounds in which nothing was measured ({told}): rates are of the others"))
}

fn few(measured: &Measured, clients: usize, range: Range<u64>, worth: &str) -> Option<String> {
    let all = measured.series.iter().map(|series| (series.workload.told(clients), series.sum.latency.count()));
    let few = all.filter(|(_, count)| range.contains(count));
    let few = few.map(|(what, count)| format!("{what}: {count}")).collect::<Vec<_>>().join("; ");
    (!few.is_empty()).then(|| format!("{worth} ({few}); raise --for"))
}

fn cut_off(measured: &Measured, plan: &Plan) -> Option<String> {
    let wait = measured.series(Workload::Contended)?.sum.latency.percentile(50.0);
    (wait > plan.turn / TURN_PARTS).then(|| {
        let (wait, turn) = (spoken(wait), spoken(plan.turn));
        format!("waits of {wait} are long for turns of {turn}: the longest are cut off and do not count; raise --for")
    })
}

fn slow(measured: &Measured, ttl: Duration) -> Option<String> {
    let series = [Workload::Single, Workload::Parallel, Workload::Renewal].map(|workload| measured.series(workload));
    let slowest = series.into_iter().flatten().map(|series| series.sum.latency.percentile(99.0)).max()?;
    (slowest > ttl / TTL_PARTS).then(|| {
        let (p99, ttl) = (spoken(slowest), humantime::format_duration(ttl));
        format!("a p99 of {p99} is near the ttl of {ttl}: leases may end unrenewed; choose a longer ttl")
    })
}

fn wide(measured: &Measured) -> Option<String> {
    // The tail differs from round to round by nature.
    let middle = MEASURES.iter().filter(|measure| !measure.key.ends_with("p99"));
    let wide = middle.filter_map(|measure| {
        let spread = measure.spread(measured).filter(|spread| spread.high > SPREAD_MAX * spread.low)?;
        Some(format!("{}: {} to {}", measure.told, measure.shown(spread.low), measure.shown(spread.high)))
    });
    let wide = wide.collect::<Vec<_>>().join("; ");
    (!wide.is_empty()).then(|| format!("rounds lie far apart ({wide}); measure again when it is quiet"))
}

/// What holds for all stores.
fn surroundings(findings: &Findings) -> Vec<String> {
    let mut lines = Vec::new();
    let (machine, plan) = (findings.machine, &findings.plan);
    if let Some(load) = machine.load.filter(|load| *load > LOAD_MAX * machine.cores as f64) {
        lines.push(format!("this machine was busy before it began: load {load} on {} cores", machine.cores));
    }
    if plan.clients > CLIENTS_PER_CORE * machine.cores {
        let (clients, cores) = (plan.clients, machine.cores);
        lines.push(format!("{clients} clients on {cores} cores wait for each other too, not only for the store"));
    }
    if cfg!(debug_assertions) {
        lines.push("this is a debug build: the client itself is slow".into());
    }
    if plan.rounds < ROUNDS_MIN {
        let rounds = plan.rounds;
        lines.push(format!("{rounds} of the {ROUNDS_MIN} rounds that it takes to tell chance from fact; raise --for"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::findings::{Machine, Series};
    use super::super::round::Round;
    use super::super::subject::Leftovers;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A store whose rounds have so many pairs of this length each.
    fn store(rounds: &[(u64, Duration)]) -> Measured {
        let round = |&(count, length): &(u64, Duration)| {
            let mut round = Round { took: 1000 * MS, shares: vec![count], ..Round::default() };
            (0..count).for_each(|_| round.latency.record(length));
            round
        };
        let rounds: Vec<Round> = rounds.iter().map(round).collect();
        let series = [Workload::Single, Workload::Contended].map(|workload| {
            let (rounds, sum) = (rounds.clone(), Round::sum(&rounds));
            Series { workload, rounds, sum }
        });
        let (prefix, left) = (String::new(), Leftovers::default());
        Measured { store: "x:".into(), connections: 2, prefix, series: series.into(), troubles: Vec::new(), left }
    }

    fn said(stores: Vec<Measured>, load: f64) -> String {
        let workloads = vec![Workload::Single, Workload::Contended];
        let (clients, ttl, length, rounds, turn) = (2, 30_000 * MS, 10_000 * MS, 5, 250 * MS);
        let plan = Plan { clients, ttl, length, workloads, rounds, turn };
        let machine = Machine { cores: 2, load: Some(load) };
        let lines = warnings(&Findings { plan, stores, machine, interrupted: false });
        lines.into_iter().filter(|line| !line.contains("debug build")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn good_figures_need_no_words() {
        assert_eq!(said(vec![store(&[(1000, MS), (900, MS)])], 0.4), "");
        let gap = said(vec![store(&[(1000, MS), (900, MS), (0, MS)])], 0.4);
        assert!(gap.starts_with("rounds in which nothing was measured (") && gap.contains(": 1 of 3; "), "{gap}");
    }

    #[test]
    fn poor_figures_are_told_with_their_reason() {
        for (rounds, load, words) in [
            (vec![(40, MS)], 0.0, "too few samples to say much (free lock, 1 client: 40"),
            (vec![(400, MS)], 0.0, "too few samples for a p99"),
            (vec![(1000, MS), (1000, 3 * MS)], 0.0, "rounds lie far apart"),
            (vec![(2000, 4000 * MS)], 0.0, "near the ttl"),
            (vec![(2000, 80 * MS)], 0.0, "cut off"),
            (vec![(2000, MS)], 1.5, "busy before it began: load 1.5"),
        ] {
            let told = said(vec![store(&rounds)], load);
            assert!(told.contains(words), "{words} is not in {told:?}");
        }
    }

    #[test]
    fn of_two_stores_it_is_said_which_and_of_one_it_is_known() {
        let mut bad = store(&[(2000, MS)]);
        bad.left.held.push("a".into());
        bad.troubles.push(TroubleData { operation: "acquire", kind: "denied", count: 2, example: "no".into() });
        let told = said(vec![bad, store(&[(2000, MS)])], 0.0);
        let lines = [
            "x:: nobody confirmed the release of a; free in 30s at the latest",
            "x:: acquire failed 2 times: denied: no",
        ];
        assert_eq!(told, lines.join("\n"));
        let mut bad = store(&[(2000, MS)]);
        bad.left.unknown = Some("gone".into());
        assert_eq!(said(vec![bad], 0.0), "whether anything is still locked could not be seen: gone");
    }
}
