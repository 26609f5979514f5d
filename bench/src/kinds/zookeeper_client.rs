//! The recipe of the `zookeeper-client` crate. Its unlock is not waited for: the node is deleted when the guard is gone.

use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix};

use super::{Contender, Kind, TTL, runtime};
use crate::Outcome;
use crate::contest::{Held, Task, all_turns, perform};

pub(crate) const ZOOKEEPER_CLIENT: Kind =
    Kind { name: "zookeeper-client", fenced: false, sets: false, program: None, run };

fn run(task: &Task) -> Outcome<()> {
    let runtime = runtime()?;
    let servers = task.addresses.trim_start_matches("zk://");
    let client = runtime.block_on(Client::connector().with_session_timeout(TTL).connect(servers))?;
    let enter = async |name: String| Ok(ZookeeperClient { client: client.clone(), folder: format!("/recipe/{name}") });
    perform(task, |task| runtime.block_on(all_turns(task, enter)))
}

struct ZookeeperClient {
    client: Client,
    folder: String,
}

impl Contender for ZookeeperClient {
    async fn turn(&mut self, hold: impl Future<Output = Held> + Send) -> Outcome<(Held, u64)> {
        let prefix = LockPrefix::new_curator(&self.folder, "lock-")?;
        let folders = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(folders)?;
        let lock = self.client.lock(prefix, b"", options).await?;
        let held = hold.await;
        drop(lock);
        Ok((held, 0))
    }
}
