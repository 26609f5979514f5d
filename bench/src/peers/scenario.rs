//! What is asked of every kind of lock.

use std::time::Duration;

use crate::Outcome;
use crate::contest::{Contest, Story, turns};
use crate::figures::{CLIENT, COMMANDS, Figure, GAP, GAP_99, JAIN, OTHERS, P50, P99, RATE, SERVER, WAIT_99, WAIT_MAX};
use crate::kinds::{
    BLPOP, DISTRIBUTED_LOCK, FLOOR, Kind, OURS, PLAIN, POTTERY, REDIS_LOCK, REDIS_PY, REDLOCK_4, REDLOCK_5, RSLOCK,
};
use crate::nodes::Nodes;

/// A process that does not even tell its tale by then hangs.
const PATIENCE: Duration = Duration::from_secs(6);
/// Who fails, if one of five does.
const LAST: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    /// So many tasks, each on a lock that nobody else wants.
    Free(usize),
    /// So many waiters in so many processes, all on one lock.
    Wanted(usize, usize),
    /// Free locks, and one server is stopped.
    Stopped(usize),
    /// Free locks, and one server is killed.
    Killed(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Scenario {
    pub(super) nodes: usize,
    pub(super) case: Case,
}

/// All of them, in the order of the page; to be quick, fewer.
pub(super) fn all(quick: bool) -> Vec<Scenario> {
    let waiters: &[usize] = if quick { &[16] } else { &[2, 16, 64] };
    let mut cases: Vec<(usize, Case)> = Vec::new();
    for nodes in [1, 5] {
        cases.extend([1, 16, 64, 256].map(|tasks| (nodes, Case::Free(tasks))));
    }
    for nodes in [1, 5] {
        for &waiters in waiters {
            // Two waiters are in two processes at most.
            cases.extend([1, 4.min(waiters)].map(|processes| (nodes, Case::Wanted(waiters, processes))));
        }
    }
    for tasks in [1, 16] {
        cases.extend([Case::Stopped(tasks), Case::Killed(tasks)].map(|case| (5, case)));
    }
    cases.into_iter().map(|(nodes, case)| Scenario { nodes, case }).collect()
}

impl Scenario {
    /// Those who can take part.
    pub(super) fn kinds(self) -> Vec<&'static Kind> {
        let floor = match self.case {
            Case::Free(_) => Some(&FLOOR),
            Case::Wanted(..) if self.nodes == 1 => Some(&BLPOP),
            _ => None,
        };
        let all = [&OURS, &PLAIN, &RSLOCK, &REDIS_LOCK, &DISTRIBUTED_LOCK, &REDLOCK_4, &REDLOCK_5, &POTTERY];
        // It knows one server only.
        let single = (self.nodes == 1).then_some(&REDIS_PY);
        floor.into_iter().chain(all).chain(single).collect()
    }

    /// How often everyone runs in a round.
    pub(super) fn turns(self) -> usize {
        match self.case {
            Case::Free(tasks) => turns(tasks) as usize,
            _ => 1,
        }
    }

    /// What is told of them. The first is what the scenario is about.
    pub(super) fn figures(self) -> &'static [&'static Figure] {
        match self.case {
            Case::Free(1) => &[&P50, &P99, &RATE, &CLIENT, &SERVER, &COMMANDS],
            Case::Free(_) => &[&RATE, &P50, &P99, &CLIENT, &SERVER, &COMMANDS],
            Case::Wanted(..) => &[&OTHERS, &RATE, &GAP, &GAP_99, &WAIT_99, &WAIT_MAX, &JAIN, &COMMANDS],
            Case::Stopped(_) => &[&P50, &P99, &RATE],
            Case::Killed(_) => &[&RATE, &P50, &P99],
        }
    }

    pub(super) fn section(self) -> &'static str {
        match self.case {
            Case::Free(_) => "Free locks",
            Case::Wanted(..) => "Waiters on one lock",
            Case::Stopped(_) | Case::Killed(_) => "One of five servers fails",
        }
    }

    pub(super) fn title(self) -> String {
        let servers = if self.nodes == 1 { "1 server".to_owned() } else { format!("{} servers", self.nodes) };
        let tasks = |count| if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") };
        match self.case {
            Case::Free(count) => format!("{servers}, {}", tasks(count)),
            Case::Wanted(waiters, 1) => format!("{servers}, {waiters} waiters in 1 process"),
            Case::Wanted(waiters, processes) => format!("{servers}, {waiters} waiters in {processes} processes"),
            Case::Stopped(count) => format!("one stopped (SIGSTOP), {}", tasks(count)),
            Case::Killed(count) => format!("one killed, {}", tasks(count)),
        }
    }

    pub(super) fn run(self, kind: &'static Kind, nodes: &[Nodes; 2], quick: bool) -> Outcome<Story> {
        let ms = |full, short| Duration::from_millis(if quick { short } else { full });
        let contest = match self.case {
            Case::Free(tasks) => Contest::uncontended(kind, tasks, ms(400, 200) / turns(tasks)),
            Case::Wanted(waiters, processes) => Contest::contended(kind, processes, waiters, ms(1500, 700)),
            Case::Stopped(tasks) | Case::Killed(tasks) => Contest::uncontended(kind, tasks, ms(600, 300)),
        };
        let contest = Contest { patience: PATIENCE, ..contest };
        let fail: fn(&mut Nodes, usize) = match self.case {
            Case::Stopped(_) => Nodes::pause,
            Case::Killed(_) => Nodes::kill,
            _ => return contest.run(&nodes[usize::from(self.nodes == 5)]),
        };
        // New ones: what was killed has forgotten everything.
        contest.run_failing(&mut Nodes::start(self.nodes, "")?, LAST, fail)
    }
}
