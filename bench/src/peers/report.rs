//! The page: a table for each scenario, and where a peer is ahead of ours, by how much and why.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::scenario::{Case, Scenario};
use super::{Entry, Showing, plot, reasons};
use crate::figures::{Figure, OTHERS, RATE, WAIT_99};
use crate::kinds::{BLPOP, FLOOR, Kind, OURS, PLAIN};
use crate::runner::{digits, median};

/// Text, and pictures by the end of their name.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) plots: Vec<(String, String)>,
}

pub(super) fn page(showings: &[Showing], rounds: usize, versions: &str) -> Page {
    let mut tables = String::new();
    let mut told = BTreeSet::new();
    let mut section = "";
    let (mut behind, mut rows) = (0, 0);
    for showing in showings {
        if showing.scenario.section() != section {
            section = showing.scenario.section();
            let _ = writeln!(tables, "\n## {section}");
        }
        let (text, ahead, peers) = table(showing, &mut told);
        tables += &text;
        behind += ahead;
        rows += peers;
    }
    let rounds = match rounds {
        1 => "one round (of four turns with one task)".to_owned(),
        _ => format!("the median of {rounds} interleaved rounds (of four turns each with one task)"),
    };
    let mut text = format!(
        "- peers of other languages: {versions}\n\nEvery figure is from {rounds}. Every peer has its defaults, except that it waits as long as it takes and has a \
         lease of 30 s. None of the peers has a fencing token: \"ours without a token\" does the same work (its waiters poll, \
         too), \"ours\" does more. The raw floor and BLPOP are no locks, but what nobody can do without. A peer is *ahead* in a figure if it \
         is better than ours; how much is the median over the rounds, then comes the number of the reason. \"Hung\": \
         with free locks a task was not done 2 s after the end, with waiters nobody had the lock in the second half. In {behind} of {rows} rows a peer is ahead in at least one figure.\n"
    );
    let plots = plots(showings);
    for (name, _) in &plots {
        let _ = write!(text, "\n![{}](peers-{name}.svg)", name.replace('-', " "));
    }
    text += "\n\n## Who is ahead in what matters most\n\n| where | figure | ours | ours without a token | best peer | peer / ours |\n|---|---|---|---|---|---|\n";
    showings.iter().for_each(|showing| text += &best(showing));
    text += &tables;
    text += "\n## Why\n\n";
    for number in told {
        let _ = writeln!(text, "- **r{}** {}", number + 1, reasons::ALL[number].text);
    }
    Page { text, plots }
}

fn is_peer(kind: &Kind) -> bool {
    ![OURS.name, PLAIN.name, FLOOR.name, BLPOP.name].contains(&kind.name)
}

fn find<'a>(showing: &'a Showing, kind: &Kind) -> Option<&'a Entry> {
    showing.entries.iter().find(|entry| entry.kind.name == kind.name && !entry.rounds.is_empty())
}

/// The table, in how many rows a peer is ahead, and how many peers there are.
fn table(showing: &Showing, told: &mut BTreeSet<usize>) -> (String, usize, usize) {
    let figures = showing.scenario.figures();
    let names: Vec<&str> = figures.iter().map(|figure| figure.what).collect();
    let mut text =
        format!("\n### {}\n\n| lock | {} | ahead of ours |\n|---|", showing.scenario.title(), names.join(" | "));
    text += &"---|".repeat(figures.len() + 1);
    text.push('\n');
    let (mut behind, mut peers) = (0, 0);
    for entry in &showing.entries {
        peers += usize::from(is_peer(entry.kind));
        let cells: Vec<String> = (0..figures.len()).map(|column| cell(entry, figures[column], column)).collect();
        let ahead = if is_peer(entry.kind) { ahead(showing, entry, told) } else { String::new() };
        behind += usize::from(!ahead.is_empty());
        let _ = writeln!(text, "| {} | {} | {ahead} |", entry.kind.name, cells.join(" | "));
    }
    (text, behind, peers)
}

fn cell(entry: &Entry, figure: &Figure, column: usize) -> String {
    match (&entry.failed, entry.rounds.is_empty(), column) {
        (Some(error), true, 0) => format!("**{}**", error.replace('|', "/")),
        (_, true, _) => String::new(),
        (Some(error), false, 0) => format!("{}; once {error}", shown(figure, entry, column)),
        _ => shown(figure, entry, column),
    }
}

fn shown(figure: &Figure, entry: &Entry, column: usize) -> String {
    match median(&entry.figures(column)) {
        middle if middle.is_nan() => "none".to_owned(),
        middle => figure.unit.show(middle),
    }
}

/// In which figures, how far, and why.
fn ahead(showing: &Showing, entry: &Entry, told: &mut BTreeSet<usize>) -> String {
    let Some(ours) = find(showing, &OURS) else { return String::new() };
    let mut found = Vec::new();
    for (column, figure) in showing.scenario.figures().iter().enumerate() {
        let Some(ratio) = ratio(entry, ours, column) else { continue };
        if if figure.more_is_better { ratio > 1.0 } else { ratio < 1.0 } {
            let reason = reasons::find(showing.scenario, entry.kind, figure);
            told.extend(reason);
            let why = reason.map_or("not explained".to_owned(), |number| format!("r{}", number + 1));
            found.push(format!("**{}** {} × ({why})", figure.what, digits(ratio)));
        }
    }
    found.join(", ")
}

/// Within each round that both have, then the median.
fn ratio(entry: &Entry, ours: &Entry, column: usize) -> Option<f64> {
    let pairs = entry.rounds.iter().zip(&ours.rounds);
    let ratios: Vec<f64> = pairs.map(|(theirs, ours)| theirs[column] / ours[column]).collect();
    (!ratios.is_empty() && ratios.iter().all(|ratio| ratio.is_finite())).then(|| median(&ratios))
}

/// The line of a scenario in the summary.
fn best(showing: &Showing) -> String {
    let figure = showing.scenario.figures()[0];
    let middle = |entry: &Entry| median(&entry.figures(0));
    let peers = showing.entries.iter().filter(|entry| is_peer(entry.kind) && !entry.rounds.is_empty());
    let peers = peers.filter(|entry| middle(entry).is_finite());
    let sign = if figure.more_is_better { -1.0 } else { 1.0 };
    let best = peers.min_by(|one, other| (sign * middle(one)).total_cmp(&(sign * middle(other))));
    let show = |entry: Option<&Entry>| entry.map_or("none".to_owned(), |entry| shown(figure, entry, 0));
    let (ours, plain) = (find(showing, &OURS), find(showing, &PLAIN));
    let far = best.zip(ours).and_then(|(best, ours)| ratio(best, ours, 0)).map_or(String::new(), |far| {
        let ahead = if figure.more_is_better { far > 1.0 } else { far < 1.0 };
        format!("{} ×{}", digits(far), if ahead { " **ahead**" } else { "" })
    });
    let name = best.map_or("", |entry| entry.kind.name);
    format!(
        "| {} | {} | {} | {} | {name}: {} | {far} |\n",
        showing.scenario.title(),
        figure.what,
        show(ours),
        show(plain),
        show(best)
    )
}

/// Which pictures there are.
fn plots(showings: &[Showing]) -> Vec<(String, String)> {
    let free = |case| match case {
        Case::Free(tasks) => Some(tasks),
        _ => None,
    };
    let four = |case| match case {
        Case::Wanted(waiters, processes) if processes > 1 => Some(waiters),
        _ => None,
    };
    let mut plots = Vec::new();
    for nodes in [1, 5] {
        let servers = if nodes == 1 { "one server" } else { "five servers" };
        let mut add = |name: &str, title: &str, figure: &Figure, at: &str, x: &dyn Fn(Case) -> Option<usize>| {
            let title = format!("{title}, {servers}");
            plots.push((format!("{name}-{nodes}"), draw(showings, nodes, &title, figure, at, x)));
        };
        add("pairs", "lock + unlock per second", &RATE, "tasks", &free);
        add("handovers", "hand-overs to another waiter per second", &OTHERS, "waiters, in up to four processes", &four);
        add("waits", "a wait in ms, p99", &WAIT_99, "waiters, in up to four processes", &four);
    }
    plots
}

fn draw(
    showings: &[Showing],
    nodes: usize,
    title: &str,
    figure: &Figure,
    at: &str,
    x: &dyn Fn(Case) -> Option<usize>,
) -> String {
    let chosen = showings.iter().filter(|showing| showing.scenario.nodes == nodes);
    let chosen: Vec<(usize, &Showing)> =
        chosen.filter_map(|showing| Some((x(showing.scenario.case)?, showing))).collect();
    let scale = if figure.what == WAIT_99.what { 1e-6 } else { 1.0 };
    let value = |showing: &Showing, kind: &Kind| {
        let column = position(showing.scenario, figure)?;
        let middle = median(&find(showing, kind)?.figures(column)) * scale;
        (middle.is_finite() && middle > 0.0).then_some(middle)
    };
    let kinds =
        chosen.first().map(|(_, showing)| &showing.entries[..]).unwrap_or_default().iter().map(|entry| entry.kind);
    let lines = kinds.map(|kind| (kind.name, chosen.iter().map(|(_, showing)| value(showing, kind)).collect()));
    plot::lines(title, at, &chosen.iter().map(|(x, _)| x.to_string()).collect::<Vec<_>>(), &lines.collect::<Vec<_>>())
}

fn position(scenario: Scenario, figure: &Figure) -> Option<usize> {
    scenario.figures().iter().position(|other| other.what == figure.what)
}
