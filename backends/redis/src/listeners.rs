//! Who is told what servers say unasked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::store::{Claim, Event, Listening, Owner, Reply};

/// The claims that wait. Servers that are one store share one of these: a push may come from any of them.
#[derive(Default)]
pub(crate) struct Listeners {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    replies: HashMap<Owner, Reply>,
    /// In the layout where releases are published: who is meant by which channel.
    channels: HashMap<String, Vec<Owner>>,
}

impl Listeners {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pushes for this claim go to `reply` until the answer is dropped, also those on this channel.
    pub(crate) fn listen(self: &Arc<Self>, claim: &Claim, channel: Option<String>, reply: Reply) -> Listening {
        let mut inner = self.inner();
        inner.replies.insert(claim.owner, reply);
        if let Some(channel) = channel.clone() {
            inner.channels.entry(channel).or_default().push(claim.owner);
        }
        drop(inner);
        Listening::new(Ear { listeners: self.clone(), owner: claim.owner, channel })
    }

    pub(crate) fn tell(&self, owner: &Owner, event: Event) {
        let listener = self.inner().replies.get(owner).cloned();
        if let Some(listener) = listener {
            listener.push(event);
        }
    }

    /// Hints everybody who waits: pushes may have been lost with a link.
    pub(crate) fn hint_all(&self) {
        let listeners: Vec<Reply> = self.inner().replies.values().cloned().collect();
        listeners.iter().for_each(|listener| listener.push(Event::MayPay));
    }

    /// Hints whoever waits for what this channel tells.
    pub(crate) fn tell_channel(&self, channel: &str) {
        let owners = self.inner().channels.get(channel).cloned().unwrap_or_default();
        owners.iter().for_each(|owner| self.tell(owner, Event::MayPay));
    }

    /// Whether anybody waits for what this channel tells.
    pub(crate) fn hear(&self, channel: &str) -> bool {
        self.inner().channels.contains_key(channel)
    }
}

struct Ear {
    listeners: Arc<Listeners>,
    owner: Owner,
    channel: Option<String>,
}

impl Drop for Ear {
    fn drop(&mut self) {
        let mut inner = self.listeners.inner();
        inner.replies.remove(&self.owner);
        let Some(channel) = &self.channel else { return };
        if let Some(owners) = inner.channels.get_mut(channel) {
            owners.retain(|owner| *owner != self.owner);
            if owners.is_empty() {
                inner.channels.remove(channel);
            }
        }
    }
}
