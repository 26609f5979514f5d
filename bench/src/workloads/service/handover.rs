//! A hand-over between two clients of the service, beside one between two tasks of a process.

use fencepost::{Blocking, connect};
use fencepost_testkit::http::Client;
use tokio::runtime::Builder;

use super::{Service, work};
use crate::Outcome;
use crate::process::now;
use crate::runner::{Goal, Readings, Round, Row, Unit, Workload};
use crate::site::Site;
use crate::workloads::handover::{HOLD, TURNS, Turn, between_tasks, take_turns};

const HTTP: [&str; 2] = ["2 waiting HTTP clients, sqlite, p50", "2 waiting HTTP clients, sqlite, p99"];
const INSIDE: [&str; 2] = ["2 tasks of one process, sqlite, p50", "2 tasks of one process, sqlite, p99"];

pub(crate) const WORKLOAD: Workload = Workload {
    name: "service-handover",
    about: "Two contenders that take turns on one lock, 20 ms each, so that the next is in line: from sending `release` to \
            the answer to the other's `acquire`, both over connections that are kept. Beside it the same with the library in \
            one process, on a file of its own.",
    rounds: 9,
    rows: || {
        vec![
            Row::new(HTTP[0], Unit::Nanos).against(INSIDE[0]).goal(Goal::RatioAtMost(2.0)),
            Row::new(HTTP[1], Unit::Nanos).against(INSIDE[1]),
            Row::new(INSIDE[0], Unit::Nanos),
            Row::new(INSIDE[1], Unit::Nanos),
        ]
    },
    prepare,
    work,
};

fn prepare(site: &Site) -> Outcome<Round> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let service = Service::start(&format!("sqlite:{}", site.file("service.db")?))?;
    let locks = connect(&*format!("sqlite:{}", site.file("inside.db")?)).block()?;
    Ok(Box::new(move |readings: &mut Readings| {
        let http = between_tasks(&runtime, || ask_in_turns(service.address().to_owned()))?;
        let inside = between_tasks(&runtime, || take_turns(locks.lock("inside").wait_forever()))?;
        for (names, gaps) in [(HTTP, http), (INSIDE, inside)] {
            readings.note(names[0], gaps.percentile(50));
            readings.note(names[1], gaps.percentile(99));
        }
        Ok(())
    }))
}

async fn ask_in_turns(address: String) -> Outcome<Vec<Turn>> {
    let mut client = Client::connect(&address).await?;
    let mut turns = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let asked = now();
        let lease = client.post("/v1/locks/between/acquire", "{\"wait_ms\": 60000}").await?.good()?;
        let acquired = now();
        tokio::time::sleep(HOLD).await;
        let released = now();
        client.post("/v1/locks/between/release", &lease).await?.good()?;
        turns.push(Turn { asked, acquired, released });
    }
    Ok(turns)
}
