//! Rounds, medians and the table.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;

use crate::Outcome;
use crate::progress::Progress;
use crate::site::Site;

/// Something to measure, round after round.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// What stands above its table.
    pub(crate) about: &'static str,
    pub(crate) rounds: usize,
    pub(crate) rows: fn() -> Vec<Row>,
    /// Sets everything up and warms it.
    pub(crate) prepare: fn(&Site) -> Outcome<Round>,
    /// What its other processes do.
    pub(crate) work: fn(&[String]) -> Outcome<()>,
}

/// Measures every row once, subjects and baselines by turns.
pub(crate) type Round = Box<dyn FnMut(&mut Readings) -> Outcome<()>>;

/// For workloads of one process.
pub(crate) fn no_work(_args: &[String]) -> Outcome<()> {
    Err("this workload has no other processes".into())
}

/// One line of the table.
#[derive(Clone)]
pub(crate) struct Row {
    what: Cow<'static, str>,
    unit: Unit,
    /// The rows it is divided by.
    against: Vec<Cow<'static, str>>,
    goal: Option<Goal>,
}

impl Row {
    pub(crate) fn new(what: impl Into<Cow<'static, str>>, unit: Unit) -> Self {
        Self { what: what.into(), unit, against: Vec::new(), goal: None }
    }

    pub(crate) fn against(mut self, baseline: impl Into<Cow<'static, str>>) -> Self {
        self.against.push(baseline.into());
        self
    }

    pub(crate) fn goal(self, goal: impl Into<Option<Goal>>) -> Self {
        Self { goal: goal.into(), ..self }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Nanos,
    PerSecond,
    Percent,
    Number,
}

impl Unit {
    pub(crate) fn show(self, figure: f64) -> String {
        match self {
            Self::Number if figure.fract() == 0.0 => format!("{figure}"),
            Self::Number => digits(figure),
            Self::PerSecond => format!("{} /s", digits(figure)),
            Self::Percent => format!("{} %", digits(figure)),
            Self::Nanos if figure.abs() < 1e3 => format!("{} ns", digits(figure)),
            Self::Nanos if figure.abs() < 1e6 => format!("{} µs", digits(figure / 1e3)),
            Self::Nanos => format!("{} ms", digits(figure / 1e6)),
        }
    }
}

/// What is wanted of a row.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// Of the median.
    AtMost(f64),
    AtLeast(f64),
    /// Of every single round.
    AlwaysBetween(f64, f64),
    /// Of the median ratio to the first baseline.
    RatioAtMost(f64),
    RatioAtLeast(f64),
}

impl Goal {
    fn show(self, unit: Unit, figures: &[f64], ratios: &[f64]) -> String {
        let (words, met) = match self {
            Self::AtMost(limit) => (format!("at most {}", unit.show(limit)), median(figures) <= limit),
            Self::AtLeast(limit) => (format!("at least {}", unit.show(limit)), median(figures) >= limit),
            Self::AlwaysBetween(least, most) => {
                let words = format!("{} to {}, in every round", unit.show(least), unit.show(most));
                (words, figures.iter().all(|figure| (least..=most).contains(figure)))
            }
            Self::RatioAtMost(limit) => (format!("at most {limit} ×"), median(ratios) <= limit),
            Self::RatioAtLeast(limit) => (format!("at least {limit} ×"), median(ratios) >= limit),
        };
        format!("{words}: {}", if met { "met" } else { "**missed**" })
    }
}

/// What a round has found so far.
#[derive(Default)]
pub(crate) struct Readings(HashMap<Cow<'static, str>, f64>);

impl Readings {
    pub(crate) fn note(&mut self, what: impl Into<Cow<'static, str>>, figure: f64) {
        self.0.insert(what.into(), figure);
    }

    fn of(&self, what: &str) -> f64 {
        *self.0.get(what).unwrap_or_else(|| panic!("BUG: no round has measured {what:?}"))
    }
}

/// How long each of many went, in nanoseconds.
#[derive(Default)]
pub(crate) struct Samples(Vec<u64>);

impl Samples {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The value that so many of a hundred do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).map_or(f64::NAN, |nanos| *nanos as f64)
    }
}

impl Extend<u64> for Samples {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, nanos: I) {
        self.0.extend(nanos);
    }
}

/// Runs all rounds of a workload; answers its section of the report.
pub(crate) fn run(workload: &Workload, site: &Site, quick: bool) -> Outcome<String> {
    let Workload { name, about, rounds, .. } = workload;
    let rounds = if quick { 1 } else { *rounds };
    let rows = (workload.rows)();
    let mut round = (workload.prepare)(site)?;
    let mut all = Vec::new();
    let mut progress = Progress::new(rounds);
    for number in 1..=rounds {
        progress.step(&format!("{name}, round {number}"))?;
        let mut readings = Readings::default();
        round(&mut readings)?;
        all.push(readings);
    }
    let rounds = if rounds == 1 { "One round.".to_owned() } else { format!("Medians of {rounds} rounds.") };
    Ok(format!("\n## {name}\n\n{about} {rounds}\n\n{}", table(&rows, &all)))
}

fn table(rows: &[Row], rounds: &[Readings]) -> String {
    let mut text =
        String::from("| what | median (lowest to highest round) | ratio (lowest to highest round) | goal |\n");
    text.push_str("|---|---|---|---|\n");
    for row in rows {
        let figures: Vec<f64> = rounds.iter().map(|round| round.of(&row.what)).collect();
        let ratios: Vec<Vec<f64>> = row.against.iter().map(|baseline| ratios(row, baseline, rounds)).collect();
        let shown: Vec<String> = ratios
            .iter()
            .zip(&row.against)
            .map(|(ratios, baseline)| {
                format!("**{}** × {baseline} ({})", digits(median(ratios)), spread(ratios, digits))
            })
            .collect();
        let first = ratios.first().map(Vec::as_slice).unwrap_or_default();
        let goal = row.goal.map(|goal| goal.show(row.unit, &figures, first)).unwrap_or_default();
        let (middle, around) = (row.unit.show(median(&figures)), spread(&figures, |figure| row.unit.show(figure)));
        let _ = writeln!(text, "| {} | **{middle}** ({around}) | {} | {goal} |", row.what, shown.join("; "));
    }
    text
}

/// Divided round by round: what slowed a whole round down cancels out.
fn ratios(row: &Row, baseline: &str, rounds: &[Readings]) -> Vec<f64> {
    rounds.iter().map(|round| round.of(&row.what) / round.of(baseline)).collect()
}

fn spread(figures: &[f64], show: impl Fn(f64) -> String) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} to {}", show(least), show(most))
}

pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[middle - 1], sorted[middle]) } else { sorted[middle] }
}

/// Three digits that mean something.
pub(crate) fn digits(figure: f64) -> String {
    match figure.abs() {
        size if size < 10.0 => format!("{figure:.2}"),
        size if size < 100.0 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_within_each_round_and_then_the_median() {
        let rows = [Row::new("ours", Unit::Nanos).against("raw"), Row::new("raw", Unit::Nanos)];
        let rounds = [(2.0, 1.0), (30.0, 10.0), (4.0, 1.0)].map(|(ours, raw)| {
            let mut readings = Readings::default();
            readings.note("ours", ours);
            readings.note("raw", raw);
            readings
        });
        let table = table(&rows, &rounds);
        assert!(
            table.contains("| ours | **4.00 ns** (2.00 ns to 30.0 ns) | **3.00** × raw (2.00 to 4.00) |"),
            "{table}"
        );
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let mut samples = Samples::default();
        samples.extend((1..=100).rev());
        assert_eq!((samples.percentile(50), samples.percentile(99)), (50.0, 99.0));
    }

    #[test]
    fn one_bad_round_misses_a_goal_that_holds_always() {
        let goal = Goal::AlwaysBetween(0.0, 10.0);
        assert!(goal.show(Unit::Percent, &[1.0, 2.0, 3.0], &[]).ends_with(": met"));
        assert!(goal.show(Unit::Percent, &[1.0, 2.0, 11.0], &[]).ends_with("**missed**"));
    }
}
