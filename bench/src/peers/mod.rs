//! Every lock library for Redis that we know of, in one run: medians of rounds in which all have their turn.
//!
//! The parts: `scenario` is what is asked of each; `reasons` says why a peer is ahead where it is; `report` is the page,
//! `plot` its pictures.

mod plot;
mod reasons;
mod report;
mod scenario;

use crate::Outcome;
use crate::kinds::{Kind, OURS, PLAIN};
use crate::nodes::Nodes;
use crate::progress::Progress;
use crate::site::foreign_versions;
use scenario::Scenario;

pub(crate) use report::Page;

const ROUNDS: usize = 3;

/// What the kinds of locks showed in a scenario.
struct Showing {
    scenario: Scenario,
    entries: Vec<Entry>,
}

/// One kind of lock: its figures of every round, or why there are none.
struct Entry {
    kind: &'static Kind,
    rounds: Vec<Vec<f64>>,
    failed: Option<String>,
}

impl Entry {
    fn figures(&self, column: usize) -> Vec<f64> {
        self.rounds.iter().map(|round| round[column]).collect()
    }
}

/// Runs everything.
pub(crate) fn run(quick: bool) -> Outcome<Page> {
    let rounds = if quick { 1 } else { ROUNDS };
    let new = |kind| Entry { kind, rounds: Vec::new(), failed: None };
    let showing = |scenario: Scenario| Showing { entries: scenario.kinds().into_iter().map(new).collect(), scenario };
    let mut showings: Vec<Showing> = scenario::all(quick).into_iter().map(showing).collect();
    let steps: usize = showings.iter().map(|showing| showing.entries.len() * showing.scenario.turns()).sum();
    let mut progress = Progress::new(steps * rounds);
    let nodes = [Nodes::start(1, "")?, Nodes::start(5, "")?];
    for _ in 0..rounds {
        for Showing { scenario, entries } in &mut showings {
            for _ in 0..scenario.turns() {
                for entry in &mut *entries {
                    progress.step(&format!("{}: {}", scenario.title(), entry.kind.name))?;
                    // What failed once would only take its time again.
                    if entry.failed.is_none() {
                        match scenario.run(entry.kind, &nodes, quick) {
                            Ok(story) => entry.rounds.push(scenario.figures().iter().map(|f| (f.of)(&story)).collect()),
                            Err(error) => entry.failed = Some(error.to_string()),
                        }
                    }
                }
            }
        }
    }
    drop(progress);
    let page = report::page(&showings, rounds, &foreign_versions()?);
    let ours = |entry: &&Entry| [OURS.name, PLAIN.name].contains(&entry.kind.name);
    let failed = showings.iter().flat_map(|showing| showing.entries.iter().filter(ours).map(move |e| (showing, e)));
    for (showing, entry) in failed {
        if let Some(error) = &entry.failed {
            eprintln!("fencepost-bench: {}: {} failed: {error}", showing.scenario.title(), entry.kind.name);
        }
    }
    Ok(page)
}
