//! Sets with sentinels and clusters, for one test or shared by several.

#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use fencepost_core::Connect;
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::contract::edges::Reachable;
use fencepost_testkit::sentinels::Sentinels;

/// What tests that run at the same time share; gone with the last of them.
static SENTINELS: Mutex<Weak<Sentinels>> = Mutex::new(Weak::new());
static CLUSTER: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
/// Each test has names of its own.
static PLACES: AtomicU32 = AtomicU32::new(0);

fn shared<T>(shelf: &Mutex<Weak<T>>, start: impl FnOnce() -> T) -> Arc<T> {
    let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
    shelf.upgrade().unwrap_or_else(|| {
        let new = Arc::new(start());
        *shelf = Arc::downgrade(&new);
        new
    })
}

/// One store, under a prefix that no other test has.
pub(crate) struct Place<T> {
    pub(crate) set: Arc<T>,
    pub(crate) scheme: &'static str,
    pub(crate) rest: String,
}

impl<T> Place<T> {
    fn new(set: Arc<T>, scheme: &'static str, place: &str, settings: &str) -> Self {
        let number = PLACES.fetch_add(1, Ordering::SeqCst);
        Self { set, scheme, rest: format!("//{place}?prefix=test{number}:&{settings}") }
    }
}

impl Place<Sentinels> {
    pub(crate) fn behind_sentinels(settings: &str) -> Self {
        let set = shared(&SENTINELS, Sentinels::start_patient);
        let place = set.place();
        Self::new(set, "redis+sentinel", &place, settings)
    }
}

impl Place<Cluster> {
    pub(crate) fn in_a_cluster(settings: &str) -> Self {
        let set = shared(&CLUSTER, Cluster::start);
        let place = set.place();
        Self::new(set, "redis+cluster", &place, settings)
    }
}

impl<T: Send + Sync + 'static> Subject for Place<T> {
    fn connect(&self) -> Connect {
        fencepost_redis::connect(self.scheme, &self.rest)
    }
}

impl<T: Send + Sync + 'static> Reachable for Place<T> {
    fn address(&self) -> String {
        format!("{} {}", self.scheme, self.rest)
    }

    fn reach(address: &str) -> Connect {
        let (scheme, rest) = address.split_once(' ').expect("a scheme and the rest");
        fencepost_redis::connect(scheme, rest)
    }
}
