//! Five servers have the same crontab: `cargo run --example cron -- with|without [STORE]`

mod common;

use std::sync::atomic::{AtomicU32, Ordering};

use fencepost::{Blocking, Locks, connect};

/// At two in the morning, on every server.
fn without(mails: &AtomicU32) {
    mails.fetch_add(1, Ordering::SeqCst);
}

/// The same, but whoever comes second in this window has nothing to do.
fn with(mails: &AtomicU32, locks: &Locks, job: &str) {
    let nightly = locks.once_per_window(job, "2026-11-15T02");
    let report = async |_: &_| {
        without(mails);
        Ok::<_, std::io::Error>(())
    };
    nightly.run(report).block().expect("an answer");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (lock, store) = common::arguments();
    let (mails, job) = (AtomicU32::new(0), common::fresh("report"));
    std::thread::scope(|servers| {
        for _ in 0..5 {
            servers.spawn(|| match lock {
                true => with(&mails, &connect(&*store).block().expect("a store"), &job),
                false => without(&mails),
            });
        }
    });
    println!("5 servers sent {} report(s)", mails.into_inner());
    Ok(())
}
