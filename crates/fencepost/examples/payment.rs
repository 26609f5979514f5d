//! A client sends its payment twice, to two servers: `cargo run --example payment -- with|without [STORE]`

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fencepost::{Blocking, Locks, connect};

/// What the bank has booked.
#[derive(Default)]
struct Bank {
    charged: AtomicU32,
    paid: AtomicBool,
}

impl Bank {
    fn charge(&self, amount: u32) -> String {
        self.charged.fetch_add(amount, Ordering::SeqCst);
        self.paid.store(true, Ordering::SeqCst);
        "receipt 1".to_owned()
    }
}

/// Looks whether it was paid, then pays: between the two the other server looks as well.
fn without(bank: &Bank, both: &Barrier) -> String {
    let is_paid = bank.paid.load(Ordering::SeqCst);
    both.wait();
    if is_paid { "receipt 1".to_owned() } else { bank.charge(100) }
}

/// The same order has the same key: one server charges, the other gets its receipt.
fn with(bank: &Bank, locks: &Locks, order: &str) -> String {
    let charge = locks.once_per_key(order, b"100 USD");
    charge.run(async |_| Ok::<_, std::io::Error>(bank.charge(100))).block().expect("a receipt").into_inner()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (lock, store) = common::arguments();
    let (bank, both, order) = (Bank::default(), Barrier::new(2), common::fresh("order"));
    std::thread::scope(|servers| {
        for _ in 0..2 {
            servers.spawn(|| {
                let receipt = match lock {
                    true => with(&bank, &connect(&*store).block().expect("a store"), &order),
                    false => without(&bank, &both),
                };
                assert_eq!(receipt, "receipt 1");
            });
        }
    });
    println!("charged ${} for an order of $100", bank.charged.into_inner());
    Ok(())
}
