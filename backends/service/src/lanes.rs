//! What is asked for one owner is done in the order asked, one after the other.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::store::Owner;
use tokio::runtime::Handle;
use tokio::sync::Notify;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
pub(crate) struct Lanes {
    state: Mutex<State>,
    /// Something is done.
    pub(crate) done: Notify,
}

#[derive(Default)]
struct State {
    /// Where somebody is at work, and what waits there.
    lanes: HashMap<Owner, VecDeque<Work>>,
    /// At work beside the lanes.
    free: usize,
}

impl Lanes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After everything that this owner asked for before; without one, at once.
    pub(crate) fn put(
        self: &Arc<Self>,
        runtime: &Handle,
        owner: Option<Owner>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let Some(owner) = owner else {
            self.state().free += 1;
            let lanes = self.clone();
            runtime.spawn(async move {
                work.await;
                lanes.state().free -= 1;
                lanes.done.notify_one();
            });
            return;
        };
        let mut state = self.state();
        if let Some(lane) = state.lanes.get_mut(&owner) {
            lane.push_back(Box::pin(work));
            return;
        }
        state.lanes.insert(owner, VecDeque::new());
        drop(state);
        let (lanes, mut work): (_, Work) = (self.clone(), Box::pin(work));
        runtime.spawn(async move {
            loop {
                work.await;
                let Some(next) = lanes.next(&owner) else { break };
                work = next;
            }
            lanes.done.notify_one();
        });
    }

    fn next(&self, owner: &Owner) -> Option<Work> {
        let mut state = self.state();
        let next = state.lanes.get_mut(owner)?.pop_front();
        if next.is_none() {
            state.lanes.remove(owner);
        }
        next
    }

    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        state.lanes.is_empty() && state.free == 0
    }
}
