//! The searches that take longer than a test may: with all rules kept, as far as the number of steps allows.

use fencepost_model::fenced::Fenced;
use fencepost_model::queue::Queue;
use fencepost_model::{System, search};

fn main() {
    let most = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200_000_000);
    let memory = Fenced { tokens: 5, expiries: 0, ..Fenced::MEMORY };
    look("two attempts, one node forgets", &memory, most);
    look("three attempts, grants that end at any moment", &Fenced { attempts: 3, expiries: 1, ..Fenced::ORDER }, most);
    look("three attempts, good clocks", &Fenced { attempts: 3, expiries: 1, ..Fenced::EXCLUSION }, most);
    look("the line, one asks again and yields", &Queue::SMALL, most);
    look("the line, with renewal", &Queue { renews: true, ..Queue::SMALL }, most);
}

fn look(name: &str, system: &impl System, most: usize) {
    let found = search(system, most);
    let end = if found.complete { "all there are" } else { "cut off" };
    println!("{name}: {} states, {end}", found.states);
    if let Some((why, steps)) = found.counterexample {
        println!("  {why}:");
        steps.iter().for_each(|step| println!("  {step}"));
    }
}
