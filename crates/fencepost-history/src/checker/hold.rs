//! Holds, from the notes about them.

use std::collections::BTreeMap;

use fencepost_core::FencingToken;
use fencepost_core::store::Moment;

use super::{Finding, Rule};
use crate::history::{History, LockId, What};

/// One acquisition that got the lock.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Which lock.
    pub lock: LockId,
    /// Whose.
    pub process: u32,
    /// Which of its acquisitions.
    pub claim: u64,
    /// Under which token.
    pub token: FencingToken,
    /// A reader.
    pub shared: bool,
    /// When it was asked for.
    pub asked: Moment,
    /// When it was answered: the hold begins.
    pub from: Moment,
    /// When its holder stopped believing in it.
    pub until: Moment,
    /// When it reported its end.
    ended: Option<Moment>,
}

impl Hold {
    /// It was believed in for a while.
    pub(super) fn lasted(&self) -> bool {
        self.from < self.until
    }

    pub(super) fn shown(&self, history: &History) -> String {
        let (name, kind) = (&history.names()[self.lock as usize], if self.shared { "reader" } else { "holder" });
        let (from, until) = (self.from.as_nanos(), self.until.as_nanos());
        format!("{kind} {}.{} of {name} under {} from {from} to {until}", self.process, self.claim, self.token)
    }
}

/// All holds, in the order in which they began. What a dead one still did is a finding (C11).
pub fn holds(history: &History, findings: &mut Vec<Finding>) -> Vec<Hold> {
    let mut asked: BTreeMap<(u32, u64), Moment> = BTreeMap::new();
    let mut places: BTreeMap<(u32, u64), usize> = BTreeMap::new();
    let mut holds: Vec<Hold> = Vec::new();
    let mut back = |lock, at, what| findings.push(Finding::about(Rule::C11, lock, at, what));
    for note in &history.notes {
        let key = (note.process, note.claim);
        let known = places.get(&key).copied();
        match (note.what, known) {
            (What::Asked, _) => drop(asked.insert(key, note.at)),
            (What::Acquired { .. }, Some(hold)) => {
                back(note.lock, note.at, format!("acquired again: {}", holds[hold].shown(history)));
            }
            (What::Acquired { token, until }, None) => {
                let shared = history.readers.contains(&(note.lock, token));
                let asked = asked.get(&key).copied().unwrap_or(note.at);
                places.insert(key, holds.len());
                let (lock, process, claim, from) = (note.lock, note.process, note.claim, note.at);
                holds.push(Hold { lock, process, claim, token, shared, asked, from, until, ended: None });
            }
            (What::Renewed { until } | What::Unrenewed { until }, Some(hold)) => {
                let hold = &mut holds[hold];
                if hold.ended.is_some() {
                    let what = format!("renewed at {} after its end: {}", note.at.as_nanos(), hold.shown(history));
                    back(note.lock, note.at, what);
                } else {
                    // Also after a pause past the old end: nobody else can have had it meanwhile, or C2 says so.
                    hold.until = hold.until.max(until);
                }
            }
            (What::Lost | What::Releasing | What::Died, Some(hold)) => {
                let hold = &mut holds[hold];
                hold.until = hold.until.min(note.at);
                hold.ended = hold.ended.or(Some(note.at));
            }
            _ => {}
        }
    }
    sent_by_the_dead(history, &holds, &mut back);
    holds
}

/// Renewals that left after their hold had reported its end.
fn sent_by_the_dead(history: &History, holds: &[Hold], back: &mut impl FnMut(LockId, Moment, String)) {
    let ended: BTreeMap<(LockId, FencingToken), &Hold> =
        holds.iter().filter(|hold| hold.ended.is_some()).map(|hold| ((hold.lock, hold.token), hold)).collect();
    for (at, lock, token) in &history.renewals {
        if let Some(hold) = ended.get(&(*lock, *token)).filter(|hold| hold.ended.is_some_and(|ended| *at > ended)) {
            let what = format!("a renewal left at {} after the end of {}", at.as_nanos(), hold.shown(history));
            back(*lock, *at, what);
        }
    }
}
