//! The kinds of locks that are measured, one file each, and the floors that nobody can do without.

mod blpop;
mod distributed_lock;
#[cfg(feature = "coordinators")]
mod etcd_client;
mod floor;
mod foreign;
mod ours;
mod redis_lock;
mod rslock;
#[cfg(feature = "coordinators")]
mod zookeeper_client;

use std::process::Command;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::Outcome;
use crate::contest::{Held, Task};

pub(crate) use blpop::BLPOP;
pub(crate) use distributed_lock::DISTRIBUTED_LOCK;
#[cfg(feature = "coordinators")]
pub(crate) use etcd_client::ETCD_CLIENT;
pub(crate) use floor::FLOOR;
#[cfg(feature = "coordinators")]
pub(crate) use foreign::KAZOO;
pub(crate) use foreign::{POTTERY, REDIS_PY, REDLOCK_4, REDLOCK_5, install};
pub(crate) use ours::{HEARD, OURS, OURS_BY_DEFAULT, PLAIN};
pub(crate) use redis_lock::REDIS_LOCK;
pub(crate) use rslock::RSLOCK;
#[cfg(feature = "coordinators")]
pub(crate) use zookeeper_client::ZOOKEEPER_CLIENT;

/// Longer than any measurement: no lease ends by itself.
const TTL: Duration = Duration::from_secs(30);

/// Those that this program can be.
const ALL: &[&Kind] = &[
    &FLOOR,
    &OURS,
    &OURS_BY_DEFAULT,
    &PLAIN,
    &HEARD,
    &RSLOCK,
    &REDIS_LOCK,
    &DISTRIBUTED_LOCK,
    &BLPOP,
    #[cfg(feature = "coordinators")]
    &ETCD_CLIENT,
    #[cfg(feature = "coordinators")]
    &ZOOKEEPER_CLIENT,
];

/// A kind of lock.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Its tokens must rise.
    pub(crate) fenced: bool,
    /// It sends SET itself, not in a script.
    pub(crate) sets: bool,
    /// The program that takes part in a contest, if it is not this one.
    pub(crate) program: Option<fn() -> Outcome<Command>>,
    /// Takes part in a contest, in a process of its own.
    run: fn(&Task) -> Outcome<()>,
}

impl Kind {
    pub(crate) fn run(&self, task: &Task) -> Outcome<()> {
        (self.run)(task)
    }
}

pub(crate) fn find(name: &str) -> Outcome<&'static Kind> {
    Ok(ALL.iter().copied().find(|kind| kind.name == name).ok_or_else(|| format!("no kind of lock {name:?}"))?)
}

/// One task's way to one lock.
pub(crate) trait Contender: Send + 'static {
    /// Locks, however long it takes, holds, unlocks; answers the token, 0 if it has none.
    fn turn(
        &mut self,
        hold: impl Future<Output = Held> + Send + 'static,
    ) -> impl Future<Output = Outcome<(Held, u64)>> + Send;
}

fn runtime() -> Outcome<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}
