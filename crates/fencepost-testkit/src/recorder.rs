//! A store that writes down every step that reaches it.

use std::sync::{Arc, Mutex, PoisonError};

use fencepost_core::FencingToken;
use fencepost_core::store::{Abilities, Claim, Closing, Listening, Moment, Owed, Reply, Step, Store};

/// Passes every step on, and keeps a copy.
#[derive(Clone, Debug)]
pub struct Recorded<S> {
    inner: S,
    steps: Arc<Mutex<Vec<Step>>>,
}

impl<S> Recorded<S> {
    /// Records what goes to this store.
    pub fn new(inner: S) -> Self {
        Self { inner, steps: Arc::default() }
    }

    /// The store behind.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The steps so far.
    pub fn steps(&self) -> Vec<Step> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many steps of this kind there were.
    pub fn count(&self, kind: impl Fn(&Step) -> bool) -> usize {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|step| kind(step)).count()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Recorded<S> {
    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    fn label(&self) -> String {
        self.inner.label()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(step.clone());
        self.inner.submit(step, deadline, reply);
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.inner.listen(claim, reply)
    }

    fn clock(&self) -> Option<FencingToken> {
        self.inner.clock()
    }

    fn owed(&self, submitted: Moment) -> Owed {
        self.inner.owed(submitted)
    }

    fn is_live(&self) -> Option<bool> {
        self.inner.is_live()
    }

    fn close(&self, closing: Closing) {
        self.inner.close(closing);
    }
}
