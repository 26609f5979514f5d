//! Judges a [history](crate::history): were there two holders, did a token fall, was a write lost?
//!
//! No search: each rule is a sort and a sweep, O(n log n). A hold counts from the *answer* to its acquire until its
//! release was *asked for*, its validity ended or its loss was told, whichever is first: so a finding is never a false
//! alarm. `tests/checker.rs` of the testkit compares the sweep with a brute-force search on small histories.
//!
//! | rule | says |
//! |---|---|
//! | C1 | no two holders of one lock at a time |
//! | C2 | who asks after another was granted gets a higher token |
//! | C3 | no token twice |
//! | C4 | the resource: accepted tokens never fall, were granted to somebody, and no update is lost |
//! | C5 | nothing is left behind |
//! | C6 | every call is back in time, and a free lock goes to who waits for it |
//! | C7 | first come, first served |
//! | C8 | no more holders than permits |
//! | C9 | a writer is alone |
//! | C10 | terms of a leader: C1 and C2, as its lock is a lock like any other |
//! | C11 | who reported loss or release stays gone; nobody renews what a newer holder was granted |

mod exclusion;
mod hold;
mod line;
mod resource;
mod tokens;

use std::fmt;
use std::time::Duration;

use fencepost_core::store::Moment;

use crate::history::{History, LockId};
pub use hold::{Hold, holds};

/// Which rule was broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// Two holders.
    C1,
    /// A token fell.
    C2,
    /// A token came twice.
    C3,
    /// The resource took what it should not have.
    C4,
    /// Something was left behind.
    C5,
    /// Too late.
    C6,
    /// Out of turn.
    C7,
    /// Too many holders of a semaphore.
    C8,
    /// A writer was not alone.
    C9,
    /// Back from the dead.
    C11,
}

/// A rule that was broken, and by what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Which.
    pub rule: Rule,
    /// By what.
    pub what: String,
    /// The lock that it is about, where it is about one.
    pub lock: Option<LockId>,
    /// When it showed, where that is known.
    pub at: Option<Moment>,
}

impl Finding {
    /// About everything, or about nobody knows what.
    pub fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into(), lock: None, at: None }
    }

    /// About one lock, at one moment.
    fn about(rule: Rule, lock: LockId, at: Moment, what: String) -> Self {
        Self { rule, what, lock: Some(lock), at: Some(at) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// What has to hold in this history. Token order, the resource and the dead are always judged.
#[derive(Clone, Debug, Default)]
pub struct Demands {
    /// Exclusion itself (C1, C8, C9), and tokens that rise from holder to holder: nothing happened that a lease lock
    /// cannot survive.
    pub exclusion: bool,
    /// Locks that may have several holders, and how many (C8).
    pub permits: Vec<(String, usize)>,
    /// In order of arrival (C7), for claims that came so far apart.
    pub in_line: Option<Duration>,
    /// A lock that was released while others waited has its next holder after so long (C6).
    pub handed_over_within: Option<Duration>,
    /// How late a call may be (C6).
    pub grace: Duration,
}

/// Everything that is wrong.
pub fn check(history: &History, demands: &Demands) -> Vec<Finding> {
    let mut findings = Vec::new();
    let holds = holds(history, &mut findings);
    tokens::check(history, &holds, &mut findings);
    if demands.exclusion {
        exclusion::check(history, &holds, &demands.permits, &mut findings);
        tokens::check_rising(history, &holds, &mut findings);
    }
    resource::check(history, &holds, &mut findings);
    line::check(history, demands, &mut findings);
    let left = history.left.iter().map(|(lock, what)| Finding { lock: Some(*lock), ..Finding::new(Rule::C5, what) });
    findings.extend(left);
    findings
}
