//! Which locks are shown, and in which order.

use std::cmp::{Ordering, Reverse};
use std::time::{Duration, Instant};

use super::book::{Counts, Entry};

/// What a table can be sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Column {
    Name,
    Kind,
    Holder,
    Token,
    Held,
    Left,
    Line,
}

impl Column {
    pub(super) const ALL: [Self; 7] =
        [Self::Name, Self::Kind, Self::Holder, Self::Token, Self::Held, Self::Left, Self::Line];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Kind => "KIND",
            Self::Holder => "HOLDER",
            Self::Token => "TOKEN",
            Self::Held => "HELD",
            Self::Left => "TIME LEFT",
            Self::Line => "IN LINE",
        }
    }

    /// The key that sorts by it at once.
    pub(super) fn shortcut(self) -> Option<char> {
        match self {
            Self::Name => Some('N'),
            Self::Holder => Some('H'),
            Self::Held => Some('A'),
            Self::Left => Some('T'),
            Self::Line => Some('W'),
            Self::Kind | Self::Token => None,
        }
    }

    /// The largest comes first.
    fn falls(self) -> bool {
        matches!(self, Self::Token | Self::Held | Self::Line)
    }

    fn compare(self, one: &Entry, other: &Entry, now: Instant) -> Ordering {
        let by = |key: &dyn Fn(&Entry) -> Option<Duration>| key(one).cmp(&key(other));
        match self {
            Self::Name => Ordering::Equal,
            Self::Kind => one.kind.cmp(&other.kind),
            Self::Holder => {
                let label = |entry: &Entry| entry.first().map(|holder| holder.label.to_lowercase());
                // Those that nobody has come last.
                (label(one).is_none(), label(one)).cmp(&(label(other).is_none(), label(other)))
            }
            Self::Token => {
                let token = |entry: &Entry| entry.first().and_then(|holder| holder.token);
                token(one).cmp(&token(other))
            }
            Self::Held => by(&|entry| entry.held(0, now)),
            Self::Left => {
                let left = |entry: &Entry| entry.left(0, now).map(|left| left.time.unwrap_or(Duration::MAX));
                (left(one).is_none(), left(one)).cmp(&(left(other).is_none(), left(other)))
            }
            Self::Line => one.state.waiters.len().cmp(&other.state.waiters.len()),
        }
    }
}

/// By what, and which end first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sort {
    pub(super) column: Column,
    pub(super) falls: bool,
}

impl Sort {
    pub(super) fn by(column: Column) -> Self {
        Self { column, falls: column.falls() }
    }

    pub(super) fn turned_round(self) -> Self {
        Self { falls: !self.falls, ..self }
    }

    fn compare(self, one: &Entry, other: &Entry, now: Instant) -> Ordering {
        let (one_name, other_name) = (&one.state.name, &other.state.name);
        let order = match self.column {
            Column::Name => one_name.cmp(other_name),
            column => column.compare(one, other, now),
        };
        // Of equals the names decide, always the same way: rows that jump cannot be read.
        if self.falls { order.reverse() } else { order }.then_with(|| one_name.cmp(other_name))
    }
}

/// Which locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Show {
    InUse,
    Contended,
    Free,
    All,
}

impl Show {
    pub(super) const ALL: [Self; 4] = [Self::InUse, Self::Contended, Self::Free, Self::All];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::InUse => "In use",
            Self::Contended => "Contended",
            Self::Free => "Free",
            Self::All => "All",
        }
    }

    pub(super) fn next(self) -> Self {
        let place = Self::ALL.iter().position(|other| *other == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }

    pub(super) fn count(self, counts: Counts) -> usize {
        match self {
            Self::InUse => counts.in_use,
            Self::Contended => counts.contended,
            Self::Free => counts.all - counts.held,
            Self::All => counts.all,
        }
    }

    fn has(self, entry: &Entry, now: Instant) -> bool {
        match self {
            Self::InUse => entry.is_in_use(now),
            Self::Contended => entry.is_contended(),
            Self::Free => !entry.is_held(),
            Self::All => true,
        }
    }
}

/// Whether somebody who looks for these letters means this lock: by its name, a holder or a waiter.
pub(super) fn matches(entry: &Entry, letters: &str) -> bool {
    let wanted = letters.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&wanted);
    let state = &entry.state;
    wanted.is_empty()
        || has(&state.name)
        || state.holders.iter().any(|holder| has(&holder.label))
        || state.waiters.iter().any(|waiter| has(&waiter.label))
}

/// The places of the locks that are shown, in order.
pub(super) fn arranged(entries: &[Entry], show: Show, filter: &str, sort: Sort, now: Instant) -> Vec<usize> {
    let is_wanted = |place: &usize| show.has(&entries[*place], now) && matches(&entries[*place], filter);
    let mut places: Vec<usize> = (0..entries.len()).filter(is_wanted).collect();
    match (sort.column, sort.falls) {
        // They are in name order already.
        (Column::Name, false) => {}
        (Column::Line, true) => places.sort_by_key(|place| Reverse(entries[*place].state.waiters.len())),
        _ => places.sort_by(|one, other| sort.compare(&entries[*one], &entries[*other], now)),
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::book::Book;
    use super::super::book::tests::{free, held, picture};
    use super::*;

    fn names(show: Show, filter: &str, sort: Sort) -> Vec<String> {
        let (mut book, now) = (Book::default(), Instant::now());
        let states = vec![
            held("a", "web-2", 5, 9, &["x"]),
            held("b", "Web-1", 7, 3, &["x", "y"]),
            free("c", 1),
            held("d", "job", 6, 20, &[]),
        ];
        book.take(picture(states, now));
        let places = arranged(book.entries(), show, filter, sort, now);
        places.into_iter().map(|place| book.entries()[place].state.name.clone()).collect()
    }

    #[test]
    fn every_column_sorts_with_the_free_at_the_end() {
        let sorted = |column| names(Show::All, "", Sort::by(column)).concat();
        let orders = Column::ALL.map(|column| (column, sorted(column)));
        let expected = ["abcd", "abcd", "dbac", "bdac", "abdc", "badc", "bacd"];
        for ((column, order), expected) in orders.into_iter().zip(expected) {
            assert_eq!(order, expected, "{column:?}");
        }
        assert_eq!(names(Show::All, "", Sort::by(Column::Name).turned_round()).concat(), "dcba");
        assert_eq!(names(Show::All, "", Sort::by(Column::Line).turned_round()).concat(), "cdab");
    }

    #[test]
    fn locks_are_chosen_by_use_and_by_letters_in_any_case() {
        let sort = Sort::by(Column::Name);
        let shown = Show::ALL.map(|show| names(show, "", sort).concat());
        assert_eq!(shown, ["abd", "ab", "c", "abcd"]);
        assert_eq!(names(Show::All, "WEB", sort).concat(), "ab", "by holder");
        assert_eq!(names(Show::All, "y", sort).concat(), "b", "by waiter");
        assert_eq!(names(Show::All, "D", sort).concat(), "d", "by name");
        assert!(names(Show::Contended, "job", sort).is_empty());
    }

    #[test]
    fn which_locks_goes_round() {
        let mut show = Show::InUse;
        Show::ALL.iter().for_each(|_| show = show.next());
        assert_eq!(show, Show::InUse);
    }
}
