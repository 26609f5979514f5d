//! The lock of the `etcd-client` crate: the one that etcd's servers have themselves.

use etcd_client::{Client, LockOptions};

use super::{Contender, Kind, TTL, runtime};
use crate::Outcome;
use crate::contest::{Held, Task, all_turns, perform};

pub(crate) const ETCD_CLIENT: Kind = Kind { name: "etcd-client", fenced: false, sets: false, program: None, run };

fn run(task: &Task) -> Outcome<()> {
    let runtime = runtime()?;
    let servers: Vec<&str> = task.addresses.trim_start_matches("etcd://").split(',').collect();
    let client = runtime.block_on(Client::connect(&servers, None))?;
    // Everybody who waits needs a lease: of one lease two are the same holder.
    let enter = async |name| {
        let mut client = client.clone();
        let lease = client.lease_grant(i64::try_from(TTL.as_secs())?, None).await?.id();
        Ok(EtcdClient { client, name, lease })
    };
    perform(task, |task| runtime.block_on(all_turns(task, enter)))
}

struct EtcdClient {
    client: Client,
    name: String,
    lease: i64,
}

impl Contender for EtcdClient {
    async fn turn(&mut self, hold: impl Future<Output = Held> + Send) -> Outcome<(Held, u64)> {
        let options = LockOptions::new().with_lease(self.lease);
        let lock = self.client.lock(self.name.as_str(), Some(options)).await?;
        let held = hold.await;
        self.client.unlock(lock.key()).await?;
        Ok((held, 0))
    }
}
