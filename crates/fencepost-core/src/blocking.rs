//! The postfix of synchronous programs.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

/// `.block()?` where async programs write `.await?`, for everything in this crate.
///
/// It needs no runtime: stores and the clock have threads of their own. Inside an async runtime it blocks that thread,
/// as any blocking call does; renewals and answers go on.
pub trait Blocking: IntoFuture + Sized {
    /// Waits for the answer on this thread.
    fn block(self) -> Self::Output;
}

impl<F: IntoFuture> Blocking for F {
    fn block(self) -> Self::Output {
        let answer = block(self.into_future(), || {
            thread::park();
            true
        });
        answer.expect("BUG: it was given up")
    }
}

/// Waits for the answer on this thread until then. `None`: there was none.
pub(crate) fn block_until<F: Future>(future: F, deadline: Instant) -> Option<F::Output> {
    block(future, || {
        let left = deadline.saturating_duration_since(Instant::now());
        thread::park_timeout(left);
        !left.is_zero()
    })
}

/// Polls whenever it is woken, for as long as `park` says so: it waits for the next wake-up.
fn block<F: Future>(future: F, park: impl Fn() -> bool) -> Option<F::Output> {
    let mut future = pin!(future);
    let unpark = Arc::new(Unpark { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(unpark.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut context) {
            return Some(answer);
        }
        while !unpark.woken.swap(false, Ordering::SeqCst) {
            if !park() {
                return None;
            }
        }
    }
}

/// Whoever blocks inside the future parks this thread too, and may use up an unpark that was meant for us.
struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[test]
    fn a_wake_up_is_not_lost_when_the_future_itself_parks_the_thread() {
        let mut polls = 0;
        let answer = poll_fn(|context| {
            polls += 1;
            if polls == 2 {
                return Poll::Ready(polls);
            }
            context.waker().wake_by_ref();
            // As a channel does that is waited for inside the future.
            thread::park();
            Poll::Pending
        });
        assert_eq!(answer.block(), 2);
    }
}
