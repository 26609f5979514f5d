//! What happened to locks, as the library itself told it: the input of the [checker](crate::checker).
//!
//! A [`Recorder`] is an observer of one connection. All recorders of one history write into it in the order in which
//! things happened, on one clock that none of the connections can move. What the library cannot know is added by whoever
//! runs the test: writes at a resource, renewals on the wire, grants in the nodes' own logs, what was left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_core::store::Moment;
use fencepost_core::{Event, EventKind, FencingToken, Observer};

/// A lock, by its place in [`History::names`].
pub type LockId = u32;

/// What happened to one acquisition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// When, on the clock of the test.
    pub at: Moment,
    /// Which connection told it.
    pub process: u32,
    /// Which of its acquisitions.
    pub claim: u64,
    /// Which lock.
    pub lock: LockId,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// An acquisition began.
    Asked,
    /// It is in line.
    Waiting,
    /// It holds, and believes in it until then unless it renews.
    Acquired {
        /// The token of the hold.
        token: FencingToken,
        /// The end of its validity.
        until: Moment,
    },
    /// It ended without the lock.
    Refused,
    /// The hold goes on until then.
    Renewed {
        /// The end of its validity.
        until: Moment,
    },
    /// A renewal was not answered in time; answers to earlier ones may have moved the end.
    Unrenewed {
        /// The end of its validity.
        until: Moment,
    },
    /// The hold ended unasked.
    Lost,
    /// A release left.
    Releasing,
    /// A release was answered.
    Released,
    /// Its process died: it believes in nothing any more. Told by whoever killed it.
    Died,
}

/// A write at a resource that a lock protects, in the order in which the resource saw them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// When the resource saw it, on the clock of the test.
    pub at: Moment,
    /// The lock that protects it.
    pub lock: LockId,
    /// The token that was shown.
    pub token: FencingToken,
    /// Whether it was done.
    pub accepted: bool,
    /// The version that the writer had read.
    pub read: u64,
    /// The version that it met.
    pub met: u64,
}

/// A call of a user that promised to be back in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Who called.
    pub process: u32,
    /// What was called.
    pub what: &'static str,
    /// When it was back.
    pub at: Moment,
    /// How long it took, without the time in which its process stood still.
    pub took: Duration,
    /// How long it may take.
    pub limit: Duration,
}

/// Everything that one run left to be judged.
#[derive(Clone, Default)]
pub struct History {
    names: Vec<String>,
    ids: BTreeMap<String, LockId>,
    /// In the order of their moments.
    pub notes: Vec<Note>,
    /// In the order of each resource.
    pub writes: Vec<Write>,
    /// Renewals that a process sent: when, for which lock, under which token.
    pub renewals: Vec<(Moment, LockId, FencingToken)>,
    /// Grants to readers, from the nodes' own logs: the library's events do not tell readers from writers.
    pub readers: BTreeSet<(LockId, FencingToken)>,
    /// Calls that promised to be back in time.
    pub calls: Vec<Call>,
    /// What is still there after everything was given back.
    pub left: Vec<(LockId, String)>,
}

impl History {
    /// Nothing happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The place of a lock.
    pub fn lock(&mut self, name: &str) -> LockId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = LockId::try_from(self.names.len()).expect("BUG: that many locks");
        self.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// The names of all locks, by their place.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Writes something down.
    pub fn note(&mut self, at: Moment, process: u32, claim: u64, lock: LockId, what: What) {
        self.notes.push(Note { at, process, claim, lock, what });
    }

    /// A process died: all that it held or asked for ends here.
    pub fn died(&mut self, at: Moment, process: u32) {
        let mut open: BTreeMap<u64, LockId> = BTreeMap::new();
        for note in self.notes.iter().filter(|note| note.process == process) {
            match note.what {
                What::Refused | What::Lost | What::Releasing => open.remove(&note.claim),
                _ => open.insert(note.claim, note.lock),
            };
        }
        for (claim, lock) in open {
            self.note(at, process, claim, lock, What::Died);
        }
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "History({} notes, {} writes)", self.notes.len(), self.writes.len())
    }
}

/// A history that several recorders write into.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<History>>);

impl Ledger {
    /// The history; nobody writes meanwhile.
    pub fn open(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a recorder gets the time of the test from, which the clock of its connection need not follow.
pub trait Timepiece: Send + Sync + 'static {
    /// Now, and what the connection calls "so long from now".
    fn read(&self, ahead: Duration) -> (Moment, Moment);
}

/// Writes down what one connection tells.
#[derive(Clone)]
pub struct Recorder {
    ledger: Ledger,
    process: u32,
    time: Arc<dyn Timepiece>,
}

impl Recorder {
    /// For one connection.
    pub fn new(ledger: &Ledger, process: u32, time: Arc<dyn Timepiece>) -> Self {
        Self { ledger: ledger.clone(), process, time }
    }
}

impl Observer for Recorder {
    fn event(&self, event: &Event) {
        let (now, until) = match event.kind {
            EventKind::Acquired { remaining, .. }
            | EventKind::Renewed { remaining, .. }
            | EventKind::RenewalUnknown { remaining, .. } => self.time.read(remaining),
            _ => self.time.read(Duration::ZERO),
        };
        let what = match event.kind {
            EventKind::Asked => What::Asked,
            EventKind::Waiting => What::Waiting,
            EventKind::Acquired { token, .. } => What::Acquired { token, until },
            EventKind::Refused => What::Refused,
            EventKind::Renewed { .. } => What::Renewed { until },
            EventKind::RenewalUnknown { .. } => What::Unrenewed { until },
            EventKind::Lost(_) => What::Lost,
            EventKind::Releasing => What::Releasing,
            EventKind::Released(_) => What::Released,
            _ => return,
        };
        let mut history = self.ledger.open();
        let lock = history.lock(&event.name);
        history.note(now, self.process, event.claim, lock, what);
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({})", self.process)
    }
}
