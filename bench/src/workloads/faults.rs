//! What the loss of a server costs on five, and the death of a waiting process on one and on five.

use std::time::Duration;

use fencepost::{Blocking, connect};

use super::waiting::past_waiter;
use crate::Outcome;
use crate::contest::Contest;
use crate::kinds::OURS;
use crate::nodes::Nodes;
use crate::process::now;
use crate::runner::{Goal, Readings, Row, Samples, Unit, Workload};

const LENGTH: Duration = Duration::from_secs(1);
/// Who fails.
const LAST: usize = 4;

const HEALTHY: &str = "all five up, 1 task, p50";
const HEALTHY_99: &str = "all five up, 1 task, p99";
const STOPPED: &str = "one of five stopped (SIGSTOP), 1 task, p50";
const STOPPED_99: &str = "one of five stopped (SIGSTOP), 1 task, p99";
const RATE: &str = "all five up, 1 task, pairs";
const RATE_16: &str = "all five up, 16 tasks, pairs";
const KILLED: &str = "one of five killed, 1 task, pairs";
const KILLED_16: &str = "one of five killed, 16 tasks, pairs";
const BACK: &str = "port of a killed server back to its first lock command";
const LATE: &str = "three of five stopped: end of the wait to the answer";
const PASSED: &str = "release to next holder past a waiting process that was killed, one server";
const NOT_KILLED: &str = "release to next holder, nobody killed, one server";
const PASSED_FIVE: &str = "release to next holder past a waiting process that was killed, five servers";
const NOT_KILLED_FIVE: &str = "release to next holder, nobody killed, five servers";

/// How often in a round a waiter is killed.
const KILLS: u32 = 3;
const MS: f64 = 1e6;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "faults-redlock",
    about: "A majority of five Redis servers, and what happens when one stops, dies and comes back; then the death of a \
            process that is next in line. Each round has new servers.",
    rounds: 5,
    rows: || {
        vec![
            Row::new(HEALTHY, Unit::Nanos),
            Row::new(STOPPED, Unit::Nanos).against(HEALTHY).goal(Goal::RatioAtMost(1.25)),
            Row::new(HEALTHY_99, Unit::Nanos),
            Row::new(STOPPED_99, Unit::Nanos).against(HEALTHY_99).goal(Goal::RatioAtMost(2.0)),
            Row::new(RATE, Unit::PerSecond),
            Row::new(KILLED, Unit::PerSecond).against(RATE).goal(Goal::RatioAtLeast(0.9)),
            Row::new(RATE_16, Unit::PerSecond),
            Row::new(KILLED_16, Unit::PerSecond).against(RATE_16).goal(Goal::RatioAtLeast(0.9)),
            Row::new(BACK, Unit::Nanos).goal(Goal::AlwaysBetween(0.0, 250.0 * MS)),
            Row::new(LATE, Unit::Nanos).goal(Goal::AlwaysBetween(0.0, 20.0 * MS)),
            Row::new(NOT_KILLED, Unit::Nanos),
            Row::new(PASSED, Unit::Nanos).against(NOT_KILLED).goal(Goal::AlwaysBetween(0.0, 10.0 * MS)),
            Row::new(NOT_KILLED_FIVE, Unit::Nanos),
            Row::new(PASSED_FIVE, Unit::Nanos).against(NOT_KILLED_FIVE).goal(Goal::AlwaysBetween(0.0, 10.0 * MS)),
        ]
    },
    prepare: |_| Ok(Box::new(measure)),
    work: super::waiting::work,
};

fn measure(readings: &mut Readings) -> Outcome<()> {
    let mut nodes = Nodes::start(5, "")?;
    let healthy = one_task().run(&nodes)?;
    let stopped = one_task().run_failing(&mut nodes, LAST, Nodes::pause)?;
    nodes.resume(LAST);
    let healthy_16 = sixteen_tasks().run(&nodes)?;
    readings.note(HEALTHY, healthy.pairs.percentile(50));
    readings.note(HEALTHY_99, healthy.pairs.percentile(99));
    readings.note(STOPPED, stopped.pairs.percentile(50));
    readings.note(STOPPED_99, stopped.pairs.percentile(99));
    readings.note(LATE, late(&mut nodes)?);
    readings.note(RATE, healthy.rate);
    readings.note(RATE_16, healthy_16.rate);
    readings.note(KILLED, one_task().run_failing(&mut nodes, LAST, Nodes::kill)?.rate);
    // Once more, so that the link breaks under load here too.
    let mut nodes = Nodes::start(5, "")?;
    readings.note(KILLED_16, sixteen_tasks().run_failing(&mut nodes, LAST, Nodes::kill)?.rate);
    readings.note(BACK, back()?);
    for (count, killed, unharmed) in [(1, PASSED, NOT_KILLED), (5, PASSED_FIVE, NOT_KILLED_FIVE)] {
        let nodes = Nodes::start(count, "")?;
        readings.note(unharmed, past(&nodes, false)?);
        readings.note(killed, past(&nodes, true)?);
    }
    Ok(())
}

fn one_task() -> Contest {
    Contest::uncontended(&OURS, 1, LENGTH)
}

fn sixteen_tasks() -> Contest {
    Contest::uncontended(&OURS, 16, LENGTH)
}

/// How long after its port a killed server has its first lock command. It keeps its keys: one that forgot them has to
/// keep still for a while.
fn back() -> Outcome<f64> {
    let mut nodes = Nodes::start(5, "--appendonly yes --appendfsync always")?;
    let running = Contest::uncontended(&OURS, 1, 2 * LENGTH).prepare(&nodes)?.go(&nodes);
    nodes.kill(LAST);
    // Whenever: who tries again at fixed times would be met in the same moment in every round.
    std::thread::sleep(LENGTH + Duration::from_millis(now() % 200));
    nodes.restart(LAST);
    let up = now();
    while nodes.evalshas(LAST) == 0.0 {
        if now() - up > 2 * LENGTH.as_nanos() as u64 {
            return Err("a server that came back was not used".into());
        }
    }
    let used = now();
    running.story(&nodes)?;
    Ok((used - up) as f64)
}

/// How long after its wait an acquire comes back that cannot succeed.
fn late(nodes: &mut Nodes) -> Outcome<f64> {
    const WAIT: Duration = Duration::from_millis(500);
    let locks = connect(nodes.url()).block()?;
    let lock = locks.lock("late").wait_at_most(WAIT);
    lock.acquire().block()?.release().block()?;
    (2..5).for_each(|node| nodes.pause(node));
    let asked = now();
    let outcome = lock.acquire().block();
    let late = (now() - asked) as f64 - WAIT.as_nanos() as f64;
    (2..5).for_each(|node| nodes.resume(node));
    if outcome.is_ok() {
        return Err("a minority granted a lock".into());
    }
    // Sooner is no fault.
    Ok(late.max(0.0))
}

/// The longest of a few.
fn past(nodes: &Nodes, killed: bool) -> Outcome<f64> {
    let locks = connect(nodes.url()).block()?;
    let mut gaps = Samples::default();
    for _ in 0..KILLS {
        gaps.extend([past_waiter(WORKLOAD.name, &locks, &nodes.url(), killed)? as u64]);
    }
    Ok(gaps.percentile(100))
}
