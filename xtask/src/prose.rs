//! Pages that a newcomer reads first: short sentences, short cells, and a README that ends.

use std::path::Path;

use crate::links;

/// The pages.
const PAGES: [&str; 7] =
    ["README.md", "docs/start.md", "docs/stores.md", "docs/kinds.md", "docs/loss.md", "docs/fencing.md", "docs/faq.md"];
const SENTENCE_WORDS_MAX: usize = 30;
const CELL_WORDS_MAX: usize = 12;
/// Of the README, with its blocks of code.
const README_WORDS_MAX: usize = 1200;

/// What is too long on a page, one sentence each; nothing on other pages.
pub(crate) fn findings(page: &Path, text: &str) -> Vec<String> {
    match PAGES.iter().any(|name| page == Path::new(name)) {
        true => too_long(page, text),
        false => Vec::new(),
    }
}

fn too_long(page: &Path, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let all = text.split_whitespace().count();
    if page == Path::new("README.md") && all > README_WORDS_MAX {
        findings.push(format!("{all} words, and {README_WORDS_MAX} are the most"));
    }
    let plain = plain(&links::prose(text));
    for line in plain.lines().filter(|line| is_row(line)) {
        let cells = line.split('|').map(str::trim).filter(|cell| words(cell) > CELL_WORDS_MAX);
        findings.extend(cells.map(|cell| format!("a cell of {} words: {cell}", words(cell))));
    }
    for paragraph in paragraphs(&plain) {
        let long = sentences(&paragraph).into_iter().filter(|sentence| words(sentence) > SENTENCE_WORDS_MAX);
        findings.extend(long.map(|sentence| format!("a sentence of {} words: {sentence}", words(&sentence))));
    }
    findings
}

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

/// Without pictures and the targets of links; code in a line is one word.
fn plain(prose: &str) -> String {
    let (mut plain, mut rest) = (String::new(), prose);
    while let Some(at) = rest.find(['`', '!', ']']) {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        rest = match from.as_bytes()[0] {
            b'`' => {
                let ticks = from.len() - from.trim_start_matches('`').len();
                let (fence, inner) = from.split_at(ticks);
                plain.push_str("code");
                inner.split_once(fence).map_or("", |(_, rest)| rest)
            }
            b'!' if from.starts_with("![") => from.split_once(')').map_or("", |(_, rest)| rest),
            b']' if from.starts_with("](") => from.split_once(')').map_or("", |(_, rest)| rest),
            _ => {
                plain.push_str(&from[..1]);
                &from[1..]
            }
        };
    }
    plain.push_str(rest);
    plain
}

/// Each paragraph, heading and item of a list as one line.
fn paragraphs(plain: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in plain.lines() {
        let start = line.trim_start();
        let is_item = ["- ", "* ", "#", "1. ", "2. ", "3. "].iter().any(|mark| start.starts_with(mark));
        if start.is_empty() || is_item || is_row(line) {
            paragraphs.push(String::new());
        }
        if !is_row(line) {
            let last = paragraphs.last_mut().expect("there is one");
            last.push_str(start);
            last.push(' ');
        }
    }
    paragraphs
}

fn sentences(paragraph: &str) -> Vec<String> {
    let (mut sentences, mut sentence) = (Vec::new(), String::new());
    for word in paragraph.split_whitespace() {
        sentence.push_str(word);
        sentence.push(' ');
        if word.trim_end_matches(['*', ')', '"', '_']).ends_with(['.', '!', '?']) {
            sentences.push(std::mem::take(&mut sentence));
        }
    }
    sentences.push(sentence);
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        findings(Path::new("docs/loss.md"), text)
    }

    #[test]
    fn long_sentences_and_cells_are_findings() {
        let (thirty, one_more) = ("word ".repeat(30), "word ".repeat(31));
        assert!(found(&format!("{thirty}.\n\n{thirty}. {thirty}\n")).is_empty());
        assert_eq!(found(&format!("Short. {one_more}\n")).len(), 1);
        assert_eq!(found(&format!("- {one_more}\n- short\n")).len(), 1);
        let row = |words: usize| format!("| a | {} |\n", "word ".repeat(words));
        assert!(found(&row(12)).is_empty());
        assert_eq!(found(&row(13)).len(), 1);
        assert!(findings(Path::new("docs/safety.md"), &one_more).is_empty(), "another page");
        let readme = "word.\n".repeat(README_WORDS_MAX + 1);
        assert_eq!(findings(Path::new("README.md"), &readme).len(), 1);
    }

    #[test]
    fn what_nobody_reads_aloud_does_not_count() {
        let code = format!("`{}`", "word ".repeat(40));
        assert!(found(&format!("One {code} and ![{}](a.svg).\n", "word ".repeat(40))).is_empty());
        assert!(found(&format!("```sh\n{}\n```\n", "word ".repeat(40))).is_empty());
        assert_eq!(plain("see [a b](c.md#d), `x y` and ``a ` b``!"), "see [a b, code and code!");
    }
}
