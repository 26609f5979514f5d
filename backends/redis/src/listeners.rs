//! Who is told what servers say unasked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::store::{Claim, Event, Listening, Owner, Reply};

/// The claims that wait. Servers that are one store share one of these: a push may come from any of them.
#[derive(Default)]
pub(crate) struct Listeners {
    inner: Mutex<HashMap<Owner, Reply>>,
}

impl Listeners {
    fn inner(&self) -> MutexGuard<'_, HashMap<Owner, Reply>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pushes for this claim go to `reply` until the answer is dropped.
    pub(crate) fn listen(self: &Arc<Self>, claim: &Claim, reply: Reply) -> Listening {
        self.inner().insert(claim.owner, reply);
        Listening::new(Ear { listeners: self.clone(), owner: claim.owner })
    }

    pub(crate) fn tell(&self, owner: &Owner, event: Event) {
        let listener = self.inner().get(owner).cloned();
        if let Some(listener) = listener {
            listener.push(event);
        }
    }

    /// Hints everybody who waits: pushes may have been lost with a link.
    pub(crate) fn hint_all(&self) {
        let listeners: Vec<Reply> = self.inner().values().cloned().collect();
        listeners.iter().for_each(|listener| listener.push(Event::MayPay));
    }
}

struct Ear {
    listeners: Arc<Listeners>,
    owner: Owner,
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.listeners.inner().remove(&self.owner);
    }
}
