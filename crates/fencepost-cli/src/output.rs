//! Printing: data on stdout, all else on stderr.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Duration;

use serde::Serialize;

use crate::failure::Failure;
use crate::logs::Lines;

/// How much is said, and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
}

/// The form of all JSON answers; raised when a field changes its meaning.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Answer<T> {
    schema: u32,
    #[serde(flatten)]
    content: T,
}

/// An answer as JSON, with its schema.
pub(crate) fn json(content: impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string(&Answer { schema: SCHEMA, content })?)
}

impl Output {
    /// The answer of a command: JSON if asked for, else text for people.
    pub(crate) fn answer(self, data: impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        let text = if self.json { json(data)? } else { text() };
        self.print(&text)
    }

    /// Text on stdout, ending in a new line unless it is empty.
    pub(crate) fn print(self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        if !text.is_empty() && !text.ends_with('\n') {
            stdout.write_all(b"\n")?;
        }
        Ok(stdout.flush()?)
    }

    /// Something done, for those who asked for it.
    pub(crate) fn detail(self, text: impl FnOnce() -> String) {
        if self.verbose {
            say(&text());
        }
    }

    /// Something worth knowing.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }
}

/// Tells why a command did not do its work.
pub(crate) fn failure(failure: &Failure) {
    if let Some(message) = &failure.message {
        say(message);
    }
    if failure.votes.len() > 1 {
        let rows = failure.votes.iter().map(|vote| {
            let latency = format!("{} ms", vote.latency.as_millis());
            vec![vote.node.clone(), latency, vote.vote.to_string()]
        });
        say_lines(&table(&["NODE", "LATENCY", "VOTE"], rows.collect()));
    }
}

/// Writes to stderr, once [`speak_aside`] was called.
static SPEAKER: OnceLock<Lines> = OnceLock::new();

/// From here on a thread of its own writes to stderr: whoever says something never waits for a reader.
pub(crate) fn speak_aside() -> io::Result<()> {
    let missing = |lines| format!("fencepost: {lines} messages are missing: nobody read them in time");
    let speaker = Lines::to(io::stderr(), missing)?;
    // A command is run once.
    let _ = SPEAKER.set(speaker);
    Ok(())
}

/// How long the end of the program waits for what was said last.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long the start of a command waits for what was said before it.
const FIRST_WORDS: Duration = Duration::from_millis(50);

/// Before the program ends: waits until what was said is written, but not for long.
pub(crate) fn flush() {
    flush_within(LAST_WORDS);
}

/// Before a command starts, whose output is to follow what was said: the same, for a moment.
pub(crate) fn catch_up() {
    flush_within(FIRST_WORDS);
}

fn flush_within(limit: Duration) {
    if let Some(speaker) = SPEAKER.get() {
        speaker.flush_within(limit);
    }
}

/// One line on stderr. Nobody may be listening, and that must not stop us.
pub(crate) fn say(text: &str) {
    let prefix = if colours() { "\u{1b}[1mfencepost:\u{1b}[0m" } else { "fencepost:" };
    say_lines(&format!("{prefix} {text}\n"));
}

fn say_lines(text: &str) {
    match SPEAKER.get() {
        Some(speaker) => speaker.put(text.as_bytes()),
        None => drop(io::stderr().lock().write_all(text.as_bytes())),
    }
}

fn colours() -> bool {
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    unset("NO_COLOR") && !dumb && io::stderr().is_terminal()
}

/// Columns, aligned. Control characters never reach the terminal: names are checked by the store, labels too.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let head: Vec<String> = head.iter().map(|&title| title.to_owned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_blanks() {
        let rows = vec![vec!["ä".into(), "1".into()], vec!["long name".into(), String::new()]];
        assert_eq!(table(&["NAME", "N"], rows), "NAME       N\nä          1\nlong name\n");
    }

    #[test]
    fn every_json_answer_names_its_schema() {
        #[derive(Serialize)]
        struct Content {
            name: &'static str,
        }
        assert_eq!(json(Content { name: "a" }).expect("json"), r#"{"schema":1,"name":"a"}"#);
    }
}
