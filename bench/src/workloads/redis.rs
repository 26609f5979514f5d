//! Uncontended locks on Redis, one server and five: ours beside a hand-written floor and beside `rslock`, which has no
//! fencing and so asks about half as much of each server.

use std::collections::HashMap;
use std::time::Duration;

use super::script;
use crate::Outcome;
use crate::contest::{Contest, turns};
use crate::figures::{CLIENT, COMMANDS, Figure, P50, RATE, SERVER};
use crate::kinds::{FLOOR, Kind, OURS, PLAIN, RSLOCK};
use crate::nodes::Nodes;
use crate::runner::{Goal, Readings, Round, Row, Workload, median, no_work};

const LENGTH: Duration = Duration::from_millis(600);
const KINDS: [&Kind; 4] = [&FLOOR, &OURS, &PLAIN, &RSLOCK];
const TASKS: [usize; 3] = [1, 64, 256];

/// Which figures are told of contests of so many tasks, and beside whom.
const TOLD: [(&Figure, &[usize], &Kind); 5] = [
    (&P50, &[1], &FLOOR),
    (&RATE, &[64, 256], &RSLOCK),
    (&CLIENT, &[1, 64], &RSLOCK),
    (&SERVER, &[1, 64], &RSLOCK),
    (&COMMANDS, &[1], &RSLOCK),
];

fn name(kind: &Kind, tasks: usize, figure: &Figure) -> String {
    format!("{}, {tasks} task{}, {}", kind.name, if tasks == 1 { "" } else { "s" }, figure.what)
}

/// What is wanted of ours.
fn goal(nodes: usize, kind: &Kind, tasks: usize, figure: &Figure) -> Option<Goal> {
    match (nodes, kind.name, tasks, figure.what) {
        (1, "ours", 1, "p50") => Some(Goal::RatioAtMost(1.2)),
        (5, "ours", 1, "p50") => Some(Goal::RatioAtMost(1.15)),
        (1, "ours", 64, "pairs") => Some(Goal::RatioAtLeast(0.7)),
        (1, "ours without a token", 64, "pairs") => Some(Goal::RatioAtLeast(1.0)),
        (5, "ours", 64, "pairs") => Some(Goal::RatioAtLeast(1.0)),
        (5, "ours", 256, "pairs") => Some(Goal::RatioAtLeast(1.2)),
        (5, "ours", 64, "client CPU per pair") => Some(Goal::RatioAtMost(0.6)),
        (_, "ours", 1, "commands per pair and node") => Some(Goal::AtMost(2.01)),
        _ => None,
    }
}

fn rows(nodes: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for (figure, counts, beside) in TOLD {
        for &tasks in counts {
            for kind in KINDS {
                let row = Row::new(name(kind, tasks, figure), figure.unit).goal(goal(nodes, kind, tasks, figure));
                let alone = kind.name == beside.name || kind.name == FLOOR.name;
                rows.push(if alone { row } else { row.against(name(beside, tasks, figure)) });
            }
        }
    }
    rows
}

pub(crate) const ONE: Workload = Workload {
    name: "redis",
    about: "Acquire + release on a free lock, one Redis server.",
    rounds: 7,
    rows: || [rows(1), script::rows()].concat(),
    prepare: |_| {
        let nodes = Nodes::start(1, "")?;
        Ok(Box::new(move |readings: &mut Readings| {
            measure(&nodes, readings)?;
            script::measure(&nodes, readings)
        }))
    },
    work: no_work,
};

pub(crate) const FIVE: Workload = Workload {
    name: "redlock",
    about: "Acquire + release on a free lock, a majority of five Redis servers.",
    rounds: 7,
    rows: || rows(5),
    prepare: |_| -> Outcome<Round> {
        let nodes = Nodes::start(5, "")?;
        Ok(Box::new(move |readings: &mut Readings| measure(&nodes, readings)))
    },
    work: no_work,
};

fn measure(nodes: &Nodes, readings: &mut Readings) -> Outcome<()> {
    for tasks in TASKS {
        let mut found: HashMap<String, Vec<f64>> = HashMap::new();
        for _ in 0..turns(tasks) {
            for kind in KINDS {
                let story = Contest::uncontended(kind, tasks, LENGTH / turns(tasks)).run(nodes)?;
                for (figure, _, _) in TOLD.iter().filter(|(_, counts, _)| counts.contains(&tasks)) {
                    found.entry(name(kind, tasks, figure)).or_default().push((figure.of)(&story));
                }
            }
        }
        found.into_iter().for_each(|(name, figures)| readings.note(name, median(&figures)));
    }
    Ok(())
}
