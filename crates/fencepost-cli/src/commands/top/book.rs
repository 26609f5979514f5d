//! What is known of all locks: the last picture of the store, and what the pictures before it add.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fencepost::{Holder, LockState};

/// A lock that came free stays in sight for so long.
const LINGER: Duration = Duration::from_secs(5);
/// Rates are those of so long.
const RATED: Duration = Duration::from_secs(10);
/// What ttls people choose, in seconds, to guess the whole of a lease from what is left of it.
const USUAL: [u64; 16] = [1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 300, 600, 900, 1800, 3600];

/// One reading of the store.
#[derive(Debug)]
pub(super) struct Picture {
    /// In name order.
    pub(super) states: Vec<LockState>,
    /// There are more, which were not read.
    pub(super) is_cut: bool,
    /// When it was asked for.
    pub(super) asked_at: Instant,
    /// When it was whole.
    pub(super) read_at: Instant,
}

/// How a lock is used, as far as one can tell from outside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    Lock,
    Readers,
    Permit,
    Line,
    Leader,
}

impl Kind {
    fn of(state: &LockState) -> Self {
        match state.name.rsplit_once("/permit#") {
            Some((_, "line")) => return Self::Line,
            Some((_, slot)) if !slot.is_empty() && slot.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Self::Permit;
            }
            _ => {}
        }
        match &state.holders {
            holders if holders.iter().any(|holder| holder.payload.is_some()) => Self::Leader,
            holders if holders.iter().any(|holder| holder.shared) => Self::Readers,
            _ => Self::Lock,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Lock => "Lock",
            Self::Readers => "Readers",
            Self::Permit => "Permit",
            Self::Line => "Line",
            Self::Leader => "Leader",
        }
    }
}

/// A lock, and when that was so.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) state: LockState,
    pub(super) kind: Kind,
    /// The whole lease of each holder.
    wholes: Vec<Duration>,
    read_at: Instant,
    freed_at: Option<Instant>,
}

/// What is left of a lease.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Left {
    /// `None`: it has no end.
    pub(super) time: Option<Duration>,
    /// From 0 to 1.
    pub(super) share: f64,
    pub(super) state: Lateness,
}

/// A holder renews at a third of its ttl: with less than half left it is late, with less than a fifth nearly gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lateness {
    Well,
    Late,
    Gone,
    Over,
    Endless,
}

impl Entry {
    fn new(state: LockState, read_at: Instant, before: Option<&Self>) -> Self {
        let known = |holder: &Holder| {
            let before = before?;
            let place = before.state.holders.iter().position(|other| is_same(other, holder))?;
            before.wholes.get(place).copied()
        };
        let wholes = state.holders.iter().map(|holder| whole(holder, known(holder))).collect();
        let freed_at = match before {
            _ if !state.holders.is_empty() => None,
            Some(before) if !before.state.holders.is_empty() => Some(read_at),
            before => before.and_then(|before| before.freed_at),
        };
        // A lock that is free now is still of the kind that it was.
        let kind = match before {
            Some(before) if state.holders.is_empty() => before.kind,
            _ => Kind::of(&state),
        };
        Self { state, kind, wholes, read_at, freed_at }
    }

    pub(super) fn is_held(&self) -> bool {
        !self.state.holders.is_empty()
    }

    pub(super) fn is_contended(&self) -> bool {
        !self.state.waiters.is_empty()
    }

    /// Held, wanted, or free for a moment only.
    pub(super) fn is_in_use(&self, now: Instant) -> bool {
        let lingers = |freed_at| now.saturating_duration_since(freed_at) < LINGER;
        self.is_held() || self.is_contended() || self.freed_at.is_some_and(lingers)
    }

    /// The holder that stands for all: what a row shows.
    pub(super) fn first(&self) -> Option<&Holder> {
        self.state.holders.first()
    }

    /// How long it is held by this one of its holders.
    pub(super) fn held(&self, holder: usize, now: Instant) -> Option<Duration> {
        self.state.holders.get(holder)?.held_for.map(|held| held + self.since(now))
    }

    /// How long this one has been in line.
    pub(super) fn waited(&self, waiter: usize, now: Instant) -> Option<Duration> {
        Some(self.state.waiters.get(waiter)?.waited + self.since(now))
    }

    /// What is left to this one of its holders.
    pub(super) fn left(&self, holder: usize, now: Instant) -> Option<Left> {
        let Some(rest) = self.state.holders.get(holder)?.expires_in else {
            return Some(Left { time: None, share: 1.0, state: Lateness::Endless });
        };
        let rest = rest.saturating_sub(self.since(now));
        let whole = self.wholes.get(holder).copied().unwrap_or(rest).max(Duration::from_millis(1));
        let share = (rest.as_secs_f64() / whole.as_secs_f64()).min(1.0);
        let short = rest < Duration::from_secs(1) && whole > Duration::from_secs(3);
        let state = match share {
            _ if rest.is_zero() => Lateness::Over,
            share if share < 0.2 || short => Lateness::Gone,
            share if share < 0.5 => Lateness::Late,
            _ => Lateness::Well,
        };
        Some(Left { time: Some(rest), share, state })
    }

    fn since(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.read_at)
    }
}

fn is_same(one: &Holder, other: &Holder) -> bool {
    (one.token, &one.label) == (other.token, &other.label)
}

/// The whole of a lease, which stores do not tell: the most that was ever left of it, or a guess by what is usual.
fn whole(holder: &Holder, known: Option<Duration>) -> Duration {
    let rest = holder.expires_in.unwrap_or_default();
    if let Some(known) = known {
        return known.max(rest);
    }
    let since = holder.held_for.unwrap_or(Duration::MAX).saturating_add(rest);
    let usual = || USUAL.into_iter().map(Duration::from_secs);
    // Not renewed yet: then both together are the whole.
    let first = usual().find(|ttl| ttl.abs_diff(since) <= Duration::from_millis(150));
    let guess = first.or_else(|| usual().find(|ttl| *ttl + Duration::from_millis(50) >= rest));
    guess.unwrap_or(rest).min(since)
}

/// What happened between two pictures, as far as they tell.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Change {
    acquired: usize,
    released: usize,
}

impl Change {
    /// From one state of a lock to the next. Of what came and went in between, one is seen by its token where the lock was
    /// free before and after.
    fn between(before: &LockState, after: &LockState) -> Self {
        let missing = |here: &LockState, there: &LockState| {
            here.holders.iter().filter(|holder| !there.holders.iter().any(|other| is_same(holder, other))).count()
        };
        let unseen = before.holders.is_empty() && after.holders.is_empty() && after.last_token > before.last_token;
        Self {
            acquired: missing(after, before) + usize::from(unseen),
            released: missing(before, after) + usize::from(unseen),
        }
    }

    fn add(&mut self, other: Self) {
        self.acquired += other.acquired;
        self.released += other.released;
    }
}

/// Changes per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rates {
    pub(super) acquired: f64,
    pub(super) released: f64,
}

/// How many there are.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Counts {
    pub(super) all: usize,
    pub(super) held: usize,
    pub(super) in_use: usize,
    pub(super) contended: usize,
    pub(super) waiters: usize,
}

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// In name order.
    entries: Vec<Entry>,
    pub(super) is_cut: bool,
    pub(super) read_at: Option<Instant>,
    pub(super) took: Duration,
    /// Changes up to the moment beside them, over that time.
    changes: VecDeque<(Instant, Duration, Change)>,
    /// Since the last picture.
    fresh: Change,
}

impl Book {
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn find(&self, name: &str) -> Option<&Entry> {
        self.place(name).ok().map(|place| &self.entries[place])
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.state.name.as_str().cmp(name))
    }

    /// The store was read.
    pub(super) fn take(&mut self, picture: Picture) {
        let Picture { mut states, is_cut, asked_at, read_at } = picture;
        // Most stores order names by bytes; a database may have an order of its own.
        states.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let last = states.last().map(|state| state.name.clone());
        let mut change = std::mem::take(&mut self.fresh);
        let mut entries = Vec::with_capacity(states.len());
        for state in states {
            let before = self.find(&state.name);
            change.add(match before {
                Some(before) => Change::between(&before.state, &state),
                None if self.reaches(&state.name) => Change::between(&LockState::free(""), &state),
                None => Change::default(),
            });
            entries.push(Entry::new(state, read_at, before));
        }
        let before = std::mem::replace(&mut self.entries, entries);
        // What lies beyond the end of a cut reading may be as it was.
        let in_reach = |entry: &&Entry| !is_cut || last.as_ref().is_some_and(|last| entry.state.name <= *last);
        let gone = before.iter().filter(in_reach).filter(|entry| self.find(&entry.state.name).is_none());
        change.released += gone.map(|entry| entry.state.holders.len()).sum::<usize>();
        if let Some(last) = self.read_at.replace(read_at) {
            self.changes.push_back((read_at, read_at.saturating_duration_since(last), change));
        }
        while self.changes.front().is_some_and(|(at, ..)| read_at.saturating_duration_since(*at) > RATED) {
            self.changes.pop_front();
        }
        (self.is_cut, self.took) = (is_cut, read_at.saturating_duration_since(asked_at));
    }

    /// Whether a lock of this name would have been seen before.
    fn reaches(&self, name: &str) -> bool {
        !self.is_cut || self.entries.last().is_some_and(|last| name <= last.state.name.as_str())
    }

    /// One lock was looked at.
    pub(super) fn look(&mut self, state: LockState, read_at: Instant) {
        let Ok(place) = self.place(&state.name) else { return };
        let before = &self.entries[place];
        self.fresh.add(Change::between(&before.state, &state));
        self.entries[place] = Entry::new(state, read_at, Some(before));
    }

    /// `None`: there was only one picture.
    pub(super) fn rates(&self) -> Option<Rates> {
        let over: f64 = self.changes.iter().map(|(_, over, _)| over.as_secs_f64()).sum();
        let mut sum = Change::default();
        self.changes.iter().for_each(|(.., change)| sum.add(*change));
        #[allow(clippy::cast_precision_loss, reason = "for people")]
        let per_second = |count: usize| count as f64 / over;
        (over > 0.0).then(|| Rates { acquired: per_second(sum.acquired), released: per_second(sum.released) })
    }

    pub(super) fn counts(&self, now: Instant) -> Counts {
        let mut counts = Counts { all: self.entries.len(), ..Counts::default() };
        for entry in &self.entries {
            counts.held += usize::from(entry.is_held());
            counts.in_use += usize::from(entry.is_in_use(now));
            counts.contended += usize::from(entry.is_contended());
            counts.waiters += entry.state.waiters.len();
        }
        counts
    }
}

#[cfg(test)]
pub(super) mod tests {
    use fencepost::{FencingToken, Waiter};

    use super::*;

    /// A lock with a holder of this token, and these in line.
    pub(in super::super) fn held(name: &str, label: &str, token: u64, left: u64, line: &[&str]) -> LockState {
        let mut holder = Holder::new(label);
        holder.token = FencingToken::from_number(token);
        // With no time left that is used here do both make a usual ttl.
        holder.held_for = Some(Duration::from_secs(95));
        holder.expires_in = Some(Duration::from_secs(left));
        let waiter = |label: &&str| Waiter::new(label, false, Duration::from_secs(3));
        let mut state = LockState::free(name);
        (state.last_token, state.holders) = (holder.token, vec![holder]);
        state.waiters = line.iter().map(waiter).collect();
        state
    }

    pub(in super::super) fn free(name: &str, last: u64) -> LockState {
        let mut state = LockState::free(name);
        state.last_token = FencingToken::from_number(last);
        state
    }

    pub(in super::super) fn picture(states: Vec<LockState>, at: Instant) -> Picture {
        Picture { states, is_cut: false, asked_at: at, read_at: at }
    }

    /// A book of pictures that were taken a second apart, and the moment of the last.
    fn book(pictures: Vec<Vec<LockState>>) -> (Book, Instant) {
        let (mut book, mut at) = (Book::default(), Instant::now());
        for states in pictures {
            at += Duration::from_secs(1);
            book.take(picture(states, at));
        }
        (book, at)
    }

    fn rated(pictures: Vec<Vec<LockState>>) -> (f64, f64) {
        let rates = book(pictures).0.rates().expect("several pictures");
        (rates.acquired, rates.released)
    }

    #[test]
    fn one_picture_tells_no_rates() {
        assert_eq!(book(vec![vec![held("a", "x", 1, 30, &[])]]).0.rates(), None);
    }

    #[test]
    fn rates_count_what_two_pictures_tell() {
        let (a1, a2) = (held("a", "x", 1, 30, &[]), held("a", "y", 2, 30, &[]));
        assert_eq!(rated(vec![vec![a1.clone()], vec![a1.clone()]]), (0.0, 0.0), "a renewal is none");
        assert_eq!(rated(vec![vec![a1.clone()], vec![a2.clone()]]), (1.0, 1.0), "it changed hands");
        assert_eq!(rated(vec![vec![], vec![a1.clone()]]), (1.0, 0.0), "a new lock");
        assert_eq!(rated(vec![vec![a1.clone()], vec![]]), (0.0, 1.0), "a lock that was forgotten");
        assert_eq!(
            rated(vec![vec![free("a", 1)], vec![free("a", 5)]]),
            (1.0, 1.0),
            "a token that nobody was seen with"
        );
        assert_eq!(rated(vec![vec![a2], vec![free("a", 9)]]), (0.0, 1.0), "a forced release raises the token too");
    }

    #[test]
    fn what_lies_beyond_a_cut_reading_counts_as_nothing() {
        let (mut book, at) = book(vec![vec![held("b", "x", 1, 30, &[])]]);
        book.is_cut = true;
        let names = ["a", "c"].map(|name| held(name, "x", 2, 30, &[]));
        book.take(Picture { is_cut: true, ..picture(names.to_vec(), at + Duration::from_secs(1)) });
        let rates = book.rates().expect("two pictures");
        // `a` is new, `b` is gone, and whether `c` was there is not known.
        assert_eq!((rates.acquired, rates.released), (1.0, 1.0));
    }

    #[test]
    fn a_lease_shrinks_between_pictures_and_is_late_at_half() {
        let (mut book, at) = book(vec![vec![held("a", "x", 1, 30, &[])]]);
        let left = |book: &Book, after: u64| {
            book.find("a").and_then(|entry| entry.left(0, at + Duration::from_secs(after))).expect("a holder")
        };
        let states = [0, 16, 25, 30, 99].map(|after| left(&book, after).state);
        let (well, over) = (Lateness::Well, Lateness::Over);
        assert_eq!(states, [well, Lateness::Late, Lateness::Gone, over, over]);
        assert_eq!(left(&book, 15).share, 0.5);
        // Of a lease that had 30 s before, 12 are not the whole.
        book.take(picture(vec![held("a", "x", 1, 12, &[])], at));
        assert_eq!(left(&book, 0).state, Lateness::Late);
    }

    #[test]
    fn the_whole_of_a_lease_is_guessed_before_it_is_seen() {
        let holder = |held: f64, left: f64| {
            let mut holder = Holder::new("x");
            holder.held_for = Some(Duration::from_secs_f64(held));
            holder.expires_in = Some(Duration::from_secs_f64(left));
            holder
        };
        let cases = [(7.0, 23.0, 30), (600.0, 23.0, 30), (600.0, 8.5, 10), (600.0, 5000.0, 5000), (0.0, 7.0, 7)];
        for (held, left, guess) in cases {
            assert_eq!(whole(&holder(held, left), None), Duration::from_secs(guess), "{held} {left}");
        }
    }

    #[test]
    fn a_lock_that_came_free_lingers_and_keeps_its_kind() {
        let mut readers = held("a", "x", 1, 30, &[]);
        readers.holders[0].shared = true;
        let (book, at) = book(vec![vec![readers], vec![free("a", 1)]]);
        let entry = book.find("a").expect("known");
        assert!(entry.is_in_use(at + Duration::from_secs(4)) && !entry.is_in_use(at + Duration::from_secs(6)));
        assert_eq!(entry.kind, Kind::Readers);
    }

    #[test]
    fn kinds_are_told_by_name_payload_and_mode() {
        let mut leader = held("a", "x", 1, 30, &[]);
        leader.holders[0].payload = Some("10.0.0.7".into());
        assert_eq!(Kind::of(&leader), Kind::Leader);
        let names = [("a/permit#3", Kind::Permit), ("a/permit#line", Kind::Line), ("a/permit#x", Kind::Lock)];
        for (name, kind) in names {
            assert_eq!(Kind::of(&free(name, 1)), kind, "{name}");
        }
    }
}
