//! Many waiters on one Redis lock: tasks that lock, hold for a millisecond and unlock, in one process and in four.
//! Every round is also a check: two holders at once, or a token that does not rise, end the run.

use std::time::Duration;

use crate::Outcome;
use crate::contest::{Contest, Story};
use crate::figures::{CLIENT, COMMANDS, Figure, GAP, GAP_99, INVERSIONS, JAIN, OTHERS, RATE, SERVER, WAIT};
use crate::kinds::{BLPOP, HEARD, Kind, OURS, RSLOCK};
use crate::nodes::Nodes;
use crate::runner::{Goal, Readings, Row, Workload, no_work};

const LENGTH: Duration = Duration::from_secs(2);
/// Waiters in all, and the processes they are in.
const SHAPES: [(usize, usize); 4] = [(16, 1), (16, 4), (64, 1), (64, 4)];
/// Ours on the one server that five are compared with.
const ON_ONE: &str = "ours on one server";

/// Which figures are told, in this order.
const TOLD: [&Figure; 9] = [&OTHERS, &RATE, &GAP, &GAP_99, &WAIT, &JAIN, &COMMANDS, &CLIENT, &SERVER];

fn name(who: &str, (waiters, processes): (usize, usize), figure: &Figure) -> String {
    let es = if processes == 1 { "" } else { "es" };
    format!("{who}, {waiters} waiters, {processes} process{es}, {}", figure.what)
}

/// What is wanted of ours, and beside whom; `far`: how many times the gap of the other may be.
fn judged(row: Row, figure: &Figure, shape: (usize, usize), beside: &str, far: f64) -> Row {
    let one = shape.1 == 1;
    let other = |who: &str| name(who, shape, figure);
    match figure.what {
        what if what == OTHERS.what => row.against(other(RSLOCK.name)).goal(Goal::RatioAtLeast(30.0)),
        what if what == GAP.what => row.against(other(beside)).goal(Goal::RatioAtMost(far)),
        what if what == GAP_99.what => row.against(other(beside)),
        what if what == WAIT.what => row.goal(Goal::AtMost(1.3)),
        what if what == JAIN.what => row.goal(Goal::AtLeast(0.99)),
        what if what == COMMANDS.what => row.goal(Goal::AtMost(if one { 1.2 } else { 2.2 })),
        _ => row.against(other(RSLOCK.name)),
    }
}

fn rows(nodes: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for shape in SHAPES {
        let (beside, far) = match nodes {
            1 => (BLPOP.name, if shape.1 == 1 { 1.5 } else { 2.0 }),
            _ => (ON_ONE, 2.5),
        };
        for figure in TOLD {
            let row = |who: &str| Row::new(name(who, shape, figure), figure.unit);
            rows.push(judged(row(OURS.name), figure, shape, beside, far));
            let gap = figure.what == GAP.what || figure.what == GAP_99.what;
            rows.push(row(if gap { beside } else { RSLOCK.name }));
        }
    }
    rows
}

fn note(readings: &mut Readings, who: &str, shape: (usize, usize), story: &Story) {
    TOLD.iter().for_each(|figure| readings.note(name(who, shape, figure), (figure.of)(story)));
}

fn measure(readings: &mut Readings, contenders: &[(&str, &'static Kind, &Nodes)]) -> Outcome<()> {
    for shape @ (waiters, processes) in SHAPES {
        for (who, kind, nodes) in contenders {
            let story = Contest::contended(kind, processes, waiters, LENGTH).run(*nodes)?;
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
        let row = |figure: &Figure| Row::new(name(OURS.name, LONG_SHAPE, figure), figure.unit);
        vec![
            row(&RATE),
            row(&OTHERS),
            row(&GAP),
            row(&GAP_99),
            row(&WAIT).goal(Goal::AtMost(1.3)),
            row(&JAIN).goal(Goal::AtLeast(0.99)),
            row(&COMMANDS).goal(Goal::AtMost(2.2)),
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

/// How long each of them lasts: some hundred grants a second.
const COUNTED: Duration = Duration::from_secs(4);

pub(crate) const INVERTED: Workload = Workload {
    name: "inversions-redlock",
    about: "How often somebody in line is served before another with a lower ticket, of 1,000 grants: five servers that vote \
            keep a line each. Beside it one server, whose line is one.",
    rounds: 5,
    rows: || {
        let row = |who: &str, shape| Row::new(name(who, shape, &INVERSIONS), INVERSIONS.unit);
        SHAPES.into_iter().flat_map(|shape| [row(OURS.name, shape), row(ON_ONE, shape)]).collect()
    },
    prepare: |_| {
        let (five, one) = (Nodes::start(5, "")?, Nodes::start(1, "")?);
        Ok(Box::new(move |readings: &mut Readings| {
            for shape @ (waiters, processes) in SHAPES {
                for (who, nodes) in [(OURS.name, &five), (ON_ONE, &one)] {
                    let story = Contest::contended(&HEARD, processes, waiters, COUNTED).run(nodes)?;
                    readings.note(name(who, shape, &INVERSIONS), story.inversions);
                }
            }
            Ok(())
        }))
    },
    work: no_work,
};
