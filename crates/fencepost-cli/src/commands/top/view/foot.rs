//! What stands below: the keys, or what is asked and answered.

use std::time::Instant;

use super::super::model::{Act, Deed, Model, Page, Prompt};
use super::super::paint::{Ink, Line};
use super::super::text::{calm, harmless, named, width, wrapped};
use crate::commands::state::token;

/// Below so many rows there is no room for a bar of keys.
const ROWS_FOR_KEYS: usize = 5;

const TABLE: [(&str, &str); 11] = [
    ("F1", "Help"),
    ("F3", "Search"),
    ("F4", "Filter"),
    ("F6", "Sort"),
    ("F9", "Force"),
    ("F10", "Quit"),
    ("Enter", "Lock"),
    ("Tab", "Which"),
    ("n", "Nodes"),
    ("Space", "Pause"),
    ("d", "Deadlocks"),
];
const LOCK: [(&str, &str); 5] = [("F1", "Help"), ("Esc", "Back"), ("F9", "Force"), ("a", "Ask"), ("F10", "Quit")];
const TEXT: [(&str, &str); 4] = [("F1", "Help"), ("Esc", "Back"), ("d", "Deadlocks"), ("F10", "Quit")];
const SORT: [(&str, &str); 2] = [("Enter", "Sort"), ("Esc", "Cancel")];

pub(super) fn lines(model: &Model, columns: usize, now: Instant) -> Vec<Line> {
    match (&model.prompt, model.note(now)) {
        (Some(Prompt::Search(letters)), _) => vec![typed("Search", letters, model.note(now))],
        (Some(Prompt::Filter(letters)), _) => vec![typed("Filter", letters, None)],
        (Some(Prompt::Confirm(deed)), _) => told(&question(deed), columns, Ink::Bad),
        (None, Some(note)) => told(note, columns, Ink::Accent),
        _ if model.size.1 < ROWS_FOR_KEYS => Vec::new(),
        (Some(Prompt::Sort(_)), _) => vec![keys(&SORT, columns)],
        (None, None) => vec![match model.page {
            Page::Locks => keys(&TABLE, columns),
            Page::Lock(_) => keys(&LOCK, columns),
            _ => keys(&TEXT, columns),
        }],
    }
}

/// As many keys as there is room for.
fn keys(keys: &[(&str, &str)], columns: usize) -> Line {
    let mut line = Line::new();
    for (key, word) in keys {
        if line.width() + width(key) + width(word) + 1 > columns {
            break;
        }
        line = line.and(*key, Ink::Plain).and(format!("{word} "), Ink::Cursor);
    }
    line.filled_with(Ink::Cursor)
}

fn typed(what: &str, letters: &str, note: Option<&str>) -> Line {
    let line = Line::of(format!("{what}: "), Ink::Bold).and(harmless(letters), Ink::Plain).and(" ", Ink::Cursor);
    match note {
        Some(note) => line.and(format!("  {note}"), Ink::Late),
        None => line,
    }
}

fn told(words: &str, columns: usize, ink: Ink) -> Vec<Line> {
    wrapped(words, columns).into_iter().map(|row| Line::of(row, ink)).collect()
}

/// The name and the holder come first: they are what one must have read.
fn question(deed: &Deed) -> String {
    let (name, holder) = (harmless(&deed.name), &deed.holder);
    let token = token(holder).map(|token| format!(", token {token}")).unwrap_or_default();
    let held = holder.held_for.map(|held| format!(", for {}", calm(held))).unwrap_or_default();
    let who = format!("{}{token}{held}", named(&holder.label));
    match deed.act {
        Act::ForceRelease => format!("Release {name} by force? Held by {who}; their command is ended. [y/N]"),
        Act::AskToYield => format!("Ask for {name}? Held by {who}; they decide. [y/N]"),
    }
}
