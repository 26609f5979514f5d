//! The postfix of synchronous programs.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
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
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => thread::park(),
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
