//! The end of a connection: waiting until live nodes have answered what they are owed, and stores have ended what they keep.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::{Course, Quorum};
use crate::blocking::block_until;
use crate::store::Closing;

/// Counts what is under way, and wakes whoever waits for the last of it.
#[derive(Default)]
pub(crate) struct Tally(Arc<Mutex<Counted>>);

#[derive(Default)]
struct Counted {
    open: usize,
    wakers: Vec<Waker>,
}

/// One of those that are counted, until it is dropped.
pub(crate) struct Errand(Arc<Mutex<Counted>>);

impl Tally {
    pub(crate) fn errand(&self) -> Errand {
        counted(&self.0).open += 1;
        Errand(self.0.clone())
    }

    fn poll_done(&self, context: &Context<'_>) -> Poll<()> {
        let mut counted = counted(&self.0);
        if counted.open == 0 {
            return Poll::Ready(());
        }
        counted.wakers.push(context.waker().clone());
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
        wakers.into_iter().for_each(Waker::wake);
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

    /// No live node owes an answer to a release, and no store keeps anything for claims to come.
    pub(crate) async fn drained(&self) {
        poll_fn(|context| if self.owes(context.waker()) { Poll::Pending } else { Poll::Ready(()) }).await;
        poll_fn(|context| self.errands.poll_done(context)).await;
        let closing = Tally::default();
        self.nodes.iter().for_each(|node| node.close(Closing::new(closing.errand())));
        poll_fn(|context| closing.poll_done(context)).await;
    }

    /// Whether a live node has still to answer a release. The waker is called when that may have changed.
    fn owes(&self, waker: &Waker) -> bool {
        let courses: Vec<Arc<Course>> = {
            let mut registry = self.registry();
            registry.wakers.push(waker.clone());
            registry.courses.values().cloned().collect()
        };
        courses.iter().any(|course| course.owes())
    }
}
