//! Turns on one lock: alone, and between two processes.

use std::time::Duration;

use fencepost::{Blocking, Locks, connect};
use tokio::runtime::Builder;

use crate::Outcome;
use crate::process::{self, Worker, now};
use crate::runner::Samples;

/// How often everyone holds the lock in a round.
const TURNS: usize = 50;
/// Long enough for the other one to be back in line.
const HOLD: Duration = Duration::from_millis(20);

/// So many pairs on a free lock.
pub(super) fn pairs(locks: &Locks, count: usize, samples: &mut Samples) -> Outcome<()> {
    let lock = locks.lock("pair");
    for _ in 0..count {
        let began = now();
        lock.acquire().block()?.release().block()?;
        samples.extend([now() - began]);
    }
    Ok(())
}

/// From each call of `release` to the return of the other process's `acquire`.
pub(super) fn between_processes(workload: &'static str, url: &str) -> Outcome<Samples> {
    let start = |_| Worker::start(workload, &[url]);
    let mut workers = (0..2).map(start).collect::<Outcome<Vec<_>>>()?;
    for worker in &mut workers {
        worker.hear()?;
    }
    workers.iter_mut().for_each(Worker::give_leave);
    let mut turns = Vec::new();
    for worker in &mut workers {
        for line in worker.hear_out()? {
            let moments = line.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
            let [asked, acquired, released] = moments[..] else { return Err("a turn has three moments".into()) };
            turns.push((asked, acquired, released));
        }
    }
    turns.sort_unstable_by_key(|(_, acquired, _)| *acquired);
    let mut gaps = Samples::default();
    // Where the next one was in line by then.
    let pairs = turns.windows(2).filter(|pair| pair[1].0 + HOLD.as_nanos() as u64 / 2 < pair[0].2);
    gaps.extend(pairs.map(|pair| pair[1].1 - pair[0].2));
    Ok(gaps)
}

/// Takes turns with its like, and tells of them afterwards.
pub(super) fn work(args: &[String]) -> Outcome<()> {
    let url = args.first().ok_or("the worker needs a URL")?;
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let locks = connect(url.as_str()).block()?;
    process::say("ready")?;
    process::await_leave()?;
    let turns = runtime.block_on(async {
        let lock = locks.lock("between").wait_forever();
        let mut turns = Vec::with_capacity(TURNS);
        for _ in 0..TURNS {
            let asked = now();
            let guard = lock.acquire().await?;
            let acquired = now();
            tokio::time::sleep(HOLD).await;
            let released = now();
            guard.release().await?;
            turns.push((asked, acquired, released));
        }
        Outcome::Ok(turns)
    })?;
    turns.iter().try_for_each(|(asked, acquired, released)| process::say(&format!("{asked} {acquired} {released}")))
}
