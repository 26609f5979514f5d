//! What the clients told, and what the resource saw.

use std::collections::BTreeMap;

use fencepost::FencingToken;
use fencepost::store::Moment;
use fencepost_history::history::{History, LockId, What, Write};

use super::cell::Cell;
use super::talk::{Heard, Said, Word};
use crate::histogram::Histogram;

/// A write as the resource saw it, and whose it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub(super) at: Moment,
    pub(super) client: usize,
    pub(super) lock: LockId,
    pub(super) token: u64,
    pub(super) accepted: bool,
}

/// Everything that was told.
pub(super) struct Book {
    start: u64,
    history: History,
    cells: Vec<Cell>,
    clients: Vec<Client>,
    pub(super) written: Vec<Written>,
    pub(super) acquisitions: u64,
    pub(super) renewed: u64,
    pub(super) unrenewed: u64,
    /// From asking to having, the wait in line included.
    pub(super) waits: Histogram,
    pub(super) losses: BTreeMap<String, u64>,
    pub(super) refusals: BTreeMap<String, u64>,
    /// What kept clients from connecting.
    pub(super) troubles: BTreeMap<String, u64>,
}

/// What is known of one client.
#[derive(Clone, Default)]
struct Client {
    /// Claims of the processes before this one: each counts from 1.
    claims_before: u64,
    newest_claim: u64,
    last: u64,
    asked: u64,
    /// What it wants or has.
    open: Option<(u64, LockId)>,
    /// Its last note, if that says only for how long it believes in a hold.
    belief: Option<(usize, u64)>,
}

impl Book {
    /// Times are counted from here.
    pub(super) fn new(start: u64, names: &[String], clients: usize, without_fence: bool) -> Self {
        let mut history = History::new();
        for name in names {
            history.lock(name);
        }
        Self {
            start,
            history,
            cells: vec![Cell::without_fence(without_fence); names.len()],
            clients: vec![Client::default(); clients],
            written: Vec::new(),
            acquisitions: 0,
            renewed: 0,
            unrenewed: 0,
            waits: Histogram::default(),
            losses: BTreeMap::new(),
            refusals: BTreeMap::new(),
            troubles: BTreeMap::new(),
        }
    }

    /// A moment of the shared clock, counted from the start.
    pub(super) fn moment(&self, at: u64) -> Moment {
        Moment::from_nanos(at.saturating_sub(self.start))
    }

    /// Writes down what a client said; `now` is when we heard it. Answers for the resource.
    pub(super) fn hear(&mut self, client: usize, said: Said, now: u64) -> Option<Heard> {
        let Said { at, claim, lock, word } = said;
        let own = &mut self.clients[client];
        own.last = own.last.max(at);
        let claim = own.claims_before + claim;
        own.newest_claim = own.newest_claim.max(claim);
        let what = match word {
            Word::Asked => {
                own.asked = at;
                own.open = Some((claim, lock));
                What::Asked
            }
            Word::Waiting => What::Waiting,
            Word::Acquired { token, until } => {
                let asked = std::time::Duration::from_nanos(at.saturating_sub(own.asked));
                self.acquisitions += 1;
                self.waits.record(asked);
                What::Acquired { token: parsed(token)?, until: self.moment(until) }
            }
            Word::Refused { why } => {
                why.into_iter().for_each(|why| count(&mut self.refusals, why));
                What::Refused
            }
            Word::Believes { until } => What::Renewed { until: self.moment(until) },
            Word::Lost { reason } => {
                count(&mut self.losses, reason);
                What::Lost
            }
            Word::Releasing => What::Releasing,
            Word::Released => What::Released,
            Word::Renewed => {
                self.renewed += 1;
                return None;
            }
            Word::Unrenewed => {
                self.unrenewed += 1;
                return None;
            }
            Word::Renews { token } => {
                let moment = self.moment(at);
                self.history.renewals.push((moment, lock, parsed(token)?));
                return None;
            }
            Word::Trouble { message } => {
                count(&mut self.troubles, message);
                return None;
            }
            Word::Peek => {
                let version = self.cells.get(lock as usize)?.version();
                return Some(Heard::Resource { taken: true, version });
            }
            Word::Read { token } => {
                let cell = self.cells.get_mut(lock as usize)?;
                return Some(Heard::Resource { taken: cell.read(token), version: cell.version() });
            }
            Word::Write { token, read } => return self.write(client, lock, token, read, now),
        };
        if matches!(what, What::Refused | What::Lost | What::Releasing) {
            self.clients[client].open = None;
        }
        self.note(client, claim, lock, self.moment(at), what);
        None
    }

    /// Of one belief after another in the same hold only the last says anything.
    fn note(&mut self, client: usize, claim: u64, lock: LockId, at: Moment, what: What) {
        let believes = matches!(what, What::Renewed { .. });
        let before = self.clients[client].belief.filter(|(_, of)| believes && *of == claim);
        match before.and_then(|(place, _)| self.history.notes.get_mut(place)) {
            Some(note) => (note.at, note.what) = (at, what),
            None => {
                self.clients[client].belief = believes.then_some((self.history.notes.len(), claim));
                self.history.note(at, shown(client), claim, lock, what);
            }
        }
    }

    fn write(&mut self, client: usize, lock: LockId, token: u64, read: u64, now: u64) -> Option<Heard> {
        let (at, shown) = (self.moment(now), parsed(token)?);
        let cell = self.cells.get_mut(lock as usize)?;
        let met = cell.write(token);
        let version = cell.version();
        self.written.push(Written { at, client, lock, token, accepted: met.accepted });
        let write = Write { at, lock, token: shown, accepted: met.accepted, read, met: met.version };
        self.history.writes.push(write);
        Some(Heard::Resource { taken: met.accepted, version })
    }

    /// A client has ended, by a kill at this moment or by itself: it believes in nothing any more.
    pub(super) fn died(&mut self, client: usize, killed: Option<Moment>) {
        // It lived when it said its last word.
        let last = self.moment(self.clients[client].last);
        let at = killed.map_or(last, |killed| killed.max(last));
        let own = &mut self.clients[client];
        own.claims_before = own.newest_claim;
        own.belief = None;
        if let Some((claim, lock)) = own.open.take() {
            self.history.note(at, shown(client), claim, lock, What::Died);
        }
    }

    /// Everything in the order in which it happened, as far as the clients' own clock tells.
    pub(super) fn history(&mut self) -> &mut History {
        self.history.notes.sort_by_key(|note| note.at);
        self.history.renewals.sort_by_key(|renewal| renewal.0);
        &mut self.history
    }

    pub(super) fn refused_by_the_fence(&self) -> usize {
        self.written.iter().filter(|write| !write.accepted).count()
    }
}

/// Clients are counted from 1 wherever people read of them.
pub(super) fn shown(client: usize) -> u32 {
    u32::try_from(client + 1).expect("BUG: few clients")
}

fn parsed(token: u64) -> Option<FencingToken> {
    FencingToken::from_number(token)
}

fn count(of: &mut BTreeMap<String, u64>, what: String) {
    *of.entry(what).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use fencepost_history::checker::{Demands, check};

    use super::*;

    fn said(at: u64, claim: u64, word: Word) -> Said {
        Said { at, claim, lock: 0, word }
    }

    fn story(book: &mut Book, client: usize, words: Vec<(u64, Word)>) {
        for (at, word) in words {
            book.hear(client, said(at, 1, word), at);
        }
    }

    fn findings(book: &mut Book) -> Vec<String> {
        let demands = Demands { exclusion: true, ..Demands::default() };
        check(book.history(), &demands).iter().map(ToString::to_string).collect()
    }

    fn book() -> Book {
        Book::new(1000, &["x".to_owned()], 2, false)
    }

    #[test]
    fn two_who_hold_at_once_are_found_by_what_they_believed() {
        let mut book = book();
        let (token, until) = (5, 2000);
        story(&mut book, 0, vec![(1010, Word::Asked), (1020, Word::Acquired { token, until })]);
        story(&mut book, 1, vec![(1015, Word::Asked), (1030, Word::Acquired { token: 6, until })]);
        assert!(findings(&mut book)[0].starts_with("C1: holder 2.1 of x under 6 from 30"));
    }

    #[test]
    fn who_was_killed_believes_in_nothing_and_its_successor_counts_on() {
        let mut book = book();
        story(&mut book, 0, vec![(1010, Word::Asked), (1020, Word::Acquired { token: 5, until: 9000 })]);
        book.died(0, Some(Moment::from_nanos(25)));
        story(&mut book, 1, vec![(1030, Word::Asked), (1040, Word::Acquired { token: 6, until: 1050 })]);
        story(&mut book, 0, vec![(1060, Word::Asked), (1070, Word::Acquired { token: 7, until: 9000 })]);
        assert_eq!(findings(&mut book), Vec::<String>::new());
        assert_eq!(book.acquisitions, 3);
    }

    #[test]
    fn of_many_looks_at_one_hold_the_last_is_kept() {
        let mut book = book();
        story(&mut book, 0, vec![(1010, Word::Asked), (1020, Word::Acquired { token: 5, until: 1100 })]);
        story(&mut book, 0, (0..50).map(|look| (1030 + look, Word::Believes { until: 2000 + look })).collect());
        story(&mut book, 0, vec![(1090, Word::Releasing), (1095, Word::Believes { until: 3000 })]);
        assert_eq!(book.history().notes.len(), 5);
        assert!(findings(&mut book)[0].starts_with("C11"), "a look that finds it held after its release is a finding");
    }

    #[test]
    fn a_late_write_is_refused_by_the_fence_and_is_no_finding() {
        let mut book = book();
        story(&mut book, 0, vec![(1010, Word::Asked), (1020, Word::Acquired { token: 5, until: 1030 })]);
        story(&mut book, 0, vec![(1021, Word::Read { token: 5 })]);
        story(&mut book, 1, vec![(1040, Word::Asked), (1050, Word::Acquired { token: 6, until: 1090 })]);
        story(&mut book, 1, vec![(1051, Word::Read { token: 6 })]);
        let late = book.hear(0, said(1060, 1, Word::Write { token: 5, read: 0 }), 1060);
        assert_eq!(late, Some(Heard::Resource { taken: false, version: 0 }));
        assert_eq!((book.refused_by_the_fence(), findings(&mut book)), (1, vec![]));
    }
}
