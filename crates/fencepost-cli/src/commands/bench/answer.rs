//! The findings as data for programs.

use std::time::Duration;

use serde::Serialize;

use super::findings::{Findings, MEASURES, Measured, Series, Spread};
use super::round::Round;
use super::trouble::TroubleData;
use super::workload::Workload;
use crate::histogram::{Band, Histogram};
use crate::report::ms;

#[derive(Serialize)]
pub(super) struct Answer<'a> {
    clients: usize,
    ttl_ms: u64,
    for_ms: u64,
    rounds: u32,
    turn_ms: f64,
    interrupted: bool,
    machine: MachineData,
    stores: Vec<StoreData<'a>>,
    /// The first store's figures as parts of the second's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ratios: Vec<RatioData>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct MachineData {
    cores: usize,
    load_before: Option<f64>,
    debug_build: bool,
}

#[derive(Serialize)]
struct StoreData<'a> {
    store: &'a str,
    connections: usize,
    prefix: &'a str,
    workloads: Vec<WorkloadData>,
    errors: &'a [TroubleData],
    /// Names that nobody confirmed to be free. Empty: nothing stays locked.
    left_locked: &'a [String],
    /// Why it is not known whether anything stays locked.
    left_unknown: Option<&'a str>,
}

#[derive(Serialize)]
struct WorkloadData {
    workload: &'static str,
    clients: usize,
    /// What one duration is.
    measures: &'static str,
    seconds: f64,
    #[serde(flatten)]
    latency: DurationsData,
    per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hand_overs: Option<HandOverData>,
    rounds: Vec<RoundData>,
}

#[derive(Serialize)]
struct HandOverData {
    per_second: f64,
    /// Jain's index: 1 if all clients had the lock equally often.
    fairness: Option<f64>,
    /// How often each client had it.
    shares: Vec<u64>,
    /// From the call that released to the next client's hold.
    gap: DurationsData,
}

#[derive(Serialize)]
struct DurationsData {
    count: u64,
    min_ms: f64,
    mean_ms: f64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    histogram: Vec<BandData>,
}

#[derive(Serialize)]
struct BandData {
    from_ms: f64,
    to_ms: f64,
    count: u64,
}

#[derive(Serialize)]
struct RoundData {
    count: u64,
    seconds: f64,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hand_overs_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap_p50_ms: Option<f64>,
}

#[derive(Serialize)]
struct RatioData {
    measure: &'static str,
    /// Less than 1 is better for the first store; else more is.
    less_is_better: bool,
    median: f64,
    min: f64,
    max: f64,
    rounds: usize,
}

impl<'a> Answer<'a> {
    pub(super) fn new(findings: &'a Findings, warnings: &'a [String]) -> Self {
        let (plan, machine) = (&findings.plan, findings.machine);
        let ratios = MEASURES.iter().filter_map(|measure| {
            let Spread { median, low: min, high: max, rounds } = measure.ratio(&findings.stores)?;
            Some(RatioData { measure: measure.key, less_is_better: measure.is_duration, median, min, max, rounds })
        });
        Self {
            clients: plan.clients,
            ttl_ms: ms(plan.ttl),
            for_ms: ms(plan.length),
            rounds: plan.rounds,
            turn_ms: millis(plan.turn),
            interrupted: findings.interrupted,
            machine: MachineData {
                cores: machine.cores,
                load_before: machine.load,
                debug_build: cfg!(debug_assertions),
            },
            stores: findings.stores.iter().map(|measured| StoreData::new(measured, plan.clients)).collect(),
            ratios: ratios.collect(),
            warnings,
        }
    }
}

impl<'a> StoreData<'a> {
    fn new(measured: &'a Measured, clients: usize) -> Self {
        Self {
            store: &measured.store,
            connections: measured.connections,
            prefix: &measured.prefix,
            workloads: measured.series.iter().map(|series| WorkloadData::new(series, clients)).collect(),
            errors: &measured.troubles,
            left_locked: &measured.left.held,
            left_unknown: measured.left.unknown.as_deref(),
        }
    }
}

impl WorkloadData {
    fn new(series: &Series, clients: usize) -> Self {
        let (workload, sum) = (series.workload, &series.sum);
        let is_contended = workload == Workload::Contended;
        Self {
            workload: workload.key(),
            clients: if workload.takes_several() { clients } else { 1 },
            measures: workload.duration(),
            seconds: sum.took.as_secs_f64(),
            latency: DurationsData::from(&sum.latency),
            per_second: sum.rate(),
            hand_overs: is_contended.then(|| HandOverData {
                per_second: sum.hand_overs(),
                fairness: sum.fairness(),
                shares: sum.shares.clone(),
                gap: DurationsData::from(&sum.gap),
            }),
            rounds: series.rounds.iter().map(|round| RoundData::new(round, is_contended)).collect(),
        }
    }
}

impl RoundData {
    fn new(round: &Round, is_contended: bool) -> Self {
        Self {
            count: round.latency.count(),
            seconds: round.took.as_secs_f64(),
            per_second: round.rate(),
            p50_ms: millis(round.latency.percentile(50.0)),
            p99_ms: millis(round.latency.percentile(99.0)),
            hand_overs_per_second: is_contended.then(|| round.hand_overs()),
            gap_p50_ms: is_contended.then(|| millis(round.gap.percentile(50.0))),
        }
    }
}

impl From<&Histogram> for DurationsData {
    fn from(histogram: &Histogram) -> Self {
        let percentile = |percent| millis(histogram.percentile(percent));
        let band = |band: Band| BandData { from_ms: millis(band.from), to_ms: millis(band.to), count: band.count };
        Self {
            count: histogram.count(),
            min_ms: millis(histogram.min()),
            mean_ms: millis(histogram.mean()),
            p50_ms: percentile(50.0),
            p90_ms: percentile(90.0),
            p99_ms: percentile(99.0),
            p999_ms: percentile(99.9),
            max_ms: millis(histogram.max()),
            histogram: histogram.bands().into_iter().map(band).collect(),
        }
    }
}

/// With its fraction: many of these are shorter than one.
fn millis(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}
