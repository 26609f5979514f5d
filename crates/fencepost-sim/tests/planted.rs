//! Bugs that were put in on purpose: each is found, or the search of the other tests shows nothing.

use fencepost_sim::{Flaw, hunt};

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for flaw in Flaw::ALL {
        let tally = hunt(flaw);
        println!("{:>4} of {}  {flaw:?} {:?}: {}", tally.violations.len(), tally.seeds, tally.rules(), flaw.describe());
        if tally.violations.is_empty() {
            missed.push(flaw);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
