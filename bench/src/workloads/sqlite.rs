//! The embedded store without contention, beside the commits it cannot do without.

use std::sync::Arc;
use std::time::Duration;

use fencepost::{Blocking, Locks, connect};
use tokio::runtime::Runtime;

use crate::Outcome;
use crate::process::now;
use crate::raw_commits::RawCommits;
use crate::runner::{Readings, Round, Row, Samples, Unit, Workload, no_work};
use crate::site::Site;

const PAIR: &str = "acquire + release, p50";
const RAW: &str = "two raw commits, p50";
const ONE: &str = "pairs, 1 task";
const MANY: &str = "pairs, 16 tasks on 16 locks";

/// In one round ours and the raw commits have so many turns of so many pairs.
const TURNS: usize = 10;
const PAIRS: usize = 10;
const TASKS: usize = 16;
/// Shared by the tasks of a throughput.
const ALL_PAIRS: usize = 800;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "sqlite",
    about: "One pair on a free lock in a fresh file, beside two commits by hand on the same file (WAL, synchronous=FULL, \
            BEGIN IMMEDIATE). Many tasks share commits.",
    rounds: 9,
    rows: || {
        vec![
            Row::new(PAIR, Unit::Nanos).against(RAW),
            Row::new(RAW, Unit::Nanos),
            Row::new(ONE, Unit::PerSecond),
            Row::new(MANY, Unit::PerSecond).against(ONE),
        ]
    },
    prepare,
    work: no_work,
};

fn prepare(site: &Site) -> Outcome<Round> {
    let file = site.file("sqlite.db")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let locks = connect(format!("sqlite:{file}")).block()?;
    let mut raw = RawCommits::open(&file)?;
    pairs(&locks, PAIRS, &mut Samples::default())?;
    raw.pairs(PAIRS, Duration::ZERO, &mut Samples::default())?;
    Ok(Box::new(move |readings: &mut Readings| {
        let (mut ours, mut floor) = (Samples::default(), Samples::default());
        for _ in 0..TURNS {
            pairs(&locks, PAIRS, &mut ours)?;
            raw.pairs(PAIRS, Duration::ZERO, &mut floor)?;
        }
        readings.note(PAIR, ours.percentile(50));
        readings.note(RAW, floor.percentile(50));
        readings.note(ONE, pairs_per_second(&runtime, &locks, 1)?);
        readings.note(MANY, pairs_per_second(&runtime, &locks, TASKS)?);
        Ok(())
    }))
}

fn pairs(locks: &Locks, count: usize, samples: &mut Samples) -> Outcome<()> {
    let lock = locks.lock("pair");
    for _ in 0..count {
        let began = now();
        lock.acquire().block()?.release().block()?;
        samples.extend([now() - began]);
    }
    Ok(())
}

fn pairs_per_second(runtime: &Runtime, locks: &Locks, tasks: usize) -> Outcome<f64> {
    let barrier = Arc::new(tokio::sync::Barrier::new(tasks));
    let began = now();
    let started = (0..tasks).map(|number| {
        let (lock, barrier) = (locks.lock(format!("task-{number}")), barrier.clone());
        runtime.spawn(async move {
            barrier.wait().await;
            for _ in 0..ALL_PAIRS / tasks {
                lock.acquire().await?.release().await?;
            }
            Outcome::Ok(())
        })
    });
    for task in started.collect::<Vec<_>>() {
        runtime.block_on(task)??;
    }
    Ok(ALL_PAIRS as f64 * 1e9 / (now() - began) as f64)
}
