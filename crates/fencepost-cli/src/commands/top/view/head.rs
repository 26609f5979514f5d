//! What stands above the table: how many, how fast, how the nodes are, and what is wrong.

use std::time::Instant;

use super::super::health::{Health, Node};
use super::super::model::Model;
use super::super::order::Show;
use super::super::paint::{Ink, Line};
use super::super::text::{calm, count, cut, harmless, latency, pause};

/// Terminals with so many rows have room for all of it.
const ALL: usize = 12;
/// And with so many for the half.
const HALF: usize = 6;

pub(super) fn lines(model: &Model, now: Instant) -> Vec<Line> {
    let (columns, rows) = model.size;
    let warning = warning(model, now);
    match rows {
        ALL.. => vec![
            title(model, columns),
            counts(model, columns, now),
            nodes(&model.health, columns, now),
            warning.unwrap_or_default(),
        ],
        HALF.. => vec![counts(model, columns, now), warning.unwrap_or_else(|| nodes(&model.health, columns, now))],
        _ => warning.into_iter().collect(),
    }
}

fn title(model: &Model, columns: usize) -> Line {
    let options = &model.options;
    let right = match model.paused_at {
        Some(_) => Line::of("PAUSED", Ink::Bad),
        None => Line::of(format!("every {}", pause(options.delay)), Ink::Dim),
    };
    let prefix = match options.prefix.as_str() {
        "" => String::new(),
        prefix => format!("  names {}…", harmless(prefix)),
    };
    let read_only = if options.read_only { "  read-only" } else { "" };
    let room = columns.saturating_sub("fencepost top  ".len() + right.width() + 1);
    let where_to = format!("{}{prefix}{read_only}", harmless(&options.store));
    let left = Line::of("fencepost top", Ink::Bold).and("  ", Ink::Plain).and(cut(&where_to, room), Ink::Dim);
    left.with_right(right, columns)
}

/// Which locks there are to choose from, and how many change hands.
fn counts(model: &Model, columns: usize, now: Instant) -> Line {
    let counts = model.book.counts(model.now(now));
    let choice = |show: Show| {
        let ink = if show == model.show { Ink::Bold } else { Ink::Dim };
        let number = if show == Show::Contended && counts.contended > 0 { Ink::Late } else { ink };
        Line::of(format!("{} ", show.title()), ink).and(count(show.count(counts)), number)
    };
    let waiting = match counts.waiters {
        0 => Line::new(),
        waiters => Line::of(format!("  {} waiting", count(waiters)), Ink::Late),
    };
    let mut all = Line::new();
    for show in Show::ALL {
        all.append(choice(show).and("  ", Ink::Plain));
    }
    let mut all = all.and(mark(model), Ink::Dim);
    let mut one = choice(model.show).and(mark(model), Ink::Dim);
    if let Some(filter) = filter_words(model) {
        all.push(format!("  {filter}"), Ink::Accent);
        one.push(format!("  {filter}"), Ink::Accent);
    }
    let rates = model.book.rates();
    let rate = |words: &str, rate: Option<f64>| match rate {
        Some(rate) => format!("{words} {rate:.1}/s"),
        None => format!("{words} -"),
    };
    let acquired = rate("acquired", rates.map(|rates| rates.acquired));
    let released = rate("released", rates.map(|rates| rates.released));
    let right = Line::of(format!("{acquired}  {released}"), Ink::Accent);
    let short = rate("acq", rates.map(|rates| rates.acquired));
    // The first that there is room for.
    let variants = [
        (all.clone().beside(waiting.clone()), right.clone()),
        (all.clone(), right),
        (all.clone(), Line::new()),
        (one.clone().beside(waiting.clone()), Line::of(short, Ink::Accent)),
        (one.beside(waiting), Line::new()),
    ];
    let fits = |(left, right): &(Line, Line)| left.width() + right.width() < columns;
    let chosen = variants.iter().find(|variant| fits(variant)).or(variants.last());
    chosen.map(|(left, right)| left.clone().with_right(right.clone(), columns)).unwrap_or_default()
}

fn mark(model: &Model) -> String {
    if model.book.is_cut { format!("of the first {}", count(model.options.limit)) } else { String::new() }
}

fn filter_words(model: &Model) -> Option<String> {
    (!model.filter.is_empty()).then(|| format!("filter {:?}: {}", model.filter, count(model.order.len())))
}

/// Who answers, and how many must. Of many nodes those that do not answer are named.
fn nodes(health: &Health, columns: usize, now: Instant) -> Line {
    let (well, all, needed) = (health.well(), health.nodes.len(), health.needed());
    let ink = match well {
        well if well == all => Ink::Good,
        well if well >= needed => Ink::Late,
        _ => Ink::Bad,
    };
    let words = match all {
        0 => return Line::of("Nodes  asking…", Ink::Dim),
        1 => Line::of("Node ", Ink::Dim),
        _ => Line::of("Nodes  ", Ink::Dim).and(format!("{well} of {all} answer, {needed} must"), ink).and(" ", ink),
    };
    let each = health.nodes.iter().fold(words.clone(), |line, node| line.and(" ", ink).beside(one_node(node, now)));
    if each.width() <= columns {
        return each;
    }
    let away = health.nodes.iter().filter(|node| !node.is_well());
    let named = away.fold(words, |line, node| line.and(" ", ink).beside(one_node(node, now)));
    let slowest = health.nodes.iter().filter(|node| node.is_well()).map(|node| node.latency).max();
    match slowest {
        Some(slowest) if all == 1 => named.and(format!(" answers within {}", latency(slowest)), Ink::Good),
        Some(slowest) if well == all => named.and(format!(" within {}", latency(slowest)), Ink::Plain),
        _ => named,
    }
}

fn one_node(node: &Node, now: Instant) -> Line {
    let name = harmless(&node.name).into_owned();
    if node.is_well() {
        return Line::of(name, Ink::Dim).and(format!(" {} ", latency(node.latency)), Ink::Good);
    }
    let away = calm(now.saturating_duration_since(node.since));
    Line::of(name, Ink::Bad).and(format!(" {}, for {away} ", node.says()), Ink::Bad)
}

/// What the operator must know before anything else.
pub(super) fn warning(model: &Model, now: Instant) -> Option<Line> {
    let for_how_long = |since: Instant| calm(now.saturating_duration_since(since));
    if let Some(trouble) = &model.trouble {
        let has = if trouble.is_away { "has been away" } else { "has refused" };
        let since = for_how_long(trouble.since);
        return Some(Line::of(format!("The store {has} for {since}: {}", trouble.why), Ink::Bad));
    }
    let since = model.silent_since(now)?;
    let words = match model.book.read_at {
        Some(_) => "The store has not answered for",
        None => "Reading for",
    };
    Some(Line::of(format!("{words} {}", for_how_long(since)), Ink::Late))
}

/// Why there is no row.
pub(super) fn emptiness(model: &Model) -> String {
    match (model.book.read_at, model.show) {
        (None, _) => "Reading…".into(),
        _ if !model.filter.is_empty() => "Nothing here matches the filter; Esc takes it away.".into(),
        (_, Show::InUse) => "No lock is in use. Tab shows the free ones.".into(),
        (_, Show::Contended) => "Nobody waits.".into(),
        _ => "There is no lock.".into(),
    }
}
