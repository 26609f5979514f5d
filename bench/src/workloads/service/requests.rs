//! Requests per second of acquire and release, beside a route that does nothing.

use std::time::Duration;

use fencepost_testkit::http::Client;
use futures_util::future::try_join_all;
use tokio::runtime::{Builder, Runtime};

use super::{HELLO, Service, work};
use crate::Outcome;
use crate::process::now;
use crate::runner::{Goal, Readings, Round, Row, Unit, Workload};
use crate::site::Site;

/// Connections at a time, each with one request at a time.
const CROWDS: [usize; 2] = [1, 64];
/// Subject and baseline take turns of this length, so many in a round.
const TURN: Duration = Duration::from_millis(400);
const TURNS: usize = 4;

fn ours(clients: usize) -> String {
    format!("acquire and release, `memory:`, {clients} connections")
}

fn bare(clients: usize) -> String {
    format!("a bare route, `GET /hello`, {clients} connections")
}

fn posted(clients: usize) -> String {
    format!("the same with a body, `POST /hello`, {clients} connections")
}

pub(crate) const WORKLOAD: Workload = Workload {
    name: "service",
    about: "Requests per second over connections that are kept, one request at a time on each, by one client of one \
            thread; the service is a process of its own. Acquire and release by turns, each client with a lock of its own; \
            the baseline is a route of axum that says hello.",
    rounds: 7,
    rows: || {
        let rows = CROWDS.iter().flat_map(|&clients| {
            [
                Row::new(ours(clients), Unit::PerSecond)
                    .against(bare(clients))
                    .against(posted(clients))
                    .goal(Goal::RatioAtLeast(0.5)),
                Row::new(bare(clients), Unit::PerSecond),
                Row::new(posted(clients), Unit::PerSecond),
            ]
        });
        rows.collect()
    },
    prepare,
    work,
};

fn prepare(_site: &Site) -> Outcome<Round> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (service, hello) = (Service::start("memory:")?, Service::start(HELLO)?);
    Ok(Box::new(move |readings: &mut Readings| {
        for clients in CROWDS {
            let mut rates = [0.0; 3];
            for _ in 0..TURNS {
                for (rate, ask) in rates.iter_mut().zip([Ask::Pairs, Ask::Get, Ask::Post]) {
                    let address = if ask == Ask::Pairs { service.address() } else { hello.address() };
                    *rate += per_second(&runtime, address, clients, ask)? / TURNS as f64;
                }
            }
            for (name, rate) in [ours(clients), bare(clients), posted(clients)].into_iter().zip(rates) {
                readings.note(name, rate);
            }
        }
        Ok(())
    }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Pairs,
    Get,
    Post,
}

fn per_second(runtime: &Runtime, address: &str, clients: usize, ask: Ask) -> Outcome<f64> {
    runtime.block_on(async {
        let connect = (0..clients).map(|_| Client::connect(address));
        let clients = try_join_all(connect).await?;
        // A few go ahead, so that threads and connections are awake.
        let began = now();
        let (from, end) = (began + TURN.as_nanos() as u64 / 8, began + TURN.as_nanos() as u64);
        let counts = try_join_all(clients.into_iter().enumerate().map(|(number, client)| {
            let name = format!("/v1/locks/client-{number}");
            asked(client, ask, name, from, end)
        }));
        let count: u64 = counts.await?.into_iter().sum();
        Ok(count as f64 * 1e9 / (end - from) as f64)
    })
}

/// How many answers came in between.
async fn asked(mut client: Client, ask: Ask, name: String, from: u64, end: u64) -> Outcome<u64> {
    let (acquire, release, mut count) = (format!("{name}/acquire"), format!("{name}/release"), 0);
    let mut come = || {
        let moment = now();
        count += u64::from(moment >= from && moment < end);
        moment < end
    };
    loop {
        let more = match ask {
            Ask::Get => {
                client.get("/hello").await?.good()?;
                come()
            }
            Ask::Post => {
                client.post("/hello", "{\"ttl_ms\": 30000}").await?.good()?;
                come()
            }
            Ask::Pairs => {
                let lease = client.post(&acquire, "{\"ttl_ms\": 30000}").await?.good()?;
                come();
                client.post(&release, &lease).await?.good()?;
                come()
            }
        };
        if !more {
            return Ok(count);
        }
    }
}
