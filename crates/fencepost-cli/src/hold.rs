//! What is held now, of whatever kind.

use std::fmt;
use std::time::Duration;

use fencepost::{AcquireError, Blocking, Election, Grant, Guard, Lock, LossReason, Permit, ReleaseOutcome, StoreError};

/// A guard of any kind, and what its command is told of it.
#[derive(Debug)]
pub(crate) struct Hold {
    guard: Box<dyn AnyGuard>,
    /// As text; a reader's starts with `r`, those of several permits are joined by commas.
    pub(crate) token: String,
    /// The slots of a semaphore, joined by commas.
    pub(crate) slot: Option<String>,
}

/// What is to be acquired.
#[derive(Debug)]
pub(crate) enum Request {
    Exclusive(Lock),
    Shared(Lock),
    Permits(Lock<Vec<Permit>>),
    Term(Election),
}

impl Request {
    pub(crate) fn acquire(&self) -> Result<Hold, AcquireError> {
        Ok(match self {
            Self::Exclusive(lock) => {
                let guard = lock.acquire().block()?;
                Hold { token: guard.token().to_string(), slot: None, guard: Box::new(guard) }
            }
            Self::Shared(lock) => {
                let guard = lock.clone().shared().acquire().block()?;
                Hold { token: guard.token().to_string(), slot: None, guard: Box::new(guard) }
            }
            Self::Term(election) => {
                let leadership = election.campaign().block()?;
                Hold { token: leadership.term().to_string(), slot: None, guard: Box::new(leadership) }
            }
            Self::Permits(lock) => {
                let guard = lock.acquire().block()?;
                let joined =
                    |text: fn(&Permit) -> String| guard.permits().iter().map(text).collect::<Vec<_>>().join(",");
                let (token, slot) =
                    (joined(|permit| permit.token.to_string()), joined(|permit| permit.slot.to_string()));
                Hold { token, slot: Some(slot), guard: Box::new(guard) }
            }
        })
    }
}

impl Hold {
    pub(crate) fn expose_owner(&self) -> String {
        self.guard.expose_owner()
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// By the clock, now: how long it lasts unless it is renewed.
    pub(crate) fn look(&self) -> Result<Duration, LossReason> {
        self.guard.ensure_held().map(|()| self.guard.remaining())
    }

    pub(crate) fn release(self) -> Result<ReleaseOutcome, StoreError> {
        self.guard.release()
    }
}

trait AnyGuard: Send + fmt::Debug {
    fn expose_owner(&self) -> String;
    fn remaining(&self) -> Duration;
    fn ensure_held(&self) -> Result<(), LossReason>;
    fn release(self: Box<Self>) -> Result<ReleaseOutcome, StoreError>;
}

impl<G: Grant> AnyGuard for Guard<G> {
    fn expose_owner(&self) -> String {
        Guard::expose_owner(self)
    }

    fn remaining(&self) -> Duration {
        Guard::remaining(self)
    }

    fn ensure_held(&self) -> Result<(), LossReason> {
        Guard::ensure_held(self).map_err(|lost| lost.reason)
    }

    fn release(self: Box<Self>) -> Result<ReleaseOutcome, StoreError> {
        Guard::release(*self).block()
    }
}
