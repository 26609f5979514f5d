//! The screen as lines: from what is known, and nothing else.

mod bar;
mod foot;
mod head;
mod help;
mod pages;
mod table;
#[cfg(test)]
mod tests;

use std::time::Instant;

use super::model::{Model, Page, Prompt};
use super::paint::{Ink, Line};
use super::text::to_left;

/// Below so many rows everything but the locks themselves gives way.
const ROWS_FOR_TITLES: usize = 3;

/// Tells the model how much of it there is room for.
pub(super) fn fit(model: &mut Model, now: Instant) {
    let scroll_max = text(model, now).map_or(0, |text| text.len().saturating_sub(space(model, now)));
    model.fit(room(model, now), scroll_max);
}

/// How many rows of locks there is room for.
fn room(model: &Model, now: Instant) -> usize {
    let titles = usize::from(model.size.1 >= ROWS_FOR_TITLES);
    space(model, now).saturating_sub(head::lines(model, now).len() + titles)
}

/// How many rows there are above the foot.
fn space(model: &Model, now: Instant) -> usize {
    let (columns, rows) = model.size;
    rows.saturating_sub(foot::lines(model, columns, now).len())
}

/// A page that is read from top to bottom.
fn text(model: &Model, now: Instant) -> Option<Vec<Line>> {
    match &model.page {
        Page::Locks => None,
        Page::Lock(name) => Some(pages::lock(model, name, now)),
        Page::Nodes => Some(pages::nodes(model, now)),
        Page::Deadlocks => Some(pages::deadlocks(model, now)),
        Page::Help => Some(help::lines(model)),
    }
}

/// As many lines as the terminal has rows.
pub(super) fn screen(model: &Model, now: Instant) -> Vec<Line> {
    let (columns, rows) = model.size;
    let mut lines = match text(model, now) {
        None => locks(model, now),
        Some(text) => text.into_iter().skip(model.scroll).collect(),
    };
    lines.resize(space(model, now), Line::new());
    lines.extend(foot::lines(model, columns, now));
    // Of a terminal that is lower than all this, the end is what asks and answers.
    lines.split_off(lines.len().saturating_sub(rows))
}

/// The rows in sight; only these are written.
fn locks(model: &Model, now: Instant) -> Vec<Line> {
    let (columns, rows) = model.size;
    let room = room(model, now);
    let panel = if let Some(Prompt::Sort(at)) = model.prompt { sort_panel(at, columns) } else { Vec::new() };
    let aside = panel.first().map_or(0, Line::width);
    let layout = table::Layout::new(model, columns - aside);
    let mut body = Vec::new();
    if rows >= ROWS_FOR_TITLES {
        body.push(layout.titles(model.sort));
    }
    let shown = model.now(now);
    for (row, place) in model.order.iter().enumerate().skip(model.first).take(room) {
        let line = layout.row(&model.book.entries()[*place], shown);
        body.push(if row == model.at { line.on(Ink::Cursor) } else { line });
    }
    if model.order.is_empty() && room > 0 {
        body.push(Line::of(head::emptiness(model), Ink::Dim));
    }
    if aside > 0 {
        body.resize(room + 1, Line::new());
        body = beside(panel, body, aside);
    }
    let mut lines = head::lines(model, now);
    lines.extend(body);
    lines
}

/// The columns to sort by, as a list at the left.
fn sort_panel(at: usize, columns: usize) -> Vec<Line> {
    let width = 14.min(columns);
    let title = Line::of(to_left("Sort by", width), Ink::Head);
    let items = super::order::Column::ALL.into_iter().enumerate().map(|(place, column)| {
        let key = column.shortcut().map_or_else(String::new, |key| format!("  {key}"));
        let ink = if place == at { Ink::Cursor } else { Ink::Plain };
        Line::of(to_left(&format!("{:10}{key}", column.title()), width), ink)
    });
    std::iter::once(title).chain(items).collect()
}

/// The panel's lines before those of the table.
fn beside(panel: Vec<Line>, body: Vec<Line>, width: usize) -> Vec<Line> {
    let mut panel = panel.into_iter();
    let both = body.into_iter().map(|right| {
        let left = panel.next().unwrap_or_else(|| Line::of(" ".repeat(width), Ink::Plain));
        right.behind(left)
    });
    both.collect()
}

/// What is so now, as text: all locks that are shown.
pub(super) fn plain(model: &Model, now: Instant) -> String {
    let layout = table::Layout::new(model, model.size.0);
    let rows = model.order.iter().map(|place| layout.row(&model.book.entries()[*place], now));
    let head = head::lines(model, now);
    let table = std::iter::once(layout.titles(model.sort)).chain(rows);
    head.into_iter().chain(table).map(|line| line.plain() + "\n").collect()
}
