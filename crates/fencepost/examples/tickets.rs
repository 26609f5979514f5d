//! Ten users want the last ticket: `cargo run --example tickets -- with|without [STORE]`

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fencepost::{Blocking, Locks, Settled, connect};

const USERS: usize = 10;

/// Looks whether there is one, then takes it: between the two all others look as well.
fn without(left: &AtomicU32, all: &Barrier) -> bool {
    let is_there = left.load(Ordering::SeqCst) > 0;
    all.wait();
    if is_there {
        left.store(0, Ordering::SeqCst);
    }
    is_there
}

/// Reserves it, pays, and confirms. Whoever crashes in between gives it back by doing nothing.
fn with(locks: &Locks, item: &str) -> bool {
    let tickets = locks.stock(item);
    match tickets.reserve(1, Duration::from_secs(600)).block().expect("an answer") {
        Some(mine) => tickets.confirm(&mine.id).block().expect("an answer") == Settled::Confirmed,
        None => false,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (lock, store) = common::arguments();
    let (left, all, item) = (AtomicU32::new(1), Barrier::new(USERS), common::fresh("concert"));
    let locks = connect(&*store).block()?;
    locks.stock(&item).set(1).block()?;
    let sold = AtomicU32::new(0);
    std::thread::scope(|users| {
        for _ in 0..USERS {
            users.spawn(|| {
                if if lock { with(&locks, &item) } else { without(&left, &all) } {
                    sold.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    println!("{} user(s) have the last ticket", sold.into_inner());
    Ok(())
}
