//! Every public error.

use std::fmt;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use crate::deadlock::InWords;
use crate::fence::FenceError;
use crate::state::{Holder, LockState};

/// Bad input, in one line: which field, its value, the cure.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Invalid {
    /// What was wrong, by its name in the API or on the command line.
    pub field: &'static str,
    /// The value that was refused, shortened if it is long.
    pub value: String,
    /// What to do instead.
    pub cure: String,
}

impl Invalid {
    /// Describes bad input. A long value is shortened.
    pub fn new(field: &'static str, value: impl Into<String>, cure: impl Into<String>) -> Self {
        let mut value = value.into();
        if let Some((cut, _)) = value.char_indices().nth(40) {
            value.truncate(cut);
            value.push('…');
        }
        Self { field, value, cure: cure.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid {} {:?}: {}", self.field, self.value, self.cure)
    }
}

impl std::error::Error for Invalid {}

/// Not granted. Nothing is left behind: what an unknown answer may have granted is given back in the background.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Held by another for as long as you would wait, perhaps not at all.
    #[error("{}", Busy { waited: *waited, holder: holder.as_deref() })]
    #[non_exhaustive]
    Busy {
        /// How long the call waited.
        waited: Duration,
        /// Who had it, as far as the store said.
        holder: Option<Box<Holder>>,
    },
    /// The wait closed a cycle: the holder of each of these locks waits for the next. Only for an actor that asked for
    /// it ([`Actor::fail_on_deadlock`](crate::Actor::fail_on_deadlock)). Release what it holds, then try again.
    #[error("deadlock: {}", InWords(cycle))]
    #[non_exhaustive]
    Deadlock {
        /// The locks, as they were seen.
        cycle: Vec<LockState>,
    },
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    #[error("this connection is shutting down; it takes no new claims")]
    ShuttingDown,
    /// A setting or the name was refused.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store did not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AcquireError {
    /// Trying again later may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Deadlock { .. } => true,
            Self::ShuttingDown | Self::Invalid(_) => false,
            Self::Store(error) => error.is_retryable(),
        }
    }

    /// The store may have granted it all the same; it is being given back.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Store(error) if error.outcome_unknown())
    }
}

struct Busy<'a> {
    waited: Duration,
    holder: Option<&'a Holder>,
}

impl fmt::Display for Busy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holder {
            Some(holder) => write!(f, "held by {holder}")?,
            None => f.write_str("held by another")?,
        }
        if !self.waited.is_zero() {
            write!(f, "; waited {:?}", round(self.waited))?;
        }
        Ok(())
    }
}

/// To the millisecond, for people to read.
pub(crate) fn round(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// A hold that ended unasked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the lock {name:?} was lost: {reason}")]
#[non_exhaustive]
pub struct Lost {
    /// The lock.
    pub name: String,
    /// Why.
    pub reason: LossReason,
}

impl Lost {
    pub(crate) fn new(name: &str, reason: LossReason) -> Self {
        Self { name: name.to_owned(), reason }
    }
}

/// Why a hold ended unasked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LossReason {
    /// Its time was over before a renewal got through: the process slept, or nobody renewed.
    Expired,
    /// Another owner has it.
    TakenOver,
    /// The store, or a majority of its nodes, could not be reached until the lease was over.
    Unreachable,
    /// A node restarted without its memory and may not vouch for this hold.
    NodeRestarted,
    /// An operator forced the release.
    Revoked,
    /// `max_hold` was reached.
    HoldLimit,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease was over before it was renewed",
            Self::TakenOver => "another owner has it",
            Self::Unreachable => "the store could not be reached until the lease was over",
            Self::NodeRestarted => "a node restarted without its memory",
            Self::Revoked => "it was released by force",
            Self::HoldLimit => "the hold limit was reached",
        })
    }
}

/// Why a renewal did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RenewError {
    /// The hold is over.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The store did not answer; the old deadline still stands. Work on and try again.
    #[error(transparent)]
    Unknown(#[from] StoreError),
}

/// How a release ended. "No longer mine" is neither success nor error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// The lock was ours, and is free or with the next in line.
    Freed,
    /// Its actor has entered it more often: the lease goes on.
    StillHeld {
        /// How many holds are left.
        count: u32,
    },
    /// It was lost before, for that reason if it is known.
    NotHeld(Option<LossReason>),
    /// It is not ours any more, and nobody can say whether it was until this release: the answer to an earlier sending
    /// of it did not arrive, and that one may have freed it.
    Unproven,
}

/// Why [`Lock::run`](crate::Lock::run) did not bring the work's result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The lock was not obtained; the work did not start.
    #[error(transparent)]
    Acquire(AcquireError),
    /// The lock was lost; the work was stopped in time.
    #[error(transparent)]
    Lost(Lost),
    /// The work's own error, untouched.
    #[error("{0}")]
    Work(E),
    /// Of a recipe: what is to be remembered was not, because the store did not do its part or a newer holder was there.
    /// If the work was done, somebody may do it again.
    #[error("not remembered: {0}")]
    Unrecorded(Arc<FenceError>),
}

/// The store did not do its part. Every node's vote is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoreError {
    /// What kind of trouble.
    pub kind: StoreErrorKind,
    /// During which operation: `connect`, `acquire`, `renew`, `release`, `inspect`, `list`, `force_release`.
    pub operation: &'static str,
    /// What happened, and the cure.
    pub message: String,
    /// What each node said. Empty where no node was asked.
    pub votes: Vec<NodeVote>,
}

impl StoreError {
    /// An error without votes.
    pub fn new(kind: StoreErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self { kind, operation, message: message.into(), votes: Vec::new() }
    }

    /// Nobody said anything.
    pub(crate) fn no_answer(operation: &'static str) -> Self {
        Self::new(StoreErrorKind::TooSlow, operation, "no answer in time")
    }

    /// Trying again later may help: decided per kind, never "all temporary".
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unreachable | StoreErrorKind::TooSlow | StoreErrorKind::Quarantined { .. })
    }

    /// It may have happened. False for certain refusals.
    pub fn outcome_unknown(&self) -> bool {
        self.kind.outcome_unknown()
    }

    /// Whether both are the same kinds of trouble at the same nodes. Spans of time and latencies do not count.
    pub fn has_cause_of(&self, other: &Self) -> bool {
        let failed = |vote: &Vote| match vote {
            Vote::Failed(kind) => Some(discriminant(kind)),
            _ => None,
        };
        let same = |(one, two): (&NodeVote, &NodeVote)| failed(&one.vote) == failed(&two.vote);
        discriminant(&self.kind) == discriminant(&other.kind)
            && self.votes.len() == other.votes.len()
            && self.votes.iter().zip(&other.votes).all(same)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}: {}", self.operation, self.kind, self.message)
    }
}

impl std::error::Error for StoreError {}

/// What kind of trouble a store had.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// No connection, or no majority of nodes.
    Unreachable,
    /// No answer in time.
    TooSlow,
    /// The store refused our rights.
    Denied,
    /// A clock is off by more than the store accepts.
    ClockOff {
        /// How far our proposals lie ahead of the node's clock.
        ahead: Duration,
    },
    /// A node lost its memory and may not vote yet.
    Quarantined {
        /// How long that lasts.
        left: Duration,
    },
    /// The name is taken by something that is no lock of ours.
    OtherKind,
    /// The deployment or the URL is wrong.
    Misconfigured,
    /// This store cannot do that.
    Unsupported,
    /// The store broke its own rules: a corrupt file, an answer that makes no sense.
    Unexpected,
}

impl StoreErrorKind {
    /// It may have happened. False for certain refusals.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Unreachable | Self::TooSlow | Self::Unexpected)
    }

    /// An outage: it may end by itself at any time.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::Unreachable | Self::TooSlow)
    }
}

impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => f.write_str("unreachable"),
            Self::TooSlow => f.write_str("too slow"),
            Self::Denied => f.write_str("denied"),
            Self::ClockOff { ahead } => write!(f, "clock ahead by {ahead:?}"),
            Self::Quarantined { left } => write!(f, "quarantined for {:?}", round(*left)),
            Self::OtherKind => f.write_str("held by another kind of lock"),
            Self::Misconfigured => f.write_str("misconfigured"),
            Self::Unsupported => f.write_str("unsupported"),
            Self::Unexpected => f.write_str("unexpected"),
        }
    }
}

/// One node's answer and how long it took.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodeVote {
    /// The node, as its URL names it, without credentials.
    pub node: String,
    /// From sending to answer, or to giving up.
    pub latency: Duration,
    /// What it said.
    pub vote: Vote,
}

impl NodeVote {
    pub(crate) fn new(node: String, latency: Duration, vote: Vote) -> Self {
        Self { node, latency, vote }
    }
}

/// What a node said.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Vote {
    /// Yes.
    Granted,
    /// No: held by another.
    Refused,
    /// No: it has seen a newer token than the one proposed.
    Stale,
    /// It had not answered when the matter was decided.
    Unheard,
    /// It did not say.
    Failed(StoreErrorKind),
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Refused => f.write_str("refused"),
            Self::Stale => f.write_str("stale"),
            Self::Unheard => f.write_str("no answer yet"),
            Self::Failed(kind) => fmt::Display::fmt(kind, f),
        }
    }
}
