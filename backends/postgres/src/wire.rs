//! The driver's connection, which whoever sends something may move on.
//!
//! The driver writes and reads in a task of its own. A statement that waits for that task to be woken, on the thread of the
//! store, loses a good part of a round trip. So whoever has put statements in moves the connection on by itself, and
//! they have left when it goes on; the answers are the task's business again.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// What the driver calls its connection: a future that ends with it.
type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
pub(crate) struct Wire(Mutex<State>);

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    /// The task's; whoever else moves the connection on leaves it behind, so that answers wake the task.
    waker: Option<Waker>,
}

impl Wire {
    pub(crate) fn new(connection: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { connection: Some(Box::pin(connection)), waker: None })))
    }

    /// The task: moves the connection on until it ends.
    pub(crate) async fn carry(self: Arc<Self>) {
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.waker = Some(cx.waker().clone());
            state.move_on(cx)
        })
        .await;
    }

    /// Sends what was put in. If the task is about it, or has not begun yet, that is left to it.
    pub(crate) fn flush(&self) {
        let Ok(mut state) = self.0.try_lock() else { return };
        let Some(waker) = state.waker.clone() else { return };
        if state.move_on(&mut Context::from_waker(&waker)).is_ready() {
            waker.wake();
        }
    }

    /// Ends the connection at once, also in the middle of something.
    pub(crate) fn cut(&self) {
        let connection = self.0.lock().unwrap_or_else(PoisonError::into_inner).connection.take();
        drop(connection);
    }
}

impl State {
    fn move_on(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(()) };
        let moved = connection.as_mut().poll(cx);
        if moved.is_ready() {
            self.connection = None;
        }
        moved
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wire")
    }
}
