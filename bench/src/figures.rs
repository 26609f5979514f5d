//! What can be said of a contest.

use crate::contest::Story;
use crate::runner::Unit;

pub(crate) struct Figure {
    pub(crate) what: &'static str,
    pub(crate) unit: Unit,
    pub(crate) more_is_better: bool,
    pub(crate) of: fn(&Story) -> f64,
}

impl Figure {
    const fn less(what: &'static str, unit: Unit, of: fn(&Story) -> f64) -> Self {
        Self { what, unit, more_is_better: false, of }
    }

    const fn more(what: &'static str, unit: Unit, of: fn(&Story) -> f64) -> Self {
        Self { what, unit, more_is_better: true, of }
    }
}

pub(crate) const P50: Figure = Figure::less("p50", Unit::Nanos, |story| story.pairs.percentile(50));
pub(crate) const P99: Figure = Figure::less("p99", Unit::Nanos, |story| story.pairs.percentile(99));
pub(crate) const RATE: Figure = Figure::more("pairs", Unit::PerSecond, |story| story.rate);
pub(crate) const CLIENT: Figure = Figure::less("client CPU per pair", Unit::Nanos, |story| story.client_cpu);
pub(crate) const SERVER: Figure = Figure::less("server CPU per pair, all nodes", Unit::Nanos, |story| story.server_cpu);
pub(crate) const COMMANDS: Figure = Figure::less("commands per pair and node", Unit::Number, |story| story.commands);
pub(crate) const REQUESTS: Figure = Figure::less("requests per pair and node", Unit::Number, |story| story.requests);
pub(crate) const OTHERS: Figure = Figure::more("to another waiter", Unit::PerSecond, |story| story.to_another);
pub(crate) const GAP: Figure =
    Figure::less("unlock to next holder, p50", Unit::Nanos, |story| story.gaps.percentile(50));
pub(crate) const GAP_99: Figure =
    Figure::less("unlock to next holder, p99", Unit::Nanos, |story| story.gaps.percentile(99));
pub(crate) const WAIT_99: Figure = Figure::less("a wait, p99", Unit::Nanos, |story| story.waits.percentile(99));
/// Who starves is one wait among hundreds of its rival's: no p99 shows that.
pub(crate) const WAIT_MAX: Figure = Figure::less("longest wait", Unit::Nanos, |story| story.waits.percentile(100));
pub(crate) const WAIT: Figure = Figure::less("a waiter's wait, p99 / p50", Unit::Number, |story| {
    story.waits.percentile(99) / story.waits.percentile(50)
});
pub(crate) const JAIN: Figure = Figure::more("fairness (Jain index)", Unit::Number, |story| story.jain);
pub(crate) const INVERSIONS: Figure =
    Figure::less("inversions per 1,000 grants, by ticket", Unit::Number, |story| story.inversions);
