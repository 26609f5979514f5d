//! What waits to be told to code that is not ours, and the one thread of the process that tells it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use super::lines::log_event;
use super::{contain, has_subscriber, to_log, wake};
use tracing::Level;

use crate::event::{self, Event, Observer};

/// How many events and log lines of a process wait at most for those whom they are meant for.
pub const QUEUE_MAX: usize = 4096;
/// How long the thread rests between two looks while something goes on: whoever puts something in does not wake it then.
const LULL: Duration = Duration::from_millis(2);

/// The observers of one connection.
pub(crate) struct Audience {
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    /// How many events they missed since they were last told.
    missed: AtomicU64,
}

impl Audience {
    pub(crate) fn new(observers: Vec<Arc<dyn Observer>>) -> Arc<Self> {
        Arc::new(Self { observers, missed: AtomicU64::new(0) })
    }

    fn hear(&self, event: &Event) {
        for observer in &self.observers {
            if contain(|| observer.event(event)).is_none() {
                contain(|| {
                    if has_subscriber() {
                        tracing::error!(lock.name = event.name, "an observer panicked");
                    } else {
                        to_log(Level::ERROR, module_path!(), format_args!("{}: an observer panicked", event.name));
                    }
                });
            }
        }
    }

    fn hear_what_is_missing(&self) {
        let events = self.missed.swap(0, Ordering::Relaxed);
        self.hear(&event::missed(events));
    }
}

/// Waits until everything before it was told.
#[derive(Default)]
struct Mark {
    told: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Mark {
    /// Whether everything was told; if not, the task is woken then.
    fn is_told(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let old = self.waker.lock().unwrap_or_else(PoisonError::into_inner).replace(waker);
        drop(old);
        self.told.load(Ordering::SeqCst)
    }

    fn tell(&self) {
        self.told.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        wake(waker);
    }
}

/// Something to be told.
enum Notice {
    Event {
        to: Arc<Audience>,
        event: Event,
        /// It is also a log line.
        traced: bool,
    },
    Line(Box<dyn FnOnce() + Send>),
    Mark(Arc<Mark>),
    /// A connection is gone: its observers are dropped where they were called.
    Gone(Arc<Audience>),
}

/// A bounded queue of notices. Nobody who puts something in waits for those who hear it.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// Something waits. Changed with the mutex held, and read without.
    has_notices: AtomicBool,
    /// The thread sleeps until somebody rouses it.
    asleep: AtomicBool,
    has_thread: AtomicBool,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    notices: VecDeque<Notice>,
    /// Who missed events since the thread last looked.
    overlooked: Vec<Arc<Audience>>,
    lines_missed: u64,
    /// Somebody is telling, without a thread for it.
    telling: bool,
}

/// Logs a line, or calls something else that is not ours, on the thread for that. If too much waits there, it is only counted.
pub fn later(line: impl FnOnce() + Send + 'static) {
    Queue::of_process().put(Notice::Line(Box::new(line)));
    Queue::of_process().rouse();
}

/// Resolves when observers and the log have everything that has happened so far. That waits for code which is not ours:
/// give it a limit.
pub async fn told() {
    let Some(mark) = Queue::of_process().put_mark() else { return };
    poll_fn(|context| if mark.is_told(context.waker()) { Poll::Ready(()) } else { Poll::Pending }).await;
}

impl Queue {
    /// The one that a thread empties.
    pub(crate) fn of_process() -> &'static Self {
        static QUEUE: OnceLock<Queue> = OnceLock::new();
        QUEUE.get_or_init(Self::default)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put_event(&self, to: &Arc<Audience>, event: Event, traced: bool) {
        self.put(Notice::Event { to: to.clone(), event, traced });
    }

    /// A mark behind everything that waits now. `None`: nothing does, or too much.
    fn put_mark(&'static self) -> Option<Arc<Mark>> {
        let is_idle = |queue: &Self| queue.asleep.load(Ordering::SeqCst) || !queue.has_thread.load(Ordering::SeqCst);
        if self.waiting().notices.is_empty() && is_idle(self) {
            return None;
        }
        let mark = Arc::new(Mark::default());
        let fits = self.put(Notice::Mark(mark.clone()));
        self.rouse();
        // Somebody waits for it: that ends the thread's rest.
        self.changed.notify_one();
        fits.then_some(mark)
    }

    /// Drops the observers of a connection behind everything they are still to hear.
    pub(crate) fn put_end(&self, audience: Arc<Audience>) {
        // Beyond the bound: there is one of these per connection.
        let mut waiting = self.waiting();
        waiting.notices.push_back(Notice::Gone(audience));
        self.has_notices.store(true, Ordering::SeqCst);
    }

    fn put(&self, notice: Notice) -> bool {
        let mut waiting = self.waiting();
        if waiting.notices.len() < QUEUE_MAX {
            waiting.notices.push_back(notice);
            self.has_notices.store(true, Ordering::SeqCst);
            return true;
        }
        match &notice {
            Notice::Event { to, traced, .. } => {
                waiting.lines_missed += u64::from(*traced);
                if !to.observers.is_empty() && to.missed.fetch_add(1, Ordering::Relaxed) == 0 {
                    waiting.overlooked.push(to.clone());
                }
            }
            Notice::Line(_) => waiting.lines_missed += 1,
            Notice::Mark(_) | Notice::Gone(_) => {}
        }
        drop(waiting);
        false
    }

    /// Sees to it that what was put in is told by the thread, soon. Nothing but a look where nobody listens.
    pub(crate) fn rouse(&'static self) {
        if !self.has_notices.load(Ordering::SeqCst) {
            return;
        }
        if !self.has_thread.load(Ordering::SeqCst) {
            self.start();
        } else if self.asleep.load(Ordering::SeqCst) {
            // With the mutex, so that the thread is not on its way to sleep: it would miss this.
            let _waiting = self.waiting();
            // Once, however much is put in until it is awake.
            if self.asleep.swap(false, Ordering::SeqCst) {
                self.changed.notify_one();
            }
        }
    }

    fn start(&'static self) {
        let waiting = self.waiting();
        if !self.has_thread.load(Ordering::SeqCst) && !waiting.notices.is_empty() {
            // Without a thread what was put in waits, and the next to put something in tries again.
            let started = thread::Builder::new().name("fencepost-events".into()).spawn(|| self.run());
            self.has_thread.store(started.is_ok(), Ordering::SeqCst);
        }
    }

    fn run(&self) {
        let mut batch = self.take(&mut self.waiting());
        loop {
            batch.tell();
            batch = self.next_batch();
        }
    }

    fn next_batch(&self) -> Batch {
        let mut waiting = self.waiting();
        if waiting.notices.len() < QUEUE_MAX / 4 {
            waiting = self.changed.wait_timeout(waiting, LULL).unwrap_or_else(PoisonError::into_inner).0;
        }
        while waiting.notices.is_empty() {
            // Under the mutex: what is put in from here on rouses the thread.
            self.asleep.store(true, Ordering::SeqCst);
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            self.asleep.store(false, Ordering::SeqCst);
        }
        self.take(&mut waiting)
    }

    /// Tells what was put in on this thread: for a connection whose time is virtual, where the clock has no thread either.
    pub(crate) fn tell_here(&self) {
        if !self.has_notices.load(Ordering::SeqCst) {
            return;
        }
        let mut waiting = self.waiting();
        if std::mem::replace(&mut waiting.telling, true) {
            // Somebody further up is at it, and goes on with what was put in.
            return;
        }
        while !waiting.notices.is_empty() {
            let batch = self.take(&mut waiting);
            drop(waiting);
            batch.tell();
            waiting = self.waiting();
        }
        waiting.telling = false;
    }

    fn take(&self, waiting: &mut Waiting) -> Batch {
        self.has_notices.store(false, Ordering::SeqCst);
        Batch {
            notices: std::mem::take(&mut waiting.notices),
            overlooked: std::mem::take(&mut waiting.overlooked),
            lines_missed: std::mem::take(&mut waiting.lines_missed),
        }
    }
}

/// Everything that waited at one moment.
struct Batch {
    notices: VecDeque<Notice>,
    overlooked: Vec<Arc<Audience>>,
    lines_missed: u64,
}

impl Batch {
    /// In the order in which it was put in; what found the queue full came after all of that.
    fn tell(self) {
        for notice in self.notices {
            contain(|| notice.tell());
        }
        for audience in self.overlooked {
            contain(|| audience.hear_what_is_missing());
        }
        if self.lines_missed > 0 {
            contain(|| say_that_lines_are_missing(self.lines_missed));
        }
    }
}

impl Notice {
    fn tell(self) {
        match self {
            Self::Event { to, event, traced } => {
                if traced {
                    contain(|| log_event(&event));
                }
                to.hear(&event);
            }
            Self::Line(line) => line(),
            Self::Mark(mark) => mark.tell(),
            Self::Gone(audience) => drop(audience),
        }
    }
}

fn say_that_lines_are_missing(lines: u64) {
    if has_subscriber() {
        tracing::warn!(lines, "log lines are missing: they were not taken in time");
    } else {
        let text = format_args!("{lines} log lines are missing: they were not taken in time");
        to_log(Level::WARN, module_path!(), text);
    }
}
