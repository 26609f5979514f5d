//! A page that needs nothing but itself: one file, no script, nothing fetched. Light and dark, wide and narrow.
//!
//! It is written so that it also reads as XML: every element is closed and every value quoted.

use std::fmt::Write as _;

/// Nothing is fetched, whatever may have slipped in.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = include_str!("page.css");

/// A page in the making. Whatever is given to it is text: it is escaped here.
#[derive(Debug)]
pub(crate) struct Page {
    title: String,
    body: String,
}

/// A picture with its caption and what its colours mean.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) caption: String,
    /// Names of the series, in the order of their colours; nothing to tell if there is one only.
    pub(crate) legend: Vec<String>,
    pub(crate) picture: Svg,
}

impl Page {
    /// A page with its heading, and one sentence below it.
    pub(crate) fn new(title: &str, lead: &str) -> Self {
        let body = format!("<header><h1>{}</h1><p>{}</p></header>\n", escaped(title), escaped(lead));
        Self { title: title.to_owned(), body }
    }

    /// A heading, and a sentence on what follows; it may be empty.
    pub(crate) fn section(&mut self, heading: &str, said: &str) {
        self.body += &format!("<h2>{}</h2>\n", escaped(heading));
        self.paragraph(said);
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        if !text.is_empty() {
            self.body += &format!("<p>{}</p>\n", escaped(text));
        }
    }

    /// Short facts, each with its name.
    pub(crate) fn facts(&mut self, facts: &[(&str, String)]) {
        let fact = |(name, value): &(&str, String)| {
            format!("<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value))
        };
        self.body += &format!("<dl>{}</dl>\n", facts.iter().map(fact).collect::<String>());
    }

    /// What the reader has to know before believing the rest. Nothing, if there is nothing.
    pub(crate) fn warnings(&mut self, lines: &[String]) {
        self.list("warnings", lines);
    }

    fn list(&mut self, class: &str, lines: &[String]) {
        if !lines.is_empty() {
            let lines: String = lines.iter().map(|line| format!("<li>{}</li>", escaped(line))).collect();
            self.body += &format!("<ul class=\"{class}\">{lines}</ul>\n");
        }
    }

    /// What is wrong. Nothing, if there is nothing.
    pub(crate) fn findings(&mut self, lines: &[String]) {
        self.list("findings", lines);
    }

    /// The first so many columns are words, the others numbers.
    pub(crate) fn table(&mut self, words: usize, head: &[&str], rows: &[Vec<String>]) {
        let class = |column: usize| if column < words { "" } else { " class=\"num\"" };
        let row = |cells: &mut dyn Iterator<Item = &str>, tag: &str| {
            let cell = |(column, cell)| format!("<{tag}{}>{}</{tag}>", class(column), escaped(cell));
            format!("<tr>{}</tr>", cells.enumerate().map(cell).collect::<String>())
        };
        let lines = rows.iter().map(|cells| row(&mut cells.iter().map(String::as_str), "td"));
        let (head, lines) = (row(&mut head.iter().copied(), "th"), lines.collect::<Vec<_>>().join("\n"));
        self.body +=
            &format!("<div class=\"wide\"><table><thead>{head}</thead>\n<tbody>{lines}</tbody></table></div>\n");
    }

    /// Pictures beside each other where there is room.
    pub(crate) fn figures(&mut self, figures: Vec<Figure>) {
        self.body += "<div class=\"figures\">\n";
        for Figure { caption, legend, picture } in figures {
            self.body += &format!("<figure><figcaption>{}</figcaption>", escaped(&caption));
            if legend.len() > 1 {
                let name =
                    |(number, name): (usize, &String)| format!("<li><i class=\"s{number}\"></i>{}</li>", escaped(name));
                let names: String = legend.iter().enumerate().map(name).collect();
                self.body += &format!("<ul class=\"legend\">{names}</ul>");
            }
            self.body += &format!("{}</figure>\n", picture.finish());
        }
        self.body += "</div>\n";
    }

    /// One picture that is much wider than high: where it does not fit it is scrolled, not shrunk.
    pub(crate) fn timeline(&mut self, figure: Figure) {
        let Figure { caption, picture, .. } = figure;
        let (caption, picture) = (escaped(&caption), picture.finish());
        self.body += &format!(
            "<figure><figcaption>{caption}</figcaption><div class=\"timeline\" tabindex=\"0\">{picture}</div></figure>\n"
        );
    }

    /// The whole file.
    pub(crate) fn finish(self) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{}</main>\n</body>\n</html>\n",
            escaped(&self.title),
            self.body
        )
    }
}

/// Text as it may stand in an element or in a quoted value. What no page may hold is shown as a question mark.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            '\n' | '\t' => safe.push(letter),
            _ if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => safe.push('?'),
            _ => safe.push(letter),
        }
    }
    safe
}

/// Which part of a text is at its place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture. Classes say what things look like: `line`, `bar`, `area`, `dot` and `faint` in the colour of a series `s0`
/// to `s5`; `grid` and `axis` for what is around them.
#[derive(Debug)]
pub(crate) struct Svg {
    size: (f64, f64),
    label: String,
    marks: String,
}

impl Svg {
    /// The label is read to those who do not see it.
    pub(crate) fn new(size: (f64, f64), label: &str) -> Self {
        Self { size, label: label.to_owned(), marks: String::new() }
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.path(class, &[from, to]);
    }

    /// A line through all of these.
    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut way = String::new();
        for (number, (x, y)) in points.iter().enumerate() {
            let _ = write!(way, "{}{x:.1} {y:.1}", if number == 0 { "M" } else { "L" });
        }
        let _ = writeln!(self.marks, "<path class=\"{class}\" d=\"{way}\"/>");
    }

    /// With a tip, which is shown under the pointer; it may be empty.
    pub(crate) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), tip: &str) {
        let ((x, y), (width, height)) = (at, size);
        let shape = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"");
        self.shape("rect", class, &shape, tip);
    }

    /// With a tip, which is shown under the pointer; it may be empty.
    pub(crate) fn dot(&mut self, class: &str, at: (f64, f64), radius: f64, tip: &str) {
        self.shape("circle", class, &format!("cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\"", at.0, at.1), tip);
    }

    fn shape(&mut self, tag: &str, class: &str, shape: &str, tip: &str) {
        let tip = if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(tip)) };
        let _ = writeln!(self.marks, "<{tag} class=\"{class}\" {shape}>{tip}</{tag}>");
    }

    pub(crate) fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let ((x, y), text) = (at, escaped(text));
        let _ = writeln!(self.marks, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
    }

    fn finish(self) -> String {
        let ((width, height), label, marks) = (self.size, escaped(&self.label), self.marks);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{label}\">\n{marks}</svg>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_shown_stays_text() {
        let evil = "<script src=\"http://evil\">&'\u{0}";
        let mut page = Page::new(evil, evil);
        page.section(evil, evil);
        page.facts(&[(evil, evil.into())]);
        page.warnings(&[evil.into()]);
        page.table(1, &[evil, evil], &[vec![evil.into(), evil.into()]]);
        let mut picture = Svg::new((10.0, 10.0), evil);
        picture.text((0.0, 0.0), Anchor::Start, evil);
        picture.rect("bar s0", (0.0, 0.0), (1.0, 1.0), evil);
        page.figures(vec![Figure { caption: evil.into(), legend: vec![evil.into(), evil.into()], picture }]);
        let text = page.finish();
        assert!(!text.contains("<script"), "{text}");
        assert!(text.contains("&lt;script src=&quot;http://evil&quot;&gt;&amp;&#39;?"), "{text}");
    }

    #[test]
    fn nothing_is_fetched() {
        let text = Page::new("a", "b").finish();
        let names = ["http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"];
        let rest = names.iter().fold(text, |text, name| text.replace(name, ""));
        for word in ["://", "src=", "href=", "url(", "@import"] {
            assert!(!rest.contains(word), "{word} is in {rest}");
        }
        assert!(rest.contains("default-src 'none'"));
    }
}
