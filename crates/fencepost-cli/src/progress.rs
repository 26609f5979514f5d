//! How far a long command has come: a bar on a terminal, a line now and then elsewhere, nothing with `--quiet`.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use terminal_size::{Width, terminal_size_of};

use crate::output::{Output, say};

/// Between two drawings of the bar: more are not seen, and cost the work that is measured.
const REDRAW: Duration = Duration::from_millis(100);
/// Between two lines where there is no terminal: a log is not flooded.
const LINE: Duration = Duration::from_secs(10);
/// Of the bar itself.
const BAR_CHARS: usize = 24;
/// Where the terminal does not tell its width.
const COLUMNS: usize = 80;
/// Back to the start of the line, and nothing on it.
const CLEAR: &str = "\r\u{1b}[K";

enum Form {
    Bar,
    Lines,
    Silent,
}

/// What is told while a command works. The bar is gone when this is dropped, so that what follows stands alone.
pub(crate) struct Progress {
    form: Form,
    started: Instant,
    told: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(output: Output) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let form = match (output.quiet, io::stderr().is_terminal() && !dumb) {
            (true, _) => Form::Silent,
            (_, true) => Form::Bar,
            _ => Form::Lines,
        };
        Self { form, started: Instant::now(), told: None }
    }

    /// Tells how far it has come, from 0 to 1, and in a few words what happens. May be called as often as one likes.
    pub(crate) fn show(&mut self, done: f64, what: &str) {
        let pause = match self.form {
            Form::Silent => return,
            Form::Bar => REDRAW,
            Form::Lines => LINE,
        };
        if self.told.is_some_and(|told| told.elapsed() < pause) {
            return;
        }
        self.told = Some(Instant::now());
        match self.form {
            Form::Bar => draw(&format!("{CLEAR}{}", bar(done, self.started.elapsed(), what, columns()))),
            _ => say(&format!("{:3.0} %  {what}", percent(done))),
        }
    }

    /// A line that stays, above the bar.
    pub(crate) fn note(&mut self, text: &str) {
        match self.form {
            Form::Silent => {}
            Form::Lines => say(text),
            Form::Bar => {
                draw(CLEAR);
                say(text);
                self.told = None;
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if matches!(self.form, Form::Bar) {
            draw(CLEAR);
        }
    }
}

/// Nobody may be watching, and that must not stop us.
fn draw(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

fn columns() -> usize {
    terminal_size_of(io::stderr()).map_or(COLUMNS, |(Width(columns), _)| columns.into())
}

fn percent(done: f64) -> f64 {
    (done.clamp(0.0, 1.0) * 100.0).floor()
}

/// One line that never wraps: a bar that wraps is drawn over and over, below itself.
fn bar(done: f64, since: Duration, what: &str, columns: usize) -> String {
    let done = done.clamp(0.0, 1.0);
    let full = (done * BAR_CHARS as f64) as usize;
    let left = if done > 0.0 { since.mul_f64((1.0 - done) / done) } else { Duration::ZERO };
    let left = if done > 0.02 { format!("{} s left", left.as_secs()) } else { String::new() };
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR_CHARS - full));
    let line = format!("{bar} {:3.0} %  {left:<10} {what}", percent(done));
    line.chars().take(columns.saturating_sub(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_tells_how_far_it_has_come_and_how_long_it_will_take() {
        let half = bar(0.5, Duration::from_secs(30), "8 clients", 100);
        assert_eq!(half, format!("{}{}  50 %  30 s left  8 clients", "█".repeat(12), "░".repeat(12)));
        assert!(bar(0.0, Duration::ZERO, "", 100).contains("  0 %"));
        assert!(bar(1.0, Duration::from_secs(9), "", 100).starts_with(&"█".repeat(BAR_CHARS)));
    }

    #[test]
    fn a_bar_never_wraps_and_never_leaves_its_frame() {
        for columns in [0, 1, 10, 40, 200] {
            for done in [-1.0, 0.0, 0.3, 1.0, 7.0, f64::NAN] {
                let drawn = bar(done, Duration::from_secs(5), "many words about what is going on", columns);
                assert!(drawn.chars().count() < columns.max(1), "{columns} columns, {done}: {drawn}");
            }
        }
    }
}
