//! A place for locks: a server or a cluster, and a prefix of its own on it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use fencepost_core::Connect;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::contract::edges::Reachable;
use fencepost_testkit::etcd::{Etcd, EtcdCluster};
use fencepost_testkit::server::Server;
use fencepost_testkit::shared::Shared;

static SERVER: Shared<Etcd> = Shared::new();
static CLUSTER: Mutex<Weak<EtcdCluster>> = Mutex::new(Weak::new());
static PLACES: AtomicU32 = AtomicU32::new(0);

/// What has to live as long as the locks.
pub(crate) enum Host {
    Server(Arc<Server<Etcd>>),
    Cluster(Arc<EtcdCluster>),
}

pub(crate) struct Place {
    pub(crate) host: Host,
    pub(crate) prefix: String,
}

impl Place {
    pub(crate) fn on(host: Host) -> Self {
        Self { host, prefix: format!("place{}/", PLACES.fetch_add(1, Ordering::SeqCst)) }
    }

    pub(crate) fn on_a_server() -> Self {
        Self::on(Host::Server(SERVER.get(Etcd::new)))
    }

    /// Shared by the tests of a program: nobody may hurt it.
    pub(crate) fn on_a_cluster() -> Self {
        let mut shared = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(EtcdCluster::start());
            *shared = Arc::downgrade(&cluster);
            cluster
        });
        Self::on(Host::Cluster(cluster))
    }

    /// `A,B,C`.
    pub(crate) fn servers(&self) -> String {
        match &self.host {
            Host::Server(server) => server.address(),
            Host::Cluster(cluster) => cluster.place(),
        }
    }

    /// What comes after the scheme, to reach it through these servers.
    pub(crate) fn rest(&self, servers: &str) -> String {
        format!("//{servers}?prefix={}", self.prefix.replace('/', "%2F"))
    }

    pub(crate) fn connect_to(&self, servers: &str) -> Connect {
        fencepost_etcd::connect("etcd", &self.rest(servers))
    }
}

impl Subject for Place {
    fn connect(&self) -> Connect {
        self.connect_to(&self.servers())
    }
}

impl Reachable for Place {
    fn address(&self) -> String {
        self.rest(&self.servers())
    }

    fn reach(address: &str) -> Connect {
        fencepost_etcd::connect("etcd", address)
    }
}
