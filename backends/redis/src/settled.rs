//! Which servers have been tried: when a new connection may be handed out.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use fencepost_core::foreign;
use fencepost_core::store::Moment;

use crate::sets;

/// Once a majority of each set is up, the other nodes get so much longer before a connection is handed out.
const LAGGARDS_WITHIN: Duration = Duration::from_millis(30);

/// Which nodes have been tried once, and with what success.
pub(crate) struct Settled {
    sets: Vec<Vec<usize>>,
    inner: Mutex<Trials>,
}

#[derive(Default)]
struct Trials {
    nodes: Vec<Option<bool>>,
    wakers: Vec<Waker>,
    /// Since when a majority of each set is up.
    majority_since: Option<Moment>,
    /// Those that lag behind were waited for.
    enough: bool,
}

impl Settled {
    /// Of so many nodes, none tried yet, all in one set unless these are named.
    pub(crate) fn new(nodes: usize, sets: &[Vec<usize>]) -> Self {
        let trials = Trials { nodes: vec![None; nodes], ..Trials::default() };
        Self { sets: sets::or_one(nodes, sets), inner: Mutex::new(trials) }
    }

    fn trials(&self) -> MutexGuard<'_, Trials> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, node: usize, up: bool, now: Moment) {
        let wakers = {
            let mut trials = self.trials();
            trials.nodes[node] = Some(up || trials.nodes[node] == Some(true));
            if sets::have_majorities(&self.sets, |node| trials.nodes[node] == Some(true)) {
                trials.majority_since.get_or_insert(now);
            }
            std::mem::take(&mut trials.wakers)
        };
        foreign::wake(wakers);
    }

    /// When the rest need not be waited for any longer. `None`: there is nothing to wait for.
    pub(crate) fn enough_at(&self) -> Option<Moment> {
        let trials = self.trials();
        trials.majority_since.filter(|_| !trials.enough).map(|since| since.plus(LAGGARDS_WITHIN))
    }

    pub(crate) fn tick(&self, now: Moment) {
        if self.enough_at().is_some_and(|at| at <= now) {
            let wakers = {
                let mut trials = self.trials();
                trials.enough = true;
                std::mem::take(&mut trials.wakers)
            };
            foreign::wake(wakers);
        }
    }

    /// `Some` once every node was tried, or a majority of each set is up and the others had a moment more: how many are up.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<usize> {
        let waker = waker.clone();
        let mut trials = self.trials();
        if trials.enough || trials.nodes.iter().all(Option::is_some) {
            return Some(trials.up());
        }
        trials.wakers.push(waker);
        None
    }

    /// `Some` once every node was tried.
    pub(crate) fn poll_all(&self, waker: &Waker) -> Option<()> {
        let waker = waker.clone();
        let mut trials = self.trials();
        if trials.nodes.iter().all(Option::is_some) {
            return Some(());
        }
        trials.wakers.push(waker);
        None
    }
}

impl Trials {
    fn up(&self) -> usize {
        self.nodes.iter().filter(|node| **node == Some(true)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_sets_each_needs_a_majority() {
        let settled = Settled::new(5, &[vec![0, 1, 2], vec![2, 3, 4]]);
        let now = Moment::from_nanos(0);
        (0..3).for_each(|node| settled.set(node, true, now));
        assert_eq!(settled.enough_at(), None, "one of the second");
        settled.set(3, true, now);
        assert_eq!(settled.enough_at(), Some(now.plus(LAGGARDS_WITHIN)));
    }
}
