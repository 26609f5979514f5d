//! Many waiters on one Redis lock: tasks that lock, hold for a millisecond and unlock, in one process and in four.
//! Every round is also a check: two holders at once, or a token that does not rise, end the run.

use std::time::Duration;

use crate::Outcome;
use crate::contest::{Contest, Story};
use crate::kinds::{BLPOP, Kind, OURS, RSLOCK};
use crate::nodes::Nodes;
use crate::runner::{Goal, Readings, Row, Unit, Workload, no_work};

const LENGTH: Duration = Duration::from_secs(2);
/// Waiters in all, and the processes they are in.
const SHAPES: [(usize, usize); 4] = [(16, 1), (16, 4), (64, 1), (64, 4)];
/// Ours on the one server that five are compared with.
const ON_ONE: &str = "ours on one server";

const OTHERS: &str = "to another waiter";
const RATE: &str = "acquisitions";
const GAP: &str = "unlock to next holder, p50";
const GAP_99: &str = "unlock to next holder, p99";
const WAIT: &str = "a waiter's wait, p99 / p50";
const JAIN: &str = "fairness (Jain index)";
const COMMANDS: &str = "commands per acquisition and node";
const CLIENT: &str = "client CPU per acquisition";
const SERVER: &str = "server CPU per acquisition, all nodes";

fn name(who: &str, (waiters, processes): (usize, usize), what: &str) -> String {
    format!("{who}, {waiters} waiters, {processes} process{}, {what}", if processes == 1 { "" } else { "es" })
}

fn rows(nodes: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for shape in SHAPES {
        let one = shape.1 == 1;
        let row = |who: &str, what, unit| Row::new(name(who, shape, what), unit);
        let (beside, far) = match nodes {
            1 => (BLPOP.name, if one { 1.5 } else { 2.0 }),
            _ => (ON_ONE, 2.5),
        };
        let gap = row(OURS.name, GAP, Unit::Nanos).against(name(beside, shape, GAP)).goal(Goal::RatioAtMost(far));
        let others = row(OURS.name, OTHERS, Unit::PerSecond).against(name(RSLOCK.name, shape, OTHERS));
        rows.extend([
            others.goal(Goal::RatioAtLeast(30.0)),
            row(RSLOCK.name, OTHERS, Unit::PerSecond),
            row(OURS.name, RATE, Unit::PerSecond).against(name(RSLOCK.name, shape, RATE)),
            row(RSLOCK.name, RATE, Unit::PerSecond),
            gap,
            row(beside, GAP, Unit::Nanos),
            row(OURS.name, GAP_99, Unit::Nanos).against(name(beside, shape, GAP_99)),
            row(beside, GAP_99, Unit::Nanos),
            row(OURS.name, WAIT, Unit::Number).goal(Goal::AtMost(1.3)),
            row(RSLOCK.name, WAIT, Unit::Number),
            row(OURS.name, JAIN, Unit::Number).goal(Goal::AtLeast(0.99)),
            row(RSLOCK.name, JAIN, Unit::Number),
            row(OURS.name, COMMANDS, Unit::Number).goal(Goal::AtMost(if one { 1.2 } else { 2.2 })),
            row(RSLOCK.name, COMMANDS, Unit::Number),
            row(OURS.name, CLIENT, Unit::Nanos).against(name(RSLOCK.name, shape, CLIENT)),
            row(RSLOCK.name, CLIENT, Unit::Nanos),
            row(OURS.name, SERVER, Unit::Nanos).against(name(RSLOCK.name, shape, SERVER)),
            row(RSLOCK.name, SERVER, Unit::Nanos),
        ]);
    }
    rows
}

fn note(readings: &mut Readings, who: &str, shape: (usize, usize), story: &Story) {
    let figures = [
        (OTHERS, story.to_another),
        (RATE, story.rate),
        (GAP, story.gaps.percentile(50)),
        (GAP_99, story.gaps.percentile(99)),
        (WAIT, story.waits.percentile(99) / story.waits.percentile(50)),
        (JAIN, story.jain),
        (COMMANDS, story.commands),
        (CLIENT, story.client_cpu),
        (SERVER, story.server_cpu),
    ];
    figures.into_iter().for_each(|(what, figure)| readings.note(name(who, shape, what), figure));
}

fn measure(readings: &mut Readings, contenders: &[(&str, &'static Kind, &Nodes)]) -> Outcome<()> {
    for shape @ (waiters, processes) in SHAPES {
        for (who, kind, nodes) in contenders {
            let story = Contest::contended(kind, processes, waiters, LENGTH).run(nodes)?;
            note(readings, who, shape, &story);
        }
    }
    Ok(())
}

pub(crate) const ONE: Workload = Workload {
    name: "contended-redis",
    about: "Waiters on one lock, held for a millisecond each, one Redis server. BLPOP is a hand-over by hand: unlock \
            pushes onto a list on which waiters block.",
    rounds: 5,
    rows: || rows(1),
    prepare: |_| {
        let nodes = Nodes::start(1, "")?;
        Ok(Box::new(move |readings: &mut Readings| {
            let kinds = [&OURS, &BLPOP, &RSLOCK];
            measure(readings, &kinds.map(|kind| (kind.name, kind, &nodes)))
        }))
    },
    work: no_work,
};

pub(crate) const FIVE: Workload = Workload {
    name: "contended-redlock",
    about: "Waiters on one lock, held for a millisecond each, a majority of five Redis servers.",
    rounds: 5,
    rows: || rows(5),
    prepare: |_| {
        let (five, one) = (Nodes::start(5, "")?, Nodes::start(1, "")?);
        Ok(Box::new(move |readings: &mut Readings| {
            measure(readings, &[(OURS.name, &OURS, &five), (ON_ONE, &OURS, &one), (RSLOCK.name, &RSLOCK, &five)])
        }))
    },
    work: no_work,
};

const LONG_SHAPE: (usize, usize) = (64, 4);

pub(crate) const LONG: Workload = Workload {
    name: "long-redlock",
    about: "The same for a minute: four processes of 16 waiters, five servers. It would have ended with an error if two \
            had held the lock at once, or a token had not risen.",
    rounds: 1,
    rows: || {
        let row = |what, unit| Row::new(name(OURS.name, LONG_SHAPE, what), unit);
        vec![
            row(RATE, Unit::PerSecond),
            row(OTHERS, Unit::PerSecond),
            row(GAP, Unit::Nanos),
            row(GAP_99, Unit::Nanos),
            row(WAIT, Unit::Number).goal(Goal::AtMost(1.3)),
            row(JAIN, Unit::Number).goal(Goal::AtLeast(0.99)),
            row(COMMANDS, Unit::Number).goal(Goal::AtMost(2.2)),
        ]
    },
    prepare: |_| {
        let nodes = Nodes::start(5, "")?;
        Ok(Box::new(move |readings: &mut Readings| {
            let (waiters, processes) = LONG_SHAPE;
            let story = Contest::contended(&OURS, processes, waiters, Duration::from_secs(60)).run(&nodes)?;
            note(readings, OURS.name, LONG_SHAPE, &story);
            Ok(())
        }))
    },
    work: no_work,
};
