//! All keys.

use super::super::model::Model;
use super::super::paint::{Ink, Line};
use super::super::text::{pause, to_left};

const KEYS: [(&str, &str); 21] = [
    ("Up Down PgUp PgDn", "move; Home and End too"),
    ("Enter", "a lock: holders, line, tokens; Esc or q back"),
    ("F3 /", "search: name, holder or waiter; F3 the next"),
    ("F4 \\", "filter by the same; Esc takes it away"),
    ("F6 > s", "sort by a column"),
    ("N H A T W", "sort by name, holder, age, time left, line"),
    ("I", "turn the order round"),
    ("Tab", "in use, contended, free, all"),
    ("n", "nodes: what each says, how fast, since when"),
    ("d", "look for deadlocks, once"),
    ("F9 k", "release by force, after a question"),
    ("a", "ask the holder to let go, after a question"),
    ("Space p", "pause; nothing is read until pressed again"),
    ("F5 r", "read now"),
    ("+ -", "read less often, more often"),
    ("Ctrl-L Ctrl-Z", "draw anew; suspend, and fg goes on"),
    ("F10 q Ctrl-C", "quit"),
    ("", ""),
    ("bars", "green: well; yellow: less than half is left,"),
    ("", "so a renewal is late; red: less than a fifth"),
    ("acquired", "changes seen between readings: there may be more"),
];

pub(super) fn lines(model: &Model) -> Vec<Line> {
    let title = format!("Keys of fencepost top, which reads every {}", pause(model.options.delay));
    let keys = KEYS
        .iter()
        .map(|(key, words)| Line::of(to_left(key, 18), Ink::Accent).and(" ", Ink::Plain).and(*words, Ink::Plain));
    [Line::of(title, Ink::Bold), Line::new()].into_iter().chain(keys).collect()
}
