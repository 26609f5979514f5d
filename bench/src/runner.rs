//! Rounds, medians and the table.

use std::collections::HashMap;
use std::fmt::Write;

use crate::Outcome;
use crate::site::Site;

/// Something to measure, round after round.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// What stands above its table.
    pub(crate) about: &'static str,
    pub(crate) rounds: usize,
    pub(crate) rows: &'static [Row],
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
#[derive(Clone, Copy)]
pub(crate) struct Row {
    what: &'static str,
    unit: Unit,
    /// The rows it is divided by.
    against: &'static [&'static str],
    goal: Option<Goal>,
}

impl Row {
    pub(crate) const fn new(what: &'static str, unit: Unit) -> Self {
        Self { what, unit, against: &[], goal: None }
    }

    pub(crate) const fn against(self, against: &'static [&'static str]) -> Self {
        Self { against, ..self }
    }

    pub(crate) const fn goal(self, goal: Goal) -> Self {
        Self { goal: Some(goal), ..self }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Nanos,
    PerSecond,
    Percent,
}

impl Unit {
    fn show(self, figure: f64) -> String {
        match self {
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
    Below(f64),
    /// Of every single round.
    AlwaysBetween(f64, f64),
}

impl Goal {
    fn show(self, unit: Unit, figures: &[f64]) -> String {
        let (words, met) = match self {
            Self::Below(limit) => (format!("below {}", unit.show(limit)), median(figures) < limit),
            Self::AlwaysBetween(least, most) => {
                let words = format!("{} to {}, in every round", unit.show(least), unit.show(most));
                (words, figures.iter().all(|figure| (least..=most).contains(figure)))
            }
        };
        format!("{words}: {}", if met { "met" } else { "**missed**" })
    }
}

/// What a round has found so far.
#[derive(Default)]
pub(crate) struct Readings(HashMap<&'static str, f64>);

impl Readings {
    pub(crate) fn note(&mut self, what: &'static str, figure: f64) {
        self.0.insert(what, figure);
    }

    fn of(&self, what: &str) -> f64 {
        *self.0.get(what).unwrap_or_else(|| panic!("BUG: no round has measured {what:?}"))
    }
}

/// How long each of many went, in nanoseconds.
#[derive(Default)]
pub(crate) struct Samples(Vec<u64>);

impl Samples {
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
pub(crate) fn run(workload: &Workload, site: &Site) -> Outcome<String> {
    let Workload { name, about, rounds, rows, .. } = workload;
    eprintln!("{name}: preparing");
    let mut round = (workload.prepare)(site)?;
    let mut all = Vec::new();
    for number in 1..=*rounds {
        let mut readings = Readings::default();
        round(&mut readings)?;
        let shown = rows.iter().map(|row| row.unit.show(readings.of(row.what)));
        eprintln!("{name}: round {number} of {rounds}: {}", shown.collect::<Vec<_>>().join(", "));
        all.push(readings);
    }
    Ok(format!("\n## {name}\n\n{about} Medians of {rounds} rounds.\n\n{}", table(rows, &all)))
}

fn table(rows: &[Row], rounds: &[Readings]) -> String {
    let mut text =
        String::from("| what | median (lowest to highest round) | ratio (lowest to highest round) | goal |\n");
    text.push_str("|---|---|---|---|\n");
    for row in rows {
        let figures: Vec<f64> = rounds.iter().map(|round| round.of(row.what)).collect();
        let ratios: Vec<String> = row.against.iter().map(|baseline| ratio(row, baseline, rounds)).collect();
        let goal = row.goal.map(|goal| goal.show(row.unit, &figures)).unwrap_or_default();
        let (middle, around) = (row.unit.show(median(&figures)), spread(&figures, |figure| row.unit.show(figure)));
        let _ = writeln!(text, "| {} | **{middle}** ({around}) | {} | {goal} |", row.what, ratios.join("; "));
    }
    text
}

/// Divided round by round: what slowed a whole round down cancels out.
fn ratio(row: &Row, baseline: &str, rounds: &[Readings]) -> String {
    let ratios: Vec<f64> = rounds.iter().map(|round| round.of(row.what) / round.of(baseline)).collect();
    format!("**{}** × {baseline} ({})", digits(median(&ratios)), spread(&ratios, digits))
}

fn spread(figures: &[f64], show: impl Fn(f64) -> String) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} to {}", show(least), show(most))
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[middle - 1], sorted[middle]) } else { sorted[middle] }
}

/// Three digits that mean something.
fn digits(figure: f64) -> String {
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
        const ROWS: &[Row] = &[Row::new("ours", Unit::Nanos).against(&["raw"]), Row::new("raw", Unit::Nanos)];
        let rounds = [(2.0, 1.0), (30.0, 10.0), (4.0, 1.0)].map(|(ours, raw)| {
            let mut readings = Readings::default();
            readings.note("ours", ours);
            readings.note("raw", raw);
            readings
        });
        let table = table(ROWS, &rounds);
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
        assert!(goal.show(Unit::Percent, &[1.0, 2.0, 3.0]).ends_with(": met"));
        assert!(goal.show(Unit::Percent, &[1.0, 2.0, 11.0]).ends_with("**missed**"));
    }
}
