//! Code of the program that misbehaves beside its locks: a subscriber, a logger or an observer that blocks or panics. Each
//! is there once per process, so each promise is put to the test with a program of its own: see [`super::edges`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fencepost_core::{Blocking, Connect, Event, EventKind, Feed, LossReason, ReleaseOutcome};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use super::edges::{Reachable, Scenario};
use super::{short_ttl, wait_for};
use crate::process::Other;

pub(super) const SCENARIOS: &[Scenario] = &[
    ("has a subscriber that blocks", |connect| {
        subscribe(Misbehaviour::Blocks);
        keeps_its_locks(connect);
    }),
    ("has a subscriber that panics", |connect| {
        subscribe(Misbehaviour::Panics);
        keeps_its_locks(connect);
    }),
    ("has a subscriber that writes to an unread log", |connect| {
        subscribe(Misbehaviour::Writes);
        keeps_its_locks(connect);
    }),
    ("has a logger that blocks", |connect| {
        log_by(Misbehaviour::Blocks);
        keeps_its_locks(connect);
    }),
    ("has a logger that panics", |connect| {
        log_by(Misbehaviour::Panics);
        keeps_its_locks(connect);
    }),
    ("has an observer that never returns", |connect| {
        keeps_its_locks(connect.observer(|_: &Event| {
            loop {
                thread::park();
            }
        }));
    }),
    ("has an observer that panics", |connect| keeps_its_locks(connect.observer(|_: &Event| panic!("an observer")))),
];

/// Panics by the hundred are not worth a line each.
fn quietly() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if thread::current().name().is_none_or(|name| !name.starts_with("fencepost-")) {
            hook(panic);
        }
    }));
}

/// No lock is lost, others go on, and a loss that happens meanwhile is told with its reason.
fn keeps_its_locks(connect: Connect) {
    quietly();
    let locks = connect.block().expect("the store can be reached");
    let ttl = short_ttl(&locks);
    BLOCKS_FOR_MS.store(u64::try_from(ttl.as_millis() * 3).expect("not for ages"), Ordering::SeqCst);
    let mut feed = locks.events();
    let kept = locks.lock("kept").ttl(ttl).acquire().block().expect("free");
    let taken = locks.lock("taken").ttl(ttl).acquire().block().expect("free");
    // Longer than a ttl.
    (0..4).for_each(|_| renewed(&mut feed, "kept"));
    assert!(kept.is_held() && taken.is_held());
    assert!(locks.force_release("taken", "a test").block().expect("an answer").holder.is_some());
    assert_eq!(taken.lost().block().reason, LossReason::Revoked);
    let other = locks.lock("other").ttl(ttl).acquire().block().expect("free");
    assert_eq!(other.release().block().expect("an answer"), ReleaseOutcome::Freed);
    (0..2).for_each(|_| renewed(&mut feed, "kept"));
    assert_eq!(kept.release().block().expect("an answer"), ReleaseOutcome::Freed);
}

fn goes_well(subject: &impl Reachable, module: &str, scenario: &str) {
    assert_eq!(Other::start_in(module, scenario, &subject.address()).ends(), Some(0), "a program that {scenario}");
}

/// It blocks for three times the ttl whenever it is asked or told something.
pub fn a_subscriber_or_logger_that_blocks_loses_no_lock(subject: &impl Reachable, module: &str) {
    goes_well(subject, module, "has a subscriber that blocks");
    goes_well(subject, module, "has a logger that blocks");
}

/// It panics whenever it is asked or told something.
pub fn a_subscriber_or_logger_that_panics_loses_no_lock(subject: &impl Reachable, module: &str) {
    goes_well(subject, module, "has a subscriber that panics");
    goes_well(subject, module, "has a logger that panics");
}

/// Or that panics at each event.
pub fn an_observer_that_never_returns_loses_no_lock(subject: &impl Reachable, module: &str) {
    goes_well(subject, module, "has an observer that never returns");
    goes_well(subject, module, "has an observer that panics");
}

/// Standard error is a pipe that takes no more, and log lines are written there.
pub fn a_log_that_nobody_reads_loses_no_lock(subject: &impl Reachable, module: &str) {
    let scenario = "has a subscriber that writes to an unread log";
    let (other, _unread) = Other::start_unread_in(module, scenario, &subject.address());
    assert_eq!(other.ends(), Some(0), "a program that {scenario}");
}

fn renewed(feed: &mut Feed<Event>, name: &str) {
    let ended = wait_for(feed, name, |kind| matches!(kind, EventKind::Renewed { .. } | EventKind::Lost(_)));
    assert!(matches!(ended, EventKind::Renewed { .. }), "{ended:?}");
}

/// How long a call blocks, in milliseconds: three times the ttl once that is known.
static BLOCKS_FOR_MS: AtomicU64 = AtomicU64::new(1000);

#[derive(Clone, Copy)]
enum Misbehaviour {
    Blocks,
    Panics,
    /// To standard error.
    Writes,
}

impl Misbehaviour {
    fn show(self) {
        match self {
            Self::Blocks => thread::sleep(Duration::from_millis(BLOCKS_FOR_MS.load(Ordering::SeqCst))),
            Self::Panics => panic!("code that is not Fencepost's"),
            Self::Writes => eprintln!("something was logged"),
        }
    }
}

/// Misbehaves whenever it is asked or told something.
struct Misbehaving(Misbehaviour);

fn subscribe(misbehaviour: Misbehaviour) {
    tracing::subscriber::set_global_default(Misbehaving(misbehaviour)).expect("the only one of this process");
}

impl Subscriber for Misbehaving {
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        self.0.show();
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        self.0.show();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {
        self.0.show();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {
        self.0.show();
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.show();
    }

    fn enter(&self, _: &Id) {
        self.0.show();
    }

    fn exit(&self, _: &Id) {
        self.0.show();
    }
}

/// What the logger takes.
static FINEST: Mutex<log::LevelFilter> = Mutex::new(log::LevelFilter::Trace);

/// Loggers of this process take no finer lines than these.
pub(super) fn log_up_to(finest: log::LevelFilter) {
    *FINEST.lock().expect("not poisoned") = finest;
}

static LOGGER: Logger = Logger(Mutex::new(None));

struct Logger(Mutex<Option<Misbehaviour>>);

fn log_by(misbehaviour: Misbehaviour) {
    *LOGGER.0.lock().expect("not poisoned") = Some(misbehaviour);
    log::set_logger(&LOGGER).expect("the only one of this process");
    log::set_max_level(*FINEST.lock().expect("not poisoned"));
}

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, _: &log::Record<'_>) {
        let misbehaviour = *self.0.lock().expect("not poisoned");
        misbehaviour.into_iter().for_each(Misbehaviour::show);
    }

    fn flush(&self) {}
}
