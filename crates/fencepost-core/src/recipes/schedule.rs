//! Times of the calendar at which windows begin: every day at two, on the first of each month.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

use crate::error::Invalid;

/// Clocks were never set by more than a day at once.
const ONE_CHANGE_MAX: SignedDuration = SignedDuration::from_hours(25);

/// Times of the calendar in a time zone; a [`Window`](super::Window) begins at each of them and lasts until the next.
///
/// ```
/// # use std::time::{Duration, UNIX_EPOCH};
/// # use fencepost_core::Schedule;
/// let nightly = Schedule::daily("02:00", "America/Los_Angeles")?;
/// let noon_in_london = UNIX_EPOCH + Duration::from_secs(1_784_030_400);
/// let next = nightly.next(noon_in_london).expect("there is a tomorrow");
/// assert_eq!(nightly.local(next), "2026-07-15T02:00:00-07:00");
/// # Ok::<(), fencepost_core::Invalid>(())
/// ```
///
/// # Daylight saving
/// A schedule with fixed minutes and hours, such as `0 2 * * *` or `15,45 1-3 * * *`, has a window for every time that it
/// names, on every day. If clocks go forward over such a time, the window begins at the first moment after the gap; several
/// times in one gap are one window. If clocks show the time twice, the window begins the first time.
///
/// A schedule with `*` or a step in its minutes or hours, such as `*/30 * * * *`, has a window whenever clocks show a time
/// that fits: none in the hour that is skipped, and one each time in the hour that is repeated.
///
/// The rules of time zones come from the system (`/usr/share/zoneinfo`), or from a copy in this build where the system
/// has none. Keep them current on all servers: a server with old rules computes other windows.
#[derive(Clone, PartialEq, Eq)]
pub struct Schedule {
    cron: Arc<Cron>,
    /// No `*` and no step in minutes and hours.
    has_fixed_times: bool,
    text: ScheduleText,
    zone: TimeZone,
}

/// A schedule as it is noted and read again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ScheduleText {
    /// Five fields of a crontab.
    cron: String,
    zone: String,
}

impl Schedule {
    /// Every day at this time, `HH:MM`, in this time zone, such as `Europe/Berlin` or `UTC`.
    ///
    /// # Errors
    /// No such time or time zone.
    pub fn daily(time: &str, zone: &str) -> Result<Self, Invalid> {
        let two_digits = |text: &str, below: u8| -> Option<u8> {
            let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().ok()).flatten().filter(|number| *number < below)
        };
        let parsed =
            time.split_once(':').and_then(|(hour, minute)| Some((two_digits(hour, 24)?, two_digits(minute, 60)?)));
        match parsed {
            Some((hour, minute)) => Self::cron(&format!("{minute} {hour} * * *"), zone),
            None => Err(Invalid::new("at", time, "write a time of day as HH:MM, from 00:00 to 23:59")),
        }
    }

    /// At the times of a crontab's five fields (minute, hour, day of month, month, day of week) in this time zone.
    ///
    /// # Errors
    /// Fields that cannot be read; times that never come, such as February 30; no such time zone.
    pub fn cron(expression: &str, zone: &str) -> Result<Self, Invalid> {
        let zone_of = |name: &str| match name {
            "UTC" => Ok(TimeZone::UTC),
            name => TimeZone::get(name),
        };
        let Ok(time_zone) = zone_of(zone) else {
            let cure = "no such time zone: write its name in the IANA database, such as Europe/Berlin or UTC";
            return Err(Invalid::new("tz", zone, cure));
        };
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(expression).map_err(|_| {
            let cure = "write five fields (minute, hour, day of month, month, weekday), such as 0 2 * * MON-FRI";
            Invalid::new("cron", expression, cure)
        })?;
        let has_fixed_times = !cron.pattern.to_string().split(' ').take(2).any(|field| field.contains(['*', '/', '?']));
        let text = ScheduleText { cron: expression.to_owned(), zone: zone.to_owned() };
        let schedule = Self { cron: Arc::new(cron), has_fixed_times, text, zone: time_zone };
        match schedule.next(UNIX_EPOCH) {
            Some(_) => Ok(schedule),
            None => Err(Invalid::new("cron", expression, "that date never comes")),
        }
    }

    /// When the window began in which this time lies.
    pub fn last(&self, time: SystemTime) -> Option<SystemTime> {
        let time = Timestamp::try_from(time).ok()?;
        let found = if self.has_fixed_times { self.last_fixed(time) } else { self.last_shown(time) };
        Some(found?.into())
    }

    /// When the next window begins after this time.
    pub fn next(&self, time: SystemTime) -> Option<SystemTime> {
        let time = Timestamp::try_from(time).ok()?;
        let found = if self.has_fixed_times { self.next_fixed(time) } else { self.next_shown(time) };
        Some(found?.into())
    }

    /// The time zone's name.
    pub fn zone(&self) -> &str {
        &self.text.zone
    }

    /// A time as clocks there show it, with its offset from UTC: `2026-07-15T02:00:00-07:00`.
    pub fn local(&self, time: SystemTime) -> String {
        let Ok(time) = Timestamp::try_from(time) else { return String::new() };
        time.to_zoned(self.zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
    }

    pub(super) fn text(&self) -> &ScheduleText {
        &self.text
    }

    /// The moments of fixed times come in the order of those times, so the search goes by the times on the clock.
    fn last_fixed(&self, time: Timestamp) -> Option<Timestamp> {
        let mut shown = self.shown(time.checked_add(ONE_CHANGE_MAX).ok()?);
        loop {
            shown = self.before(shown)?;
            if let Some(moment) = self.moment(shown).filter(|moment| *moment <= time) {
                return Some(moment);
            }
        }
    }

    fn next_fixed(&self, time: Timestamp) -> Option<Timestamp> {
        let mut shown = self.shown(time.checked_sub(ONE_CHANGE_MAX).ok()?);
        loop {
            shown = self.after(shown)?;
            if let Some(moment) = self.moment(shown).filter(|moment| *moment > time) {
                return Some(moment);
            }
        }
    }

    /// The moment of a fixed time: the first moment after the gap that swallows it, the first of two.
    fn moment(&self, shown: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(shown).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(shown).ok(),
            AmbiguousOffset::Gap { before, .. } => {
                let inside = before.to_timestamp(shown).ok()?.checked_add(1.second()).ok()?;
                self.zone.preceding(inside).next().map(|change| change.timestamp())
            }
        }
    }

    /// Between two changes of the offset, the clock shows every time once: the search goes from change to change.
    fn last_shown(&self, mut time: Timestamp) -> Option<Timestamp> {
        loop {
            let offset = self.zone.to_offset(time);
            // The change itself belongs to what follows it.
            let change =
                self.zone.preceding(time.checked_add(1.nanosecond()).ok()?).next().map(|change| change.timestamp());
            let shown = self.before(offset.to_datetime(time).checked_add(1.second()).ok()?)?;
            let moment = offset.to_timestamp(shown).ok()?;
            match change {
                Some(change) if moment < change => time = change.checked_sub(1.second()).ok()?,
                _ => return Some(moment),
            }
        }
    }

    fn next_shown(&self, mut time: Timestamp) -> Option<Timestamp> {
        let mut is_included = false;
        loop {
            let offset = self.zone.to_offset(time);
            let change = self.zone.following(time).next().map(|change| change.timestamp());
            let from = offset.to_datetime(time);
            let shown = if is_included { self.cron.find_next_occurrence(&from, true).ok()? } else { self.after(from)? };
            let moment = offset.to_timestamp(shown).ok()?;
            match change {
                Some(change) if moment >= change => (time, is_included) = (change, true),
                _ => return Some(moment),
            }
        }
    }

    /// What clocks show then.
    fn shown(&self, time: Timestamp) -> DateTime {
        self.zone.to_datetime(time)
    }

    /// The last time of the schedule before this one, as clocks show it.
    fn before(&self, shown: DateTime) -> Option<DateTime> {
        let shown = shown.with().subsec_nanosecond(0).build().ok()?;
        self.cron.find_previous_occurrence(&shown, false).ok()
    }

    fn after(&self, shown: DateTime) -> Option<DateTime> {
        let shown = shown.with().subsec_nanosecond(0).build().ok()?;
        self.cron.find_next_occurrence(&shown, false).ok()
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({:?} in {})", self.text.cron, self.text.zone)
    }
}

impl ScheduleText {
    /// `None`: this server does not know that time zone.
    pub(super) fn read(&self) -> Option<Schedule> {
        Schedule::cron(&self.cron, &self.zone).ok()
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
