//! This very test program, run again in a role: locks are between processes, and processes can be killed.
//!
//! A test program that uses it has a test called `in_another_process`, which does what [`role`] says and nothing else.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::Sender;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

const ROLE: &str = "FENCEPOST_TEST_ROLE";
const PLACE: &str = "FENCEPOST_TEST_PLACE";

/// Another process. It is killed when dropped.
#[derive(Debug)]
pub struct Other {
    process: Child,
    said: Option<Lines<BufReader<ChildStdout>>>,
    stdin: Option<ChildStdin>,
}

impl Other {
    /// Starts one in a role, and tells it where the locks are.
    ///
    /// # Panics
    /// If this program cannot be run again.
    pub fn start(role: &str, place: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "in_another_process", "--nocapture"]).env(ROLE, role).env(PLACE, place);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("starts");
        let said = Some(BufReader::new(process.stdout.take().expect("piped")).lines());
        let stdin = process.stdin.take();
        Self { process, said, stdin }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until it has said this; answers what it said behind it.
    ///
    /// # Panics
    /// If it ends before.
    pub fn says(&mut self, word: &str) -> String {
        // Whatever the test program itself prints may stand before it.
        let behind = |line: String| line.rsplit_once(word).map(|(_, behind)| behind.to_owned());
        let heard = self.said.iter_mut().flatten().map_while(Result::ok).find_map(behind);
        heard.unwrap_or_else(|| panic!("the other process ended before it said {word:?}"))
    }

    /// From now on every line that it says goes there, with its process id.
    pub fn pass_on(&mut self, to: Sender<(u32, String)>) {
        let (id, said) = (self.id(), self.said.take());
        std::thread::spawn(move || {
            let lines = said.into_iter().flatten().map_while(Result::ok);
            lines.map_while(|line| to.send((id, line)).ok()).for_each(drop);
        });
    }

    /// Everything that it still says until it ends.
    pub fn rest(&mut self) -> Vec<String> {
        self.said.iter_mut().flatten().map_while(Result::ok).collect()
    }

    /// Tells it to go on: its [`await_leave`] returns.
    pub fn give_leave(&mut self) {
        self.stdin.take();
    }

    /// Lets it go on to its end.
    ///
    /// # Panics
    /// If it fails.
    pub fn finish(mut self) {
        self.give_leave();
        self.rest();
        assert!(self.process.wait().expect("ends").success(), "the other process failed");
    }

    /// Stops it in its tracks; all its threads have stopped when this returns.
    ///
    /// # Panics
    /// If it is gone.
    pub fn stop(&self) {
        let id = Pid::from_raw(i32::try_from(self.process.id()).expect("a process id"));
        kill(id, Signal::SIGSTOP).expect("it is there");
        let stopped = waitpid(id, Some(WaitPidFlag::WUNTRACED));
        assert_eq!(stopped, Ok(WaitStatus::Stopped(id, Signal::SIGSTOP)));
    }

    /// Lets it go on after a [`stop`](Self::stop).
    ///
    /// # Panics
    /// If it is gone.
    pub fn resume(&self) {
        let id = Pid::from_raw(i32::try_from(self.process.id()).expect("a process id"));
        kill(id, Signal::SIGCONT).expect("it is there");
    }

    /// `kill -9`.
    ///
    /// # Panics
    /// If it is gone.
    pub fn kill(&mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("ends");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The role of this process and where the locks are, if it was started by another.
pub fn role() -> Option<(String, String)> {
    Some((std::env::var(ROLE).ok()?, std::env::var(PLACE).ok()?))
}

/// Says something to who started this process.
///
/// # Panics
/// If nobody listens.
pub fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).expect("heard");
}

/// Waits until who started this process lets it go on, or is gone.
pub fn await_leave() {
    let _ = std::io::stdin().read(&mut [0]);
}
