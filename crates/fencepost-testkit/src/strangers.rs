//! A program whose own code misbehaves: a subscriber, a logger or an observer that blocks or panics. To be put to the test
//! in a process of its own, because each of these is there once per process.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fencepost_core::{Blocking, Connect, Event, EventKind, Feed, LossReason, ReleaseOutcome};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::contract::{short_ttl, wait_for};
use crate::process::say;

/// How the program's own code misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stranger {
    /// Its subscriber of `tracing` blocks for three times the ttl, at each event and each question.
    SubscriberBlocks,
    /// Its subscriber panics at each event and each question.
    SubscriberPanics,
    /// Its `log` logger blocks for three times the ttl, at each line.
    LoggerBlocks,
    /// Its `log` logger panics at each line.
    LoggerPanics,
    /// Its observer never returns.
    ObserverHangs,
    /// Its observer panics at each event.
    ObserverPanics,
}

impl Stranger {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::SubscriberBlocks,
        Self::SubscriberPanics,
        Self::LoggerBlocks,
        Self::LoggerPanics,
        Self::ObserverHangs,
        Self::ObserverPanics,
    ];

    /// As text, for another process.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The one of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stranger| stranger.name() == name)
    }

    /// Makes this process misbehave so; answers how to connect from here on.
    fn move_in(self, ttl: Duration, connect: Connect) -> Connect {
        let three_ttls = Misbehaviour::Blocks(ttl * 3);
        match self {
            Self::SubscriberBlocks => subscribe(three_ttls),
            Self::SubscriberPanics => subscribe(Misbehaviour::Panics),
            Self::LoggerBlocks => log_by(three_ttls),
            Self::LoggerPanics => log_by(Misbehaviour::Panics),
            Self::ObserverHangs => return connect.observer(|_: &Event| loop { thread::park() }),
            Self::ObserverPanics => return connect.observer(|_: &Event| panic!("an observer")),
        }
        connect
    }
}

/// Holds locks beside a stranger: none is lost, others go on, and a loss that happens is told at once with its reason.
///
/// # Panics
/// If it is otherwise.
pub fn live_with(stranger: Stranger, connect: impl Fn() -> Connect) {
    let ttl = short_ttl(&connect().block().expect("the store is there"));
    let locks = stranger.move_in(ttl, connect()).block().expect("the store is there");
    let mut feed = locks.events();
    let kept = locks.lock("kept").ttl(ttl).acquire().block().expect("free");
    let taken = locks.lock("taken").ttl(ttl).acquire().block().expect("free");
    // Three ttls and more.
    (0..10).for_each(|_| renewed(&mut feed, "kept"));
    assert!(kept.is_held() && taken.is_held(), "{stranger:?}");
    let forced = locks.force_release("taken", "a test").block().expect("an answer");
    assert!(forced.is_some(), "{stranger:?}");
    assert_eq!(taken.lost().block().reason, LossReason::Revoked, "{stranger:?}");
    let other = locks.lock("other").ttl(ttl).acquire().block().expect("free");
    assert_eq!(other.release().block().expect("an answer"), ReleaseOutcome::Freed, "{stranger:?}");
    (0..10).for_each(|_| renewed(&mut feed, "kept"));
    assert_eq!(kept.release().block().expect("an answer"), ReleaseOutcome::Freed, "{stranger:?}");
    say("all went well beside it");
}

fn renewed(feed: &mut Feed<Event>, name: &str) {
    let ended = wait_for(feed, name, |kind| matches!(kind, EventKind::Renewed { .. } | EventKind::Lost(_)));
    assert!(matches!(ended, EventKind::Renewed { .. }), "{ended:?}");
}

#[derive(Clone, Copy)]
enum Misbehaviour {
    Blocks(Duration),
    Panics,
}

impl Misbehaviour {
    fn show(self) {
        match self {
            Self::Blocks(span) => thread::sleep(span),
            Self::Panics => panic!("code that is not Fencepost's"),
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

static LOGGER: Logger = Logger(Mutex::new(None));

struct Logger(Mutex<Option<Misbehaviour>>);

fn log_by(misbehaviour: Misbehaviour) {
    *LOGGER.0.lock().expect("not poisoned") = Some(misbehaviour);
    log::set_logger(&LOGGER).expect("the only one of this process");
    log::set_max_level(log::LevelFilter::Trace);
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
