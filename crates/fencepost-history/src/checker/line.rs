//! C6 and C7: in time, and in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_core::store::Moment;

use super::{Demands, Finding, Rule};
use crate::history::{History, LockId, Note, What};

type Key = (u32, u64);

pub(super) fn check(history: &History, demands: &Demands, findings: &mut Vec<Finding>) {
    for call in history.calls.iter().filter(|call| call.took > call.limit + demands.grace) {
        let (process, at, took, limit) = (call.process, call.at.as_nanos(), call.took, call.limit);
        let what = format!("{} of {process}, back at {at}, took {took:?} instead of {limit:?}", call.what);
        findings.push(Finding { at: Some(call.at), ..Finding::new(Rule::C6, what) });
    }
    if let Some(limit) = demands.handed_over_within {
        check_hand_over(history, limit, findings);
    }
    if let Some(apart) = demands.in_line {
        check_turns(history, apart, findings);
    }
}

/// Who waits for one lock, and since when it has been free.
#[derive(Default)]
struct Desk {
    waiting: BTreeMap<Key, Moment>,
    holding: BTreeSet<Key>,
    free_since: Option<Moment>,
}

/// A lock that was released while somebody waited is held again soon.
fn check_hand_over(history: &History, limit: Duration, findings: &mut Vec<Finding>) {
    let mut desks: BTreeMap<LockId, Desk> = BTreeMap::new();
    for note in &history.notes {
        let (desk, key) = (desks.entry(note.lock).or_default(), (note.process, note.claim));
        match note.what {
            What::Waiting => drop(desk.waiting.insert(key, note.at)),
            What::Acquired { .. } => {
                let waited = desk.waiting.remove(&key);
                desk.holding.insert(key);
                let since = desk.free_since.take().zip(waited).map(|(free, waiting)| free.max(waiting));
                if let Some(since) = since.filter(|since| note.at.since(*since) > limit) {
                    let (name, late) = (&history.names()[note.lock as usize], note.at.since(since));
                    let what = format!("{name} was free for {late:?} while {}.{} waited", note.process, note.claim);
                    findings.push(Finding::about(Rule::C6, note.lock, note.at, what));
                }
            }
            What::Releasing if desk.holding.remove(&key) && desk.holding.is_empty() => desk.free_since = Some(note.at),
            // Nobody gave it back: its lease has to end first.
            What::Lost | What::Died => {
                desk.waiting.remove(&key);
                desk.holding.remove(&key);
                desk.free_since = None;
            }
            What::Refused => drop(desk.waiting.remove(&key)),
            _ => {}
        }
    }
}

/// Who was in line before another asked is served before it. Readers may go together.
fn check_turns(history: &History, apart: Duration, findings: &mut Vec<Finding>) {
    let mut asked: BTreeMap<Key, Moment> = BTreeMap::new();
    // Per lock: who waits, by the moment since which it has been in line.
    let mut lines: BTreeMap<LockId, BTreeMap<(Moment, Key), ()>> = BTreeMap::new();
    let mut since: BTreeMap<Key, Moment> = BTreeMap::new();
    for note @ Note { at, lock, .. } in &history.notes {
        let key = (note.process, note.claim);
        let line = lines.entry(*lock).or_default();
        match note.what {
            What::Asked => drop(asked.insert(key, *at)),
            What::Waiting => {
                since.insert(key, *at);
                line.insert((*at, key), ());
            }
            What::Acquired { token, .. } => {
                if let Some(since) = since.remove(&key) {
                    line.remove(&(since, key));
                }
                let mine = asked.get(&key).copied().unwrap_or(*at);
                let first = line.keys().next().filter(|_| !history.readers.contains(&(*lock, token)));
                if let Some((since, (process, claim))) = first.filter(|(since, _)| since.plus(apart) < mine) {
                    let name = &history.names()[*lock as usize];
                    let earlier = mine.since(*since);
                    let what = format!(
                        "{name}: {}.{} was served before {process}.{claim}, which was in line {earlier:?} before it asked",
                        note.process, note.claim
                    );
                    findings.push(Finding::about(Rule::C7, *lock, *at, what));
                }
            }
            What::Refused | What::Died => {
                if let Some(since) = since.remove(&key) {
                    line.remove(&(since, key));
                }
            }
            _ => {}
        }
    }
}
