//! A bar on the terminal, with the time that is left; silent elsewhere.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use crate::{Outcome, interrupt};

const WIDTH: usize = 30;

pub(crate) struct Progress {
    steps: usize,
    done: usize,
    began: Instant,
    shown: bool,
}

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        Self { steps, done: 0, began: Instant::now(), shown: stderr().is_terminal() }
    }

    /// The next step begins, unless the run is to end.
    pub(crate) fn step(&mut self, what: &str) -> Outcome<()> {
        if self.shown {
            let mut out = stderr().lock();
            let _ = write!(out, "\r\x1b[K{}", self.line(what, self.began.elapsed()));
            let _ = out.flush();
        }
        self.done += 1;
        interrupt::check()
    }

    fn line(&self, what: &str, passed: Duration) -> String {
        let full = WIDTH * self.done / self.steps.max(1);
        let bar = "#".repeat(full) + &"-".repeat(WIDTH - full);
        let left = match u32::try_from(self.done) {
            Ok(0) | Err(_) => String::new(),
            Ok(done) => {
                let left = (passed / done * u32::try_from(self.steps - self.done).unwrap_or_default()).as_secs();
                format!("{}:{:02} left, ", left / 60, left % 60)
            }
        };
        format!("[{bar}] {}/{} {left}{what}", self.done, self.steps)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_tells_how_much_is_left() {
        let bar = Progress { steps: 4, done: 1, began: Instant::now(), shown: false };
        assert_eq!(
            bar.line("x", Duration::from_secs(30)),
            format!("[{}{}] 1/4 1:30 left, x", "#".repeat(7), "-".repeat(23))
        );
    }
}
