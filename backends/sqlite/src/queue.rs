//! What waits for the worker: steps to run, hints to follow; and who listens.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use fencepost_core::store::{Alarm, Answer, Claim, Event, FencingToken, LockName, Moment, Owner, Reply, Step, Trouble};

/// The most steps that share one commit.
const BATCH_MAX: usize = 256;

/// A step that waits to be run.
pub(crate) struct Job {
    pub(crate) step: Step,
    pub(crate) deadline: Moment,
    pub(crate) reply: Reply,
}

impl Job {
    /// Answers the step.
    pub(crate) fn answer(self, answer: Result<Answer, Trouble>) {
        self.reply.answer(answer);
    }
}

/// What the worker does next.
pub(crate) struct Turn {
    pub(crate) jobs: Vec<Job>,
    /// Locks that somebody says have changed.
    pub(crate) hints: HashSet<LockName>,
}

/// Shared by the store, its worker, its wake thread and the clock.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    hints: HashSet<LockName>,
    rung: bool,
    listeners: HashMap<Owner, Listener>,
    socket: Option<PathBuf>,
    closed: bool,
}

struct Listener {
    claim: Arc<Claim>,
    reply: Reply,
    /// The last grant that was pushed, so that it is pushed once.
    told: Option<FencingToken>,
}

impl Queue {
    pub(crate) fn put(&self, job: Job) {
        self.state().jobs.push_back(job);
        self.changed.notify_one();
    }

    /// Makes the worker look at a lock.
    pub(crate) fn hint(&self, name: LockName) {
        self.state().hints.insert(name);
        self.changed.notify_one();
    }

    /// Waits for something to do. `None`: the store is gone, and everything is done.
    pub(crate) fn next_turn(&self) -> Option<Turn> {
        let mut state = self.state();
        loop {
            if !state.jobs.is_empty() || !state.hints.is_empty() || state.rung {
                state.rung = false;
                let size = state.jobs.len().min(BATCH_MAX);
                return Some(Turn {
                    jobs: state.jobs.drain(..size).collect(),
                    hints: std::mem::take(&mut state.hints),
                });
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn listen(&self, claim: &Arc<Claim>, reply: Reply) {
        let listener = Listener { claim: claim.clone(), reply, told: None };
        self.state().listeners.insert(claim.owner, listener);
    }

    pub(crate) fn unlisten(&self, owner: &Owner) {
        let ended = self.state().listeners.remove(owner);
        drop(ended);
    }

    pub(crate) fn listens(&self, owner: &Owner) -> bool {
        self.state().listeners.contains_key(owner)
    }

    /// The claims that listen, on these locks or on all.
    pub(crate) fn listening(&self, names: Option<&HashSet<LockName>>) -> Vec<Arc<Claim>> {
        let state = self.state();
        let claims = state.listeners.values().map(|listener| &listener.claim);
        claims.filter(|claim| names.is_none_or(|names| names.contains(&claim.name))).cloned().collect()
    }

    /// Says something to a claim of this process, a grant only once.
    pub(crate) fn push(&self, owner: &Owner, event: Event) {
        let reply = {
            let mut state = self.state();
            let Some(listener) = state.listeners.get_mut(owner) else { return };
            if let Event::HandedOver { token, .. } = event
                && listener.told.replace(token) == Some(token)
            {
                return;
            }
            listener.reply.clone()
        };
        reply.push(event);
    }

    /// The socket file to remove when the store goes.
    pub(crate) fn keep_socket(&self, socket: PathBuf) {
        self.state().socket = Some(socket);
    }

    pub(crate) fn close(&self) {
        let socket = {
            let mut state = self.state();
            state.closed = true;
            state.socket.take()
        };
        self.changed.notify_one();
        socket.map(std::fs::remove_file);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Alarm for Queue {
    fn ring(self: Arc<Self>) {
        self.state().rung = true;
        self.changed.notify_one();
    }
}
