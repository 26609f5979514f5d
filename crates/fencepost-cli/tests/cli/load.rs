//! Many clients at one service, also when it is killed. The same load in its full size is measured in `bench/`.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fencepost_testkit::http::Client;
use fencepost_testkit::load::Load;
use fencepost_testkit::redis::Redis;
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::serve::serve_store;
use crate::support::Place;

/// What the pages of a store may take beside the locks.
const SLACK: u64 = 1 << 20;
const PER_LOCK: u64 = 2 << 10;

/// Nothing is lost, and memory follows what is held.
fn bear(place: &Place, store: &str, load: Load) {
    let (service, address) = serve_store(place, store, "127.0.0.1:0");
    let runtime = Runtime::new().expect("threads");
    let borne = runtime.block_on(load.put_on(&address, service.pid())).expect("nothing is lost");
    assert_eq!(borne.renewals.len(), load.locks() * load.renewals as usize);
    let [_, connected, held] = borne.memory;
    let bound = PER_LOCK * load.locks() as u64 + SLACK;
    assert!(held < connected + bound, "{held} bytes, {connected} without the locks");
    service.end(Signal::SIGTERM).with_code(0);
}

fn load(clients: usize, locks_each: usize) -> Load {
    Load { clients, locks_each, ttl: Duration::from_secs(60), renewals: 5, every: Duration::ZERO }
}

fn sqlite(place: &Place) -> String {
    format!("sqlite:{}", place.path("locks.db").display())
}

#[test]
fn a_thousand_locks_of_a_hundred_clients_are_kept_on_redis() {
    let server = Redis::new().start();
    bear(&Place::new(), &format!("redis://{}", server.address()), load(100, 10));
}

#[test]
fn two_hundred_locks_of_fifty_clients_are_kept_in_a_file() {
    let place = Place::new();
    bear(&place, &sqlite(&place), load(50, 4));
}

/// What a client knows of a lock of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    Free,
    /// With this lease.
    Held(String),
    /// It asked for something, and heard nothing.
    Unsure,
}

/// By name: the newest token that the client was told, and how the lock is.
type Ledger = BTreeMap<String, (u64, Known)>;

fn token(lease: &str) -> u64 {
    let lease: Value = serde_json::from_str(lease).expect("JSON");
    lease["token"].as_str().and_then(|token| token.parse().ok()).expect("a token")
}

/// Takes, renews and gives back locks of its own until nobody answers any more.
async fn work_until_the_end(address: String, number: usize, told: Arc<Semaphore>) -> Ledger {
    let mut ledger = Ledger::new();
    if let Ok(mut client) = Client::connect(&address).await {
        while let Ok(()) = turn(&mut client, number, &mut ledger).await {
            told.add_permits(1);
        }
    }
    ledger
}

/// A round over five locks: one is held and renewed, two are held until the next round, two are given back at once.
async fn turn(client: &mut Client, number: usize, ledger: &mut Ledger) -> io::Result<()> {
    for lock in 0..5 {
        let name = format!("client-{number}-{lock}");
        let (newest, known) = ledger.get(&name).cloned().unwrap_or((0, Known::Free));
        if let Known::Held(lease) = &known {
            let act = if lock == 0 { "renew" } else { "release" };
            if act == "release" {
                ledger.insert(name.clone(), (newest, Known::Unsure));
            }
            client.post(&format!("/v1/locks/{name}/{act}"), lease).await?.good()?;
            if act == "renew" {
                continue;
            }
        }
        ledger.insert(name.clone(), (newest, Known::Unsure));
        let lease = client.post(&format!("/v1/locks/{name}/try"), r#"{"ttl_ms":600000}"#).await?.good()?;
        let granted = token(&lease);
        assert!(granted > newest, "{name}: {granted} after {newest}");
        let known = if lock < 3 {
            Known::Held(lease)
        } else {
            ledger.insert(name.clone(), (granted, Known::Unsure));
            client.post(&format!("/v1/locks/{name}/release"), &lease).await?.good()?;
            Known::Free
        };
        ledger.insert(name, (granted, known));
    }
    Ok(())
}

/// What the service that came after says of it.
async fn compare(client: &mut Client, ledger: &Ledger) -> io::Result<()> {
    for (name, (newest, known)) in ledger {
        let path = |act: &str| format!("/v1/locks/{name}/{act}");
        match known {
            Known::Held(lease) => {
                let refused = client.post(&path("try"), "{}").await?;
                assert_eq!(refused.status, 423, "{name} is forgotten: {refused:?}");
                client.post(&path("renew"), lease).await?.good()?;
                client.post(&path("release"), lease).await?.good()?;
            }
            Known::Unsure => drop(client.post(&path("force-release"), r#"{"reason":"unsure"}"#).await?.good()?),
            Known::Free => {}
        }
        let lease = client.post(&path("try"), "{}").await?.good()?;
        assert!(token(&lease) > *newest, "{name}: {lease} repeats a token, {newest}");
    }
    Ok(())
}

#[test]
fn a_service_that_is_killed_under_load_forgets_no_lock_and_repeats_no_token() {
    let place = Place::new();
    let (service, address) = serve_store(&place, &sqlite(&place), "127.0.0.1:0");
    let runtime = Runtime::new().expect("threads");
    let ledgers = runtime.block_on(async {
        let told = Arc::new(Semaphore::new(0));
        let mut clients = JoinSet::new();
        for number in 0..16 {
            clients.spawn(work_until_the_end(address.clone(), number, told.clone()));
        }
        // In the middle of it: everybody has had a few rounds.
        drop(told.acquire_many(100).await.expect("open"));
        service.end(Signal::SIGKILL).with_code(-9);
        clients.join_all().await
    });
    let held = ledgers.iter().flat_map(BTreeMap::values).filter(|(_, known)| matches!(known, Known::Held(_))).count();
    let unsure = ledgers.iter().flat_map(BTreeMap::values).filter(|(_, known)| *known == Known::Unsure).count();
    assert!(held >= 16 && unsure >= 1, "it was killed at work: {held} held, {unsure} unsure");

    let (service, address) = serve_store(&place, &sqlite(&place), "127.0.0.1:0");
    runtime.block_on(async {
        let mut client = Client::connect(&address).await.expect("it listens");
        for ledger in &ledgers {
            compare(&mut client, ledger).await.expect("all is answered");
        }
    });
    service.end(Signal::SIGTERM).with_code(0);
}
