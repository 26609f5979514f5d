//! What a run came to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_core::store::Moment;

use fencepost_testkit::checker::Finding;
use fencepost_testkit::history::{History, LockId, What};

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

impl Run {
    /// The longest time for which somebody asked for a lock that nobody had in their hands, and when it began. Who has lost it
    /// has it until letting go: its nodes keep its lease for as long, since its work may still go on.
    pub fn longest_idle(&self) -> (Duration, Moment) {
        let mut locks: BTreeMap<LockId, Wanted> = BTreeMap::new();
        let mut longest = (Duration::ZERO, Moment::from_nanos(0));
        for note in &self.history.notes {
            let lock = locks.entry(note.lock).or_default();
            let key = (note.process, note.claim);
            let idle_since = lock.idle_since.take();
            match note.what {
                What::Asked => drop(lock.asking.insert(key)),
                What::Acquired { .. } => {
                    lock.asking.remove(&key);
                    lock.holding.insert(key);
                }
                What::Refused | What::Releasing | What::Died => {
                    lock.asking.remove(&key);
                    lock.holding.remove(&key);
                }
                What::Waiting | What::Renewed { .. } | What::Unrenewed { .. } | What::Lost | What::Released => {}
            }
            if let Some(since) = idle_since {
                longest = longest.max((note.at.since(since), since));
            }
            if lock.holding.is_empty() && !lock.asking.is_empty() {
                let goes_on = !matches!(note.what, What::Acquired { .. });
                lock.idle_since = Some(idle_since.filter(|_| goes_on).unwrap_or(note.at));
            }
        }
        longest
    }
}

/// Who wants a lock, and who has it.
#[derive(Default)]
struct Wanted {
    asking: BTreeSet<(u32, u64)>,
    holding: BTreeSet<(u32, u64)>,
    idle_since: Option<Moment>,
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
