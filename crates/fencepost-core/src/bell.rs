//! A moment that a future waits for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use crate::clock::{Alarm, AlarmId, Clock, Moment};

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

    /// Whether it has rung; if not, it will wake this task.
    pub(crate) fn has_rung(&self, context: &Context<'_>) -> bool {
        // First the waker, then the question: a ring between the two must wake it.
        *self.ringer.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
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
        waker.into_iter().for_each(Waker::wake);
    }
}
