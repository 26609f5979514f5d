//! What is left of a lease, as a bar with words in it.

use super::super::book::{Lateness, Left};
use super::super::paint::{Ink, Line};
use super::super::text::{calm, to_right};

/// The longest words: `59m 59s`.
const WORDS: usize = 7;
/// A narrower bar says nothing that its words do not.
pub(super) const BAR_MIN: usize = WORDS + 5;

/// `[||||||     24s]` in so many cells, or only the words.
pub(super) fn bar(left: Left, cells: usize) -> Line {
    let (words, ink) = match (left.state, left.time) {
        (Lateness::Endless, _) | (_, None) => ("no end".to_owned(), Ink::Dim),
        (Lateness::Over, _) => ("over".to_owned(), Ink::Bad),
        (Lateness::Well, Some(time)) => (calm(time), Ink::Good),
        (Lateness::Late, Some(time)) => (calm(time), Ink::Late),
        (Lateness::Gone, Some(time)) => (calm(time), Ink::Bad),
    };
    if cells < BAR_MIN {
        return Line::of(to_right(&words, cells), ink);
    }
    // Words of any length leave the bar its length: it shall shrink with time alone.
    let room = cells - 2 - WORDS;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "0 to 1")]
    let strokes = match left.state {
        Lateness::Endless => 0,
        _ => ((left.share * room as f64).ceil() as usize).min(room),
    };
    Line::of("[", Ink::Bold)
        .and("|".repeat(strokes), ink)
        .and(" ".repeat(room - strokes), Ink::Plain)
        .and(to_right(&words, WORDS), ink)
        .and("]", Ink::Bold)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn shown(seconds: u64, share: f64, state: Lateness, cells: usize) -> String {
        bar(Left { time: Some(Duration::from_secs(seconds)), share, state }, cells).plain()
    }

    #[test]
    fn a_bar_is_as_long_as_what_is_left() {
        assert_eq!(shown(30, 1.0, Lateness::Well, 19), "[||||||||||    30s]");
        assert_eq!(shown(15, 0.5, Lateness::Well, 19), "[|||||         15s]");
        assert_eq!(shown(1, 0.03, Lateness::Gone, 19), "[|              1s]");
        assert_eq!(shown(0, 0.0, Lateness::Over, 19), "[             over]");
        assert_eq!(shown(3599, 1.0, Lateness::Well, 12), "[|||59m 59s]");
        assert_eq!(shown(24, 1.0, Lateness::Well, 7), "    24s");
        let endless = Left { time: None, share: 1.0, state: Lateness::Endless };
        assert_eq!(bar(endless, 16).plain(), "[        no end]");
    }
}
