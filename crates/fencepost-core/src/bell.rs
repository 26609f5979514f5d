//! An alarm for a future.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::clock::{Alarm, AlarmId, Clock, Moment};

/// Rings once. Dropped, it does not ring any more.
pub(crate) struct Bell {
    clock: Clock,
    alarm: AlarmId,
    rope: Arc<Rope>,
}

#[derive(Default)]
struct Rope {
    rung: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Bell {
    pub(crate) fn at(clock: &Clock, moment: Moment) -> Self {
        let rope = Arc::new(Rope::default());
        let target: Arc<dyn Alarm> = rope.clone();
        let alarm = clock.alarm(moment, Arc::downgrade(&target));
        Self { clock: clock.clone(), alarm, rope }
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        *self.rope.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        if self.rope.rung.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.clock.cancel(self.alarm);
    }
}

impl Alarm for Rope {
    fn ring(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        waker.into_iter().for_each(Waker::wake);
    }
}
