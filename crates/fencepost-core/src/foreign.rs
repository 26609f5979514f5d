//! Code that is not ours: wakers, observers, subscribers of `tracing`, loggers. For those who write stores.
//!
//! Renewal, loss and release never wait for such code and never end with it:
//! - [`wake`] calls wakers at once, on the thread that has the answer. Call it outside every mutex.
//! - Observers and log lines ([`notice!`](crate::notice)) wait in one bounded [queue](QUEUE_MAX), which a thread of
//!   its own empties. What finds the queue full is counted, and the count is told.
//! - A panic ends nothing but the call: [`contain`].
//! - [`hush`] keeps what dependencies trace on our threads from the program's subscriber.

mod hush;
mod lines;
mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use crate::handle::as_engine;
pub use hush::{hush, prepare_to_hush};
pub(crate) use lines::level;
pub use lines::{has_subscriber, is_wanted, to_log};
pub(crate) use queue::{Audience, Queue};
pub use queue::{QUEUE_MAX, later, told};
/// For [`notice!`](crate::notice).
#[doc(hidden)]
pub use tracing;

/// Calls code that is not ours. `None`: it panicked, and its panic ends here.
pub fn contain<T>(call: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // What was thrown is not ours either, and its `Drop` may panic.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
            None
        }
    }
}

/// Wakes tasks. To be called outside every mutex: a waker is the user's code.
///
/// A waker may own the last handle of a connection. Its drop does not wait here: the caller may be what the answer comes by.
pub fn wake(wakers: impl IntoIterator<Item = Waker>) {
    as_engine(|| {
        wakers.into_iter().for_each(|waker| {
            contain(|| waker.wake());
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ThrowsAgain;

    impl Drop for ThrowsAgain {
        fn drop(&mut self) {
            panic!("again");
        }
    }

    #[test]
    fn a_panic_ends_nothing_but_the_call_even_if_what_was_thrown_panics_too() {
        assert_eq!(contain(|| 1), Some(1));
        assert_eq!(contain(|| std::panic::panic_any(ThrowsAgain)), None::<()>);
    }
}
