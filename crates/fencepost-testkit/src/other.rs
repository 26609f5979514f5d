//! Another process: the test program itself, run again in a role.

use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const ROLE: &str = "FENCEPOST_TEST_ROLE";
const WHERE: &str = "FENCEPOST_TEST_WHERE";

/// A process of our own making. It is killed when dropped.
#[derive(Debug)]
pub struct Other {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
    stdin: Option<ChildStdin>,
}

/// What this process is to do, if it was started by [`Other::start`]: its role, and where.
pub fn role() -> Option<(String, String)> {
    Some((env::var(ROLE).ok()?, env::var(WHERE).ok()?))
}

/// Says something to the process that started this one.
///
/// # Panics
/// If nobody hears it.
pub fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).expect("heard");
}

impl Other {
    /// Runs the test `in_another_process` of this very program, which asks for its [`role`].
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(role: &str, place: &str) -> Self {
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", "in_another_process", "--nocapture"]).env(ROLE, role).env(WHERE, place);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("starts");
        let said = BufReader::new(process.stdout.take().expect("piped")).lines();
        let stdin = process.stdin.take();
        Self { process, said, stdin }
    }

    /// Waits until it has said a line with this ending, and answers the line.
    ///
    /// # Panics
    /// If it ends before.
    pub fn says(&mut self, word: &str) -> String {
        let heard = self.said.by_ref().map_while(Result::ok).find(|line| line.contains(word));
        heard.unwrap_or_else(|| panic!("the other process ended before it said {word:?}"))
    }

    /// Stops it in its tracks (SIGSTOP).
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// `kill -9`.
    ///
    /// # Panics
    /// If it was gone already.
    pub fn kill(&mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("ends");
    }

    /// Closes what it reads from: for one that goes on when it is told.
    pub fn go_on(&mut self) {
        self.stdin.take();
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.process.id()).expect("a process id"));
        kill(id, signal).expect("our own child");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
