//! A place for locks: a server or an ensemble, and a node of its own on it.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod kazoo;
pub(crate) mod takeover;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use fencepost_core::Connect;
use fencepost_testkit::contract::edges::Reachable;
use fencepost_testkit::contract::{Subject, lengthen_leases};
use fencepost_testkit::server::Server;
use fencepost_testkit::shared::Shared;
use fencepost_testkit::zookeeper::{Ensemble, ZooKeeper};

static SERVER: Shared<ZooKeeper> = Shared::new();
static ENSEMBLE: Mutex<Weak<Ensemble>> = Mutex::new(Weak::new());
static PLACES: AtomicU32 = AtomicU32::new(0);

/// Four servers in as many virtual machines take their time on a busy computer.
const SHORTEST_LEASE: Duration = Duration::from_millis(2500);

/// What has to live as long as the locks.
pub(crate) enum Host {
    Server(Arc<Server<ZooKeeper>>),
    Ensemble(Arc<Ensemble>),
}

pub(crate) struct Place {
    pub(crate) host: Host,
    /// The node below which its locks are.
    pub(crate) root: String,
}

impl Place {
    pub(crate) fn on(host: Host) -> Self {
        lengthen_leases(SHORTEST_LEASE);
        Self { host, root: format!("tests/place{}", PLACES.fetch_add(1, Ordering::SeqCst)) }
    }

    pub(crate) fn on_a_server() -> Self {
        Self::on(Host::Server(SERVER.get(ZooKeeper::new)))
    }

    /// Shared by the tests of a program: nobody may hurt it.
    pub(crate) fn on_an_ensemble() -> Self {
        let mut shared = ENSEMBLE.lock().unwrap_or_else(PoisonError::into_inner);
        let ensemble = shared.upgrade().unwrap_or_else(|| {
            let ensemble = Arc::new(Ensemble::start());
            *shared = Arc::downgrade(&ensemble);
            ensemble
        });
        Self::on(Host::Ensemble(ensemble))
    }

    /// `A,B,C`.
    pub(crate) fn servers(&self) -> String {
        match &self.host {
            Host::Server(server) => server.address(),
            Host::Ensemble(ensemble) => ensemble.place(),
        }
    }

    pub(crate) fn connect_to(&self, servers: &str) -> Connect {
        fencepost_zookeeper::connect("zk", &format!("//{servers}/{}", self.root))
    }
}

impl Subject for Place {
    fn connect(&self) -> Connect {
        self.connect_to(&self.servers())
    }
}

impl Reachable for Place {
    fn address(&self) -> String {
        format!("//{}/{}", self.servers(), self.root)
    }

    fn reach(address: &str) -> Connect {
        lengthen_leases(SHORTEST_LEASE);
        fencepost_zookeeper::connect("zk", address)
    }
}
