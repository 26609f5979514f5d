//! Connections that go on at once with what they have woken themselves for.
//!
//! Whoever reads a body wakes its own connection with each piece. By way of the scheduler that would wake a second thread,
//! which takes the connection over: two switches of threads for a request that needs none.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Then the others have their turn.
const TURNS_MAX: usize = 16;

const RESTS: u8 = 0;
const WORKS: u8 = 1;
/// It works, and was woken meanwhile.
const WOKEN: u8 = 2;

/// Polls a future again at once if it was woken while it was polled.
pub(crate) fn at_once<F: Future>(future: F) -> AtOnce<F> {
    let bell = Arc::new(Bell { state: AtomicU8::new(RESTS), task: AtomicWaker::new() });
    AtOnce { future: Box::pin(future), waker: bell.clone().into(), bell }
}

pub(crate) struct AtOnce<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    waker: Waker,
}

struct Bell {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| if state == RESTS { None } else { Some(WOKEN) });
        if woken.is_err() {
            self.task.wake();
        }
    }
}

impl<F: Future> Future for AtOnce<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, bell, waker } = self.get_mut();
        bell.task.register(context.waker());
        for _ in 0..TURNS_MAX {
            bell.state.store(WORKS, Ordering::Release);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            if bell.state.compare_exchange(WORKS, RESTS, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Poll::Pending;
            }
        }
        bell.state.store(RESTS, Ordering::Release);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Rung(AtomicUsize);

    impl Wake for Rung {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A future that wakes itself so many times before it is done, and how often it was polled.
    fn eager(wakes: usize) -> (impl Future<Output = ()>, Arc<AtomicUsize>) {
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        let future = poll_fn(move |context| {
            if counted.fetch_add(1, Ordering::SeqCst) == wakes {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        (future, polls)
    }

    #[test]
    fn what_wakes_itself_goes_on_without_the_scheduler() {
        let rung = Arc::new(Rung::default());
        let (future, polls) = eager(3);
        let waker = rung.clone().into();
        assert!(Pin::new(&mut at_once(future)).poll(&mut Context::from_waker(&waker)).is_ready());
        assert_eq!((polls.load(Ordering::SeqCst), rung.0.load(Ordering::SeqCst)), (4, 0));
    }

    #[test]
    fn what_never_rests_lets_the_others_have_their_turn() {
        let rung = Arc::new(Rung::default());
        let (future, polls) = eager(usize::MAX);
        let waker = rung.clone().into();
        assert!(Pin::new(&mut at_once(future)).poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!((polls.load(Ordering::SeqCst), rung.0.load(Ordering::SeqCst)), (TURNS_MAX, 1));
    }

    #[test]
    fn who_rests_is_woken_by_its_task() {
        let rung = Arc::new(Rung::default());
        let (waker, mut kept) = (rung.clone().into(), None::<Waker>);
        let mut future = at_once(poll_fn(|context| {
            let again = kept.replace(context.waker().clone()).is_some();
            if again { Poll::Ready(()) } else { Poll::<()>::Pending }
        }));
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(rung.0.load(Ordering::SeqCst), 0);
        future.waker.wake_by_ref();
        assert_eq!(rung.0.load(Ordering::SeqCst), 1);
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_ready());
    }
}
