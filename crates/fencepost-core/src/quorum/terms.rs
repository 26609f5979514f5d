//! On which terms a claim is pursued and kept: what its user asked for.

use std::time::Duration;

use crate::actor::Actor;
use crate::clock::Moment;

/// How long an acquisition may wait for others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all. Answers are waited for until then, if that is said; else as long as each request may take.
    None { by: Option<Moment> },
    /// Until then.
    Until { began: Moment, end: Moment },
    /// For ever.
    Endless { began: Moment },
}

impl Patience {
    pub(crate) fn waits(self) -> bool {
        !matches!(self, Self::None { .. })
    }

    /// One of several tries of this acquisition: it waits for nobody, and no longer than the whole.
    pub(crate) fn trying(self) -> Self {
        Self::None { by: self.until() }
    }

    /// An acquisition of several requests that waits for nobody has one deadline for all of them.
    pub(crate) fn or_by(self, by: Moment) -> Self {
        match self {
            Self::None { by: None } => Self::None { by: Some(by) },
            other => other,
        }
    }

    pub(crate) fn until(self) -> Option<Moment> {
        match self {
            Self::Until { end, .. } => Some(end),
            Self::None { by } => by,
            Self::Endless { .. } => None,
        }
    }

    pub(crate) fn is_over(self, now: Moment) -> bool {
        self.until().is_some_and(|end| end <= now)
    }

    pub(crate) fn waited(self, now: Moment) -> Duration {
        match self {
            Self::None { .. } => Duration::ZERO,
            Self::Until { began, .. } | Self::Endless { began } => now.since(began),
        }
    }
}

/// How a claim is to be pursued and kept.
pub(crate) struct Terms {
    pub(crate) patience: Patience,
    pub(crate) margin: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) automatic: bool,
    pub(crate) actor: Option<Actor>,
    /// For somebody who is no part of this process: nobody here waits behind it, or enters it again.
    pub(crate) direct: bool,
    /// It may be asked for again elsewhere: who gives up leaves what it may have to its lease.
    pub(crate) repeats: bool,
}
