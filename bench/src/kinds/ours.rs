//! Fencepost, with and without a fencing token.

use std::time::Duration;

use fencepost::{Blocking, Lock, Locks, connect};

use super::{Contender, Kind, TTL, runtime};
use crate::Outcome;
use crate::contest::{Held, Task, all_turns, perform};
use crate::nodes::url_of;

pub(crate) const OURS: Kind = Kind { name: "ours", fenced: true, sets: false, program: None, run };
pub(crate) const PLAIN: Kind =
    Kind { name: "ours without a token", fenced: false, sets: true, program: None, run: run_plain };

fn locks(task: &Task) -> Outcome<Locks> {
    // Far beyond what a crowded machine needs: what is measured is speed, not patience.
    Ok(connect(url_of(task.addresses)).ttl(TTL).answer_within(Duration::from_secs(5)).block()?)
}

fn run(task: &Task) -> Outcome<()> {
    let (runtime, locks) = (runtime()?, locks(task)?);
    let enter = async |name: String| Ok(Ours(locks.lock(name).wait_forever()));
    perform(task, |task| runtime.block_on(all_turns(task, enter)))
}

struct Ours(Lock);

impl Contender for Ours {
    async fn turn(&mut self, hold: impl Future<Output = Held> + Send) -> Outcome<(Held, u64)> {
        let guard = self.0.acquire().await?;
        let (held, token) = (hold.await, guard.token());
        guard.release().await?;
        Ok((held, token.as_u64()))
    }
}

fn run_plain(task: &Task) -> Outcome<()> {
    let (runtime, locks) = (runtime()?, locks(task)?);
    let enter = async |name: String| Ok(Plain(locks.lock(name).unfenced().wait_forever()));
    perform(task, |task| runtime.block_on(all_turns(task, enter)))
}

struct Plain(Lock<()>);

impl Contender for Plain {
    async fn turn(&mut self, hold: impl Future<Output = Held> + Send) -> Outcome<(Held, u64)> {
        let guard = self.0.acquire().await?;
        let held = hold.await;
        guard.release().await?;
        Ok((held, 0))
    }
}
