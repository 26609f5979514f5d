//! The workloads. A new one is a file here, and its line in both lists.

mod contended;
#[cfg(feature = "coordinators")]
mod coordinators;
mod crowd;
mod faults;
mod handover;
mod memory;
mod mysql;
mod postgres;
mod redis;
mod script;
mod service;
mod sqlite;
mod stampede;
mod tickets;
mod turns;
mod waiting;

use crate::runner::Workload;
use crate::{Outcome, contest};

pub(crate) const ALL: &[Workload] = &[
    memory::WORKLOAD,
    sqlite::WORKLOAD,
    handover::WORKLOAD,
    waiting::WORKLOAD,
    redis::ONE,
    redis::FIVE,
    crowd::WORKLOAD,
    contended::ONE,
    contended::FIVE,
    contended::LONG,
    contended::INVERTED,
    faults::WORKLOAD,
    postgres::WORKLOAD,
    mysql::WORKLOAD,
    tickets::WORKLOAD,
    stampede::WORKLOAD,
    service::requests::WORKLOAD,
    service::handover::WORKLOAD,
    service::load::ONE_REDIS,
    service::load::ON_FILE,
    #[cfg(feature = "coordinators")]
    coordinators::ETCD,
    #[cfg(feature = "coordinators")]
    coordinators::ZOOKEEPER,
];

pub(crate) fn find(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|workload| workload.name == name)
}

/// What this program does as another process: the part of the workload that is named first.
pub(crate) fn work(args: &[String]) -> Outcome<()> {
    let (name, rest) = args.split_first().ok_or("a worker needs its workload")?;
    if name == contest::NAME {
        return contest::work(rest);
    }
    let workload = find(name).ok_or_else(|| format!("no workload {name:?}"))?;
    (workload.work)(rest)
}
