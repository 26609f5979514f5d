//! Cron once: a job that runs once per window of time in the whole cluster.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::noted::{Noted, checked_span, invalid, not_begun, not_sealed, refused, unrecorded};
use crate::error::{Invalid, RunError, StoreError};
use crate::guard::Guard;
use crate::lock::working;
use crate::locks::Locks;
use crate::state::Holder;

/// What is known of a job is kept for so long after its last run.
const KEEP: Duration = Duration::from_secs(400 * 24 * 3600);
/// So many named windows are remembered.
const NAMES_MAX: usize = 100;

/// One run per window in the cluster. It skips, and never waits.
///
/// Guaranteed: of all who call it in one window one runs, as long as the runner lives; the others get `None` at once. A
/// window is told by the time of the schedule, and none is run after a later one has run, so a clock that is slow by a few
/// seconds runs nothing twice. A run whose process died is not done: whoever calls next in that window, after the
/// lease, runs it. A run that failed is done; [`inspect`](Self::inspect) tells.
///
/// Not guaranteed: that the work itself runs once. One that died in the middle is begun anew. Show the
/// [token](Guard::token) to whatever the work writes to.
///
/// Nor that anybody calls again in a window whose runner died, or while an older window still ran: call more often than
/// once per window, such as every five minutes for a daily job. A clock that is fast by many windows makes all others wait until that time has come.
///
/// The lock and the record are named `cron/NAME`, so a name has 250 bytes at most.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it runs"]
pub struct OncePerWindow {
    locks: Locks,
    name: String,
    window: Window,
    at: Option<SystemTime>,
    ttl: Option<Duration>,
    loss_margin: Option<Duration>,
    at_least: Duration,
    at_most: Option<Duration>,
}

/// Which runs are the same one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Window {
    /// All within such a span, counted from 1970 in UTC: a day, an hour, ten minutes.
    Every(Duration),
    /// All of this name, such as `2026-11-15T02`. The last hundred names of a job are remembered.
    Named(String),
}

impl From<Duration> for Window {
    fn from(every: Duration) -> Self {
        Self::Every(every)
    }
}

impl From<&str> for Window {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl From<String> for Window {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

/// What is known of a job.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct WindowState {
    /// When the last run began that came to an end, by the clock of its runner.
    pub last_run: Option<SystemTime>,
    /// Its window.
    pub last_window: Option<Ran>,
    /// What its error said, if it failed.
    pub failed: Option<String>,
    /// Who runs it now.
    pub running: Option<Holder>,
    /// When the next window begins, by the schedule or that of the last run; `None` for named ones.
    pub next: Option<SystemTime>,
}

/// A window that has run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ran {
    /// The one of the schedule that began then.
    Since(SystemTime),
    /// The one of this name.
    Named(String),
}

/// What is noted of a job.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Note {
    began_ms: u64,
    /// The last window of a schedule, in milliseconds since 1970.
    window_ms: Option<u64>,
    /// The span of that schedule, unless the last run was of a named window.
    every_ms: Option<u64>,
    /// The last named windows.
    names: Vec<String>,
    /// The last run was of a named one.
    was_named: bool,
    failed: Option<String>,
    /// Nobody starts it for so long after this was written.
    rest_ms: u64,
}

impl Note {
    /// This window is not to be run, as it was noted so long ago.
    fn settles(&self, window: &Current, ago: Duration) -> bool {
        window.is_done(self) || ago < Duration::from_millis(self.rest_ms)
    }

    fn last(&self) -> Option<Ran> {
        match self.was_named {
            true => self.names.last().cloned().map(Ran::Named),
            false => self.window_ms.map(|began| Ran::Since(UNIX_EPOCH + Duration::from_millis(began))),
        }
    }
}

impl OncePerWindow {
    pub(super) fn new(locks: Locks, name: String, window: Window) -> Self {
        let name = format!("cron/{name}");
        Self { locks, name, window, at: None, ttl: None, loss_margin: None, at_least: Duration::ZERO, at_most: None }
    }

    /// The window of that time, such as that for which it was scheduled. Default: the time when it runs.
    pub fn at(mut self, time: SystemTime) -> Self {
        self.at = Some(time);
        self
    }

    /// The lease of whoever runs it: so long after its death another may. Default: that of the connection.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// So long before the end of the lease the work is stopped. Default: a tenth of the ttl.
    pub fn loss_margin(mut self, margin: Duration) -> Self {
        self.loss_margin = Some(margin);
        self
    }

    /// Nobody starts it again before that, counted from the start of a run that came to an end, however short the work or
    /// slow a clock. A record, not a lease. Default: none.
    pub fn at_least_for(mut self, least: Duration) -> Self {
        self.at_least = least;
        self
    }

    /// The run is stopped then, also where the store's largest ttl is shorter. It counts as failed.
    pub fn at_most_for(mut self, most: Duration) -> Self {
        self.at_most = Some(most);
        self
    }

    /// Runs it. `Ok(None)`: somebody else ran, or is running, this window.
    ///
    /// # Errors
    /// If the work was done but that could not be noted, [`RunError::Unrecorded`]: the next caller would do it again.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work and schedules the release; the window is not done.
    pub async fn run<T, E: fmt::Display>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Option<T>, RunError<E>> {
        let window = self.current().map_err(invalid)?;
        let noted = Noted::new(&self.locks, &self.name, "name").map_err(invalid)?;
        // Most calls find it done: they need no lock.
        let note = noted.read::<Note>().await.map_err(not_begun)?;
        if note.is_some_and(|(note, record)| note.settles(&window, KEEP.saturating_sub(record.left))) {
            return Ok(None);
        }
        let mut lock = self.locks.lock(&*self.name);
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(margin) = self.loss_margin {
            lock = lock.loss_margin(margin);
        }
        if let Some(most) = self.at_most {
            lock = lock.max_hold(most);
        }
        let Some(guard) = lock.try_acquire().await.map_err(RunError::Acquire)? else { return Ok(None) };
        let outcome = self.run_as(&guard, &noted, &window, work).await;
        let _ = guard.release().await;
        outcome
    }

    async fn run_as<T, E: fmt::Display>(
        &self,
        guard: &Guard,
        noted: &Noted<'_>,
        window: &Current,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Option<T>, RunError<E>> {
        let note = match noted.seal::<Note>(guard.token()).await.map_err(not_sealed)? {
            Some((note, record)) if note.settles(window, KEEP.saturating_sub(record.left)) => return Ok(None),
            found => found.map(|(note, _)| note).unwrap_or_default(),
        };
        let began = self.locks.now();
        let began_ms = millis(self.locks.wall());
        let done = working(guard, work(guard)).await;
        let failed = match &done {
            Ok(_) => None,
            Err(RunError::Work(error)) => Some(error.to_string()),
            Err(RunError::Lost(lost)) if lost.reason == crate::LossReason::HoldLimit => {
                Some(format!("stopped after {:?}", self.at_most.unwrap_or_default()))
            }
            // Not done: another may run it.
            Err(_) => return done.map(Some),
        };
        let mut note = window.noted_in(note, began_ms, failed);
        note.rest_ms = millis_of(self.at_least.saturating_sub(self.locks.now().since(began)));
        match noted.put(guard, &note, KEEP).await {
            Err(unnoted) if done.is_ok() => Err(unrecorded(unnoted)),
            _ => done.map(Some),
        }
    }

    /// What is known of the job: anybody may ask.
    pub async fn inspect(&self) -> Result<WindowState, StoreError> {
        let noted = Noted::new(&self.locks, &self.name, "name").map_err(|bad| refused(&bad, "inspect"))?;
        let note = noted.read::<Note>().await?.map(|(note, _)| note);
        let running = self.locks.inspect(&self.name).await?.holders.into_iter().next();
        let every = match &self.window {
            Window::Every(every) => Some(*every),
            Window::Named(_) => note.as_ref().and_then(|note| note.every_ms).map(Duration::from_millis),
        };
        let next = every.and_then(|every| Some(UNIX_EPOCH + self.begins(every)? + every));
        Ok(WindowState {
            last_run: note.as_ref().map(|note| UNIX_EPOCH + Duration::from_millis(note.began_ms)),
            last_window: note.as_ref().and_then(Note::last),
            failed: note.and_then(|note| note.failed),
            running,
            next,
        })
    }

    /// The window that it would run now.
    pub fn which(&self) -> Ran {
        match &self.window {
            Window::Every(every) => Ran::Since(UNIX_EPOCH + self.begins(*every).unwrap_or_default()),
            Window::Named(name) => Ran::Named(name.clone()),
        }
    }

    /// When the window began in which we are, by our clock.
    fn begins(&self, every: Duration) -> Option<Duration> {
        let every = u64::try_from(every.as_millis()).ok().filter(|every| *every > 0)?;
        let time = self.at.unwrap_or_else(|| self.locks.wall());
        Some(Duration::from_millis(millis(time) / every * every))
    }

    fn current(&self) -> Result<Current, Invalid> {
        if let Some(most) = self.at_most {
            checked_span("at_most_for", most)?;
        }
        if self.at_least > KEEP {
            return Err(Invalid::new("at_least_for", format!("{:?}", self.at_least), "400 days are the most"));
        }
        match &self.window {
            Window::Every(every) => match self.begins(*every) {
                Some(began) => Ok(Current::Since { began: millis_of(began), every: millis_of(*every) }),
                None => Err(Invalid::new("window", format!("{every:?}"), "a window has at least a millisecond")),
            },
            Window::Named(name) if name.is_empty() || name.len() > 255 => {
                let cure = format!("it has {} bytes: give the window a name of 1 to 255", name.len());
                Err(Invalid::new("window", name, cure))
            }
            Window::Named(name) => Ok(Current::Named(name.clone())),
        }
    }
}

/// The window in which somebody asks.
enum Current {
    /// In milliseconds, since 1970.
    Since {
        began: u64,
        every: u64,
    },
    Named(String),
}

impl Current {
    fn is_done(&self, note: &Note) -> bool {
        match self {
            // A later one has run: this is a clock that is slow.
            Self::Since { began, .. } => note.window_ms.is_some_and(|last| last >= *began),
            Self::Named(name) => note.names.contains(name),
        }
    }

    fn noted_in(&self, mut note: Note, began_ms: u64, failed: Option<String>) -> Note {
        (note.began_ms, note.failed) = (began_ms, failed);
        match self {
            Self::Since { began, every } => {
                (note.window_ms, note.every_ms, note.was_named) = (Some(*began), Some(*every), false);
            }
            Self::Named(name) => {
                note.names.push(name.clone());
                let old = note.names.len().saturating_sub(NAMES_MAX);
                note.names.drain(..old);
                (note.every_ms, note.was_named) = (None, true);
            }
        }
        note
    }
}

fn millis(wall: SystemTime) -> u64 {
    millis_of(wall.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis_of(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
