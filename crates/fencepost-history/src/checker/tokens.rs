//! C2 and C3: tokens rise, and none comes twice; and C11: a renewal does not outlive a newer holder.

use std::collections::BTreeMap;

use fencepost_core::FencingToken;
use fencepost_core::store::Moment;

use super::{Finding, Hold, Rule};
use crate::history::{History, LockId, What};

/// What is true under every fault.
pub(super) fn check(history: &History, holds: &[Hold], findings: &mut Vec<Finding>) {
    let mut newest: BTreeMap<LockId, FencingToken> = BTreeMap::new();
    let mut floors: BTreeMap<(u32, u64), Option<FencingToken>> = BTreeMap::new();
    // The newest token when a hold began: what came before it is not a newer holder.
    let mut ceilings: BTreeMap<(u32, u64), FencingToken> = BTreeMap::new();
    let tokens: BTreeMap<(u32, u64), &Hold> = holds.iter().map(|hold| ((hold.process, hold.claim), hold)).collect();
    // The floor of each renewal, as it was when that renewal left.
    let mut renewals = history.renewals.iter().peekable();
    let mut sent: BTreeMap<(LockId, FencingToken), (Moment, Option<FencingToken>)> = BTreeMap::new();
    for note in &history.notes {
        while let Some((at, lock, token)) = renewals.next_if(|(at, ..)| *at < note.at) {
            sent.insert((*lock, *token), (*at, newest.get(lock).copied()));
        }
        let key = (note.process, note.claim);
        match note.what {
            What::Asked => drop(floors.insert(key, newest.get(&note.lock).copied())),
            What::Acquired { token, .. } => {
                if let Some(floor) = floors.get(&key).copied().flatten().filter(|floor| token <= *floor) {
                    let shown = tokens.get(&key).map(|hold| hold.shown(history)).unwrap_or_default();
                    let what = format!("{floor} was granted before this was asked for: {shown}");
                    findings.push(Finding::about(Rule::C2, note.lock, note.at, what));
                }
                let newest = newest.entry(note.lock).or_insert(token);
                *newest = token.max(*newest);
                ceilings.insert(key, *newest);
            }
            What::Renewed { .. } => {
                let Some(hold) = tokens.get(&key).filter(|hold| !hold.shared) else { continue };
                let floor = sent.get(&(hold.lock, hold.token)).and_then(|(_, floor)| *floor);
                if let Some(floor) = floor.filter(|floor| ceilings.get(&key).is_some_and(|before| floor > before)) {
                    let what = format!("{floor} was granted before this was renewed: {}", hold.shown(history));
                    findings.push(Finding::about(Rule::C11, note.lock, note.at, what));
                }
            }
            _ => {}
        }
    }
    let mut all: Vec<(LockId, FencingToken, usize)> =
        holds.iter().enumerate().map(|(at, hold)| (hold.lock, hold.token, at)).collect();
    all.sort_unstable();
    for pair in all.windows(2).filter(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1)) {
        let (one, other) = (&holds[pair[0].2], &holds[pair[1].2]);
        let what = format!("the same token twice: {}, and {}", one.shown(history), other.shown(history));
        findings.push(Finding::about(Rule::C3, one.lock, one.from.max(other.from), what));
    }
}

/// From holder to holder, also if the later one had asked first: true as long as exclusion is. Readers may come in any
/// order among themselves.
pub(super) fn check_rising(history: &History, holds: &[Hold], findings: &mut Vec<Finding>) {
    let mut newest: BTreeMap<LockId, (Option<FencingToken>, Option<FencingToken>)> = BTreeMap::new();
    for hold in holds.iter().filter(|hold| hold.lasted()) {
        let (by_any, by_writer) = newest.entry(hold.lock).or_default();
        let floor = if hold.shared { *by_writer } else { *by_any };
        if let Some(floor) = floor.filter(|floor| hold.token <= *floor) {
            let what = format!("an earlier holder had {floor}: {}", hold.shown(history));
            findings.push(Finding::about(Rule::C2, hold.lock, hold.from, what));
        }
        *by_any = (*by_any).max(Some(hold.token));
        if !hold.shared {
            *by_writer = (*by_writer).max(Some(hold.token));
        }
    }
}
