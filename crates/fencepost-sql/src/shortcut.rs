//! Steps of one statement: taking a lock that nobody has or waits for, and giving up one that nobody waits for.
//!
//! They do what `table::apply` would, where nothing but the row of the lock is involved; its column `busy` says where
//! that is not so, and whoever adds rows to the other tables sets it first, under the row's lock.
//!
//! A statement that was sent and not answered may still run, later than what follows it. A late release does no harm: its
//! owner never comes back. A late taking would leave a lock to somebody who has gone. So each says until when it may
//! run, and whoever goes on after one that was not answered writes that time into the row (`late_until_us`): until
//! then nobody takes the lock in one statement.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_core::store::{Claim, FencingToken, LockName, Proposal, Step};

/// Longer leases go the long way, whose arithmetic ends at the largest number and does not fail.
const KEPT_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Of so many locks it is remembered that others are there.
const CROWDED_MAX: usize = 4096;

/// Takes a lock that nobody has or waits for.
#[derive(Clone, Copy, Debug)]
pub struct Take<'a> {
    /// For whom.
    pub claim: &'a Claim,
    /// Which attempt this is.
    pub attempt: u32,
    /// From then on it must not run any more, by the database's clock.
    pub before_us: i64,
}

impl Take<'_> {
    /// How long the grant is kept.
    pub fn kept_us(&self) -> i64 {
        i64::try_from(self.claim.kept_for().as_micros()).expect("BUG: longer leases go the long way")
    }
}

/// Gives up a lock that nobody waits for.
#[derive(Clone, Copy, Debug)]
pub struct Free<'a> {
    /// Whose.
    pub claim: &'a Claim,
    /// The last token must be as high as this already.
    pub raise: Option<FencingToken>,
}

impl Free<'_> {
    /// The same, as a number; 0: none.
    pub fn raised_to(&self) -> i64 {
        self.raise.map_or(0, FencingToken::as_i64)
    }
}

/// What one statement may do of a step.
pub(crate) enum Shortcut<'a> {
    Take { claim: &'a Claim, attempt: u32 },
    Free(Free<'a>),
}

impl<'a> Shortcut<'a> {
    pub(crate) fn of(step: &'a Step) -> Option<Self> {
        match step {
            Step::Acquire { claim, attempt, token: Proposal::Next, .. } if claim.kept_for() <= KEPT_MAX => {
                Some(Self::Take { claim, attempt: *attempt })
            }
            Step::Release { claim, raise, then: None, only: None, .. } => {
                Some(Self::Free(Free { claim, raise: *raise }))
            }
            _ => None,
        }
    }
}

/// What this process knows of locks that makes one statement useless for them, or not enough.
#[derive(Debug, Default)]
pub(crate) struct Moods(Mutex<HashMap<LockName, Mood>>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    /// Others have it or wait, as the last step saw it.
    Crowded,
    /// A taking was sent that may run until then, and was not answered.
    Unanswered { until_us: i64 },
}

impl Moods {
    /// One statement may do.
    pub(crate) fn allow(&self, name: &LockName) -> bool {
        !self.moods().contains_key(name)
    }

    /// A taking is about to be sent.
    pub(crate) fn sending(&self, take: &Take<'_>) {
        self.moods().insert(take.claim.name.clone(), Mood::Unanswered { until_us: take.before_us });
    }

    /// It has been answered.
    pub(crate) fn answered(&self, name: &LockName) {
        self.moods().remove(name);
    }

    /// Until when one may run that was not answered; 0: there is none.
    pub(crate) fn unanswered_until_us(&self, name: &LockName) -> i64 {
        match self.moods().get(name) {
            Some(Mood::Unanswered { until_us }) => *until_us,
            Some(Mood::Crowded) | None => 0,
        }
    }

    /// A step went the long way, and has written down what was not answered.
    pub(crate) fn saw(&self, name: &LockName, crowded: bool) {
        let mut moods = self.moods();
        if !crowded {
            moods.remove(name);
            return;
        }
        if moods.len() >= CROWDED_MAX {
            moods.retain(|_, mood| *mood != Mood::Crowded);
        }
        moods.insert(name.clone(), Mood::Crowded);
    }

    fn moods(&self) -> MutexGuard<'_, HashMap<LockName, Mood>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
