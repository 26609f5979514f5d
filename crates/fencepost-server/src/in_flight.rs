//! Claims that are being pursued under an owner of the client's choice. A repeat takes the place of the request before
//! it, so that no two pursue one claim here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fencepost_core::store::{LockName, Owner};
use tokio::sync::{Notify, OwnedMutexGuard};

use crate::problem::Problem;

type Key = (LockName, Owner);

#[derive(Default)]
pub(crate) struct InFlight(Arc<Mutex<HashMap<Key, Arc<Slot>>>>);

#[derive(Default)]
struct Slot {
    newest: Mutex<u64>,
    repeated: Notify,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The right to pursue a claim, until it is dropped.
pub(crate) struct Turn {
    slots: Arc<Mutex<HashMap<Key, Arc<Slot>>>>,
    key: Key,
    slot: Arc<Slot>,
    number: u64,
    held: Option<OwnedMutexGuard<()>>,
}

impl InFlight {
    /// Stops whoever pursues the same claim, and waits until it has.
    pub(crate) async fn enter(&self, name: &LockName, owner: Owner) -> Result<Turn, Problem> {
        let key = (name.clone(), owner);
        let slot = lock(&self.0).entry(key.clone()).or_default().clone();
        let number = {
            let mut newest = lock(&slot.newest);
            *newest += 1;
            *newest
        };
        slot.repeated.notify_waiters();
        let mut turn = Turn { slots: self.0.clone(), key, slot, number, held: None };
        turn.held = Some(turn.slot.turn.clone().lock_owned().await);
        if turn.is_repeated() { Err(Problem::superseded()) } else { Ok(turn) }
    }
}

impl Turn {
    fn is_repeated(&self) -> bool {
        *lock(&self.slot.newest) != self.number
    }

    /// Resolves when the same claim is asked for again.
    pub(crate) async fn repeated(&self) {
        loop {
            let repeated = self.slot.repeated.notified();
            if self.is_repeated() {
                return;
            }
            repeated.await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.held = None;
        let mut slots = lock(&self.slots);
        // The map's and ours: nobody else pursues it.
        if Arc::strong_count(&self.slot) == 2 {
            slots.remove(&self.key);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
