//! The findings as a page with pictures.

use std::time::{Duration, SystemTime};

use super::findings::{Findings, MEASURES, Measure, Measured, Series, factor, rate};
use super::round::Round;
use super::workload::Workload;
use crate::histogram::{Histogram, spoken};
use crate::page::{Figure, Page};
use crate::plot::{Axis, Plot};

/// Bars of a distribution, about: where all is close together they are narrow.
const BARS: f64 = 48.0;
/// Points of a curve of percentiles.
const CURVE_POINTS: u32 = 160;

type Of = fn(&Round) -> &Histogram;
const LATENCY: Of = |round| &round.latency;
const GAP: Of = |round| &round.gap;

pub(super) fn page(findings: &Findings, warnings: &[String]) -> String {
    let stores = &findings.stores;
    let names: Vec<&str> = stores.iter().map(|measured| measured.store.as_str()).collect();
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    let lead = format!("Measured by fencepost bench {} until {now}.", env!("CARGO_PKG_VERSION"));
    let mut page = Page::new(&names.join(" versus "), &lead);
    page.facts(&facts(findings));
    page.warnings(warnings);
    if stores.len() > 1 {
        compare(&mut page, stores);
    }
    for measured in stores {
        let heading = if stores.len() > 1 { measured.store.as_str() } else { "Figures" };
        page.section(heading, "");
        figures(&mut page, measured, findings.plan.clients);
    }
    free(&mut page, findings);
    contended(&mut page, findings);
    reading(&mut page, findings);
    page.finish()
}

fn facts(findings: &Findings) -> Vec<(&'static str, String)> {
    let (plan, machine) = (&findings.plan, findings.machine);
    let load = machine.load.map_or_else(|| "unknown".into(), |load| load.to_string());
    let connections: Vec<String> = findings.stores.iter().map(|measured| measured.connections.to_string()).collect();
    let errors: u64 = findings.stores.iter().map(Measured::errors).sum();
    vec![
        ("clients", plan.clients.to_string()),
        ("connections", connections.join(", ")),
        ("ttl", humantime::format_duration(plan.ttl).to_string()),
        ("measured for", humantime::format_duration(plan.length).to_string()),
        ("rounds", plan.rounds.to_string()),
        ("one turn", spoken(plan.turn)),
        ("errors", errors.to_string()),
        ("cores of this machine", machine.cores.to_string()),
        ("load before", load),
    ]
}

fn compare(page: &mut Page, stores: &[Measured]) {
    let [one, other] = stores else { return };
    let said = "Medians of the rounds. The ratio, store / versus, is taken within each round, so \
                that what slows a whole round down cancels out; beside it the lowest and the highest round.";
    page.section("Compared", said);
    let row = |measure: &Measure| {
        let ratio = measure.ratio(stores)?;
        let shown = |measured| measure.spread(measured).map(|spread| measure.shown(spread.median));
        let better = if measure.is_duration { "less" } else { "more" };
        let spread = format!("{} .. {}", factor(ratio.low), factor(ratio.high));
        Some(vec![measure.told.into(), better.into(), shown(one)?, shown(other)?, factor(ratio.median), spread])
    };
    let rows: Vec<Vec<String>> = MEASURES.iter().filter_map(row).collect();
    page.table(2, &["what", "better", "store", "versus", "ratio", "rounds"], &rows);
}

fn figures(page: &mut Page, measured: &Measured, clients: usize) {
    let row = |name: String, rate: String, histogram: &Histogram| {
        let mut cells = vec![name, histogram.count().to_string(), rate];
        let at = [0.0, 50.0, 90.0, 99.0, 99.9].map(|percent| match percent {
            0.0 => histogram.min(),
            _ => histogram.percentile(percent),
        });
        cells.extend(at.into_iter().chain([histogram.max()]).map(|value| match histogram.count() {
            0 => "-".into(),
            _ => spoken(value),
        }));
        cells
    };
    let mut rows = Vec::new();
    for Series { workload, sum, .. } in &measured.series {
        let name = format!("{}: {}", workload.told(clients), workload.duration());
        rows.push(row(name, rate(sum.rate()), &sum.latency));
        if *workload == Workload::Contended {
            let fairness = sum.fairness().map(|index| format!(" (fairness {index:.3})")).unwrap_or_default();
            let name = format!("one lock: from release to the next hold{fairness}");
            rows.push(row(name, rate(sum.hand_overs()), &sum.gap));
        }
    }
    page.table(1, &["what", "count", "rate", "min", "p50", "p90", "p99", "p99.9", "max"], &rows);
    if measured.errors() > 0 {
        let rows: Vec<Vec<String>> = measured
            .troubles
            .iter()
            .map(|trouble| {
                vec![trouble.operation.into(), trouble.kind.into(), trouble.example.clone(), trouble.count.to_string()]
            })
            .collect();
        page.table(3, &["failed", "kind", "the first of them", "times"], &rows);
    }
}

fn free(page: &mut Page, findings: &Findings) {
    let clients = findings.plan.clients;
    page.section("Free locks", "Acquire and release, nobody in the way.");
    let mut figures = Vec::new();
    figures.extend(distribution(findings, Workload::Single, LATENCY, "One client: how long a pair took"));
    figures.extend(percentiles(findings, Workload::Single, LATENCY, "One client: percentiles of a pair"));
    figures.extend(by_round(findings, Workload::Single, Round::rate, "One client: pairs per second, by round"));
    let title = format!("{clients} clients, a lock each: pairs per second, by round");
    figures.extend(by_round(findings, Workload::Parallel, Round::rate, &title));
    let title = format!("{clients} clients, a lock each: percentiles of a pair");
    figures.extend(percentiles(findings, Workload::Parallel, LATENCY, &title));
    figures.extend(percentiles(findings, Workload::Renewal, LATENCY, "One client: percentiles of a renewal"));
    page.figures(figures);
}

fn contended(page: &mut Page, findings: &Findings) {
    if !findings.plan.workloads.contains(&Workload::Contended) {
        return;
    }
    let said = format!("{} clients in line for one lock; each lets go as soon as it has it.", findings.plan.clients);
    page.section("One lock", &said);
    let mut figures = Vec::new();
    let of = Workload::Contended;
    figures.extend(distribution(findings, of, GAP, "From release to the next hold"));
    figures.extend(percentiles(findings, of, GAP, "Percentiles of that gap"));
    figures.extend(distribution(findings, of, LATENCY, "From asking to holding: the wait in line"));
    figures.extend(percentiles(findings, of, LATENCY, "Percentiles of the wait"));
    figures.extend(by_round(findings, of, Round::hand_overs, "Hand-overs per second, by round"));
    figures.extend(shares(findings));
    page.figures(figures);
}

fn reading(page: &mut Page, findings: &Findings) {
    page.section("How to read this", "");
    page.paragraph(
        "Every client asks again as soon as it is answered, so rates are the most that these clients can get, and waits \
         grow with their number. Durations are kept to one part in a hundred. A line that jumps from round to round \
         shows a machine or a store with other things to do: measure again when it is quiet.",
    );
    for Measured { store, prefix, left, .. } in &findings.stores {
        if left.held.is_empty() && left.unknown.is_none() {
            page.paragraph(&format!("{store}: nothing stays locked under {prefix}"));
        }
    }
}

/// What each store has of it, if anything.
fn found(findings: &Findings, workload: Workload) -> Vec<(usize, &Series)> {
    let series = findings.stores.iter().enumerate();
    series.filter_map(|(number, measured)| Some((number, measured.series(workload)?))).collect()
}

fn legend(findings: &Findings) -> Vec<String> {
    findings.stores.iter().map(|measured| measured.store.clone()).collect()
}

/// The ends of everything that was seen.
fn span(found: &[(usize, &Histogram)]) -> Option<(Duration, Duration)> {
    let least = found.iter().map(|(_, histogram)| histogram.min()).min()?;
    Some((least, found.iter().map(|(_, histogram)| histogram.max()).max()?))
}

fn seen(findings: &Findings, workload: Workload, of: Of) -> Vec<(usize, &Histogram)> {
    let all = found(findings, workload).into_iter().map(|(number, series)| (number, of(&series.sum)));
    all.filter(|(_, histogram)| histogram.count() > 0).collect()
}

fn distribution(findings: &Findings, workload: Workload, of: Of, caption: &str) -> Option<Figure> {
    let seen = seen(findings, workload, of);
    let (least, most) = span(&seen)?;
    let tens = (most.as_nanos().max(1) as f64 / least.as_nanos().max(1) as f64).log10();
    let per_ten = (BARS / tens).clamp(10.0, 40.0);
    let bars = seen.iter().map(|(number, histogram)| (*number, bars(histogram, per_ten)));
    let bars: Vec<(usize, Vec<Bar>)> = bars.collect();
    let highest = bars.iter().flat_map(|(_, bars)| bars).map(|bar| bar.2).fold(0.0, f64::max);
    let (x, y) = (Axis::durations("duration", least, most), Axis::amounts("% of all", highest));
    let mut plot = Plot::new(caption, x, y);
    bars.iter().for_each(|(number, bars)| plot.steps(*number, bars));
    Some(Figure { caption: caption.into(), legend: legend(findings), picture: plot.finish() })
}

type Bar = (f64, f64, f64, String);

/// Shares of all, in bars that are equally wide on a logarithmic scale.
fn bars(histogram: &Histogram, per_ten: f64) -> Vec<Bar> {
    let place = |duration: Duration| ((duration.as_nanos().max(1) as f64).log10() * per_ten).floor() as i64;
    let edge = |place: i64| 10f64.powf(place as f64 / per_ten);
    let (first, last) = (place(histogram.min()), place(histogram.max()));
    let mut counts = vec![0u64; usize::try_from(last - first).unwrap_or(0) + 1];
    for band in histogram.bands() {
        let at = usize::try_from(place(band.from) - first).unwrap_or(0).min(counts.len() - 1);
        counts[at] += band.count;
    }
    let bar = |(at, count): (usize, u64)| {
        let (from, to) = (edge(first + at as i64), edge(first + at as i64 + 1));
        let share = 100.0 * count as f64 / histogram.count() as f64;
        let [low, high] = [from, to].map(|nanos| spoken(Duration::from_nanos(nanos as u64)));
        (from, to, share, format!("{low} to {high}: {count}, {share:.2} %"))
    };
    counts.into_iter().enumerate().map(bar).collect()
}

fn percentiles(findings: &Findings, workload: Workload, of: Of, caption: &str) -> Option<Figure> {
    let seen = seen(findings, workload, of);
    let (least, most) = span(&seen)?;
    // As far as the samples carry: beyond, a curve is the slowest one alone.
    let nines = |count: u64| (count as f64).log10().clamp(1.0, 4.0);
    let all = seen.iter().map(|(_, histogram)| nines(histogram.count())).fold(1.0, f64::max);
    let x = Axis::percentiles("percentile, %", all);
    let mut plot = Plot::new(caption, x, Axis::durations("duration", least, most));
    for (number, histogram) in seen {
        let point = |step: u32| {
            let nines = nines(histogram.count()) * f64::from(step) / f64::from(CURVE_POINTS);
            let percent = 100.0 - 10f64.powf(2.0 - nines);
            (percent, histogram.percentile(percent).as_nanos() as f64)
        };
        let points: Vec<(f64, f64)> = (0..=CURVE_POINTS).map(point).collect();
        plot.curve(number, &points);
    }
    Some(Figure { caption: caption.into(), legend: legend(findings), picture: plot.finish() })
}

fn by_round(findings: &Findings, workload: Workload, of: fn(&Round) -> f64, caption: &str) -> Option<Figure> {
    let found = found(findings, workload);
    let values = found.iter().flat_map(|(_, series)| series.rounds.iter().map(of));
    let most = values.fold(0.0, f64::max);
    let rounds = found.iter().map(|(_, series)| series.rounds.len()).max().filter(|rounds| *rounds > 0)?;
    let mut plot = Plot::new(caption, Axis::numbers("round", rounds), Axis::amounts("per second", most));
    for (number, series) in found {
        let point = |(round, value): (usize, f64)| {
            let tip = format!("{}, round {}: {}", findings.stores[number].store, round + 1, rate(value));
            ((round + 1) as f64, value, tip)
        };
        let points: Vec<(f64, f64, String)> = series.rounds.iter().map(of).enumerate().map(point).collect();
        plot.dots(number, &points);
    }
    Some(Figure { caption: caption.into(), legend: legend(findings), picture: plot.finish() })
}

/// How often each client had the lock.
fn shares(findings: &Findings) -> Option<Figure> {
    let found = found(findings, Workload::Contended);
    let percent = |series: &Series| -> Vec<f64> {
        let all = series.sum.shares.iter().sum::<u64>().max(1) as f64;
        series.sum.shares.iter().map(|share| 100.0 * *share as f64 / all).collect()
    };
    let all: Vec<(usize, Vec<f64>)> = found.iter().map(|(number, series)| (*number, percent(series))).collect();
    let most = all.iter().flat_map(|(_, shares)| shares).copied().fold(0.0, f64::max);
    if most == 0.0 {
        return None;
    }
    let caption = "Who had the lock how often";
    let mut plot = Plot::new(caption, Axis::numbers("client", findings.plan.clients), Axis::amounts("% of all", most));
    for (number, shares) in all {
        let bar = |(client, share): (usize, f64)| {
            let (middle, tip) = ((client + 1) as f64, format!("client {}: {share:.2} %", client + 1));
            (middle - 0.5, middle + 0.5, share, tip)
        };
        let bars: Vec<Bar> = shares.into_iter().enumerate().map(bar).collect();
        plot.steps(number, &bars);
    }
    Some(Figure { caption: caption.into(), legend: legend(findings), picture: plot.finish() })
}
