//! A real terminal with a shell in it, by tmux: keys go in, the screen comes out.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fencepost_testkit::server::find;
use fencepost_testkit::wait;

use crate::support::{PROGRAM, Place};

/// A terminal of its own, closed when dropped.
pub(crate) struct Terminal {
    tmux: PathBuf,
    socket: PathBuf,
    /// What was seen last, for whoever wants to know why it was not what it should be.
    seen: RefCell<String>,
}

impl Terminal {
    /// A shell in so many columns and rows, with these variables.
    pub(crate) fn open(place: &Place, (columns, rows): (u16, u16), variables: &[(&str, &str)]) -> Self {
        let (tmux, socket) = (find("tmux", "tmux"), place.path("terminal"));
        let program = tmux.display().to_string();
        let mut shell = place.program(&program).set("LANG", "C.UTF-8").unset("LC_ALL").unset("TMUX").unset("NO_COLOR");
        for (name, value) in variables {
            shell = shell.set(name, value);
        }
        let size = ["-x", &columns.to_string(), "-y", &rows.to_string()].map(str::to_owned);
        let server =
            ["-u", "-f", "/dev/null", "-S", &socket.display().to_string(), "new-session", "-d"].map(str::to_owned);
        let bash = ["env", "PS1=$ ", "bash", "--norc", "--noprofile", "-i"].map(str::to_owned);
        shell.arguments(server.into_iter().chain(size).chain(bash)).end().with_code(0);
        let terminal = Self { tmux, socket, seen: RefCell::default() };
        terminal.until("$");
        terminal
    }

    /// A terminal in which `fencepost top` runs on this store.
    pub(crate) fn top(place: &Place, size: (u16, u16), store: &str, flags: &str) -> Self {
        let terminal = Self::open(place, size, &[("FENCEPOST_STORE", store)]);
        terminal.line(&format!("{PROGRAM} top {flags}"));
        terminal.until("every");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.tmux).arg("-S").arg(&self.socket).args(arguments).stdin(Stdio::null()).output();
        let output = output.expect("tmux runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Presses keys, as tmux calls them.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types this.
    pub(crate) fn write(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Types a line to the shell.
    pub(crate) fn line(&self, text: &str) {
        self.write(text);
        self.press(&["Enter"]);
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// What is on the screen.
    pub(crate) fn screen(&self) -> String {
        let screen = self.tmux(&["capture-pane", "-p"]);
        self.seen.replace(screen.clone());
        screen
    }

    /// The same with its colours.
    pub(crate) fn colours(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// The row that begins so.
    pub(crate) fn row(&self, start: &str) -> Option<String> {
        self.screen().lines().find(|line| line.starts_with(start)).map(ToOwned::to_owned)
    }

    /// Waits for these words.
    pub(crate) fn until(&self, words: &str) {
        self.until_so(words, |screen| screen.contains(words));
    }

    /// Waits until these words are gone.
    pub(crate) fn until_gone(&self, words: &str) {
        self.until_so(&format!("{words:?} is gone"), |screen| !screen.contains(words));
    }

    pub(crate) fn until_so(&self, what: &str, so: impl Fn(&str) -> bool) {
        wait::until(what, || so(&self.screen()));
    }

    /// Waits until a row that begins so has these words.
    pub(crate) fn until_row(&self, start: &str, words: &str) {
        let has = |line: &str| line.starts_with(start) && line.contains(words);
        self.until_so(&format!("{start}: {words}"), |screen| screen.lines().any(has));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen was:\n{}", self.seen.borrow());
        }
        let _ = Command::new(&self.tmux).arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}
