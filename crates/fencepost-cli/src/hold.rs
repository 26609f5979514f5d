//! A lock that is held now, shared or not.

use std::time::Duration;

use fencepost::{AcquireError, Blocking, Grant, Guard, Lock, LossReason, ReleaseOutcome, SharedToken, StoreError};

/// A guard of either kind.
#[derive(Debug)]
pub(crate) enum Hold {
    Exclusive(Guard),
    Shared(Guard<SharedToken>),
}

/// How a lock is to be acquired.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) lock: Lock,
    pub(crate) shared: bool,
}

impl Request {
    pub(crate) fn acquire(self) -> Result<Hold, AcquireError> {
        if self.shared {
            self.lock.shared().acquire().block().map(Hold::Shared)
        } else {
            self.lock.acquire().block().map(Hold::Exclusive)
        }
    }
}

impl Hold {
    /// The token as text; a reader's starts with `r`.
    pub(crate) fn token(&self) -> String {
        match self {
            Self::Exclusive(guard) => guard.token().to_string(),
            Self::Shared(guard) => guard.token().to_string(),
        }
    }

    pub(crate) fn expose_owner(&self) -> String {
        match self {
            Self::Exclusive(guard) => guard.expose_owner(),
            Self::Shared(guard) => guard.expose_owner(),
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Self::Exclusive(guard) => guard.remaining(),
            Self::Shared(guard) => guard.remaining(),
        }
    }

    /// By the clock, now.
    pub(crate) fn ensure_held(&self) -> Result<(), LossReason> {
        fn ask<G: Grant>(guard: &Guard<G>) -> Result<(), LossReason> {
            guard.ensure_held().map_err(|lost| lost.reason)
        }
        match self {
            Self::Exclusive(guard) => ask(guard),
            Self::Shared(guard) => ask(guard),
        }
    }

    pub(crate) fn release(self) -> Result<ReleaseOutcome, StoreError> {
        match self {
            Self::Exclusive(guard) => guard.release().block(),
            Self::Shared(guard) => guard.release().block(),
        }
    }
}
