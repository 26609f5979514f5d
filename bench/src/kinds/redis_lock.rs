//! The `redis-lock` crate: Redlock without fencing; waiters poll every 100 ms.

use std::sync::Arc;
use std::time::Duration;

use redis_lock::{LockAcrossOptions, lock_across};
use redis_of_redis_lock::Client;
use redis_of_redis_lock::aio::MultiplexedConnection;
use tokio::sync::Mutex;

use super::{Contender, Kind, TTL, runtime};
use crate::Outcome;
use crate::contest::{Held, Task, all_turns, perform};

pub(crate) const REDIS_LOCK: Kind = Kind { name: "redis_lock", fenced: false, sets: true, program: None, run };

type Link = Arc<Mutex<MultiplexedConnection>>;

fn run(task: &Task) -> Outcome<()> {
    let runtime = runtime()?;
    let links: Vec<Link> = runtime.block_on(async {
        let mut links = Vec::new();
        for address in task.addresses.split(',') {
            let client = Client::open(format!("redis://{address}"))?;
            links.push(Arc::new(Mutex::new(client.get_multiplexed_async_connection().await?)));
        }
        Outcome::Ok(links)
    })?;
    let enter = async |name| Ok(RedisLock { links: links.clone(), name });
    perform(task, |task| runtime.block_on(all_turns(task, enter)))
}

struct RedisLock {
    links: Vec<Link>,
    name: String,
}

impl Contender for RedisLock {
    async fn turn(&mut self, hold: impl Future<Output = Held> + Send + 'static) -> Outcome<(Held, u64)> {
        // Its own lease is 10 ms, and it gives up after 10 s.
        let options =
            LockAcrossOptions { ttl: TTL, duration: Duration::from_secs(3600), ..LockAcrossOptions::default() };
        let held = lock_across(&self.links, &self.name, hold, options).await.map_err(|error| error.to_string())?;
        Ok((held, 0))
    }
}
