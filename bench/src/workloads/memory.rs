//! What the engine costs when nothing is stored: `memory:` beside a bare mutex.

use std::hint::black_box;
use std::sync::Mutex;

use fencepost::{Blocking, connect};

use crate::Outcome;
use crate::process::now;
use crate::runner::{Readings, Round, Row, Unit, Workload, no_work};
use crate::site::Site;

const TASK: &str = "acquire + release, a tokio task";
const BLOCK: &str = "acquire + release, `.block()`";
const TOKIO: &str = "`tokio::sync::Mutex`";
const STD: &str = "`std::sync::Mutex`";

/// In one round each has so many turns of so many pairs.
const TURNS: u32 = 20;
const PAIRS: u32 = 1000;
const BARE_PAIRS: u32 = 20_000;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "memory",
    about: "Time of one pair on a free lock in `memory:`, beside lock + unlock of a mutex that is no lease.",
    rounds: 9,
    rows: || {
        vec![
            Row::new(TASK, Unit::Nanos).against(TOKIO).against(STD),
            Row::new(BLOCK, Unit::Nanos).against(TOKIO).against(STD),
            Row::new(TOKIO, Unit::Nanos),
            Row::new(STD, Unit::Nanos),
        ]
    },
    prepare,
    work: no_work,
};

fn prepare(_site: &Site) -> Outcome<Round> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let locks = connect("memory:").block()?;
    let lock = locks.lock("a");
    let (tokio_mutex, std_mutex) = (tokio::sync::Mutex::new(()), Mutex::new(()));
    Ok(Box::new(move |readings: &mut Readings| {
        let mut nanos = [0; 4];
        for _ in 0..TURNS {
            nanos[0] += timed(|| {
                runtime.block_on(async {
                    for _ in 0..PAIRS {
                        lock.acquire().await?.release().await?;
                    }
                    Ok(())
                })
            })?;
            nanos[1] += timed(|| {
                for _ in 0..PAIRS {
                    lock.acquire().block()?.release().block()?;
                }
                Ok(())
            })?;
            nanos[2] += timed(|| {
                runtime.block_on(async {
                    for _ in 0..BARE_PAIRS {
                        drop(black_box(&tokio_mutex).lock().await);
                    }
                });
                Ok(())
            })?;
            nanos[3] += timed(|| {
                for _ in 0..BARE_PAIRS {
                    drop(black_box(&std_mutex).lock());
                }
                Ok(())
            })?;
        }
        for (what, nanos, pairs) in [
            (TASK, nanos[0], PAIRS),
            (BLOCK, nanos[1], PAIRS),
            (TOKIO, nanos[2], BARE_PAIRS),
            (STD, nanos[3], BARE_PAIRS),
        ] {
            readings.note(what, nanos as f64 / f64::from(TURNS * pairs));
        }
        Ok(())
    }))
}

fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<u64> {
    let began = now();
    work()?;
    Ok(now() - began)
}
