//! The connections of this command, which are closed in one place at its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fencepost::{Blocking, Connect, Locks, StoreError};

/// How long an answer to what was given up is waited for. A node that is down or silent is not waited for.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Every connection that was opened. Threads that have one too may outlive the command proper.
#[derive(Clone, Default, Debug)]
pub(crate) struct Connections(Arc<Mutex<Vec<Locks>>>);

impl Connections {
    pub(crate) fn open(&self, connect: Connect) -> Result<Locks, StoreError> {
        let locks = connect.drain_within(CLOSE_WITHIN).block()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(locks.clone());
        Ok(locks)
    }

    /// Ends what waits, also in other threads, and sends what is owed: releases, give-backs, ends of leases and sessions.
    /// To be called whatever the command came to, right before the process ends.
    pub(crate) fn close(self) {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        thread::scope(|scope| {
            for locks in all {
                scope.spawn(move || drop(locks.shutdown(Duration::ZERO).block()));
            }
        });
    }
}
