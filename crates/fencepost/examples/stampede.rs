//! A cached page expires, and twenty readers want it: `cargo run --example stampede -- with|without [STORE]`

mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use fencepost::{Blocking, Locks, connect};

const READERS: usize = 20;

/// Takes the database a second, in real life.
fn rebuild(rebuilt: &AtomicU32) -> String {
    rebuilt.fetch_add(1, Ordering::SeqCst);
    "the page".to_owned()
}

/// Looks into the cache, then rebuilds: between the two all others look as well.
fn without(cache: &Mutex<Option<String>>, rebuilt: &AtomicU32, all: &Barrier) -> String {
    let cached = cache.lock().expect("no panic").clone();
    all.wait();
    let page = cached.unwrap_or_else(|| rebuild(rebuilt));
    cache.lock().expect("no panic").insert(page).clone()
}

/// One rebuilds, all others wait for it.
fn with(locks: &Locks, key: &str, rebuilt: &AtomicU32) -> String {
    let cache = locks.single_flight(key).fresh_for(Duration::from_secs(60));
    cache.get(async || Ok::<_, std::io::Error>(rebuild(rebuilt))).block().expect("the page")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (lock, store) = common::arguments();
    let (cache, rebuilt, all) = (Mutex::new(None), AtomicU32::new(0), Barrier::new(READERS));
    let (locks, key) = (connect(&*store).block()?, common::fresh("page"));
    std::thread::scope(|readers| {
        for _ in 0..READERS {
            readers.spawn(|| {
                let page = if lock { with(&locks, &key, &rebuilt) } else { without(&cache, &rebuilt, &all) };
                assert_eq!(page, "the page");
            });
        }
    });
    println!("20 readers, {} rebuild(s)", rebuilt.into_inner());
    Ok(())
}
