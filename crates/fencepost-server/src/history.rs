//! Who had a lock before, as far as this replica granted it or looked at it: for people, never for who holds a lock.
//!
//! Grants, releases and losses that come through here are told by the witness. What happens past this replica shows only
//! when somebody looks at a lock: [`History::saw`] compares what the store says with what is known.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fencepost_core::LockState;

use crate::wire::token_text;

/// Holds that are kept of one lock.
pub(crate) const KEPT_PER_LOCK: usize = 100;
/// Holds that are kept in all. Beyond it the lock is forgotten whose last hold began first.
pub(crate) const KEPT: usize = 20_000;
/// We hear of a grant or a renewal a little after the store began to count, so leases end before we think.
const HEARD_LATE: Duration = Duration::from_millis(100);
/// Bytes of a text that somebody else wrote.
const TEXT_BYTES: usize = 255;
/// The upper bounds of the hold times that are counted together, in milliseconds; one more has all that are longer.
pub(crate) const TIMES_MS: [u64; 14] =
    [10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 60_000, 180_000, 600_000, 1_800_000, 3_600_000, 10_800_000];

/// One hold of a lock, over or not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hold {
    /// As it is written: a reader's starts with `r`.
    pub(crate) token: String,
    pub(crate) label: String,
    pub(crate) since: Instant,
    /// When its lease ends, as far as it is known.
    until: Option<Instant>,
    pub(crate) end: Option<End>,
}

/// How a hold ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) at: Instant,
    pub(crate) how: How,
    /// Who ended it by force, and why.
    pub(crate) by: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Released,
    /// The holder heard with a renewal that it was too late.
    Lost,
    /// Somebody took it from its holder.
    Forced,
    /// Nobody renewed it in time.
    Expired,
    /// It was over when somebody looked; how, was seen elsewhere.
    Unseen,
}

impl How {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Lost => "lost",
            Self::Forced => "forced",
            Self::Expired => "expired",
            Self::Unseen => "unseen",
        }
    }

    /// The holder did not mean it to end.
    fn is_loss(self) -> bool {
        matches!(self, Self::Lost | Self::Forced | Self::Expired)
    }
}

/// What is known of one lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    /// Oldest first.
    pub(crate) holds: VecDeque<Hold>,
    /// Since the lock is known here, also of holds that are forgotten.
    pub(crate) grants: u64,
    pub(crate) losses: u64,
    pub(crate) times: [u64; TIMES_MS.len() + 1],
    turn: u64,
}

impl Past {
    /// The hold with this token; a writer that became a reader keeps its digits.
    fn find(&mut self, token: &str) -> Option<&mut Hold> {
        let wanted = token.trim_start_matches('r');
        self.holds.iter_mut().rev().find(|hold| hold.token.trim_start_matches('r') == wanted)
    }

    /// The first who knows how it ended is believed. A look may have seen that it was over before who ended it said so.
    fn close(&mut self, token: &str, end: End) {
        if end.how != How::Unseen {
            self.take_back(token, |how| how == How::Unseen);
        }
        let Some(hold) = self.find(token).filter(|hold| hold.end.is_none()) else { return };
        let (held, how) = (end.at.saturating_duration_since(hold.since), end.how);
        hold.end = Some(end);
        self.losses += u64::from(how.is_loss());
        self.times[slot(held)] += 1;
    }

    /// It was not over: somebody else renewed it.
    fn reopen(&mut self, token: &str) {
        self.take_back(token, |how| matches!(how, How::Expired | How::Unseen));
    }

    /// Forgets how it ended, if it was in such a way.
    fn take_back(&mut self, token: &str, is: impl Fn(How) -> bool) {
        let Some(hold) = self.find(token) else { return };
        let since = hold.since;
        let Some(end) = hold.end.take_if(|end| is(end.how)) else { return };
        self.losses -= u64::from(end.how.is_loss());
        self.times[slot(end.at.saturating_duration_since(since))] -= 1;
    }
}

fn slot(held: Duration) -> usize {
    TIMES_MS.iter().position(|bound| held <= Duration::from_millis(*bound)).unwrap_or(TIMES_MS.len())
}

fn cut(text: &str) -> String {
    let end = (0..=TEXT_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

/// Memory is bounded per lock and in all.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    locks: HashMap<Arc<str>, Past>,
    /// The locks in the order in which their newest holds were heard of.
    order: BTreeMap<u64, Arc<str>>,
    turns: u64,
    holds: usize,
}

impl History {
    pub(crate) fn granted(&self, name: &str, token: &str, label: &str, ttl: Duration, now: Instant) {
        let mut known = self.known();
        if known.locks.get_mut(name).is_some_and(|past| past.find(token).is_some()) {
            return;
        }
        known.add(name, Hold { token: cut(token), label: cut(label), since: now, until: Some(now + ttl), end: None });
    }

    pub(crate) fn renewed(&self, name: &str, token: &str, ttl: Duration, now: Instant) {
        let mut known = self.known();
        let Some(past) = known.locks.get_mut(name) else { return };
        if let Some(hold) = past.find(token) {
            hold.until = Some(now + ttl);
            // A lease that is over can be renewed as long as nobody else took the lock.
            past.reopen(token);
        }
    }

    pub(crate) fn ended(&self, name: &str, token: &str, how: How, now: Instant) {
        if let Some(past) = self.known().locks.get_mut(name) {
            past.close(token, End { at: now, how, by: None });
        }
    }

    pub(crate) fn forced(&self, name: &str, token: &str, by: &str, why: &str, now: Instant) {
        if let Some(past) = self.known().locks.get_mut(name) {
            past.close(token, End { at: now, how: How::Forced, by: Some((cut(by), cut(why))) });
        }
    }

    /// What the store said of a lock when it was `asked`. Locks that nobody knows yet are taken up only if `closely`:
    /// a listing of all must not push out what is known.
    pub(crate) fn saw(&self, state: &LockState, asked: Instant, closely: bool) {
        let mut known = self.known();
        let is_known = known.locks.contains_key(state.name.as_str());
        if !is_known && (!closely || state.holders.is_empty()) {
            return;
        }
        let mut tokens = Vec::new();
        for holder in &state.holders {
            let Some(token) = holder.token.map(|token| token_text(token, holder.shared)) else { continue };
            let until = holder.expires_in.map(|left| asked + left);
            match known.locks.get_mut(state.name.as_str()).and_then(|past| past.find(&token)) {
                Some(hold) => {
                    hold.until = until.or(hold.until);
                    hold.token.clone_from(&token);
                    if hold.label.is_empty() {
                        hold.label = cut(&holder.label);
                    }
                }
                // More readers than are kept would push each other out with every look.
                None if tokens.len() >= KEPT_PER_LOCK => {}
                None => {
                    let since = holder.held_for.and_then(|held| asked.checked_sub(held)).unwrap_or(asked);
                    let label = cut(&holder.label);
                    known.add(&state.name, Hold { token: token.clone(), label, since, until, end: None });
                }
            }
            if let Some(past) = known.locks.get_mut(state.name.as_str()) {
                past.reopen(&token);
            }
            tokens.push(token);
        }
        let Some(past) = known.locks.get_mut(state.name.as_str()) else { return };
        // What was granted after the store was asked cannot be in its answer.
        let is_gone = |hold: &&Hold| hold.end.is_none() && hold.since < asked && !tokens.contains(&hold.token);
        let gone: Vec<(String, Option<Instant>)> =
            past.holds.iter().filter(is_gone).map(|hold| (hold.token.clone(), hold.until)).collect();
        for (token, until) in gone {
            let (at, how) = match until.filter(|until| *until <= asked + HEARD_LATE) {
                Some(until) => (until.min(asked), How::Expired),
                None => (asked, How::Unseen),
            };
            past.close(&token, End { at, how, by: None });
        }
    }

    /// What is known of a lock.
    pub(crate) fn of(&self, name: &str) -> Past {
        self.known().locks.get(name).cloned().unwrap_or_default()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn add(&mut self, name: &str, hold: Hold) {
        let name: Arc<str> = self.locks.get_key_value(name).map_or_else(|| name.into(), |(name, _)| name.clone());
        let past = self.locks.entry(name.clone()).or_default();
        self.order.remove(&past.turn);
        self.turns += 1;
        past.turn = self.turns;
        past.grants += 1;
        past.holds.push_back(hold);
        self.holds += 1;
        if past.holds.len() > KEPT_PER_LOCK {
            past.holds.pop_front();
            self.holds -= 1;
        }
        self.order.insert(self.turns, name);
        while self.holds > KEPT {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.holds -= self.locks.remove(&oldest).map_or(0, |past| past.holds.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_core::Holder;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn state(tokens: &[u64]) -> LockState {
        let mut state = LockState::free("x");
        for token in tokens {
            let mut holder = Holder::new("from the store");
            holder.token = token.to_string().parse().ok();
            (holder.held_for, holder.expires_in) = (Some(2 * SECOND), Some(5 * SECOND));
            state.holders.push(holder);
        }
        state
    }

    fn ends(history: &History) -> Vec<Option<How>> {
        history.of("x").holds.iter().map(|hold| hold.end.as_ref().map(|end| end.how)).collect()
    }

    #[test]
    fn a_hold_ends_once_and_in_the_way_that_was_seen_first() {
        let (history, start) = (History::default(), Instant::now());
        history.granted("x", "1", "a", SECOND, start);
        history.ended("x", "1", How::Released, start + SECOND / 2);
        history.ended("x", "1", How::Lost, start + SECOND);
        history.granted("x", "2", "b", SECOND, start + SECOND);
        history.forced("x", "2", "admin", "stuck", start + 2 * SECOND);
        let past = history.of("x");
        assert_eq!(ends(&history), [Some(How::Released), Some(How::Forced)]);
        assert_eq!((past.grants, past.losses, past.times[4]), (2, 1, 2), "{past:?}");
    }

    #[test]
    fn who_ended_a_hold_is_heard_although_somebody_saw_first_that_it_was_over() {
        let (history, start) = (History::default(), Instant::now());
        history.granted("x", "1", "a", 60 * SECOND, start);
        history.saw(&state(&[]), start + SECOND, false);
        assert_eq!(ends(&history), [Some(How::Unseen)]);
        history.forced("x", "1", "admin", "stuck", start + SECOND);
        history.ended("x", "1", How::Released, start + SECOND);
        let past = history.of("x");
        assert_eq!((ends(&history), past.losses), (vec![Some(How::Forced)], 1));
        assert_eq!(past.times.iter().sum::<u64>(), 1, "one hold");
    }

    #[test]
    fn what_happens_past_this_replica_shows_when_somebody_looks() {
        let (history, start) = (History::default(), Instant::now() + 60 * SECOND);
        history.saw(&state(&[7]), start, false);
        assert!(history.of("x").holds.is_empty(), "a listing takes up nothing new");
        history.saw(&state(&[7]), start, true);
        let hold = history.of("x").holds[0].clone();
        assert_eq!((hold.label.as_str(), hold.since, hold.end), ("from the store", start - 2 * SECOND, None));
        history.saw(&state(&[8]), start + SECOND, false);
        assert_eq!(ends(&history), [Some(How::Unseen), None]);
        // Its lease had run out before anybody looked; then somebody sees that another replica had renewed it.
        history.saw(&state(&[]), start + 60 * SECOND, false);
        assert_eq!((ends(&history)[1], history.of("x").losses), (Some(How::Expired), 1));
        history.saw(&state(&[8]), start + 61 * SECOND, false);
        assert_eq!((ends(&history)[1], history.of("x").losses), (None, 0));
    }

    #[test]
    fn an_old_answer_of_the_store_ends_nothing_that_began_after_it_and_brings_nothing_back() {
        let (history, start) = (History::default(), Instant::now());
        history.granted("x", "1", "a", SECOND, start);
        history.ended("x", "1", How::Released, start + SECOND);
        history.granted("x", "2", "b", SECOND, start + 2 * SECOND);
        history.saw(&state(&[1]), start + SECOND / 2, true);
        assert_eq!(ends(&history), [Some(How::Released), None]);
    }

    #[test]
    fn memory_is_bounded_for_one_lock_and_for_all() {
        let (history, start) = (History::default(), Instant::now());
        for token in 0..3 * KEPT_PER_LOCK {
            history.granted("busy", &token.to_string(), &"é".repeat(1000), SECOND, start);
        }
        let busy = history.of("busy");
        assert_eq!((busy.holds.len(), busy.grants), (KEPT_PER_LOCK, 3 * KEPT_PER_LOCK as u64));
        assert!(busy.holds.iter().all(|hold| hold.label.len() <= TEXT_BYTES));
        for number in 0..2 * KEPT {
            history.granted(&format!("lock {number}"), "1", "", SECOND, start);
            let known = history.known();
            assert!(known.holds <= KEPT && known.locks.len() == known.order.len());
        }
        assert!(history.of("busy").holds.is_empty(), "the one that was quiet for longest");
        assert_eq!(history.known().holds, KEPT);
    }
}
