//! What waiting costs, and what the death of a waiter or of a holder costs those who wait.

use std::thread;
use std::time::Duration;

use fencepost::{Blocking, Locks, connect};

use crate::Outcome;
use crate::process::{self, Worker, now};
use crate::raw_commits::RawCommits;
use crate::runner::{Goal, Readings, Round, Row, Samples, Unit, Workload};
use crate::site::Site;

const CPU: &str = "CPU of 50 waiting processes together, of one core";
const DEAD_WAITER: &str = "release to next holder, past a waiter that was killed";
const DEAD_HOLDER: &str = "end of a killed holder's lease (1 s) to next holder";
const RAW: &str = "two raw commits after 20 ms of rest, p50";

const WAITERS: usize = 50;
/// Start-up is over by then.
const SETTLE: Duration = Duration::from_secs(2);
const WATCH: Duration = Duration::from_secs(10);
const RAW_PAIRS: usize = 25;
const REST: Duration = Duration::from_millis(20);
/// What the system may add to the end of a lease.
const LATE_MAX: Duration = Duration::from_millis(250);

pub(crate) const WORKLOAD: Workload = Workload {
    name: "waiting",
    about: "Processes that wait for ever for one lock of a `sqlite:` file. CPU: user and system time over 10 s in which \
            another holds the lock. Killed: by SIGKILL.",
    rounds: 5,
    rows: || {
        vec![
            Row::new(CPU, Unit::Percent).goal(Goal::AtMost(5.0)),
            Row::new(DEAD_WAITER, Unit::Nanos).against(RAW),
            Row::new(DEAD_HOLDER, Unit::Nanos).goal(Goal::AlwaysBetween(0.0, LATE_MAX.as_nanos() as f64)),
            Row::new(RAW, Unit::Nanos),
        ]
    },
    prepare,
    work,
};

fn prepare(site: &Site) -> Outcome<Round> {
    let file = site.file("waiting.db")?;
    let url = format!("sqlite:{file}");
    let locks = connect(&*url).block()?;
    let mut raw = RawCommits::open(&file)?;
    Ok(Box::new(move |readings: &mut Readings| {
        let mut floor = Samples::default();
        raw.pairs(RAW_PAIRS, REST, &mut floor)?;
        readings.note(DEAD_WAITER, past_waiter(WORKLOAD.name, &locks, &url, true)?);
        readings.note(DEAD_HOLDER, after_dead_holder(&locks, &url)?);
        raw.pairs(RAW_PAIRS, REST, &mut floor)?;
        readings.note(RAW, floor.percentile(50));
        readings.note(CPU, cpu_of_waiters(&locks, &url)?);
        Ok(())
    }))
}

fn cpu_of_waiters(locks: &Locks, url: &str) -> Outcome<f64> {
    let guard = locks.lock("crowded").acquire().block()?;
    let start = |_| Worker::start(WORKLOAD.name, &[url, "crowded"]);
    let workers = (0..WAITERS).map(start).collect::<Outcome<Vec<_>>>()?;
    await_line(locks, "crowded", WAITERS)?;
    thread::sleep(SETTLE);
    let used = || workers.iter().map(Worker::cpu).sum::<Outcome<Duration>>();
    let (before, began) = (used()?, now());
    thread::sleep(WATCH);
    let (after, ended) = (used()?, now());
    drop(workers);
    guard.release().block()?;
    Ok((after - before).as_nanos() as f64 / (ended - began) as f64 * 100.0)
}

/// From the release to the next holder; the one before it in line may have been killed.
pub(crate) fn past_waiter(workload: &str, locks: &Locks, url: &str, killed: bool) -> Outcome<f64> {
    let guard = locks.lock("passed").acquire().block()?;
    let mut before = None;
    if killed {
        before = Some(Worker::start(workload, &[url, "passed"])?);
        await_line(locks, "passed", 1)?;
    }
    let mut next = Worker::start(workload, &[url, "passed"])?;
    await_line(locks, "passed", 1 + usize::from(killed))?;
    if let Some(mut dead) = before {
        dead.kill()?;
    }
    let released = now();
    guard.release().block()?;
    let acquired: u64 = next.hear()?.parse()?;
    next.give_leave();
    next.hear_out()?;
    Ok((acquired - released) as f64)
}

/// Negative: it was granted while the dead one's lease went on.
fn after_dead_holder(locks: &Locks, url: &str) -> Outcome<f64> {
    let mut dead = Worker::start(WORKLOAD.name, &[url, "orphaned"])?;
    dead.hear()?;
    let mut next = Worker::start(WORKLOAD.name, &[url, "orphaned"])?;
    await_line(locks, "orphaned", 1)?;
    dead.kill()?;
    let asked = now();
    let state = locks.inspect("orphaned").block()?;
    let left = state.holders.first().and_then(|holder| holder.expires_in).ok_or("nobody holds the lock")?;
    let lease_end = asked + u64::try_from(left.as_nanos())?;
    let acquired: u64 = next.hear()?.parse()?;
    next.give_leave();
    next.hear_out()?;
    Ok(acquired as f64 - lease_end as f64)
}

fn await_line(locks: &Locks, name: &str, length: usize) -> Outcome<()> {
    while locks.inspect(name).block()?.waiters.len() != length {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits for the lock, tells when it holds it, and holds it until it may go on.
pub(crate) fn work(args: &[String]) -> Outcome<()> {
    let [url, name] = args else { return Err("the worker needs a URL and a lock".into()) };
    let locks = connect(url.as_str()).block()?;
    let ttl = Duration::from_secs(if name == "orphaned" { 1 } else { 30 });
    let guard = locks.lock(name.as_str()).ttl(ttl).wait_forever().acquire().block()?;
    process::say(&now().to_string())?;
    process::await_leave()?;
    guard.release().block()?;
    Ok(())
}
