//! What users hold of a connection: the last handle that is dropped waits until nothing is owed to a live node.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::quorum::Quorum;

/// How long the drop of the last handle waits, unless the user says otherwise.
pub(crate) const DRAIN_WITHIN: Duration = Duration::from_millis(100);

/// A connection as a user's value holds it: `Locks`, `Lock`, `Guard`, a future.
///
/// It is counted apart from the engine's own `Arc<Quorum>`s, which every claim has until its end: only when the last
/// value of the user is gone can nothing more be asked for.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Shared>);

struct Shared {
    quorum: Arc<Quorum>,
    drain_within: Duration,
}

impl Handle {
    pub(crate) fn new(quorum: Quorum, drain_within: Duration) -> Self {
        Self(Arc::new(Shared { quorum: Arc::new(quorum), drain_within }))
    }

    /// How long its last drop waits.
    pub(crate) fn drain_within(&self) -> Duration {
        self.0.drain_within
    }
}

impl Deref for Handle {
    type Target = Arc<Quorum>;

    fn deref(&self) -> &Arc<Quorum> {
        &self.0.quorum
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A waker may own the last handle. Whoever calls it would wait for an answer that it brings itself.
        if !ENGINE.get() {
            self.quorum.drain(self.drain_within);
        }
    }
}

thread_local! {
    /// This thread brings an answer or rings an alarm.
    static ENGINE: Cell<bool> = const { Cell::new(false) };
}

/// Does what a store or the clock has come for: in there nobody waits for a store or the clock.
pub(crate) fn as_engine(work: impl FnOnce()) {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ENGINE.set(self.0);
        }
    }
    let _before = Before(ENGINE.replace(true));
    work();
}
