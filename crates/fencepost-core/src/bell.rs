//! A moment that a future waits for.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::{Alarm, AlarmId, Clock, Moment};
use crate::foreign;

/// Rings once, at its moment; silent when dropped.
pub(crate) struct Bell {
    ringer: Arc<Ringer>,
    clock: Clock,
    alarm: AlarmId,
}

#[derive(Default)]
struct Ringer {
    rung: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Bell {
    pub(crate) fn at(clock: &Clock, moment: Moment) -> Self {
        let ringer = Arc::new(Ringer::default());
        let target: Arc<dyn Alarm> = ringer.clone();
        let alarm = clock.alarm(moment, Arc::downgrade(&target));
        Self { ringer, clock: clock.clone(), alarm }
    }

    /// Waits for so long.
    pub(crate) async fn rest(clock: &Clock, pause: Duration) {
        let bell = Self::at(clock, clock.now().plus(pause));
        poll_fn(|context| if bell.has_rung(context) { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Whether it has rung; if not, it will wake this task.
    pub(crate) fn has_rung(&self, context: &Context<'_>) -> bool {
        // First the waker, then the question: a ring between the two must wake it.
        let waker = context.waker().clone();
        let old = self.ringer.waker.lock().unwrap_or_else(PoisonError::into_inner).replace(waker);
        drop(old);
        self.ringer.rung.load(Ordering::SeqCst)
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.clock.cancel(self.alarm);
    }
}

impl Alarm for Ringer {
    fn ring(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        foreign::wake(waker);
    }
}
