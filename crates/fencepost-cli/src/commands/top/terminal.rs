//! The terminal: taken for a while, and always given back as it was.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

use super::paint::{Line, Painter};
use crate::exit_code::ExitCode;
use crate::failure::Failure;

/// A screen of its own, no cursor, no line that goes on in the next.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// What a terminal that tells no size is taken for.
const USUAL: (usize, usize) = (80, 24);

/// How the terminal was, while it is ours. Of the process, because whoever panics has nothing else at hand.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The terminal, while it is ours.
#[derive(Debug)]
pub(super) struct Terminal {
    painter: Painter,
}

impl Terminal {
    /// Whether there is one that we can use; if not, why and what to do.
    pub(super) fn check() -> Result<(), Failure> {
        let cure = "print what is so now with `fencepost top --once`, or for programs with `fencepost ls --json`";
        let wrong = |why: &str| Err(Failure::new(ExitCode::USAGE, format!("top {why}; {cure}")));
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return wrong("needs a terminal, and standard input or output is none");
        }
        match std::env::var("TERM") {
            Ok(term) if term == "dumb" => wrong("cannot draw on this terminal (TERM=dumb)"),
            Err(_) => wrong("does not know this terminal (TERM is not set)"),
            Ok(_) => Ok(()),
        }
    }

    /// Takes the terminal. It is given back when this is dropped, and before a panic is told.
    pub(super) fn take(painter: Painter) -> Result<Self, Failure> {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            told(panic);
        }));
        let terminal = Self { painter };
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&self) -> Result<(), Failure> {
        let stdin = io::stdin();
        let refused = |error| Failure::ours("cannot use the terminal", error);
        let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match before.take() {
            Some(known) => known,
            None => tcgetattr(&stdin).map_err(refused)?,
        };
        let mut raw = known.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&stdin, SetArg::TCSADRAIN, &raw).map_err(refused)?;
        *before = Some(known);
        Ok(write(ENTER)?)
    }

    /// Columns and rows.
    pub(super) fn size() -> (usize, usize) {
        match rustix::termios::tcgetwinsize(io::stdout().as_fd()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => USUAL,
        }
    }

    /// Shows these lines; only those that changed are sent.
    pub(super) fn show(&mut self, lines: &[Line], columns: usize) -> Result<(), Failure> {
        // Whoever panicked on another thread gave it back, and nobody asks the store any more.
        if BEFORE.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Err(Failure::ours("top cannot go on", "a part of it panicked"));
        }
        Ok(write(&self.painter.frame(lines, columns))?)
    }

    /// Whatever is there now is not what was shown.
    pub(super) fn forget(&mut self) {
        self.painter.forget();
    }

    /// Stops the process as ctrl-Z does, and takes the terminal again when it goes on.
    pub(super) fn suspend(&mut self) -> Result<(), Failure> {
        give_back();
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTSTP);
        let refused = |error| Failure::ours("cannot stop", error);
        // To this thread: the one that listens for signals would only hear of it.
        stop.thread_unblock().map_err(refused)?;
        raise(Signal::SIGTSTP).map_err(refused)?;
        stop.thread_block().map_err(refused)?;
        self.resume()
    }

    /// Somebody else may have used the terminal.
    pub(super) fn resume(&mut self) -> Result<(), Failure> {
        self.forget();
        self.enter()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// As it was before. More than once does nothing.
fn give_back() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
