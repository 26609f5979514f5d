//! The end of a connection: waiting until live nodes have answered what they are owed, and stores have ended what they keep.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::{Course, Quorum};
use crate::bell::Bell;
use crate::blocking::block_until;
use crate::foreign;
use crate::store::{Answer, Closing, Trouble};

/// How often nodes that owe an answer are looked at: whether they are still live.
const LOOK: Duration = Duration::from_millis(20);

/// Counts errands, and wakes those that wait for the end of the last one.
#[derive(Default)]
pub(crate) struct Tally(Arc<Mutex<Counted>>);

#[derive(Default)]
struct Counted {
    open: usize,
    wakers: Vec<Waker>,
}

/// One errand of a [`Tally`]: it ends when it is dropped.
pub(crate) struct Errand(Arc<Mutex<Counted>>);

impl Tally {
    pub(crate) fn errand(&self) -> Errand {
        counted(&self.0).open += 1;
        Errand(self.0.clone())
    }

    fn poll_done(&self, context: &Context<'_>) -> Poll<()> {
        let waker = context.waker().clone();
        let mut counted = counted(&self.0);
        if counted.open == 0 {
            return Poll::Ready(());
        }
        counted.wakers.push(waker);
        Poll::Pending
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        let wakers = {
            let mut counted = counted(&self.0);
            counted.open -= 1;
            if counted.open == 0 { std::mem::take(&mut counted.wakers) } else { Vec::new() }
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
        let mut look: Option<Bell> = None;
        poll_fn(|context| {
            if !self.owes(context.waker()) {
                return Poll::Ready(());
            }
            // A node falls silent without a word.
            while look.as_ref().is_none_or(|look| look.has_rung(context)) {
                look = Some(Bell::at(&self.clock, self.clock.now().plus(LOOK)));
            }
            Poll::Pending
        })
        .await;
        poll_fn(|context| self.errands.poll_done(context)).await;
        let (closing, not_waited_for) = (Tally::default(), Tally::default());
        for (number, node) in self.nodes.iter().enumerate() {
            let tally = if self.is_live(number) == Some(false) { &not_waited_for } else { &closing };
            node.close(Closing::new(tally.errand()));
        }
        poll_fn(|context| closing.poll_done(context)).await;
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
