//! What a run came to.

use std::collections::BTreeSet;

use fencepost_testkit::checker::Finding;
use fencepost_testkit::history::{History, What};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Whatever is wrong.
    pub findings: Vec<Finding>,
    /// Messages, alarms, polls and what the library told.
    pub events: u64,
    /// Faults of the plan, and messages that were lost, late or doubled.
    pub faults: u64,
    /// Holds.
    pub grants: u64,
    /// Acquisitions, and how many of them met another on the same lock.
    pub acquires: u64,
    /// See `acquires`.
    pub contended: u64,
    /// Two holders at a time: what a lease lock cannot prevent while clocks jump. Counted, and no finding, there.
    pub overlaps: u64,
    /// Writes that a resource accepted, those that came too late, and those of them that it accepted.
    pub writes: [u64; 3],
    /// How often a process stood still.
    pub pauses: u64,
    /// What was written down, if asked for.
    pub log: String,
    /// The history itself.
    pub history: History,
}

/// How many acquisitions there were, and how many of them met another on the same lock.
pub(crate) fn contention(history: &History) -> (u64, u64) {
    let mut there = vec![0_u64; history.names().len()];
    let (mut acquires, mut contended) = (0, 0);
    let mut open = BTreeSet::new();
    for note in &history.notes {
        let key = (note.process, note.claim);
        let count = &mut there[note.lock as usize];
        match note.what {
            What::Asked => {
                acquires += 1;
                contended += u64::from(*count > 0);
                *count += 1;
                open.insert(key);
            }
            What::Refused | What::Lost | What::Releasing | What::Died if open.remove(&key) => *count -= 1,
            _ => {}
        }
    }
    (acquires, contended)
}
