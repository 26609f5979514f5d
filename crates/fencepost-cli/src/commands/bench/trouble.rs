//! What went wrong while measuring: counted and named, in bounded memory.

use std::collections::BTreeMap;

use fencepost::{AcquireError, StoreErrorKind};
use serde::Serialize;

use super::workload::Trouble;
use crate::exit_code::ExitCode;

/// Errors by what was asked and what kind of trouble it was.
#[derive(Debug, Default)]
pub(super) struct Troubles(BTreeMap<(&'static str, &'static str), Seen>);

#[derive(Clone, Debug)]
struct Seen {
    count: u64,
    /// The first of them, in the store's words.
    example: String,
    code: ExitCode,
}

/// One kind of error.
#[derive(Clone, Serialize, Debug)]
pub(super) struct TroubleData {
    pub(super) operation: &'static str,
    pub(super) kind: &'static str,
    pub(super) count: u64,
    pub(super) example: String,
}

impl Troubles {
    pub(super) fn note(&mut self, trouble: Trouble) {
        let (key, example, code) = match trouble {
            Trouble::Store(error) => {
                ((error.operation, word(&error.kind)), error.message, ExitCode::of_store(&error.kind))
            }
            Trouble::Acquire(AcquireError::Invalid(invalid)) => {
                (("acquire", "invalid"), invalid.to_string(), ExitCode::USAGE)
            }
            Trouble::Acquire(error @ AcquireError::Busy { .. }) => {
                (("acquire", "busy"), error.to_string(), ExitCode::STORE)
            }
            Trouble::Acquire(error) => (("acquire", "refused"), error.to_string(), ExitCode::STORE),
            Trouble::Lost(reason) => (("hold", "lost"), reason, ExitCode::STORE),
        };
        self.add_one(key, Seen { count: 1, example, code });
    }

    pub(super) fn add(&mut self, other: Self) {
        other.0.into_iter().for_each(|(key, seen)| self.add_one(key, seen));
    }

    fn add_one(&mut self, key: (&'static str, &'static str), seen: Seen) {
        match self.0.get_mut(&key) {
            Some(known) => known.count += seen.count,
            None => drop(self.0.insert(key, seen)),
        }
    }

    /// The most frequent first.
    pub(super) fn data(&self) -> Vec<TroubleData> {
        let data = |(&(operation, kind), seen): (&(&'static str, &'static str), &Seen)| {
            let Seen { count, example, .. } = seen.clone();
            TroubleData { operation, kind, count, example }
        };
        let mut all: Vec<TroubleData> = self.0.iter().map(data).collect();
        all.sort_by_key(|trouble| std::cmp::Reverse(trouble.count));
        all
    }

    /// What the most frequent of them means to a script; a store that said nothing at all is out of reach.
    pub(super) fn code(&self) -> ExitCode {
        self.0.values().max_by_key(|seen| seen.count).map_or(ExitCode::STORE, |seen| seen.code)
    }
}

/// Without the details, which differ from one to the next.
fn word(kind: &StoreErrorKind) -> &'static str {
    match kind {
        StoreErrorKind::Unreachable => "unreachable",
        StoreErrorKind::TooSlow => "too slow",
        StoreErrorKind::Denied => "denied",
        StoreErrorKind::ClockOff { .. } => "clock off",
        StoreErrorKind::Quarantined { .. } => "quarantined",
        StoreErrorKind::OtherKind => "held by another kind of lock",
        StoreErrorKind::Misconfigured => "misconfigured",
        StoreErrorKind::Unsupported => "unsupported",
        _ => "unexpected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost::StoreError;

    #[test]
    fn errors_are_counted_by_what_was_asked_and_the_most_frequent_decides() {
        let mut troubles = Troubles::default();
        assert_eq!(troubles.code(), ExitCode::STORE);
        let error = |kind, operation| Trouble::Store(StoreError::new(kind, operation, "no"));
        troubles.note(error(StoreErrorKind::Unreachable, "acquire"));
        let mut others = Troubles::default();
        (0..2).for_each(|_| others.note(error(StoreErrorKind::Denied, "release")));
        troubles.add(others);
        troubles.note(Trouble::Lost("gone".into()));
        let told: Vec<_> = troubles.data().iter().map(|data| (data.operation, data.kind, data.count)).collect();
        assert_eq!(told, [("release", "denied", 2), ("acquire", "unreachable", 1), ("hold", "lost", 1)]);
        assert_eq!(troubles.code(), ExitCode::DENIED);
    }
}
