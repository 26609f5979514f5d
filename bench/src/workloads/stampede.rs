//! A cache stampede: many read one value through `single_flight` while one of them rebuilds it, beside plain cache hits.

use std::time::Duration;

use fencepost::{Locks, SingleFlight, connect};
use fencepost_testkit::redis::Redis;
use futures_util::future::try_join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::Outcome;
use crate::process::{self, Worker, now};
use crate::runner::{Goal, Readings, Round, Row, Samples, Unit, Workload};
use crate::site::Site;

const HIT: [&str; 2] = ["a plain cache hit, p50", "a plain cache hit, p99"];
const STALE: [&str; 2] = ["the stale value while one rebuilds, p50", "the stale value while one rebuilds, p99"];
const REBUILT: &str = "rebuilds per stampede";

const PROCESSES: usize = 4;
const READERS: usize = 16;
/// How long each reader thinks between two reads: all together must not keep the server busy all the time, or the time in its
/// queue would be all there is to see.
const THINK: Duration = Duration::from_millis(20);
/// How long the readers of a round read. The rebuilding takes as long.
const LENGTH: Duration = Duration::from_secs(2);
/// Long enough for every round, too short to be fresh when the next begins.
const STALE_FOR: Duration = Duration::from_secs(600);
const VALUE: &str = "a page of some length, as caches have them";

pub(crate) const WORKLOAD: Workload = Workload {
    name: "stampede",
    about: "4 processes of 16 readers, each of which reads a value of `single_flight` every 20 ms on one Redis server. A plain \
            hit: the value is fresh, one read. Stale: it has expired, one reader rebuilds it for two seconds, and all others \
            get the old one meanwhile. All readers of a round together.",
    rounds: 5,
    rows: || {
        vec![
            Row::new(STALE[0], Unit::Nanos).against(HIT[0]),
            Row::new(STALE[1], Unit::Nanos).against(HIT[1]).goal(Goal::RatioAtMost(2.0)),
            Row::new(HIT[0], Unit::Nanos),
            Row::new(HIT[1], Unit::Nanos),
            Row::new(REBUILT, Unit::Number).goal(Goal::AlwaysBetween(1.0, 1.0)),
        ]
    },
    prepare,
    work,
};

fn prepare(_site: &Site) -> Outcome<Round> {
    let server = Redis::new().start();
    let url = format!("redis://{}", server.address());
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let locks = runtime.block_on(async { connect(&*url).await })?;
    let mut number = 0;
    Ok(Box::new(move |readings: &mut Readings| {
        // The server lives as long as this.
        let _server = &server;
        number += 1;
        for (names, stale) in [(HIT, false), (STALE, true)] {
            let key = format!("page {number} {stale}");
            let (samples, rebuilt) = round(&runtime, &locks, &url, &key, stale)?;
            readings.note(names[0], samples.percentile(50));
            readings.note(names[1], samples.percentile(99));
            if stale {
                readings.note(REBUILT, rebuilt as f64);
            }
        }
        Ok(())
    }))
}

/// Fresh for longer than a round, or for a moment only.
fn cache(locks: &Locks, key: &str, stale: bool) -> SingleFlight {
    let fresh = if stale { Duration::from_millis(1) } else { STALE_FOR };
    locks.single_flight(key).fresh_for(fresh).stale_for(STALE_FOR)
}

/// How long each read took, and how often the value was rebuilt.
fn round(runtime: &Runtime, locks: &Locks, url: &str, key: &str, stale: bool) -> Outcome<(Samples, usize)> {
    runtime
        .block_on(cache(locks, key, stale).get(async || Outcome::Ok(VALUE.to_owned())))
        .map_err(|e| e.to_string())?;
    let start = |_| Worker::start(WORKLOAD.name, &[url, key, if stale { "stale" } else { "fresh" }]);
    let mut workers = (0..PROCESSES).map(start).collect::<Outcome<Vec<_>>>()?;
    workers.iter_mut().try_for_each(|worker| worker.hear().map(drop))?;
    workers.iter_mut().for_each(Worker::give_leave);
    let (mut samples, mut rebuilt) = (Samples::default(), 0);
    for worker in &mut workers {
        for line in worker.hear_out()? {
            match line.as_str() {
                "rebuilt" => rebuilt += 1,
                nanos => samples.extend([nanos.parse::<u64>()?]),
            }
        }
    }
    Ok((samples, rebuilt))
}

/// Readers of one process. Whoever rebuilds does so until the end of the round, and is not counted.
fn work(args: &[String]) -> Outcome<()> {
    let [url, key, way] = args else { return Err("the worker needs a URL, a key and a way".into()) };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (cache, told) = runtime.block_on(async {
        let locks = connect(url.as_str()).await?;
        let cache = cache(&locks, key, way == "stale");
        // Warm: scripts are loaded, links are open.
        locks.records().read("warm").await?;
        locks.lock("warm").try_acquire().await?;
        process::say("ready")?;
        process::await_leave()?;
        let end = now() + u64::try_from(LENGTH.as_nanos())?;
        let told = try_join_all((0..READERS).map(|reader| read(&cache, reader, end))).await?;
        Outcome::Ok((cache, told))
    })?;
    drop(cache);
    told.into_iter().flatten().try_for_each(|line| process::say(&line))
}

async fn read(cache: &SingleFlight, reader: usize, end: u64) -> Outcome<Vec<String>> {
    // Not all at once.
    sleep(THINK * u32::try_from(reader)? / u32::try_from(READERS)?).await;
    let mut lines = Vec::new();
    while now() < end {
        let (mut rebuilt, began) = (false, now());
        let rebuild = async || {
            rebuilt = true;
            sleep(LENGTH + THINK).await;
            Outcome::Ok(VALUE.to_owned())
        };
        let value = cache.get(rebuild).await.map_err(|error| error.to_string())?;
        if value != VALUE {
            return Err(format!("an odd value: {value:?}").into());
        }
        lines.push(if rebuilt { "rebuilt".to_owned() } else { (now() - began).to_string() });
        sleep(THINK).await;
    }
    Ok(lines)
}
