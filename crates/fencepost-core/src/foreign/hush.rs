//! Dependencies trace in line, on our threads, and would wait there for the program's subscriber.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::dispatcher::{self, DefaultGuard, Dispatch};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

static NEEDED: AtomicBool = AtomicBool::new(false);
static NOBODY: OnceLock<Dispatch> = OnceLock::new();

/// Hears nothing. Unlike [`tracing::subscriber::NoSubscriber`] it does not raise the level of the whole program.
struct Nobody;

impl Subscriber for Nobody {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::never()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

thread_local! {
    static HUSHED: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
}

/// To be called by a store whose dependencies trace, on the thread of whoever connects: from here on [`hush`] has an
/// effect. Programs without such a store keep `tracing` as it is: once any thread has a subscriber of its own,
/// `tracing` passes nothing on to `log` any more, in the whole program.
pub fn prepare_to_hush() {
    NOBODY.get_or_init(|| Dispatch::new(Nobody));
    NEEDED.store(true, Ordering::SeqCst);
}

/// From here on what is traced on this thread, which must be ours, reaches nobody.
pub fn hush() {
    if !NEEDED.load(Ordering::Relaxed) {
        return;
    }
    // A thread that is about to end has no place for it any more.
    let _ = HUSHED.try_with(|hushed| {
        let mut hushed = hushed.borrow_mut();
        if hushed.is_none() {
            *hushed = NOBODY.get().map(dispatcher::set_default);
        }
    });
}
