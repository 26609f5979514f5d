//! The postfix of synchronous programs.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

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
        let mut future = pin!(self.into_future());
        let unpark = Arc::new(Unpark { thread: thread::current(), woken: AtomicBool::new(false) });
        let waker = Waker::from(unpark.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(answer) = future.as_mut().poll(&mut context) {
                return answer;
            }
            while !unpark.woken.swap(false, Ordering::SeqCst) {
                thread::park();
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
