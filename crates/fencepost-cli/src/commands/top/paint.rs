//! Lines of coloured text, and what a terminal has to be sent to show them.

use std::fmt::Write as _;

use super::text::{cells, width};

/// What a text means, which its colour tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Ink {
    #[default]
    Plain,
    Bold,
    Dim,
    Good,
    Late,
    Bad,
    /// A name that leads somewhere, a key, a number that counts.
    Accent,
    /// Of a kind of its own.
    Other,
    /// Black on colour: the heads of columns, the key bar.
    Head,
    /// The bar that the cursor is.
    Cursor,
}

impl Ink {
    /// The sixteen colours that every terminal has, so that its owner's own choice of them holds.
    fn coloured(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Bold => "0;1",
            Self::Dim => "0;90",
            Self::Good => "0;32",
            Self::Late => "0;33",
            Self::Bad => "0;1;31",
            Self::Accent => "0;36",
            Self::Other => "0;35",
            Self::Head => "0;30;42",
            Self::Cursor => "0;30;46",
        }
    }

    fn without_colour(self) -> &'static str {
        match self {
            Self::Bold | Self::Bad => "0;1",
            Self::Head | Self::Cursor => "0;7",
            _ => "0",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Piece {
    text: String,
    ink: Ink,
}

/// One row of the screen. All text in it is harmless.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Line {
    pieces: Vec<Piece>,
    /// What the rest of the row is filled with.
    ground: Ink,
}

impl Line {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn of(text: impl Into<String>, ink: Ink) -> Self {
        Self::new().and(text, ink)
    }

    pub(super) fn and(mut self, text: impl Into<String>, ink: Ink) -> Self {
        self.push(text, ink);
        self
    }

    pub(super) fn push(&mut self, text: impl Into<String>, ink: Ink) {
        self.pieces.push(Piece { text: text.into(), ink });
    }

    pub(super) fn append(&mut self, other: Self) {
        self.pieces.extend(other.pieces);
    }

    /// This, and that after it.
    pub(super) fn beside(mut self, other: Self) -> Self {
        self.append(other);
        self
    }

    /// That, and this after it; the row is filled as this was.
    pub(super) fn behind(self, mut other: Self) -> Self {
        other.ground = self.ground;
        other.beside(self)
    }

    /// All of it in one ink, to the end of the row.
    pub(super) fn on(mut self, ground: Ink) -> Self {
        self.pieces.iter_mut().for_each(|piece| piece.ink = ground);
        self.ground = ground;
        self
    }

    /// The rest of the row in this ink.
    pub(super) fn filled_with(mut self, ground: Ink) -> Self {
        self.ground = ground;
        self
    }

    pub(super) fn width(&self) -> usize {
        self.pieces.iter().map(|piece| width(&piece.text)).sum()
    }

    /// This at the left and that at the right, if there is room for both.
    pub(super) fn with_right(mut self, right: Self, columns: usize) -> Self {
        let used = self.width() + right.width();
        if used < columns {
            self.push(" ".repeat(columns - used), self.ground);
            self.append(right);
        }
        self
    }

    /// Without colours and without blanks at its end.
    pub(super) fn plain(&self) -> String {
        let text: String = self.pieces.iter().map(|piece| piece.text.as_str()).collect();
        text.trim_end().to_owned()
    }
}

/// How lines are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) has_colours: bool,
    /// The terminal shows more than ASCII.
    pub(super) is_unicode: bool,
}

impl Style {
    /// As the environment says.
    pub(super) fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let said = |name: &str| variable(name).filter(|value| !value.is_empty());
        let charset = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(said);
        let is_utf8 = |charset: String| charset.to_uppercase().replace('-', "").contains("UTF8");
        Self { has_colours: said("NO_COLOR").is_none(), is_unicode: charset.is_none_or(is_utf8) }
    }

    /// The row in so many columns, exactly.
    pub(super) fn row(self, line: &Line, columns: usize) -> String {
        let (mut row, mut left, mut last) = (String::new(), columns, "");
        let mut dip = |row: &mut String, ink: Ink| {
            let code = if self.has_colours { ink.coloured() } else { ink.without_colour() };
            if code != last {
                let _ = write!(row, "\x1b[{code}m");
                last = code;
            }
        };
        'row: for piece in &line.pieces {
            dip(&mut row, piece.ink);
            for c in piece.text.chars() {
                if cells(c) > left {
                    break 'row;
                }
                left -= cells(c);
                if self.is_unicode || c.is_ascii() { row.push(c) } else { row.push_str(&in_ascii(c)) }
            }
        }
        dip(&mut row, line.ground);
        row.push_str(&" ".repeat(left));
        row
    }
}

/// As many cells in ASCII.
fn in_ascii(c: char) -> String {
    match c {
        '…' => "~".into(),
        '›' | '→' => ">".into(),
        '·' => "-".into(),
        '▾' => "v".into(),
        '▴' => "^".into(),
        '×' => "x".into(),
        '▁'..='▃' => ".".into(),
        '▄'..='▆' => ":".into(),
        '▇' | '█' => "|".into(),
        c => "?".repeat(cells(c)),
    }
}

/// Knows what is on the screen, and sends what is new.
#[derive(Debug)]
pub(super) struct Painter {
    style: Style,
    shown: Vec<String>,
}

impl Painter {
    pub(super) fn new(style: Style) -> Self {
        Self { style, shown: Vec::new() }
    }

    /// Whatever is there now is not what was shown.
    pub(super) fn forget(&mut self) {
        self.shown.clear();
    }

    /// What makes the screen show these lines, from its first row on.
    pub(super) fn frame(&mut self, lines: &[Line], columns: usize) -> String {
        let rows: Vec<String> = lines.iter().map(|line| self.style.row(line, columns)).collect();
        let mut text = String::new();
        if rows.len() != self.shown.len() {
            text.push_str("\x1b[0m\x1b[2J");
            self.shown.clear();
        }
        for (number, row) in rows.iter().enumerate() {
            if self.shown.get(number) != Some(row) {
                let _ = write!(text, "\x1b[{};1H{row}", number + 1);
            }
        }
        self.shown = rows;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLOURED: Style = Style { has_colours: true, is_unicode: true };

    #[test]
    fn a_row_has_exactly_the_width_of_the_terminal() {
        let line = Line::of("漢字", Ink::Bad).and("ab", Ink::Plain);
        assert_eq!(COLOURED.row(&line, 8), "\x1b[0;1;31m漢字\x1b[0mab  ");
        assert_eq!(COLOURED.row(&line, 5), "\x1b[0;1;31m漢字\x1b[0ma");
        assert_eq!(COLOURED.row(&line, 3), "\x1b[0;1;31m漢\x1b[0m ");
        assert_eq!(COLOURED.row(&line.on(Ink::Cursor), 8), "\x1b[0;30;46m漢字ab  ");
    }

    #[test]
    fn only_rows_that_changed_are_sent() {
        let mut painter = Painter::new(COLOURED);
        let (a, b, c) = (Line::of("a", Ink::Plain), Line::of("b", Ink::Plain), Line::of("c", Ink::Plain));
        assert!(painter.frame(&[a.clone(), b.clone()], 3).contains("\x1b[1;1H"));
        assert_eq!(painter.frame(&[a.clone(), b.clone()], 3), "");
        assert_eq!(painter.frame(&[a.clone(), c.clone()], 3), "\x1b[2;1H\x1b[0mc  ");
        assert!(painter.frame(std::slice::from_ref(&a), 3).starts_with("\x1b[0m\x1b[2J"), "another height");
        painter.forget();
        assert!(painter.frame(&[a], 3).contains("\x1b[1;1H"));
    }

    #[test]
    fn colours_and_characters_follow_the_environment() {
        let style = |pairs: &'static [(&str, &str)]| {
            Style::from_environment(|name| {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(style(&[]).has_colours && style(&[]).is_unicode);
        assert!(!style(&[("NO_COLOR", "1")]).has_colours && style(&[("NO_COLOR", "")]).has_colours);
        assert!(style(&[("LC_ALL", ""), ("LANG", "de_DE.utf8")]).is_unicode);
        assert!(!style(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]).is_unicode);
        let plain = Style { has_colours: false, is_unicode: false };
        assert_eq!(plain.row(&Line::of("漢›ü…", Ink::Late), 6), "\x1b[0m??>?~ ");
        assert_eq!(plain.row(&Line::of("x", Ink::Cursor), 1), "\x1b[0;7mx\x1b[0m");
    }

    #[test]
    fn right_gives_way_to_left() {
        let (left, right) = (Line::of("left", Ink::Plain), Line::of("right", Ink::Plain));
        assert_eq!(left.clone().with_right(right.clone(), 12).plain(), "left   right");
        assert_eq!(left.with_right(right, 9).plain(), "left");
    }
}
