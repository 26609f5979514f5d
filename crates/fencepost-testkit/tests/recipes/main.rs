//! Recipes in memory: to the millisecond in virtual time, and with many threads at once.

mod begun;
mod everywhere;
mod once_per_key;
mod single_flight;
mod stock;
mod windows;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use fencepost_core::fence::FenceError;
use fencepost_core::store::{self, Memory};
use fencepost_core::{Blocking, FencingToken, Guard, Locks, RunError, VirtualClock};
use fencepost_testkit::faulty::Faults;
use fencepost_testkit::nodes::Nodes;
use fencepost_testkit::poll;

const TTL: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// One store in memory, or several nodes that vote, and their time.
struct World {
    clock: VirtualClock,
    nodes: Nodes,
}

impl World {
    fn of(nodes: usize) -> Self {
        let clock = VirtualClock::new();
        Self { nodes: Nodes::new(nodes, &clock.clock(), 1, Faults::default()), clock }
    }

    /// A connection as another process would have it.
    fn locks(&self) -> Locks {
        self.nodes.connect().clock(&self.clock).ttl(TTL).block().expect("memory is there")
    }

    /// Polls by hand, a millisecond apart.
    fn soon<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        for _ in 0..1000 {
            if let Some(done) = poll::once(future.as_mut()) {
                return done;
            }
            self.clock.turn(MS);
        }
        panic!("not within a second of its time");
    }
}

/// One store in memory, in real time, for threads.
fn memory() -> Locks {
    store::connect(|at| Ok(vec![Memory::new(at.clock)])).block().expect("memory is there")
}

/// Work that is not done before somebody opens this.
#[derive(Default)]
struct Gate(AtomicBool);

impl Gate {
    fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    async fn pass(&self) {
        poll_fn(|_| if self.0.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// Work that never ends by itself.
async fn endless<T>(_: &Guard) -> Result<T, &'static str> {
    std::future::pending().await
}

/// Work that must not be begun.
async fn never<T>(_: &Guard) -> Result<T, &'static str> {
    panic!("it ran")
}

fn is_stale<E>(outcome: &RunError<E>, of: FencingToken) -> bool {
    let RunError::Unrecorded(why) = outcome else { return false };
    matches!(&**why, FenceError::Stale(stale) if stale.token == of && stale.seen > of)
}
