//! What the measurement says, before anybody prints it.

use std::time::Duration;

use super::plan::Plan;
use super::round::Round;
use super::subject::{Leftovers, Subject};
use super::trouble::TroubleData;
use super::workload::Workload;

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) plan: Plan,
    /// One, or two to be compared.
    pub(super) stores: Vec<Measured>,
    pub(super) machine: Machine,
    pub(super) interrupted: bool,
}

/// One store's part.
#[derive(Debug)]
pub(super) struct Measured {
    /// Without secrets.
    pub(super) store: String,
    pub(super) connections: usize,
    pub(super) prefix: String,
    pub(super) series: Vec<Series>,
    pub(super) troubles: Vec<TroubleData>,
    pub(super) left: Leftovers,
}

/// One workload's rounds.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) workload: Workload,
    pub(super) rounds: Vec<Round>,
    /// All rounds as one.
    pub(super) sum: Round,
}

/// Where it was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) cores: usize,
    /// Of the last minute, before it began; where the system tells.
    pub(super) load: Option<f64>,
}

impl Machine {
    pub(super) fn look() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let load = std::fs::read_to_string("/proc/loadavg").ok();
        Self { cores, load: load.and_then(|text| text.split(' ').next()?.parse().ok()) }
    }
}

impl Measured {
    pub(super) fn of(subject: &mut Subject, plan: &Plan) -> Self {
        let left = subject.leave();
        let rounds = std::mem::take(&mut subject.rounds);
        let series = plan.workloads.iter().zip(rounds).map(|(&workload, rounds)| {
            let sum = Round::sum(&rounds);
            Series { workload, rounds, sum }
        });
        Self {
            store: subject.store.clone(),
            connections: subject.connections(),
            prefix: subject.prefix.clone(),
            series: series.collect(),
            troubles: subject.troubles.data(),
            left,
        }
    }

    pub(super) fn series(&self, workload: Workload) -> Option<&Series> {
        self.series.iter().find(|series| series.workload == workload)
    }

    pub(super) fn errors(&self) -> u64 {
        self.troubles.iter().map(|trouble| trouble.count).sum()
    }
}

/// One figure of a round that is followed from round to round, and compared between stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    pub(super) workload: Workload,
    pub(super) key: &'static str,
    pub(super) told: &'static str,
    /// Whether it is a duration, of which less is better; else so many per second, of which more is.
    pub(super) is_duration: bool,
    value: fn(&Round) -> Option<f64>,
}

fn seconds(histogram: &crate::histogram::Histogram, percent: f64) -> Option<f64> {
    (histogram.count() > 0).then(|| histogram.percentile(percent).as_secs_f64())
}

fn some(rate: f64) -> Option<f64> {
    (rate > 0.0).then_some(rate)
}

pub(super) const MEASURES: [Measure; 8] = [
    Measure {
        workload: Workload::Single,
        key: "single_p50",
        told: "free lock, 1 client, p50",
        is_duration: true,
        value: |round| seconds(&round.latency, 50.0),
    },
    Measure {
        workload: Workload::Single,
        key: "single_p99",
        told: "free lock, 1 client, p99",
        is_duration: true,
        value: |round| seconds(&round.latency, 99.0),
    },
    Measure {
        workload: Workload::Parallel,
        key: "parallel_rate",
        told: "own locks, pairs",
        is_duration: false,
        value: |round| some(round.rate()),
    },
    Measure {
        workload: Workload::Contended,
        key: "hand_over_rate",
        told: "one lock, hand-overs",
        is_duration: false,
        value: |round| some(round.hand_overs()),
    },
    Measure {
        workload: Workload::Contended,
        key: "gap_p50",
        told: "one lock, gap, p50",
        is_duration: true,
        value: |round| seconds(&round.gap, 50.0),
    },
    Measure {
        workload: Workload::Contended,
        key: "wait_p50",
        told: "one lock, wait, p50",
        is_duration: true,
        value: |round| seconds(&round.latency, 50.0),
    },
    Measure {
        workload: Workload::Contended,
        key: "wait_p99",
        told: "one lock, wait, p99",
        is_duration: true,
        value: |round| seconds(&round.latency, 99.0),
    },
    Measure {
        workload: Workload::Renewal,
        key: "renewal_p50",
        told: "renewal, 1 client, p50",
        is_duration: true,
        value: |round| seconds(&round.latency, 50.0),
    },
];

/// The middle of some rounds, and how far they lie apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) rounds: usize,
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let (&low, &high, rounds) = (values.first()?, values.last()?, values.len());
        let median = (values[(rounds - 1) / 2] + values[rounds / 2]) / 2.0;
        Some(Self { median, low, high, rounds })
    }
}

impl Measure {
    fn by_round(&self, measured: &Measured) -> Vec<Option<f64>> {
        let rounds = measured.series(self.workload).map_or(&[][..], |series| &series.rounds);
        rounds.iter().map(self.value).collect()
    }

    /// Over the rounds in which something was measured.
    pub(super) fn spread(&self, measured: &Measured) -> Option<Spread> {
        Spread::of(self.by_round(measured).into_iter().flatten().collect())
    }

    /// The first store's part of the second's, taken within each round: what slows a whole round down cancels out.
    pub(super) fn ratio(&self, stores: &[Measured]) -> Option<Spread> {
        let [one, other] = stores else { return None };
        let pairs = self.by_round(one).into_iter().zip(self.by_round(other));
        Spread::of(pairs.filter_map(|(one, other)| Some(one? / other?)).collect())
    }

    /// A value of it, for people.
    pub(super) fn shown(&self, value: f64) -> String {
        match self.is_duration {
            true => crate::histogram::spoken(Duration::from_secs_f64(value)),
            false => rate(value),
        }
    }
}

/// So many per second, in three digits or more.
pub(super) fn rate(value: f64) -> String {
    match value {
        _ if value >= 99.95 => format!("{value:.0}/s"),
        _ if value >= 9.995 => format!("{value:.1}/s"),
        _ => format!("{value:.2}/s"),
    }
}

/// A ratio, with as many digits as it is worth.
pub(super) fn factor(value: f64) -> String {
    match value {
        _ if value >= 99.5 => format!("{value:.0}"),
        _ if value >= 0.095 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_rounds_is_their_middle_and_their_ends() {
        let of = |values: &[f64]| Spread::of(values.to_vec());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, low: 1.0, high: 3.0, rounds: 3 }));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]).map(|spread| spread.median), Some(2.5));
    }
}
