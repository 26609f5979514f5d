//! Work that begins on one thread and goes on at another.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use fencepost_core::store::Clock;
use tokio::runtime::Handle;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Begins on the thread of whoever asks, so that a statement leaves at once, and goes on where answers arrive: on the
/// thread of the runtime, which is not woken before there is one. Nothing may block before that.
pub(crate) fn begin(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
    let mut work: Work = Box::pin(work);
    // Drivers log in line, and no logger may stop the clock. And a guard may be dropped with the last things of its
    // thread, which has no place for a runtime any more.
    if Clock::rings_here() || Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed()) {
        runtime.spawn(work);
        return;
    }
    let begun = Arc::new(Begun { stage: Mutex::new(Stage::Beginning), runtime: runtime.clone() });
    let waker = Waker::from(begun.clone());
    let pending = {
        let _inside = runtime.enter();
        work.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
    };
    if pending {
        begun.wait(work);
    }
}

/// Work that was looked at once.
struct Begun {
    stage: Mutex<Stage>,
    runtime: Handle,
}

enum Stage {
    /// Somebody looks at it for the first time.
    Beginning,
    /// What it waits for came meanwhile.
    Due,
    /// It waits. Whoever wakes it is kept by what it waits for, a deadline if nothing else.
    Waiting(Work),
    /// It goes on in the runtime.
    Moved,
}

impl Begun {
    fn wait(&self, work: Work) {
        let mut stage = self.stage();
        if matches!(*stage, Stage::Beginning) {
            *stage = Stage::Waiting(work);
        } else {
            *stage = Stage::Moved;
            drop(stage);
            self.runtime.spawn(work);
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Begun {
    fn wake(self: Arc<Self>) {
        let mut stage = self.stage();
        match std::mem::replace(&mut *stage, Stage::Moved) {
            Stage::Beginning | Stage::Due => *stage = Stage::Due,
            Stage::Waiting(work) => {
                drop(stage);
                self.runtime.spawn(work);
            }
            Stage::Moved => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use tokio::runtime::{Builder, Handle};
    use tokio::sync::oneshot;

    use super::begin;

    /// A runtime on a thread of its own, until the sender is dropped.
    fn elsewhere() -> (Handle, oneshot::Sender<()>) {
        let (stop, stopped) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let handle = runtime.handle().clone();
        thread::spawn(move || runtime.block_on(stopped));
        (handle, stop)
    }

    #[test]
    fn work_begins_here_and_ends_there() {
        let (runtime, _stop) = elsewhere();
        let (told, tell) = channel();
        let (go, gone) = oneshot::channel::<()>();
        begin(&runtime, async move {
            told.send(thread::current().id()).expect("heard");
            gone.await.expect("told");
            told.send(thread::current().id()).expect("heard");
        });
        let here = thread::current().id();
        assert_eq!(tell.try_recv(), Ok(here), "it has begun before anybody else could");
        go.send(()).expect("somebody waits");
        assert_ne!(tell.recv().expect("it ends"), here);
    }

    #[test]
    fn work_that_is_woken_while_it_begins_goes_on() {
        let (runtime, _stop) = elsewhere();
        let (told, tell) = channel();
        begin(&runtime, async move {
            tokio::task::yield_now().await;
            told.send(thread::current().id()).expect("heard");
        });
        assert_ne!(tell.recv().expect("it ends"), thread::current().id());
    }
}
