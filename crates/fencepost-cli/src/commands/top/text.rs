//! Text for a terminal: made harmless, measured, cut.

use std::borrow::Cow;
use std::time::Duration;

use unicode_width::UnicodeWidthChar;

/// What stands where a text was cut.
const CUT: char = '…';

/// What a store says of names and labels, so that it cannot drive the terminal: control characters and all that moves,
/// hides or turns round what stands beside it are written as escapes. Most stores refuse control characters, but a key of
/// another library, or a row that somebody wrote by hand, may have any.
pub(super) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let each = |c: char| if is_harmful(c) { c.escape_default().to_string() } else { c.into() };
    text.chars().map(each).collect::<String>().into()
}

/// Controls, and format characters: they have no width of their own, and terminals differ in what they make of them.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{115f}'..='\u{1160}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// How many cells a character takes.
pub(super) fn cells(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// How many cells a harmless text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(cells).sum()
}

/// How many cells a text will take once it is harmless; quick for what most names are.
pub(super) fn width_of(text: &str) -> usize {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if is_plain { text.len() } else { width(&harmless(text)) }
}

/// At most so many cells of it; what was cut is marked.
pub(super) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if width(text) <= most {
        return Cow::Borrowed(text);
    }
    let mut left = most.saturating_sub(1);
    let fits = |c: &char| {
        let fits = cells(*c) <= left;
        left = left.saturating_sub(cells(*c));
        fits
    };
    let mut short: String = text.chars().take_while(fits).collect();
    if most > 0 {
        short.push(CUT);
    }
    short.into()
}

/// The text in rows of so many cells, cut where a word ends if there is one.
pub(super) fn wrapped(text: &str, most: usize) -> Vec<String> {
    let (mut rows, mut row) = (Vec::new(), String::new());
    for word in text.split_inclusive(' ') {
        if !row.is_empty() && width(&row) + width(word.trim_end()) > most {
            rows.push(std::mem::take(&mut row));
        }
        for c in word.chars() {
            if width(&row) + cells(c) > most && c != ' ' {
                rows.push(std::mem::take(&mut row));
            }
            row.push(c);
        }
    }
    rows.push(row);
    rows
}

/// Exactly so many cells, text at the left.
pub(super) fn to_left(text: &str, cells: usize) -> String {
    let short = cut(text, cells);
    let blank = " ".repeat(cells - width(&short));
    format!("{short}{blank}")
}

/// Exactly so many cells, text at the right.
pub(super) fn to_right(text: &str, cells: usize) -> String {
    let short = cut(text, cells);
    let blank = " ".repeat(cells - width(&short));
    format!("{blank}{short}")
}

/// A duration in whole seconds and at most two units: what changes all the time must not flicker.
pub(super) fn calm(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |first: u64, a: char, second: u64, b: char| match second {
        0 => format!("{first}{a}"),
        _ => format!("{first}{a} {second}{b}"),
    };
    match seconds {
        0 => "<1s".into(),
        1..60 => format!("{seconds}s"),
        60..3600 => two(minutes, 'm', seconds % 60, 's'),
        3600..86_400 => two(hours, 'h', minutes % 60, 'm'),
        _ => two(days, 'd', hours % 24, 'h'),
    }
}

/// How long an answer took.
pub(super) fn latency(span: Duration) -> String {
    match span.as_millis() {
        0 => "<1ms".into(),
        ms @ 1..1000 => format!("{ms}ms"),
        ms => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
    }
}

/// A pause that somebody chose.
pub(super) fn pause(span: Duration) -> String {
    humantime::format_duration(span).to_string()
}

/// A number with blanks between thousands.
pub(super) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// How somebody is called who may have said nothing.
pub(super) fn named(label: &str) -> Cow<'_, str> {
    if label.is_empty() { Cow::Borrowed("no label") } else { harmless(label) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_drive_a_terminal_is_written_as_an_escape() {
        assert_eq!(harmless("order/42 ünïcode ✓ 漢字"), "order/42 ünïcode ✓ 漢字");
        assert_eq!(harmless("\u{1b}[2Jgone\u{7}"), "\\u{1b}[2Jgone\\u{7}");
        assert_eq!(harmless("a\nb\rc\td"), "a\\nb\\rc\\td");
        for hidden in ["\u{9b}2J", "\u{202e}txt", "\u{200b}", "\u{2066}", "\u{feff}", "\u{7f}", "\u{e0041}", "\u{2028}"]
        {
            let shown = harmless(hidden);
            assert!(shown.starts_with("\\u{"), "{shown}");
            assert!(!shown.chars().any(is_harmful), "{shown}");
        }
    }

    #[test]
    fn texts_are_cut_by_cells_and_not_by_characters() {
        assert_eq!(width("漢字"), 4);
        assert_eq!((to_left("漢字", 5).as_str(), to_right("ab", 4).as_str()), ("漢字 ", "  ab"));
        // Half of a wide character has no place.
        for (cells, shown) in [(4, "漢字"), (3, "漢…"), (2, "… "), (1, "…"), (0, "")] {
            assert_eq!(to_left("漢字", cells), shown, "{cells}");
        }
        assert_eq!(cut("order/4711", 6), "order…");
        assert_eq!(width("e\u{301}"), 1);
    }

    #[test]
    fn a_long_text_is_cut_where_words_end() {
        assert_eq!(wrapped("Release a by force? [y/N]", 12), ["Release a by ", "force? [y/N]"]);
        assert_eq!(wrapped("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(wrapped("", 4), [""]);
    }

    #[test]
    fn spans_have_at_most_two_units_and_seven_cells() {
        let spans = [(0, "<1s"), (59, "59s"), (60, "1m"), (3599, "59m 59s"), (7500, "2h 5m"), (90_000, "1d 1h")];
        for (seconds, shown) in spans {
            assert_eq!(calm(Duration::from_secs(seconds)), shown);
        }
        let latencies = [(0, "<1ms"), (7, "7ms"), (5012, "5.0s")];
        for (ms, shown) in latencies {
            assert_eq!(latency(Duration::from_millis(ms)), shown);
        }
        assert_eq!([0, 999, 10_204, 1_000_000].map(count), ["0", "999", "10 204", "1 000 000"]);
    }
}
