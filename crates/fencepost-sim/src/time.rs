//! Time in the simulated world: one true time, and clocks that follow it more or less.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencepost_core::FencingToken;
use fencepost_core::store::Moment;

/// True time, in nanoseconds since the run began.
pub(crate) type Nanos = u64;

pub(crate) const MILLI: Nanos = 1_000_000;
pub(crate) const SECOND: Nanos = 1_000 * MILLI;

/// Where the calendars stand when a run begins: 2026-01-01.
const START: Nanos = 1_767_225_600 * SECOND;
const MILLION: i128 = 1_000_000;

pub(crate) fn nanos(span: Duration) -> Nanos {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// How much faster than true time a clock runs, in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rate(pub(crate) i64);

impl Rate {
    /// What the clock counts in that much true time.
    pub(crate) fn local(self, true_span: Nanos) -> Nanos {
        let span = i128::from(true_span) * (MILLION + i128::from(self.0)) / MILLION;
        u64::try_from(span).unwrap_or(u64::MAX)
    }

    /// The true time in which the clock counts at least that much.
    pub(crate) fn truth(self, local_span: Nanos) -> Nanos {
        let rate = MILLION + i128::from(self.0);
        let span = (i128::from(local_span) * MILLION + rate - 1) / rate;
        u64::try_from(span).unwrap_or(u64::MAX)
    }
}

/// A node's clock: its calendar dates leases and tokens, as that of a Redis server does.
#[derive(Clone, Debug)]
pub(crate) struct NodeClock {
    since: Nanos,
    wall: Nanos,
    rate: Rate,
    strobes: bool,
}

/// How far a strobing clock swings, and how often it turns.
const STROBE: (Nanos, Nanos) = (200 * MILLI, 5 * MILLI);

impl NodeClock {
    pub(crate) fn new(rate: Rate, ahead: i64) -> Self {
        Self { since: 0, wall: START.saturating_add_signed(ahead), rate, strobes: false }
    }

    fn steady(&self, now: Nanos) -> Nanos {
        self.wall + self.rate.local(now - self.since)
    }

    /// What the calendar says, in nanoseconds since 1970.
    pub(crate) fn wall(&self, now: Nanos) -> Nanos {
        let steady = self.steady(now);
        match (self.strobes, (now / STROBE.1) % 2) {
            (false, _) => steady,
            (true, 0) => steady + STROBE.0,
            (true, _) => steady - STROBE.0,
        }
    }

    pub(crate) fn jump(&mut self, now: Nanos, by: i64) {
        (self.wall, self.since) = (self.steady(now).saturating_add_signed(by), now);
    }

    pub(crate) fn set_rate(&mut self, now: Nanos, rate: Rate) {
        (self.wall, self.since, self.rate) = (self.steady(now), now, rate);
    }

    pub(crate) fn set_strobes(&mut self, strobes: bool) {
        self.strobes = strobes;
    }

    /// Right again.
    pub(crate) fn mend(&mut self, now: Nanos) {
        *self = Self { since: now, wall: START + now, rate: Rate(0), strobes: false };
    }
}

/// A calendar as a token.
pub(crate) fn token_at(wall: Nanos) -> FencingToken {
    FencingToken::at(system_time(wall))
}

fn system_time(wall: Nanos) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(wall)
}

pub(crate) fn moment(nanos: Nanos) -> Moment {
    Moment::from_nanos(nanos)
}
