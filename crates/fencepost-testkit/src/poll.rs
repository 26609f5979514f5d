//! Futures polled by hand, for tests that drop them at a chosen await.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Polls a future once. `None`: it is not done.
pub fn once<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A waker that remembers whether it was called.
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// A new flag and its waker.
    pub fn new() -> (Arc<Self>, Waker) {
        let flag = Arc::new(Self::default());
        (flag.clone(), Waker::from(flag))
    }

    /// Whether the waker was called since it was last taken, without taking it.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether the waker was called since the last time this was asked.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
