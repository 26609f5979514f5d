//! The `distributed-lock-redis` crate: Redlock without fencing; it does not wait.

use std::time::Duration;

use distributed_lock_core::error::LockError;
use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisDistributedLock, RedisLockProvider};

use super::{Contender, Kind, TTL, runtime};
use crate::Outcome;
use crate::contest::{Held, Task, all_turns, perform};

pub(crate) const DISTRIBUTED_LOCK: Kind =
    Kind { name: "distributed-lock", fenced: false, sets: true, program: None, run };

/// As often as redis_lock does.
const RETRY: Duration = Duration::from_millis(100);

fn run(task: &Task) -> Outcome<()> {
    let runtime = runtime()?;
    let servers: Vec<String> = task.addresses.split(',').map(|address| format!("redis://{address}")).collect();
    let provider = RedisLockProvider::builder().urls(&servers).expiry(TTL);
    let provider = runtime.block_on(provider.build())?;
    let enter = async |name: String| Ok(Distributed(provider.create_lock(&name)));
    perform(task, |task| runtime.block_on(all_turns(task, enter)))
}

struct Distributed(RedisDistributedLock);

impl Contender for Distributed {
    async fn turn(&mut self, hold: impl Future<Output = Held> + Send) -> Outcome<(Held, u64)> {
        // It asks once, whatever time it is given; who wants to wait asks again.
        let handle = loop {
            match self.0.acquire(None).await {
                Ok(handle) => break handle,
                Err(LockError::Timeout(_)) => tokio::time::sleep(RETRY).await,
                Err(error) => return Err(error.into()),
            }
        };
        let held = hold.await;
        handle.release().await?;
        Ok((held, 0))
    }
}
