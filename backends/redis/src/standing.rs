//! What the servers of one connection say of the set that it means.
//!
//! A node that forgot everything votes again when its probation is over, in the set of whoever asks: it cannot know
//! whether that set was closed meanwhile, and another one opened. So the asker has to vouch for its set: it has heard a
//! majority and waited for the rest, and nobody votes elsewhere. Else nodes that forget one after the other would bring a
//! closed set back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_core::store::Moment;

use crate::sets;

/// What a server says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Says {
    /// It votes in our set.
    Ours,
    /// It knows of no set.
    Nothing,
    /// It votes in others, or has left ours.
    Others,
}

/// What is known of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// It is being asked for the first time.
    NotYet,
    /// It was asked, and does not answer.
    Silent,
    Said(Says),
}

/// How far an asker vouches for its set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Vouch {
    /// Not at all.
    No,
    /// Nobody votes elsewhere, but nobody votes in it either: all may have forgotten.
    Weak,
    /// And somebody votes in it.
    Firm,
}

impl Vouch {
    /// As `trust.lua` is told.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::No => "0",
            Self::Weak => "1",
            Self::Firm => "2",
        }
    }
}

/// What each of the servers said last.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Who is in which set: of each a majority has to be heard.
    sets: Vec<Vec<usize>>,
    known: Mutex<Vec<Known>>,
    /// When each has last answered anything, in nanoseconds of the clock.
    heard: Vec<AtomicU64>,
    /// Who has not answered for so long may have left our set meanwhile.
    fresh: Duration,
}

impl Standing {
    /// Of so many servers, all in one set unless these are named.
    pub(crate) fn new(servers: usize, sets: &[Vec<usize>], fresh: Duration) -> Self {
        let known = Mutex::new(vec![Known::NotYet; servers]);
        let heard = (0..servers).map(|_| AtomicU64::new(0)).collect();
        Self { sets: sets::or_one(servers, sets), known, heard, fresh }
    }

    /// Some server votes in our set: it was used before.
    pub(crate) fn somebody_votes(&self) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains(&Known::Said(Says::Ours))
    }

    pub(crate) fn vouch(&self, now: Moment) -> Vouch {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let speaks_against = |known: &Known| matches!(known, Known::NotYet | Known::Said(Says::Others));
        let heard = |server: usize| matches!(known[server], Known::Said(_));
        if known.iter().any(speaks_against) || !sets::have_majorities(&self.sets, heard) {
            return Vouch::No;
        }
        let is_fresh =
            |server: usize| now.since(Moment::from_nanos(self.heard[server].load(Ordering::Relaxed))) <= self.fresh;
        match (0..known.len()).any(|server| known[server] == Known::Said(Says::Ours) && is_fresh(server)) {
            true => Vouch::Firm,
            false => Vouch::Weak,
        }
    }
}

/// One server's place in it.
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    pub(crate) standing: Arc<Standing>,
    pub(crate) server: usize,
}

impl Voice {
    pub(crate) fn says(&self, says: Says, now: Moment) {
        self.answers(now);
        self.set(Known::Said(says));
    }

    /// It answers something. What it says of sets stays as it was.
    pub(crate) fn answers(&self, now: Moment) {
        self.standing.heard[self.server].store(now.as_nanos(), Ordering::Relaxed);
    }

    /// It is gone. Who voted elsewhere does so until it is heard again.
    pub(crate) fn falls_silent(&self) {
        self.set(Known::Silent);
    }

    fn set(&self, known: Known) {
        let mut all = self.standing.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = &mut all[self.server];
        if known != Known::Silent || *place != Known::Said(Says::Others) {
            *place = known;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Duration = Duration::from_secs(4);

    /// Those of whom nothing is known have been given up.
    fn vouch(servers: usize, sets: &[Vec<usize>], said: &[(usize, Says)]) -> Vouch {
        let standing = Arc::new(Standing::new(servers, sets, FRESH));
        let (voice, now) = (|server| Voice { standing: standing.clone(), server }, Moment::from_nanos(0));
        (0..servers).for_each(|server| voice(server).falls_silent());
        said.iter().for_each(|(server, says)| voice(*server).says(*says, now));
        standing.vouch(now)
    }

    #[test]
    fn whoever_has_heard_a_majority_and_nobody_else_vouches() {
        use Says::{Nothing, Others, Ours};
        assert_eq!(vouch(3, &[], &[(0, Nothing)]), Vouch::No, "too few");
        assert_eq!(vouch(3, &[], &[(0, Nothing), (2, Ours)]), Vouch::Firm);
        assert_eq!(vouch(3, &[], &[(0, Nothing), (2, Nothing)]), Vouch::Weak, "all were started anew");
        assert_eq!(vouch(3, &[], &[(0, Nothing), (1, Ours), (2, Others)]), Vouch::No, "the set may be closed");
        let sets = [vec![0, 1, 2], vec![2, 3, 4]];
        assert_eq!(vouch(5, &sets, &[(0, Ours), (1, Ours), (2, Ours)]), Vouch::No, "too few of the second");
        assert_eq!(vouch(5, &sets, &[(0, Ours), (2, Ours), (3, Nothing)]), Vouch::Firm);
    }

    #[test]
    fn who_votes_elsewhere_is_remembered_until_it_says_otherwise() {
        let standing = Arc::new(Standing::new(1, &[], FRESH));
        let (voice, now) = (Voice { standing: standing.clone(), server: 0 }, Moment::from_nanos(0));
        voice.says(Says::Others, now);
        voice.falls_silent();
        assert_eq!(standing.vouch(now), Vouch::No);
        voice.says(Says::Nothing, now);
        assert_eq!(standing.vouch(now), Vouch::Weak);
        voice.falls_silent();
        assert_eq!(standing.vouch(now), Vouch::No);
    }

    #[test]
    fn nobody_vouches_before_every_server_was_heard_or_given_up() {
        let standing = Arc::new(Standing::new(3, &[], FRESH));
        let (voice, now) = (|server| Voice { standing: standing.clone(), server }, Moment::from_nanos(0));
        voice(0).says(Says::Nothing, now);
        voice(1).says(Says::Ours, now);
        assert_eq!(standing.vouch(now), Vouch::No, "the third may know better");
        voice(2).falls_silent();
        assert_eq!(standing.vouch(now), Vouch::Firm);
    }

    #[test]
    fn who_has_said_nothing_for_long_does_not_count_as_one_that_votes() {
        let standing = Arc::new(Standing::new(2, &[], FRESH));
        let voice = |server| Voice { standing: standing.clone(), server };
        voice(0).says(Says::Nothing, Moment::from_nanos(0));
        voice(1).says(Says::Ours, Moment::from_nanos(0));
        let later = Moment::from_nanos(0).plus(FRESH * 2);
        assert_eq!(standing.vouch(later), Vouch::Weak);
        voice(1).answers(later);
        assert_eq!(standing.vouch(later), Vouch::Firm);
    }
}
