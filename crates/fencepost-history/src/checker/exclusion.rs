//! C1, C8 and C9: who holds at the same time.

use std::collections::BTreeMap;

use super::{Finding, Hold, Rule};
use crate::history::{History, LockId};

/// The holders of one lock at one moment.
#[derive(Default)]
struct Room<'a> {
    inside: BTreeMap<(u64, usize), &'a Hold>,
    writers: usize,
}

impl<'a> Room<'a> {
    /// Lets those out whose hold is over by then.
    fn clear(&mut self, now: u64) {
        while let Some(first) = self.inside.first_entry().filter(|first| first.key().0 <= now) {
            let hold = first.remove();
            self.writers -= usize::from(!hold.shared);
        }
    }

    fn enter(&mut self, place: usize, hold: &'a Hold) {
        self.inside.insert((hold.until.as_nanos(), place), hold);
        self.writers += usize::from(!hold.shared);
    }
}

pub(super) fn check(history: &History, holds: &[Hold], permits: &[(String, usize)], findings: &mut Vec<Finding>) {
    let limits: BTreeMap<LockId, usize> = permits
        .iter()
        .filter_map(|(name, limit)| {
            let at = history.names().iter().position(|other| other == name)?;
            Some((LockId::try_from(at).ok()?, *limit))
        })
        .collect();
    let mut rooms: BTreeMap<LockId, Room<'_>> = BTreeMap::new();
    // Holds come in the order in which they began.
    for (place, hold) in holds.iter().enumerate().filter(|(_, hold)| hold.lasted()) {
        let room = rooms.entry(hold.lock).or_default();
        room.clear(hold.from.as_nanos());
        if let Some(limit) = limits.get(&hold.lock) {
            if room.inside.len() >= *limit {
                let what = format!("more than {limit} at once: {}", hold.shown(history));
                findings.push(Finding::about(Rule::C8, hold.lock, hold.from, what));
            }
        } else if room.writers > 0 || (!hold.shared && !room.inside.is_empty()) {
            let other = room.inside.values().find(|other| !other.shared || !hold.shared);
            let other = other.map(|other| other.shown(history)).unwrap_or_default();
            let both_write = !hold.shared && room.writers > 0;
            let rule = if both_write { Rule::C1 } else { Rule::C9 };
            let what = format!("{}, beside {other}", hold.shown(history));
            findings.push(Finding::about(rule, hold.lock, hold.from, what));
        }
        room.enter(place, hold);
    }
}
