//! What can go wrong with a lock service, and with what is behind it.

use std::time::{Duration, Instant};

use fencepost_core::doctor::{Report, Severity, answer_within, apart, is_enough};
use fencepost_core::store::{StoreError, StoreErrorKind, Trouble};
use fencepost_core::{Blocking, Invalid};
use serde::Deserialize;
use tokio::runtime::Builder;

use crate::client::{Call, Client};
use crate::store::Service;
use crate::trouble;
use crate::url::Settings;

/// An answer may take so long.
const WITHIN: Duration = Duration::from_secs(5);
/// The votes of nodes that answered.
const WELL: [&str; 3] = ["granted", "refused", "stale"];

/// What a replica tells of itself and of the store behind it.
#[derive(Deserialize)]
struct Replica {
    version: String,
    largest_ttl_ms: u64,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    node: String,
    vote: String,
}

/// Looks at the service of `SCHEME:REST`, which keeps locks of this ttl. Takes a moment, and blocks.
///
/// # Errors
/// If the URL cannot be used.
pub fn examine(scheme: &str, rest: &str, ttl: Duration) -> Result<Report, StoreError> {
    let wrong = |invalid: Invalid| StoreError::new(StoreErrorKind::Misconfigured, "examine", invalid.to_string());
    let unexpected = |what: String| StoreError::new(StoreErrorKind::Unexpected, "examine", what);
    let settings = Settings::parse(scheme, rest).map_err(wrong)?;
    let looking = settings.clone();
    let mut report = apart(move || {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(|error| unexpected(error.to_string()))?;
        runtime.block_on(look(&looking, ttl)).map_err(wrong)
    })?;
    let label = format!("{scheme}://{}", settings.replicas.join(","));
    report.judge_use(&label, ttl, |clock| Service::open(settings, clock).block());
    Ok(report)
}

async fn look(settings: &Settings, ttl: Duration) -> Result<Report, Invalid> {
    let mut report = Report::new("every process that uses this service, or the store behind it");
    let (mut seen, mut missing) = (Vec::new(), Vec::new());
    for place in &settings.replicas {
        let client = Client::new(Settings { replicas: vec![place.clone()], ..settings.clone() })?;
        match look_at(&client, place, ttl, &mut report).await {
            Ok(replica) => seen.push((place, replica)),
            Err(trouble) => missing.push((place.clone(), trouble)),
        }
    }
    report.judge_missing(missing, !seen.is_empty());
    for (place, replica) in &seen {
        judge_store(place, replica, ttl, &mut report);
    }
    if let Some(((first, one), others)) = seen.split_first() {
        for (place, other) in others {
            if names(one) != names(other) {
                let evidence =
                    format!("it stands before another store than {first}: their locks do not exclude each other");
                let cure = "start all replicas with the same --store, spelled alike";
                report.find(Severity::Error, "different-stores", place, evidence, cure);
            }
        }
    }
    judge_secrecy(settings, &mut report);
    Ok(report)
}

async fn look_at(client: &Client, place: &str, ttl: Duration, report: &mut Report) -> Result<Replica, Trouble> {
    let ask = || client.ask::<Replica>(Call::get("/v1/nodes".to_owned()), tokio::time::Instant::now() + WITHIN);
    let mut replica = None;
    let mut round_trips = Vec::new();
    while !is_enough(&round_trips) {
        let start = Instant::now();
        replica = Some(ask().await?.map_err(|(status, problem)| trouble::of(status, &problem))?);
        round_trips.push(start.elapsed());
    }
    let replica = replica.expect("BUG: asked several times");
    report.fact(place, "version", format!("fencepost {}", replica.version));
    report.judge_latency(place, round_trips, answer_within(ttl), ttl);
    Ok(replica)
}

fn names(replica: &Replica) -> Vec<&str> {
    replica.nodes.iter().map(|node| node.node.as_str()).collect()
}

fn judge_store(place: &str, replica: &Replica, ttl: Duration, report: &mut Report) {
    let ill: Vec<&Node> = replica.nodes.iter().filter(|node| !WELL.contains(&node.vote.as_str())).collect();
    if !ill.is_empty() {
        let severity = if 2 * ill.len() >= replica.nodes.len() { Severity::Error } else { Severity::Warning };
        let ill: Vec<&str> = ill.iter().map(|node| node.node.as_str()).collect();
        let evidence = format!("of the store behind it {} do not answer: {}", ill.len(), ill.join(", "));
        report.find(severity, "store", place, evidence, "run `fencepost doctor` on that store");
    }
    let largest = Duration::from_millis(replica.largest_ttl_ms);
    if ttl > largest {
        let evidence = format!("it takes a ttl of {largest:?} at most, and ours is {ttl:?}");
        report.find(Severity::Error, "ttl", place, evidence, "choose a shorter ttl, or raise the limit of the service");
    }
}

fn judge_secrecy(settings: &Settings, report: &mut Report) {
    let is_here = |place: &String| ["127.", "localhost:", "[::1]"].iter().any(|start| place.starts_with(start));
    let far = settings.replicas.iter().find(|place| !is_here(place));
    if let (false, Some(_), Some(place)) = (settings.tls, &settings.api_key, far) {
        let evidence = "the key goes over the network in clear text";
        report.find(Severity::Warning, "clear-text", place, evidence, "use TLS: fencepost+https://");
    }
}
