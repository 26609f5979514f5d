//! Two replicas of the service in front of one store.
#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_core::{Blocking as _, Connect};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::contract::edges::Reachable;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

#[path = "../../../../crates/fencepost-server/tests/common/mod.rs"]
mod server;

pub(crate) use server::Replica;

pub(crate) struct Place {
    pub(crate) replicas: Vec<Replica>,
    connections: AtomicUsize,
    /// What has to live as long as they do.
    store: Store,
}

enum Store {
    File(tempfile::TempDir),
    Quorum(Vec<Server<Redis>>),
}

impl Place {
    pub(crate) fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("locks.db").to_str().expect("UTF-8").to_owned();
        Self::before(|| fencepost_sqlite::connect(&file), Store::File(folder))
    }

    pub(crate) fn on_redlock() -> Self {
        let servers: Vec<Server<Redis>> = (0..5).map(|_| Redis::new().start()).collect();
        let addresses: Vec<String> = servers.iter().map(Server::address).collect();
        let rest = format!("//{}", addresses.join(","));
        fencepost_redis::init("redlock", &rest).block().expect("all are there");
        // Nodes that vote have 50 ms for an answer, which a busy machine may take longer for.
        let connect = || fencepost_redis::connect("redlock", &rest).answer_within(Duration::from_secs(1));
        Self::before(connect, Store::Quorum(servers))
    }

    fn before(connect: impl Fn() -> Connect, store: Store) -> Self {
        let replicas = (0..2).map(|_| Replica::of(connect())).collect();
        Self { replicas, connections: AtomicUsize::new(0), store }
    }

    /// Ends so many of the servers of the quorum.
    pub(crate) fn lose(&mut self, count: usize) {
        if let Store::Quorum(servers) = &mut self.store {
            servers.truncate(servers.len() - count);
        }
    }

    /// `A,B`, beginning with this one.
    pub(crate) fn addresses(&self, first: usize) -> String {
        let all = self.replicas.iter().cycle().skip(first).take(self.replicas.len());
        all.map(|replica| replica.address.clone()).collect::<Vec<_>>().join(",")
    }
}

impl Subject for Place {
    fn connect(&self) -> Connect {
        Self::reach(&self.address())
    }
}

impl Reachable for Place {
    /// Each connection begins with another replica.
    fn address(&self) -> String {
        let first = self.connections.fetch_add(1, Ordering::SeqCst) % self.replicas.len();
        format!("//{}", self.addresses(first))
    }

    fn reach(address: &str) -> Connect {
        fencepost_service::connect("fencepost+http", address)
    }
}
