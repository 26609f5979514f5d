//! Three schedulers, of which one is to work: `cargo run --example leader -- with|without [STORE]`

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use fencepost::{Blocking, Locks, connect};

const SCHEDULERS: usize = 3;

/// How many schedule at this moment, and how many did so at most.
#[derive(Default)]
struct Busy {
    now: AtomicU32,
    most: AtomicU32,
}

impl Busy {
    fn work(&self, meanwhile: impl FnOnce()) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        meanwhile();
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Everybody believes that the others are gone.
fn without(busy: &Busy, all: &Barrier) {
    busy.work(|| {
        all.wait();
    });
}

/// Works only while it leads, and hands over when it is done.
fn with(busy: &Busy, locks: &Locks, name: &str) {
    let work = async |_: &_| {
        busy.work(std::thread::yield_now);
        Ok::<_, std::io::Error>(())
    };
    locks.election(name).lead(work).block().expect("its turn");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (lock, store) = common::arguments();
    let (busy, all, name) = (Busy::default(), Barrier::new(SCHEDULERS), common::fresh("scheduler"));
    std::thread::scope(|schedulers| {
        for _ in 0..SCHEDULERS {
            schedulers.spawn(|| match lock {
                true => with(&busy, &connect(&*store).block().expect("a store"), &name),
                false => without(&busy, &all),
            });
        }
    });
    println!("{} of 3 schedulers worked at once", busy.most.into_inner());
    Ok(())
}
