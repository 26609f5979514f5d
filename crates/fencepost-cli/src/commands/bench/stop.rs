//! When to stop: somebody said so, or a turn is over. Nobody who waits for a lock has to be waited for.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use fencepost::Blocking;
use nix::sys::signal::Signal;

use crate::child::{Message, signals};
use crate::exit_code::ExitCode;
use crate::failure::Failure;

/// Whether we were asked to end.
#[derive(Debug, Default)]
pub(super) struct Interrupt {
    signal: Mutex<Option<Signal>>,
    said: Condvar,
}

impl Interrupt {
    /// Listens from now on. To be called before any other thread exists.
    pub(super) fn listen() -> Result<Arc<Self>, Failure> {
        let wrong = |error| Failure::ours("cannot listen for signals", error);
        let (sender, messages) = mpsc::channel();
        signals::listen(sender).map_err(wrong)?;
        let interrupt = Arc::new(Self::default());
        let told = interrupt.clone();
        let hear = move || {
            for message in messages {
                if let Message::Signal(signal) = message
                    && signal != Signal::SIGCHLD
                {
                    told.tell(signal);
                }
            }
        };
        std::thread::Builder::new().name("interrupt".into()).spawn(hear).map_err(wrong)?;
        Ok(interrupt)
    }

    fn tell(&self, signal: Signal) {
        let mut first = locked(&self.signal);
        if first.is_some() {
            // Whoever asks twice does not want to wait. What is held is left to its ttl.
            std::process::exit(ExitCode::by_signal(signal as i32).0.into());
        }
        *first = Some(signal);
        self.said.notify_all();
    }

    /// The signal that asked for it.
    pub(super) fn signal(&self) -> Option<Signal> {
        *locked(&self.signal)
    }

    /// Waits until then, or until we were asked to end.
    pub(super) fn wait_until(&self, end: Instant) {
        let rest = end.saturating_duration_since(Instant::now());
        let nobody = |signal: &mut Option<Signal>| signal.is_none();
        let _ =
            self.said.wait_timeout_while(locked(&self.signal), rest, nobody).unwrap_or_else(PoisonError::into_inner);
    }
}

/// The end of one turn, for each of its clients.
#[derive(Debug)]
pub(super) struct Stop {
    over: AtomicBool,
    /// One for each client: they must not wait for each other here.
    sleepers: Vec<Mutex<Waker>>,
    bell: Mutex<()>,
    rung: Condvar,
}

impl Stop {
    /// For so many clients.
    pub(super) fn new(clients: usize) -> Self {
        let sleepers = (0..clients).map(|_| Mutex::new(Waker::noop().clone())).collect();
        Self { over: AtomicBool::new(false), sleepers, bell: Mutex::default(), rung: Condvar::new() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub(super) fn end(&self) {
        let resting = locked(&self.bell);
        self.over.store(true, Ordering::SeqCst);
        self.rung.notify_all();
        drop(resting);
        self.sleepers.iter().for_each(|waker| locked(waker).wake_by_ref());
    }

    /// What this client waits for; `None` if the turn is over before.
    pub(super) fn or<F: IntoFuture>(&self, client: usize, future: F) -> Option<F::Output> {
        let mut future = pin!(future.into_future());
        let either = poll_fn(|context| {
            if let Poll::Ready(answer) = future.as_mut().poll(context) {
                return Poll::Ready(Some(answer));
            }
            locked(&self.sleepers[client]).clone_from(context.waker());
            // Asked after the waker is there: the end comes before or finds it.
            if self.is_over() { Poll::Ready(None) } else { Poll::Pending }
        });
        either.block()
    }

    /// A pause, unless the turn is over before.
    pub(super) fn rest(&self, pause: Duration) {
        let goes_on = |_: &mut ()| !self.is_over();
        let _ =
            self.rung.wait_timeout_while(locked(&self.bell), pause, goes_on).unwrap_or_else(PoisonError::into_inner);
    }
}

/// What is kept here is whole after every statement, so a panic elsewhere does not spoil it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_something_that_never_comes_hears_of_the_end() {
        let stop = Stop::new(2);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| stop.or(1, std::future::pending::<()>()));
            let sleeper = scope.spawn(|| stop.rest(Duration::from_secs(3600)));
            stop.end();
            assert_eq!(waiter.join().expect("no panic"), None);
            sleeper.join().expect("no panic");
        });
        assert_eq!(stop.or(0, std::future::ready(1)), Some(1), "what is there is given");
    }

    #[test]
    fn a_signal_ends_a_wait() {
        let interrupt = Interrupt::default();
        interrupt.tell(Signal::SIGINT);
        interrupt.wait_until(Instant::now() + Duration::from_secs(3600));
        assert_eq!(interrupt.signal(), Some(Signal::SIGINT));
    }
}
