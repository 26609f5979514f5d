//! From the call of `release` to the return of the next holder's `acquire`.

use std::sync::Arc;
use std::time::Duration;

use fencepost::{Blocking, Lock, connect};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;

use crate::Outcome;
use crate::process::{self, Worker, now};
use crate::raw_commits::RawCommits;
use crate::runner::{Readings, Round, Row, Samples, Unit, Workload};
use crate::site::Site;

const TWO: &str = "2 processes, sqlite, p50";
const TWO_P99: &str = "2 processes, sqlite, p99";
const FOUR: &str = "4 processes, sqlite, p50";
const FOUR_P99: &str = "4 processes, sqlite, p99";
const INSIDE: &str = "2 tasks of one process, sqlite, p50";
const INSIDE_P99: &str = "2 tasks of one process, sqlite, p99";
const MEMORY: &str = "2 tasks of one process, memory, p50";
const MEMORY_P99: &str = "2 tasks of one process, memory, p99";
const MUTEX: &str = "2 tasks of one process, `tokio::sync::Mutex`, p50";
const MUTEX_P99: &str = "2 tasks of one process, `tokio::sync::Mutex`, p99";
const RESTED: &str = "two raw commits after 20 ms of rest, p50";
const RAW: &str = "two raw commits, p50";

/// How often everyone holds the lock in a round.
pub(super) const TURNS: usize = 50;
/// Long enough for everyone else to be back in line.
pub(super) const HOLD: Duration = Duration::from_millis(20);
const RAW_PAIRS: usize = 25;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "handover",
    about: "Contenders that take turns on one lock, 20 ms each, so that the next is in line: from calling `release` to \
            the return of the next one's `acquire`.",
    rounds: 7,
    rows: || {
        vec![
            Row::new(TWO, Unit::Nanos).against(RESTED).against(RAW),
            Row::new(TWO_P99, Unit::Nanos).against(RESTED).against(RAW),
            Row::new(FOUR, Unit::Nanos).against(RESTED).against(RAW),
            Row::new(FOUR_P99, Unit::Nanos).against(RESTED).against(RAW),
            Row::new(INSIDE, Unit::Nanos).against(RESTED).against(RAW),
            Row::new(INSIDE_P99, Unit::Nanos).against(RESTED).against(RAW),
            Row::new(MEMORY, Unit::Nanos).against(MUTEX),
            Row::new(MEMORY_P99, Unit::Nanos).against(MUTEX_P99),
            Row::new(MUTEX, Unit::Nanos),
            Row::new(MUTEX_P99, Unit::Nanos),
            Row::new(RESTED, Unit::Nanos),
            Row::new(RAW, Unit::Nanos),
        ]
    },
    prepare,
    work,
};

fn prepare(site: &Site) -> Outcome<Round> {
    let file = site.file("handover.db")?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let url = format!("sqlite:{file}");
    let (locks, memory) = (connect(&*url).block()?, connect("memory:").block()?);
    let mut raw = RawCommits::open(&file)?;
    Ok(Box::new(move |readings: &mut Readings| {
        let (mut rested, mut floor) = (Samples::default(), Samples::default());
        raw.pairs(RAW_PAIRS, HOLD, &mut rested)?;
        raw.pairs(RAW_PAIRS, Duration::ZERO, &mut floor)?;
        note(readings, (TWO, TWO_P99), between_processes(&url, 2)?);
        let turns = || take_turns(locks.lock("inside").wait_forever());
        note(readings, (INSIDE, INSIDE_P99), between_tasks(&runtime, turns)?);
        note(readings, (FOUR, FOUR_P99), between_processes(&url, 4)?);
        let turns = || take_turns(memory.lock("inside").wait_forever());
        note(readings, (MEMORY, MEMORY_P99), between_tasks(&runtime, turns)?);
        let mutex = Arc::new(Mutex::new(()));
        note(readings, (MUTEX, MUTEX_P99), between_tasks(&runtime, || take_bare_turns(mutex.clone()))?);
        raw.pairs(RAW_PAIRS, HOLD, &mut rested)?;
        raw.pairs(RAW_PAIRS, Duration::ZERO, &mut floor)?;
        readings.note(RESTED, rested.percentile(50));
        readings.note(RAW, floor.percentile(50));
        Ok(())
    }))
}

fn note(readings: &mut Readings, (p50, p99): (&'static str, &'static str), gaps: Samples) {
    readings.note(p50, gaps.percentile(50));
    readings.note(p99, gaps.percentile(99));
}

/// One hold: when it was asked for, when it began, and when its release was called.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) asked: u64,
    pub(super) acquired: u64,
    pub(super) released: u64,
}

pub(super) async fn take_turns(lock: Lock) -> Outcome<Vec<Turn>> {
    let mut turns = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let asked = now();
        let guard = lock.acquire().await?;
        let acquired = now();
        tokio::time::sleep(HOLD).await;
        let released = now();
        guard.release().await?;
        turns.push(Turn { asked, acquired, released });
    }
    Ok(turns)
}

/// The same with a mutex of this process, which is no lease.
async fn take_bare_turns(mutex: Arc<Mutex<()>>) -> Outcome<Vec<Turn>> {
    let mut turns = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let asked = now();
        let guard = mutex.lock().await;
        let acquired = now();
        tokio::time::sleep(HOLD).await;
        let released = now();
        drop(guard);
        turns.push(Turn { asked, acquired, released });
    }
    Ok(turns)
}

/// From each release to the next hold, where the next one was in line by then.
fn gaps(mut turns: Vec<Turn>) -> Samples {
    turns.sort_unstable_by_key(|turn| turn.acquired);
    let mut gaps = Samples::default();
    let pairs = turns.windows(2).filter(|pair| pair[1].asked + HOLD.as_nanos() as u64 / 2 < pair[0].released);
    gaps.extend(pairs.map(|pair| pair[1].acquired - pair[0].released));
    gaps
}

pub(super) fn between_tasks<F>(runtime: &Runtime, turns: impl Fn() -> F) -> Outcome<Samples>
where
    F: Future<Output = Outcome<Vec<Turn>>> + Send + 'static,
{
    let tasks = [runtime.spawn(turns()), runtime.spawn(turns())];
    let mut turns = Vec::new();
    for task in tasks {
        turns.extend(runtime.block_on(task)??);
    }
    Ok(gaps(turns))
}

fn between_processes(url: &str, count: usize) -> Outcome<Samples> {
    let start = |_| Worker::start(WORKLOAD.name, &[url]);
    let mut workers = (0..count).map(start).collect::<Outcome<Vec<_>>>()?;
    for worker in &mut workers {
        worker.hear()?;
    }
    workers.iter_mut().for_each(Worker::give_leave);
    let mut turns = Vec::new();
    for worker in &mut workers {
        for line in worker.hear_out()? {
            let moments = line.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
            let [asked, acquired, released] = moments[..] else { return Err("a turn has three moments".into()) };
            turns.push(Turn { asked, acquired, released });
        }
    }
    Ok(gaps(turns))
}

/// Takes turns with its like, and tells of them afterwards.
fn work(args: &[String]) -> Outcome<()> {
    let url = args.first().ok_or("the worker needs a URL")?;
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let locks = connect(url.as_str()).block()?;
    process::say("ready")?;
    process::await_leave()?;
    for Turn { asked, acquired, released } in runtime.block_on(take_turns(locks.lock("between").wait_forever()))? {
        process::say(&format!("{asked} {acquired} {released}"))?;
    }
    Ok(())
}
