//! Who waits for which node. A watch tells once; a connection that breaks takes its watches with it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fencepost_core::store::{Claim, LockName, Owner};

use crate::session::News;

/// Who shall look again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
}

/// The watches of one connection.
#[derive(Default)]
pub(crate) struct Watches {
    /// By the session that watches, and the node.
    all: Mutex<HashMap<(i64, String), Vec<Call>>>,
}

impl Watches {
    /// Tells this claim when the node changes. To be said before the watch is sent.
    pub(crate) fn expect(&self, claim: &Claim, session: i64, path: &str) {
        let call = Call { name: claim.name.clone(), owner: claim.owner };
        let mut all = self.lock();
        let calls = all.entry((session, path.to_owned())).or_default();
        if !calls.contains(&call) {
            calls.push(call);
        }
    }

    /// The watch was not set, or is not needed.
    pub(crate) fn forget(&self, owner: &Owner, session: i64, path: &str) {
        let key = (session, path.to_owned());
        let mut all = self.lock();
        if let Some(calls) = all.get_mut(&key) {
            calls.retain(|call| call.owner != *owner);
            if calls.is_empty() {
                all.remove(&key);
            }
        }
    }

    /// Who has to look again after this.
    pub(crate) fn hear(&self, news: &News) -> Vec<Call> {
        let mut all = self.lock();
        match news {
            News::Changed { session, path } => all.remove(&(*session, path.clone())).unwrap_or_default(),
            News::Broken { session } => {
                let broken: Vec<_> = all.keys().filter(|(other, _)| other == session).cloned().collect();
                broken.iter().filter_map(|key| all.remove(key)).flatten().collect()
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(i64, String), Vec<Call>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
