//! The `rslock` crate, driven by a line protocol: see `client.rs` of the tests. Arguments: the servers' ports.

use std::io::{BufRead, Write};
use std::time::Duration;

use rslock::{Lock, LockError, LockManager};

/// For ever, as far as a test is concerned: its own retries are what is waited with.
const RETRIES: u32 = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let servers: Vec<String> = std::env::args().skip(1).map(|port| format!("redis://127.0.0.1:{port}/")).collect();
    let mut held = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let answer = runtime.block_on(answer(&servers, &mut held, &words));
        println!("{}", answer.unwrap_or_else(|error| format!("error {error}")));
        std::io::stdout().flush()?;
    }
    Ok(())
}

async fn answer(servers: &[String], held: &mut Option<Lock>, words: &[&str]) -> Result<String, LockError> {
    match words {
        ["lock", name, ttl] => acquire(servers, held, name, ttl, 1).await,
        ["wait", name, ttl] => acquire(servers, held, name, ttl, RETRIES).await,
        ["extend", ttl] => {
            let lock = held.take().expect("a lock to extend");
            let extended = lock.lock_manager.extend(&lock, milliseconds(ttl)).await;
            // A refused extension is told as if the servers were away; either way it is not ours any more.
            let lost = matches!(extended, Err(LockError::Unavailable));
            *held = Some(if lost { lock } else { extended? });
            Ok(if lost { "lost" } else { "kept" }.into())
        }
        ["unlock"] => {
            let lock = held.take().expect("a lock to give up");
            // It does not say whether there was anything to free.
            lock.release().await;
            Ok("done".into())
        }
        other => Ok(format!("error no such command: {other:?}")),
    }
}

async fn acquire(
    servers: &[String],
    held: &mut Option<Lock>,
    name: &str,
    ttl: &str,
    tries: u32,
) -> Result<String, LockError> {
    let mut manager = LockManager::new(servers.to_vec());
    manager.set_retry(tries, Duration::from_millis(200));
    match manager.lock(name, milliseconds(ttl)).await {
        Ok(lock) => {
            *held = Some(lock);
            Ok("held".into())
        }
        Err(LockError::Unavailable) => Ok("busy".into()),
        Err(other) => Err(other),
    }
}

fn milliseconds(word: &str) -> Duration {
    Duration::from_millis(word.parse().expect("milliseconds"))
}
