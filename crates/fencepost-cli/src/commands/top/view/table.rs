//! The table of locks: which columns have room, and one row.

use std::time::Instant;

use super::super::book::{Entry, Kind};
use super::super::model::Model;
use super::super::order::{Column, Sort};
use super::super::paint::{Ink, Line};
use super::super::text::{calm, harmless, named, to_left, to_right, width};
use super::bar::{BAR_MIN, bar};
use crate::commands::state::token;

/// A terminal this wide has room for two blanks between columns.
const WIDE: usize = 72;
/// How many of a line are named in a row.
const LABELS: usize = 6;

/// Which columns there are, and how wide.
#[derive(Debug)]
pub(super) struct Layout {
    columns: Vec<(Column, usize)>,
    gap: usize,
}

impl Layout {
    /// What tells most stays longest: first the name, then the time left and the line, then who has it.
    pub(super) fn new(model: &Model, total: usize) -> Self {
        let gap = if total >= WIDE { 2 } else { 1 };
        let wants = model.widest;
        let holder_min = if total < 60 { 8 } else { 12 };
        let least = [
            (Column::Name, 12),
            (Column::Left, if total < WIDE { 9 } else { 12 }),
            (Column::Line, 8),
            (Column::Holder, holder_min),
            (Column::Held, 7),
            (Column::Kind, 7),
        ];
        let mut columns: Vec<(Column, usize)> = Vec::new();
        let mut left = total + gap;
        for (column, cells) in least {
            if cells + gap > left && !columns.is_empty() {
                break;
            }
            left = left.saturating_sub(cells + gap);
            columns.push((column, cells.min(total)));
        }
        // A token is long, and seldom what one looks for: only where it takes nothing away from names.
        let comfort = wants.name.min(28).saturating_sub(12) + wants.holder.min(20).saturating_sub(holder_min) + 4;
        let token = wants.token.max(5) + gap;
        if columns.len() == least.len() && left >= comfort + token {
            left -= token;
            columns.push((Column::Token, token - gap));
        }
        let mut layout = Self { columns, gap };
        // The rest goes where it is wanted, at last to who is in line.
        let wishes = [
            (Column::Left, 17),
            (Column::Name, wants.name.min(20)),
            (Column::Holder, wants.holder.min(16)),
            (Column::Line, 16),
            (Column::Name, wants.name),
            (Column::Holder, wants.holder),
            (Column::Left, 20),
            (Column::Line, usize::MAX),
        ];
        for (column, wish) in wishes {
            layout.widen(column, wish, &mut left);
        }
        layout.columns.sort_by_key(|(column, _)| Column::ALL.iter().position(|other| other == column));
        layout
    }

    fn widen(&mut self, column: Column, wish: usize, left: &mut usize) {
        if let Some((_, cells)) = self.columns.iter_mut().find(|(other, _)| *other == column) {
            let more = wish.saturating_sub(*cells).min(*left);
            *cells += more;
            *left -= more;
        }
    }

    /// The names of the columns; that of the order stands out.
    pub(super) fn titles(&self, sort: Sort) -> Line {
        let title = |(column, cells): (Column, usize)| {
            let is_sorted = column == sort.column;
            let mark = if !is_sorted {
                ""
            } else if sort.falls {
                "▾"
            } else {
                "▴"
            };
            let text = format!("{}{mark}", column.title());
            let text = if is_right(column, cells) { to_right(&text, cells) } else { to_left(&text, cells) };
            Line::of(text, if is_sorted { Ink::Cursor } else { Ink::Head })
        };
        self.joined(title, Ink::Head).filled_with(Ink::Head)
    }

    pub(super) fn row(&self, entry: &Entry, now: Instant) -> Line {
        self.joined(|(column, cells)| cell(entry, column, cells, now), Ink::Plain)
    }

    fn joined(&self, cell: impl Fn((Column, usize)) -> Line, ink: Ink) -> Line {
        let mut line = Line::new();
        for (place, column) in self.columns.iter().enumerate() {
            if place > 0 {
                line.push(" ".repeat(self.gap), ink);
            }
            line.append(cell(*column));
        }
        line
    }
}

/// Numbers and spans stand at the right of their columns.
fn is_right(column: Column, cells: usize) -> bool {
    matches!(column, Column::Token | Column::Held) || column == Column::Left && cells < BAR_MIN
}

fn cell(entry: &Entry, column: Column, cells: usize, now: Instant) -> Line {
    let ink = |ink: Ink| if entry.is_held() { ink } else { Ink::Dim };
    match column {
        Column::Name => Line::of(to_left(&harmless(&entry.state.name), cells), ink(Ink::Bold)),
        Column::Kind => {
            let of_kind = if entry.kind == Kind::Lock { Ink::Plain } else { Ink::Other };
            Line::of(to_left(entry.kind.word(), cells), ink(of_kind))
        }
        Column::Holder => Line::of(to_left(&holder_words(entry), cells), ink(Ink::Plain)),
        Column::Token => {
            let token = entry.first().and_then(token).unwrap_or_default();
            Line::of(to_right(&token, cells), ink(Ink::Dim))
        }
        Column::Held => Line::of(to_right(&entry.held(0, now).map(calm).unwrap_or_default(), cells), Ink::Plain),
        Column::Left => match entry.left(0, now) {
            Some(left) => bar(left, cells),
            None => Line::of(" ".repeat(cells), Ink::Plain),
        },
        Column::Line => line_cell(entry, cells),
    }
}

/// Who has a lock, in words.
pub(super) fn holder_words(entry: &Entry) -> String {
    let holders = &entry.state.holders;
    match holders.as_slice() {
        [] => "free".into(),
        [one] => named(&one.label).into_owned(),
        all => {
            let labels: Vec<_> = all.iter().take(LABELS).map(|holder| named(&holder.label)).collect();
            format!("{} readers: {}", all.len(), labels.join(", "))
        }
    }
}

/// How many wait, and who comes next.
fn line_cell(entry: &Entry, cells: usize) -> Line {
    let waiters = &entry.state.waiters;
    if waiters.is_empty() {
        return Line::of(" ".repeat(cells), Ink::Plain);
    }
    let count = waiters.len().to_string();
    let labels: Vec<_> = waiters.iter().take(LABELS).map(|waiter| named(&waiter.label)).collect();
    let rest = cells.saturating_sub(width(&count) + 1);
    // A name of which only a letter is left is none.
    let words = if rest < 6 { String::new() } else { labels.join(" › ") };
    Line::of(count, Ink::Late).and(" ", Ink::Plain).and(to_left(&words, rest), Ink::Plain)
}
