//! Pages that are read from top to bottom: a lock, the nodes, deadlocks.

use std::time::{Duration, Instant};

use fencepost::LockState;

use super::super::book::Entry;
use super::super::health::Node;
use super::super::model::{Circles, Model};
use super::super::paint::{Ink, Line};
use super::super::text::{calm, harmless, latency, named, to_left, to_right, width, wrapped};
use super::bar::bar;
use super::head;
use crate::commands::state::{mode, or_dash, token};

/// How wide the bar of a holder is.
const BAR: usize = 24;
/// How wide the names of facts are.
const FACT: usize = 11;
/// The longest label of a line that others are aligned with.
const LABEL_MAX: usize = 32;

/// One lock: who has it, who waits.
pub(super) fn lock(model: &Model, name: &str, now: Instant) -> Vec<Line> {
    let (columns, shown) = (model.size.0, model.now(now));
    let mut lines: Vec<Line> =
        wrapped(&harmless(name), columns).into_iter().map(|row| Line::of(row, Ink::Bold)).collect();
    lines.extend(head::warning(model, now));
    let Some(entry) = model.book.find(name) else {
        lines.push(Line::of("The store knows nothing of it now.", Ink::Dim));
        return lines;
    };
    lines.extend(wrapped(&summary(entry), columns).into_iter().map(|row| Line::of(row, Ink::Plain)));
    lines.push(Line::new());
    lines.push(Line::of("Held by", Ink::Accent));
    if !entry.is_held() {
        lines.push(Line::of("  Nobody. It is free.", Ink::Dim));
    }
    for holder in 0..entry.state.holders.len() {
        lines.extend(one_holder(entry, holder, shown));
    }
    lines.push(Line::new());
    lines.push(Line::of(format!("In line ({})", entry.state.waiters.len()), Ink::Accent));
    if !entry.is_contended() {
        lines.push(Line::of("  Nobody waits.", Ink::Dim));
    }
    lines.extend(line(entry, shown));
    lines
}

fn summary(entry: &Entry) -> String {
    let held = match entry.state.holders.len() {
        0 => "free".to_owned(),
        1 => "held".to_owned(),
        all => format!("held by {all}"),
    };
    let last = or_dash(entry.state.last_token, |token| token.to_string());
    let waits = match entry.state.waiters.len() {
        0 => String::new(),
        1 => " · 1 waits".into(),
        all => format!(" · {all} wait"),
    };
    format!("{} · {held}{waits} · last token {last}", entry.kind.word())
}

fn one_holder(entry: &Entry, number: usize, now: Instant) -> Vec<Line> {
    let holder = &entry.state.holders[number];
    let fact = |name: &str, value: Line| Line::of(format!("    {}", to_left(name, FACT)), Ink::Dim).beside(value);
    let plain = |text: String| Line::of(text, Ink::Plain);
    let token = token(holder).unwrap_or_else(|| "none: another library".into());
    let mut lines = vec![
        Line::of(format!("  {}", named(&holder.label)), Ink::Bold),
        fact("mode", plain(mode(holder.shared))),
        fact("token", plain(token)),
        fact("held", plain(or_dash(entry.held(number, now), calm))),
    ];
    lines.extend(entry.left(number, now).map(|left| fact("time left", bar(left, BAR))));
    lines.extend(holder.actor.map(|actor| fact("actor", plain(actor.to_string()))));
    lines.extend(holder.payload.as_ref().map(|payload| fact("publishes", plain(harmless(payload).into_owned()))));
    lines
}

/// Who waits, the next one first.
fn line(entry: &Entry, now: Instant) -> Vec<Line> {
    let waiters = &entry.state.waiters;
    let labels: Vec<_> = waiters.iter().map(|waiter| named(&waiter.label)).collect();
    let widest = labels.iter().map(|label| width(label)).max().unwrap_or(0).min(LABEL_MAX);
    let places = waiters.len().to_string().len().max(2);
    let rows = waiters.iter().zip(labels).enumerate().map(|(place, (waiter, label))| {
        let actor = waiter.actor.map(|actor| format!("  actor {actor}")).unwrap_or_default();
        let waited = or_dash(entry.waited(place, now), calm);
        Line::of(format!("  {}  ", to_right(&(place + 1).to_string(), places)), Ink::Late)
            .and(to_left(&label, widest), Ink::Bold)
            .and(format!("  {}  {}", to_left(&mode(waiter.shared), 9), to_right(&waited, 7)), Ink::Plain)
            .and(actor, Ink::Dim)
    });
    rows.collect()
}

/// What each node says, how fast, and since when.
pub(super) fn nodes(model: &Model, now: Instant) -> Vec<Line> {
    let (health, shown) = (&model.health, model.now(now));
    let (well, all, needed) = (health.well(), health.nodes.len(), health.needed());
    let (words, ink) = match (well, all) {
        (_, 0) => ("Asking…".to_owned(), Ink::Dim),
        (1, 1) => ("One node, which answers.".to_owned(), Ink::Good),
        (_, 1) => ("One node, which does not answer.".to_owned(), Ink::Bad),
        (well, all) if well == all => (format!("{well} of {all} answer, {needed} must."), Ink::Good),
        (well, all) if well >= needed => (format!("{well} of {all} answer, {needed} must. Locks go on."), Ink::Late),
        _ => (format!("{well} of {all} answer, {needed} must. No lock can be granted or renewed."), Ink::Bad),
    };
    let names = health.nodes.iter().map(|node| width(&harmless(&node.name))).max().unwrap_or(0).max(4);
    let says = health.nodes.iter().map(|node| width(&node.says())).max().unwrap_or(0).max(4);
    let mut lines = vec![Line::of("Nodes of the store", Ink::Bold), Line::of(words, ink), Line::new()];
    let title =
        [&to_left("NODE", names), &to_left("SAYS", says), "LATENCY", "    FOR", "LAST ANSWERS"].map(str::to_owned);
    lines.push(Line::of(title.join("  "), Ink::Head).filled_with(Ink::Head));
    lines.extend(health.nodes.iter().map(|node| {
        let ink = if node.is_well() { Ink::Good } else { Ink::Bad };
        let since = calm(shown.saturating_duration_since(node.since));
        let took = if node.is_well() { latency(node.latency) } else { "-".into() };
        Line::of(to_left(&harmless(&node.name), names), Ink::Bold)
            .and(format!("  {}", to_left(&node.says(), says)), ink)
            .and(format!("  {}  {}  ", to_right(&took, 7), to_right(&since, 7)), Ink::Plain)
            .and(answers(node), ink)
    }));
    lines
}

/// The last answers of a node, the highest the slowest.
fn answers(node: &Node) -> String {
    const STEPS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];
    let most = node.samples.iter().flatten().max().copied().unwrap_or_default().max(Duration::from_millis(10));
    let step = |latency: Duration| {
        let place = latency.as_micros() * (STEPS.len() as u128 - 1) / most.as_micros();
        STEPS[usize::try_from(place).unwrap_or(0)]
    };
    node.samples.iter().map(|sample| sample.map_or('×', step)).collect()
}

/// Who waits for whom in a circle.
pub(super) fn deadlocks(model: &Model, now: Instant) -> Vec<Line> {
    let mut lines = vec![Line::of("Deadlocks", Ink::Bold)];
    match &model.circles {
        Circles::Asking => lines.push(Line::of("Looking at all locks that somebody waits for…", Ink::Dim)),
        Circles::Failed(why) => lines.push(Line::of(why.clone(), Ink::Bad)),
        Circles::Found { circles, at } => {
            let ago = calm(now.saturating_duration_since(*at));
            let (words, ink) = match circles.len() {
                0 => (format!("None, {ago} ago. d looks again."), Ink::Good),
                1 => (format!("One, {ago} ago. d looks again."), Ink::Bad),
                all => (format!("{all}, {ago} ago. d looks again."), Ink::Bad),
            };
            lines.push(Line::of(words, ink));
            lines.extend(circles.iter().flat_map(|circle| one_circle(circle)));
        }
    }
    lines
}

/// The holder of each lock waits for the next one below it, and that of the last for the first.
fn one_circle(circle: &[LockState]) -> Vec<Line> {
    let names = circle.iter().chain(circle.first()).map(|lock| harmless(&lock.name)).collect::<Vec<_>>();
    let mut lines = vec![Line::new(), Line::of(names.join(" → "), Ink::Accent)];
    for lock in circle {
        lines.push(Line::of(format!("  {}", harmless(&lock.name)), Ink::Bold));
        for holder in &lock.holders {
            let held = or_dash(holder.held_for, calm);
            lines.push(Line::of(format!("    held by {} for {held}", named(&holder.label)), Ink::Plain));
        }
        for waiter in &lock.waiters {
            let words = format!("    wanted by {} for {}", named(&waiter.label), calm(waiter.waited));
            lines.push(Line::of(words, Ink::Late));
        }
    }
    lines
}
