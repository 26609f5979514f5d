//! Windows of time, and what is noted of a job that runs once in each.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

#[cfg(feature = "schedule")]
use super::schedule::{Schedule, ScheduleText};
use crate::state::Holder;

/// So many named windows are remembered.
const NAMES_MAX: usize = 100;

/// Which runs are the same one.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Window {
    /// All within such a span, counted from 1970 in UTC: a day, an hour, ten minutes.
    Every(Duration),
    /// All of this name, such as `2026-11-15T02`. The last hundred names of a job are remembered.
    Named(String),
    /// All from one time of the schedule to the next: from 02:00 in Los Angeles to 02:00 of the next day.
    #[cfg(feature = "schedule")]
    Scheduled(Schedule),
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

#[cfg(feature = "schedule")]
impl From<Schedule> for Window {
    fn from(schedule: Schedule) -> Self {
        Self::Scheduled(schedule)
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
    /// The schedule of the windows, for times in its time zone.
    #[cfg(feature = "schedule")]
    pub schedule: Option<Schedule>,
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
pub(super) struct Note {
    pub(super) began_ms: u64,
    /// The last window of a schedule, in milliseconds since 1970.
    pub(super) window_ms: Option<u64>,
    /// The span of that schedule, unless the last run was of a named window.
    pub(super) every_ms: Option<u64>,
    /// The times of that schedule, if it is one of the calendar.
    #[cfg(feature = "schedule")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) schedule: Option<ScheduleText>,
    /// The last named windows.
    pub(super) names: Vec<String>,
    /// The last run was of a named one.
    pub(super) was_named: bool,
    pub(super) failed: Option<String>,
    /// Nobody starts it for so long after this was written.
    pub(super) rest_ms: u64,
    /// A run that was begun for somebody elsewhere, who finishes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) begun: Option<Begun>,
    /// The last run was such a one, under this token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finished_by: Option<u64>,
}

/// A run that was begun; this was written then.
#[derive(Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) token: u64,
    pub(super) began_ms: u64,
    pub(super) window: Current,
    pub(super) at_least_ms: u64,
    pub(super) at_most_ms: Option<u64>,
}

impl Note {
    /// This window is not to be run, as it was noted so long ago.
    pub(super) fn settles(&self, window: &Current, ago: Duration) -> bool {
        window.is_done(self) || ago < Duration::from_millis(self.rest_ms)
    }

    pub(super) fn last(&self) -> Option<Ran> {
        match self.was_named {
            true => self.names.last().cloned().map(Ran::Named),
            false => self.window_ms.map(|began| Ran::Since(UNIX_EPOCH + Duration::from_millis(began))),
        }
    }
}

/// The window in which somebody asks.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Current {
    /// In milliseconds, since 1970.
    Since {
        began: u64,
        every: u64,
    },
    Named(String),
    #[cfg(feature = "schedule")]
    Scheduled {
        began: u64,
        schedule: ScheduleText,
    },
}

impl Current {
    /// When it began, in milliseconds since 1970.
    pub(super) fn began(&self) -> Option<u64> {
        match self {
            Self::Since { began, .. } => Some(*began),
            #[cfg(feature = "schedule")]
            Self::Scheduled { began, .. } => Some(*began),
            Self::Named(_) => None,
        }
    }

    fn is_done(&self, note: &Note) -> bool {
        match self {
            Self::Named(name) => note.names.contains(name),
            // If a later one has run, this clock is slow.
            timed => note.window_ms >= timed.began(),
        }
    }

    pub(super) fn shown(&self) -> Ran {
        match self {
            Self::Named(name) => Ran::Named(name.clone()),
            timed => Ran::Since(UNIX_EPOCH + Duration::from_millis(timed.began().unwrap_or_default())),
        }
    }

    pub(super) fn noted_in(&self, mut note: Note, began_ms: u64, failed: Option<String>) -> Note {
        (note.began_ms, note.failed) = (began_ms, failed);
        (note.begun, note.finished_by) = (None, None);
        note.every_ms = None;
        #[cfg(feature = "schedule")]
        {
            note.schedule = None;
        }
        match self {
            Self::Since { began, every } => {
                (note.window_ms, note.every_ms, note.was_named) = (Some(*began), Some(*every), false);
            }
            #[cfg(feature = "schedule")]
            Self::Scheduled { began, schedule } => {
                (note.window_ms, note.schedule, note.was_named) = (Some(*began), Some(schedule.clone()), false);
            }
            Self::Named(name) => {
                note.names.push(name.clone());
                let old = note.names.len().saturating_sub(NAMES_MAX);
                note.names.drain(..old);
                note.was_named = true;
            }
        }
        note
    }
}

pub(super) fn millis(wall: SystemTime) -> u64 {
    millis_of(wall.duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn millis_of(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
