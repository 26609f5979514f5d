//! Locks in etcd and in ZooKeeper, one server each: free ones, and waiters that hand one lock on. Beside them the locks of
//! other clients on the same server.

use std::collections::HashMap;
use std::time::Duration;

use fencepost::Blocking;
use fencepost_testkit::etcd::Etcd;
use fencepost_testkit::server::Server;
use fencepost_testkit::zookeeper::ZooKeeper;

use crate::Outcome;
use crate::contest::{Contest, Servers, turns};
use crate::figures::{Figure, GAP, GAP_99, OTHERS, P50, RATE};
use crate::kinds::{ETCD_CLIENT, KAZOO, Kind, OURS, ZOOKEEPER_CLIENT};
use crate::nodes::Usage;
use crate::runner::{Goal, Readings, Row, Workload, median, no_work};

const FREE: Duration = Duration::from_millis(800);
const LENGTH: Duration = Duration::from_secs(2);
/// Tasks on free locks, and waiters on one.
const TASKS: [usize; 2] = [1, 16];
const WAITERS: [usize; 3] = [2, 16, 64];
const ON_FREE: [&Figure; 2] = [&P50, &RATE];
const ON_ONE: [&Figure; 3] = [&OTHERS, &GAP, &GAP_99];

/// A server that tells nothing of what it has done.
struct One {
    url: String,
    _server: Box<dyn std::any::Any>,
}

impl Servers for One {
    fn addresses(&self) -> String {
        self.url.clone()
    }

    fn count(&self) -> usize {
        1
    }

    fn usage(&self, _: bool) -> Usage {
        Usage::default()
    }
}

fn on_free(kind: &Kind, tasks: usize, figure: &Figure) -> String {
    format!("{}, {tasks} task{}, {}", kind.name, if tasks == 1 { "" } else { "s" }, figure.what)
}

fn on_one(kind: &Kind, waiters: usize, figure: &Figure) -> String {
    format!("{}, {waiters} waiters, {}", kind.name, figure.what)
}

/// Not worse than any of the others.
fn judged(row: Row, figure: &Figure, others: impl Iterator<Item = String>) -> Row {
    let more_is_better = figure.what == OTHERS.what || figure.what == RATE.what;
    let row = others.fold(row, Row::against);
    match figure.what {
        what if what == GAP_99.what => row,
        _ if more_is_better => row.goal(Goal::RatioAtLeast(1.0)),
        _ => row.goal(Goal::RatioAtMost(1.0)),
    }
}

fn rows(others: &[&'static Kind]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |name: &dyn Fn(&Kind) -> String, figure: &Figure| {
        let row = Row::new(name(&OURS), figure.unit);
        rows.push(judged(row, figure, others.iter().map(|other| name(other))));
        rows.extend(others.iter().map(|other| Row::new(name(other), figure.unit)));
    };
    for tasks in TASKS {
        ON_FREE.iter().for_each(|figure| add(&|kind| on_free(kind, tasks, figure), figure));
    }
    for waiters in WAITERS {
        ON_ONE.iter().for_each(|figure| add(&|kind| on_one(kind, waiters, figure), figure));
    }
    rows
}

fn measure(readings: &mut Readings, server: &One, others: &[&'static Kind]) -> Outcome<()> {
    let kinds: Vec<&'static Kind> = std::iter::once(&OURS).chain(others.iter().copied()).collect();
    for tasks in TASKS {
        let mut found: HashMap<String, Vec<f64>> = HashMap::new();
        for _ in 0..turns(tasks) {
            for kind in &kinds {
                let story = Contest::uncontended(kind, tasks, FREE / turns(tasks)).run(server)?;
                for figure in ON_FREE {
                    found.entry(on_free(kind, tasks, figure)).or_default().push((figure.of)(&story));
                }
            }
        }
        found.into_iter().for_each(|(name, figures)| readings.note(name, median(&figures)));
    }
    for waiters in WAITERS {
        for kind in &kinds {
            let story = Contest::contended(kind, 1, waiters, LENGTH).run(server)?;
            ON_ONE.iter().for_each(|figure| readings.note(on_one(kind, waiters, figure), (figure.of)(&story)));
        }
    }
    Ok(())
}

const BESIDE_ETCD: [&Kind; 1] = [&ETCD_CLIENT];
const BESIDE_ZOOKEEPER: [&Kind; 2] = [&ZOOKEEPER_CLIENT, &KAZOO];

pub(crate) const ETCD: Workload = Workload {
    name: "etcd",
    about: "Locks in one etcd server. `etcd-client` takes the lock that the server itself offers.",
    rounds: 5,
    rows: || rows(&BESIDE_ETCD),
    prepare: |_| {
        let server: Server<Etcd> = Etcd::new().start();
        let one = One { url: format!("etcd://{}", server.address()), _server: Box::new(server) };
        Ok(Box::new(move |readings: &mut Readings| measure(readings, &one, &BESIDE_ETCD)))
    },
    work: no_work,
};

pub(crate) const ZOOKEEPER: Workload = Workload {
    name: "zookeeper",
    about: "Locks in one ZooKeeper server. `zookeeper-client` does not wait for the answer to its unlock.",
    rounds: 5,
    rows: || rows(&BESIDE_ZOOKEEPER),
    prepare: |_| {
        let server: Server<ZooKeeper> = ZooKeeper::new().start();
        let one = One { url: format!("zk://{}", server.address()), _server: Box::new(server) };
        fencepost::connect(&one.url).block()?;
        Ok(Box::new(move |readings: &mut Readings| measure(readings, &one, &BESIDE_ZOOKEEPER)))
    },
    work: no_work,
};
