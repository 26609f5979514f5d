//! This very test program, run again in a role: locks are between processes, and processes can be killed.
//!
//! A test program that uses it has a test called `in_another_process`, which does what [`role`] says and nothing else.
//! There may be one in each of its modules.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::Sender;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

const ROLE: &str = "FENCEPOST_TEST_ROLE";
const PLACE: &str = "FENCEPOST_TEST_PLACE";
/// The test that plays the roles.
const ENTRY: &str = "in_another_process";

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
        Self::start_by(Command::new(std::env::current_exe().expect("this program")), role, place)
    }

    /// Starts one in a role by a command that takes this program's arguments: with another environment, or by a program
    /// that starts this one.
    ///
    /// # Panics
    /// If it cannot be run.
    pub fn start_by(command: Command, role: &str, place: &str) -> Self {
        Self::start_test(command, ENTRY, role, place)
    }

    /// Starts one in a role that this module plays, as [`module_path!`] names it.
    ///
    /// # Panics
    /// If this program cannot be run again.
    pub fn start_in(module: &str, role: &str, place: &str) -> Self {
        // A test is known by its path within the program.
        let entry = match module.split_once("::") {
            Some((_, module)) => format!("{module}::{ENTRY}"),
            None => ENTRY.to_owned(),
        };
        Self::start_test(Command::new(std::env::current_exe().expect("this program")), &entry, role, place)
    }

    fn start_test(mut command: Command, entry: &str, role: &str, place: &str) -> Self {
        command.args(["--exact", entry, "--nocapture"]).env(ROLE, role).env(PLACE, place);
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

    /// Says a line to it, which it [hears](hear).
    ///
    /// # Panics
    /// If it is gone, or was [told to go on](Self::give_leave).
    pub fn tell(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("it still listens");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("heard");
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

    /// Waits until it has ended by itself; answers its exit code, `None` if a signal ended it.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn ends(mut self) -> Option<i32> {
        self.rest();
        self.process.wait().expect("ends").code()
    }

    /// SIGTERM: asks it to end.
    ///
    /// # Panics
    /// If it is gone.
    pub fn terminate(&self) {
        kill(self.pid(), Signal::SIGTERM).expect("it is there");
    }

    /// Stops it in its tracks; all its threads have stopped when this returns.
    ///
    /// # Panics
    /// If it is gone.
    pub fn stop(&self) {
        kill(self.pid(), Signal::SIGSTOP).expect("it is there");
        let stopped = waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED));
        assert_eq!(stopped, Ok(WaitStatus::Stopped(self.pid(), Signal::SIGSTOP)));
    }

    /// Lets it go on after a [`stop`](Self::stop).
    ///
    /// # Panics
    /// If it is gone.
    pub fn resume(&self) {
        kill(self.pid(), Signal::SIGCONT).expect("it is there");
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).expect("a process id"))
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

/// What who started this process says to it; `None`: nothing more will come.
pub fn hear() -> Option<String> {
    std::io::stdin().lines().next()?.ok()
}

/// Waits until who started this process lets it go on, or is gone.
pub fn await_leave() {
    let _ = std::io::stdin().read(&mut [0]);
}
