//! The end of a connection: waiting until live nodes have answered what they are owed, and stores have ended what they keep.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::{Course, Quorum};
use crate::bell::Bell;
use crate::blocking::block_until;
use crate::foreign;
use crate::store::{Answer, Closing, Trouble};

/// How often nodes that owe an answer are looked at: whether they are still live.
const LOOK: Duration = Duration::from_millis(10);

/// Counts the errands at each node, and wakes those that wait for the end of some.
#[derive(Default)]
pub(crate) struct Tally(Arc<Mutex<Counted>>);

#[derive(Default)]
struct Counted {
    /// Of each node that has one: how many.
    open: HashMap<usize, usize>,
    wakers: Vec<Waker>,
}

/// One errand of a [`Tally`]: it ends when it is dropped.
pub(crate) struct Errand {
    tally: Arc<Mutex<Counted>>,
    node: usize,
}

impl Tally {
    pub(crate) fn errand(&self, node: usize) -> Errand {
        *counted(&self.0).open.entry(node).or_default() += 1;
        Errand { tally: self.0.clone(), node }
    }

    /// The nodes at which errands are open. The waker is called when that changes.
    fn open_at(&self, waker: &Waker) -> Vec<usize> {
        let waker = waker.clone();
        let mut counted = counted(&self.0);
        counted.wakers.push(waker);
        counted.open.keys().copied().collect()
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        let wakers = {
            let mut counted = counted(&self.tally);
            let left = counted.open.get_mut(&self.node).map_or(0, |open| {
                *open -= 1;
                *open
            });
            if left > 0 {
                return;
            }
            counted.open.remove(&self.node);
            std::mem::take(&mut counted.wakers)
        };
        foreign::wake(wakers);
    }
}

fn counted(counted: &Mutex<Counted>) -> MutexGuard<'_, Counted> {
    counted.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Quorum {
    /// Waits on this thread until [drained](Self::drained), for at most so long.
    pub(crate) fn drain(&self, within: Duration) {
        // Virtual time stands still while its thread waits here.
        if !within.is_zero() && self.clock.runs_by_itself() {
            block_until(self.drained(), Instant::now() + within);
        }
    }

    /// No live node owes an answer to a release, no store keeps anything for claims to come, and observers and the log
    /// have what happened.
    async fn drained(&self) {
        self.settled().await;
        self.herald.told().await;
    }

    /// No live node owes an answer to a release, and no store keeps anything for claims to come.
    pub(crate) async fn settled(&self) {
        self.until(|waker| !self.owes(waker)).await;
        self.until(|waker| self.is_done(&self.errands, waker)).await;
        let closing = Tally::default();
        for (number, node) in self.nodes.iter().enumerate() {
            node.close(Closing::new(closing.errand(number)));
        }
        self.until(|waker| self.is_done(&closing, waker)).await;
    }

    /// Waits until it is so. It is looked at every now and then, too: a node falls silent without a word.
    async fn until(&self, is_so: impl Fn(&Waker) -> bool) {
        let mut look: Option<Bell> = None;
        poll_fn(|context| {
            if is_so(context.waker()) {
                return Poll::Ready(());
            }
            while look.as_ref().is_none_or(|look| look.has_rung(context)) {
                look = Some(Bell::at(&self.clock, self.clock.now().plus(LOOK)));
            }
            Poll::Pending
        })
        .await;
    }

    /// Whether no live node has an errand any more.
    fn is_done(&self, errands: &Tally, waker: &Waker) -> bool {
        errands.open_at(waker).into_iter().all(|node| self.is_live(node) == Some(false))
    }

    /// Remembers whether the newest answer of a node was that it cannot be reached.
    pub(super) fn heard(&self, node: usize, answer: &Result<Answer, Trouble>) {
        let fails = answer.as_ref().is_err_and(|trouble| trouble.kind.passes());
        self.failing[node].store(fails, Ordering::Relaxed);
    }

    /// Whether a node can be expected to answer soon: as its store says, else by its newest answer. `None`: not known.
    pub(super) fn is_live(&self, node: usize) -> Option<bool> {
        let fails = || self.failing[node].load(Ordering::Relaxed).then_some(false);
        self.nodes[node].is_live().or_else(fails)
    }

    /// Whether a live node has still to answer a release. The waker is called when that may have changed.
    fn owes(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let courses: Vec<Arc<Course>> = {
            let mut registry = self.registry();
            registry.wakers.push(waker);
            registry.courses.values().cloned().collect()
        };
        courses.iter().any(|course| course.owes())
    }
}
