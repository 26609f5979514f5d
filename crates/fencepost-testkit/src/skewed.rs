//! A client that takes the wrong time for the store's.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::FencingToken;
use fencepost_core::store::{Abilities, Claim, Closing, Listening, Moment, Owed, Reply, Step, Store};

/// A store whose clock is not known well. The store itself is right about it.
#[derive(Clone, Debug)]
pub struct Skewed<S> {
    store: S,
    /// What the clock is taken for, in milliseconds beside the truth.
    by_ms: i64,
}

impl<S> Skewed<S> {
    /// The same store, seen by a client that is so many milliseconds ahead of it, or behind.
    pub fn new(store: S, by_ms: i64) -> Self {
        Self { store, by_ms }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Skewed<S> {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn label(&self) -> String {
        self.store.label()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        self.store.submit(step, deadline, reply);
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.store.listen(claim, reply)
    }

    fn clock(&self) -> Option<FencingToken> {
        let by = Duration::from_millis(self.by_ms.unsigned_abs());
        let clock = self.store.clock()?;
        if self.by_ms >= 0 {
            return Some(clock.plus(by));
        }
        let steps = FencingToken::from_number(1)?.plus(by).as_u64() - 1;
        FencingToken::from_number(clock.as_u64().checked_sub(steps)?)
    }

    fn owed(&self, submitted: Moment) -> Owed {
        self.store.owed(submitted)
    }

    fn is_live(&self) -> Option<bool> {
        self.store.is_live()
    }

    fn close(&self, closing: Closing) {
        self.store.close(closing);
    }
}
