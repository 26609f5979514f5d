//! C4: what a resource that checks tokens may have accepted.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_core::FencingToken;

use super::{Finding, Hold, Rule};
use crate::history::{History, LockId};

pub(super) fn check(history: &History, holds: &[Hold], findings: &mut Vec<Finding>) {
    let granted: BTreeSet<(LockId, FencingToken)> = holds.iter().map(|hold| (hold.lock, hold.token)).collect();
    let mut newest: BTreeMap<LockId, FencingToken> = BTreeMap::new();
    for write in history.writes.iter().filter(|write| write.accepted) {
        let name = &history.names()[write.lock as usize];
        let mut found = |what| findings.push(Finding::about(Rule::C4, write.lock, write.at, what));
        let newest = newest.entry(write.lock).or_insert(write.token);
        if write.token < *newest {
            found(format!("{name} accepted {} after {newest}", write.token));
        }
        if !granted.contains(&(write.lock, write.token)) {
            found(format!("{name} accepted {}, which nobody was granted", write.token));
        }
        if write.read != write.met {
            let lost = write.met - write.read.min(write.met);
            found(format!("{name} lost {lost} updates to a write with {}", write.token));
        }
        *newest = write.token.max(*newest);
    }
}
