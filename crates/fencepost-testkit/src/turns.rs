//! What processes noted of their turns with a lock, and what is wrong with it.
//!
//! All read the clock that they share. A turn counts from *after* it was acquired until *before* its release was sent, so
//! two turns that overlap here did overlap.

use std::collections::HashMap;

use rustix::time::{ClockId, clock_gettime};

/// How a lock was held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Beside other readers.
    Reads,
    /// Alone.
    Writes,
    /// With this slot of a semaphore.
    Permit(u32),
}

/// One turn of one process; times in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Whose.
    pub process: u32,
    /// How it was held.
    pub kind: Kind,
    /// Before it was asked for.
    pub asked: u64,
    /// When it was there.
    pub from: u64,
    /// When it still was, for the last time.
    pub until: u64,
    /// The number of its token.
    pub token: u64,
}

/// What all processes of one machine call now.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or_default()
}

impl Turn {
    /// For the way through a pipe.
    pub fn to_line(&self) -> String {
        let kind = match self.kind {
            Kind::Reads => "reads".to_owned(),
            Kind::Writes => "writes".to_owned(),
            Kind::Permit(slot) => slot.to_string(),
        };
        format!("turn {kind} {} {} {} {}", self.asked, self.from, self.until, self.token)
    }

    /// What a process said in one line; `None`: something else.
    pub fn from_line(process: u32, line: &str) -> Option<Self> {
        let (_, turn) = line.split_once("turn ")?;
        let (kind, numbers) = turn.split_once(' ')?;
        let kind = match kind {
            "reads" => Kind::Reads,
            "writes" => Kind::Writes,
            slot => Kind::Permit(slot.parse().ok()?),
        };
        let numbers: Vec<u64> = numbers.split(' ').map_while(|number| number.parse().ok()).collect();
        let [asked, from, until, token] = numbers[..] else { return None };
        Some(Self { process, kind, asked, from, until, token })
    }
}

/// The turns of all processes, in the order in which they began.
#[derive(Clone, Debug)]
pub struct History {
    turns: Vec<Turn>,
}

/// How the order of arrival was kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inversions {
    /// Turns of somebody who had asked after another that still waited.
    pub count: usize,
    /// By how much, in nanoseconds, the other had asked before; the most there was.
    pub widest: u64,
}

impl History {
    /// Puts together what everybody noted.
    pub fn new(mut turns: Vec<Turn>) -> Self {
        turns.sort_by_key(|turn| turn.from);
        Self { turns }
    }

    /// All turns.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Two at once that exclude each other, more permits than there are, and tokens that do not rise.
    pub fn violations(&self, permits: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut active: Vec<Turn> = Vec::new();
        // The newest token of those who hold alone, and of anybody: of the lock, and of each slot.
        let mut newest: HashMap<Option<u32>, (u64, u64)> = HashMap::new();
        for turn in &self.turns {
            active.retain(|other| other.until > turn.from);
            let excludes = |other: &&Turn| match (other.kind, turn.kind) {
                (Kind::Reads, Kind::Reads) => false,
                (Kind::Permit(one), Kind::Permit(other)) => one == other,
                _ => true,
            };
            found.extend(active.iter().find(excludes).map(|other| format!("{other:?} beside {turn:?}")));
            active.push(*turn);
            let held = active.iter().filter(|other| matches!(other.kind, Kind::Permit(_))).count();
            if held > permits {
                found.push(format!("{held} of {permits} permits at {}", turn.from));
            }
            let line = match turn.kind {
                Kind::Permit(slot) => Some(slot),
                Kind::Reads | Kind::Writes => None,
            };
            let (alone, any) = newest.entry(line).or_default();
            // Readers that come in together may have their tokens in any order.
            let before = if turn.kind == Kind::Reads { *alone } else { *any };
            if turn.token <= before {
                found.push(format!("token {} after {before}: {turn:?}", turn.token));
            }
            *any = turn.token.max(*any);
            if turn.kind != Kind::Reads {
                *alone = turn.token;
            }
        }
        found
    }

    /// The most turns at a time.
    pub fn most_at_once(&self) -> usize {
        let mut active: Vec<u64> = Vec::new();
        let count = |turn: &Turn| {
            active.retain(|until| *until > turn.from);
            active.push(turn.until);
            active.len()
        };
        self.turns.iter().map(count).max().unwrap_or_default()
    }

    /// While one writer waited, the turns that one and the same reader began: the most there were.
    pub fn rounds_of_readers(&self) -> usize {
        let writers = self.turns.iter().filter(|turn| turn.kind == Kind::Writes);
        let most = |writer: &Turn| {
            let mut rounds: HashMap<u32, usize> = HashMap::new();
            let began = self.turns.iter().filter(|turn| (writer.asked..writer.from).contains(&turn.from));
            began
                .filter(|turn| turn.kind == Kind::Reads)
                .for_each(|turn| *rounds.entry(turn.process).or_default() += 1);
            rounds.into_values().max().unwrap_or_default()
        };
        writers.map(most).max().unwrap_or_default()
    }

    /// How often somebody was overtaken. Readers do not overtake each other: they come in together.
    pub fn inversions(&self) -> Inversions {
        let mut inversions = Inversions { count: 0, widest: 0 };
        // Of those who began later: when the first of them had asked.
        let (mut any, mut writer) = (u64::MAX, u64::MAX);
        for turn in self.turns.iter().rev() {
            let overtaken = if turn.kind == Kind::Reads { writer } else { any };
            if overtaken < turn.asked {
                inversions.count += 1;
                inversions.widest = inversions.widest.max(turn.asked - overtaken);
            }
            any = any.min(turn.asked);
            if turn.kind != Kind::Reads {
                writer = writer.min(turn.asked);
            }
        }
        inversions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times as `asked, from, until`; each process has one turn.
    fn history(turns: &[(Kind, [u64; 3])]) -> History {
        let turn = |(at, (kind, [asked, from, until])): (usize, &(Kind, [u64; 3]))| Turn {
            process: at as u32,
            kind: *kind,
            asked: *asked,
            from: *from,
            until: *until,
            token: *from,
        };
        History::new(turns.iter().enumerate().map(turn).collect())
    }

    use Kind::{Permit, Reads, Writes};

    #[test]
    fn a_turn_is_what_it_was_after_its_way_through_a_pipe() {
        for kind in [Reads, Writes, Permit(7)] {
            let turn = Turn { process: 3, kind, asked: 1, from: 2, until: 3, token: 4 };
            assert_eq!(Turn::from_line(3, &format!("test x ... {}", turn.to_line())), Some(turn));
        }
        assert_eq!(Turn::from_line(3, "running 1 test"), None);
    }

    #[test]
    fn a_lawful_history_has_no_violation() {
        let readers = [(Reads, [0, 1, 9]), (Reads, [0, 2, 5]), (Writes, [0, 9, 10]), (Reads, [0, 10, 12])];
        assert_eq!(history(&readers).violations(0), Vec::<String>::new());
        let permits = [(Permit(0), [0, 1, 9]), (Permit(1), [0, 2, 5]), (Permit(1), [0, 5, 7])];
        assert_eq!(history(&permits).violations(2), Vec::<String>::new());
        assert_eq!(history(&permits).most_at_once(), 2);
    }

    #[test]
    fn whoever_is_beside_a_writer_is_a_violation() {
        for (one, other) in [(Reads, Writes), (Writes, Reads), (Writes, Writes)] {
            assert_eq!(history(&[(one, [0, 1, 9]), (other, [0, 8, 10])]).violations(0).len(), 1);
        }
        // Also if it began long before, and others came and went.
        let long = [(Reads, [0, 1, 99]), (Reads, [0, 2, 3]), (Reads, [0, 4, 5]), (Writes, [0, 50, 51])];
        assert_eq!(history(&long).violations(0).len(), 1);
    }

    #[test]
    fn one_slot_twice_and_one_permit_too_many_are_violations() {
        assert_eq!(history(&[(Permit(0), [0, 1, 9]), (Permit(0), [0, 8, 10])]).violations(3).len(), 1);
        let four = [0, 1, 2, 3].map(|slot| (Permit(slot), [0, u64::from(slot) + 1, 9]));
        assert_eq!(history(&four).violations(3).len(), 1);
    }

    #[test]
    fn a_token_that_does_not_rise_is_a_violation() {
        for (one, other) in [(Writes, Writes), (Writes, Reads), (Reads, Writes), (Permit(1), Permit(1))] {
            let mut history = history(&[(one, [0, 5, 6]), (other, [0, 7, 8])]);
            history.turns[1].token = 5;
            assert_eq!(history.violations(2).len(), 1);
        }
    }

    #[test]
    fn rounds_of_readers_are_counted_per_reader_while_a_writer_waits() {
        let mut history = history(&[
            (Reads, [0, 1, 2]),
            (Reads, [2, 11, 12]),
            (Reads, [12, 13, 14]),
            (Reads, [3, 15, 16]),
            (Writes, [10, 20, 21]),
            (Reads, [21, 22, 23]),
        ]);
        for (turn, process) in history.turns.iter_mut().zip([1, 1, 1, 2, 3, 1]) {
            turn.process = process;
        }
        assert_eq!(history.rounds_of_readers(), 2, "the reader 1 came in twice");
    }

    #[test]
    fn whoever_comes_before_one_that_asked_earlier_is_an_inversion() {
        let inversions = |turns: &[(Kind, [u64; 3])]| history(turns).inversions();
        let none = Inversions { count: 0, widest: 0 };
        assert_eq!(inversions(&[(Writes, [0, 5, 6]), (Writes, [1, 7, 8])]), none);
        assert_eq!(inversions(&[(Writes, [3, 5, 6]), (Writes, [1, 7, 8])]), Inversions { count: 1, widest: 2 });
        assert_eq!(inversions(&[(Reads, [3, 5, 6]), (Reads, [1, 7, 8])]), none, "readers come in together");
        assert_eq!(inversions(&[(Reads, [3, 5, 6]), (Writes, [1, 7, 8])]), Inversions { count: 1, widest: 2 });
        assert_eq!(inversions(&[(Writes, [3, 5, 6]), (Reads, [1, 7, 8])]), Inversions { count: 1, widest: 2 });
        // Who asked only after the turn had begun was not overtaken.
        assert_eq!(inversions(&[(Writes, [3, 5, 6]), (Writes, [6, 7, 8])]), none);
    }
}
