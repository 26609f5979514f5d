//! The findings for a terminal of eighty columns.

use super::findings::{Findings, MEASURES, Measure, Measured, factor, rate};
use super::workload::Workload;
use crate::histogram::{Histogram, spoken};

const COLUMNS: usize = 80;

pub(super) fn text(findings: &Findings, warnings: &[String]) -> String {
    let stores = &findings.stores;
    let mut text = String::new();
    for (number, measured) in stores.iter().enumerate() {
        let role = if number == 0 { "store  " } else { "versus " };
        text += &format!("{role}  {}\n", measured.store);
    }
    text += &format!("plan     {}\n", findings.plan.told());
    let load = findings.machine.load.map(|load| format!(", load {load} before it began")).unwrap_or_default();
    text += &format!("machine  {} cores{load}\n", findings.machine.cores);
    for measured in stores {
        let title = if stores.len() > 1 { format!("\n{}\n", measured.store) } else { "\n".into() };
        text += &title;
        text += &figures(measured, findings.plan.clients);
    }
    text += &match stores.len() {
        1 => rounds(&stores[0]),
        _ => ratios(stores),
    };
    for measured in stores {
        let Some(series) = measured.series(Workload::Single).filter(|series| series.sum.latency.count() > 0) else {
            continue;
        };
        let of = if stores.len() > 1 { format!(", {}", measured.store) } else { String::new() };
        text += &wrapped("\nAcquire + release of a free lock by 1 client", &of);
        text += &series.sum.latency.bars(COLUMNS);
    }
    text.push('\n');
    text += &stores.iter().map(|measured| left(measured, stores.len() > 1)).collect::<String>();
    for warning in warnings {
        text += &wrapped("warning: ", warning);
    }
    text
}

fn figures(measured: &Measured, clients: usize) -> String {
    let head = ["", "COUNT", "RATE", "P50", "P90", "P99", "P99.9", "MAX"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    for series in &measured.series {
        let (workload, sum) = (series.workload, &series.sum);
        let name = workload.told(clients);
        if workload == Workload::Contended {
            rows.push(row(&name, rate(sum.rate()), &sum.latency));
            rows.push(row("  gap to next hold", rate(sum.hand_overs()), &sum.gap));
        } else {
            rows.push(row(&name, rate(sum.rate()), &sum.latency));
        }
    }
    let mut text = aligned(&rows);
    if let Some(fairness) = measured.series(Workload::Contended).and_then(|series| series.sum.fairness()) {
        text += "one lock: from asking to holding; gap: from release to the next one's hold\n";
        text += &format!("fairness {fairness:.3}: 1 is equal turns, {:.3} all turns to one\n", 1.0 / clients as f64);
    }
    text
}

fn row(name: &str, rate: String, histogram: &Histogram) -> Vec<String> {
    let durations = [50.0, 90.0, 99.0, 99.9].map(|percent| spoken(histogram.percentile(percent)));
    let mut cells = vec![name.to_owned(), histogram.count().to_string(), rate];
    if histogram.count() > 0 {
        cells.extend(durations);
        cells.push(spoken(histogram.max()));
    } else {
        cells.resize(8, "-".into());
    }
    cells
}

fn rounds(measured: &Measured) -> String {
    let head = ["", "LOWEST", "MEDIAN", "HIGHEST"].map(str::to_owned);
    let row = |measure: &Measure| {
        let spread = measure.spread(measured)?;
        let values = [spread.low, spread.median, spread.high].map(|value| measure.shown(value));
        Some([vec![measure.told.to_owned()], values.to_vec()].concat())
    };
    let rows: Vec<Vec<String>> = MEASURES.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("\nOver the rounds\n{}", aligned(&[vec![head.to_vec()], rows].concat()))
}

fn ratios(stores: &[Measured]) -> String {
    let head = ["", "STORE", "VERSUS", "RATIO", "ROUNDS", ""].map(str::to_owned);
    let row = |measure: &Measure| {
        let [one, other] = stores else { return None };
        let ratio = measure.ratio(stores)?;
        let (one, other) = (measure.spread(one)?.median, measure.spread(other)?.median);
        let (one, other) = (measure.shown(one), measure.shown(other));
        let spread = format!("{}..{}", factor(ratio.low), factor(ratio.high));
        let better = if measure.is_duration { "less is better" } else { "more is better" };
        Some(vec![measure.told.to_owned(), one, other, factor(ratio.median), spread, better.into()])
    };
    let rows: Vec<Vec<String>> = MEASURES.iter().filter_map(row).collect();
    if rows.is_empty() {
        return "\nNo round has figures of both stores: nothing can be compared.\n".into();
    }
    let how = "Medians of the rounds. The ratio, store / versus, is taken within each round.";
    format!("\n{how}\n{}", aligned(&[vec![head.to_vec()], rows].concat()))
}

/// Words at the left, numbers at the right of their columns; closer to each other if they do not fit.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let fits = widths.iter().sum::<usize>() + 2 * (widths.len() - 1) <= COLUMNS;
    let gap = if fits { "  " } else { " " };
    let mut text = String::new();
    for row in rows {
        let cell = |(column, (cell, &width)): (usize, (&String, &usize))| match column {
            0 => format!("{cell:width$}"),
            _ => format!("{gap}{cell:>width$}"),
        };
        let line: String = row.iter().zip(&widths).enumerate().map(cell).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn left(measured: &Measured, named: bool) -> String {
    let Measured { store, prefix, left, .. } = measured;
    if !left.held.is_empty() || left.unknown.is_some() {
        return String::new();
    }
    let place = if named { format!("{store}: ") } else { String::new() };
    wrapped("", &format!("{place}nothing stays locked under {prefix}"))
}

/// Lines that fit, those after the first indented.
fn wrapped(start: &str, text: &str) -> String {
    let mut lines = String::from(start);
    let mut used = start.chars().count();
    for (number, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if number > 0 && used + 1 + length > COLUMNS {
            lines += "\n  ";
            used = 2;
        } else if number > 0 {
            lines.push(' ');
            used += 1;
        }
        lines += word;
        used += length;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_warnings_are_wrapped_between_words() {
        let text = wrapped("warning: ", &"word ".repeat(40));
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")), "{text}");
    }

    #[test]
    fn numbers_stand_at_the_right_of_their_columns() {
        let rows = [vec!["".into(), "COUNT".into()], vec!["free".into(), "7".into()]];
        assert_eq!(aligned(&rows), "      COUNT\nfree      7\n");
    }
}
