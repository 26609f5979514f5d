//! A thousand clients that hold ten thousand locks through the service.

use std::time::Duration;

use fencepost_testkit::load::Load;
use fencepost_testkit::redis::Redis;
use tokio::runtime::Builder;

use super::{Service, work};
use crate::Outcome;
use crate::runner::{Goal, Readings, Round, Row, Samples, Unit, Workload};
use crate::site::Site;

const TTL: Duration = Duration::from_secs(10);
/// As a client should: three times in a ttl, for a minute.
const RENEWALS: u32 = 18;
const ON_REDIS: Load = Load { clients: 1000, locks_each: 10, ttl: TTL, renewals: RENEWALS, every: EVERY };
const ON_SQLITE: Load = Load { clients: 1000, locks_each: 1, ..ON_REDIS };
const EVERY: Duration = Duration::from_nanos(TTL.as_nanos() as u64 / 3);

const RENEWAL: [&str; 3] = ["a renewal, p50", "a renewal, p99", "the slowest renewal"];
const ANSWERED: &str = "renewals that were answered";
const ACQUIRED: &str = "acquisitions, all clients at once";
const BYTES: &str = "memory per held lock, bytes";
const CONNECTION: &str = "memory per connection, bytes";
const CPU: &str = "processor of the service, per renewal";

pub(crate) const ONE_REDIS: Workload = Workload {
    name: "load-redis",
    about: "1,000 clients of one service on one Redis server hold 10,000 locks with a ttl of 10 s and renew each three times in \
            a ttl, for a minute. A renewal counts from when it was due to its answer. One that is lost fails the run; so does \
            a release that frees nothing.",
    rounds: 1,
    rows: || rows(&ON_REDIS),
    prepare: |_| {
        let server = Redis::new().start();
        let url = format!("redis://{}", server.address());
        prepare(ON_REDIS, url, server)
    },
    work,
};

pub(crate) const ON_FILE: Workload = Workload {
    name: "load-sqlite",
    about: "The same with 1,000 locks in a SQLite file, one for each client.",
    rounds: 1,
    rows: || rows(&ON_SQLITE),
    prepare: |site: &Site| prepare(ON_SQLITE, format!("sqlite:{}", site.file("load.db")?), ()),
    work,
};

fn rows(load: &Load) -> Vec<Row> {
    let all = (load.locks() as u32 * load.renewals).into();
    vec![
        Row::new(ANSWERED, Unit::Number).goal(Goal::AlwaysBetween(all, all)),
        Row::new(RENEWAL[0], Unit::Nanos),
        Row::new(RENEWAL[1], Unit::Nanos).goal(Goal::AtMost(TTL.as_nanos() as f64 / 10.0)),
        Row::new(RENEWAL[2], Unit::Nanos),
        Row::new(ACQUIRED, Unit::PerSecond),
        Row::new(BYTES, Unit::Number).goal(Goal::AtMost(2048.0)),
        Row::new(CONNECTION, Unit::Number),
        Row::new(CPU, Unit::Nanos),
    ]
}

/// `server` lives as long as the answer.
fn prepare(load: Load, url: String, server: impl Sized + 'static) -> Outcome<Round> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let service = Service::start(&url)?;
    Ok(Box::new(move |readings: &mut Readings| {
        let _server = &server;
        let before = service.worker.cpu()?;
        let borne = runtime.block_on(load.put_on(service.address(), service.worker.pid()))?;
        let cpu = service.worker.cpu()?.saturating_sub(before);
        let mut renewals = Samples::default();
        renewals.extend(borne.renewals.iter().map(|took| took.as_nanos() as u64));
        for (name, percent) in RENEWAL.into_iter().zip([50, 99, 100]) {
            readings.note(name, renewals.percentile(percent));
        }
        readings.note(ANSWERED, renewals.len() as f64);
        readings.note(ACQUIRED, load.locks() as f64 / borne.acquired_in.as_secs_f64());
        readings.note(BYTES, borne.per_lock(&load).round());
        let [idle, connected, _] = borne.memory;
        readings.note(CONNECTION, (connected.saturating_sub(idle) as f64 / load.clients as f64).round());
        readings.note(CPU, cpu.as_nanos() as f64 / renewals.len() as f64);
        Ok(())
    }))
}
