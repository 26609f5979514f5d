//! The `rslock` crate: Redlock without fencing; waiters poll.

use rslock::LockManager;

use super::{Contender, Kind, TTL, runtime};
use crate::Outcome;
use crate::contest::{Held, Task, all_turns, perform};

pub(crate) const RSLOCK: Kind = Kind { name: "rslock", fenced: false, sets: true, program: None, run };

fn run(task: &Task) -> Outcome<()> {
    let runtime = runtime()?;
    let servers = task.addresses.split(',').map(|address| format!("redis://{address}"));
    let manager = LockManager::new(servers.collect::<Vec<_>>());
    let enter = async |name| Ok(Rslock { manager: manager.clone(), name });
    perform(task, |task| runtime.block_on(all_turns(task, enter)))
}

struct Rslock {
    manager: LockManager,
    name: String,
}

impl Contender for Rslock {
    async fn turn(&mut self, hold: impl Future<Output = Held> + Send) -> Outcome<(Held, u64)> {
        // It gives up after three tries; who wants to wait asks again.
        let lock = loop {
            if let Ok(lock) = self.manager.lock(self.name.as_bytes(), TTL).await {
                break lock;
            }
        };
        let held = hold.await;
        self.manager.unlock(&lock).await;
        Ok((held, 0))
    }
}
