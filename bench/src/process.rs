//! This program again, as another process that takes part in a workload; other programs likewise.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{env, fs};

use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;

/// The first argument of a worker.
pub(crate) const WORKER: &str = "--worker";
/// A worker of a workload that says nothing for so long is broken.
const PATIENCE: Duration = Duration::from_secs(120);

/// Nanoseconds on a clock that all processes of the machine share, in whatever language.
pub(crate) fn now() -> u64 {
    u64::try_from(time(ClockId::Monotonic).as_nanos()).unwrap_or_default()
}

/// The CPU time of this process so far, with all threads that it had.
pub(crate) fn cpu() -> Duration {
    time(ClockId::ProcessCPUTime)
}

fn time(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// So much of what a worker complained of is told.
const LAST_LINES: usize = 20;

/// This program, about to be a worker.
pub(crate) fn again() -> Outcome<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(WORKER);
    Ok(command)
}

/// Another process. It ends, at the latest, when this is dropped.
pub(crate) struct Worker {
    process: Child,
    said: Receiver<io::Result<String>>,
    stdin: Option<ChildStdin>,
    /// Its last complaints.
    complaint: Option<JoinHandle<String>>,
}

impl Worker {
    /// Starts this program in the part that the workload's `work` plays.
    pub(crate) fn start(workload: &str, args: &[&str]) -> Outcome<Self> {
        Self::spawn(again()?.arg(workload).args(args))
    }

    pub(crate) fn spawn(command: &mut Command) -> Outcome<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let lines = BufReader::new(process.stdout.take().expect("BUG: piped")).lines();
        let stdin = process.stdin.take();
        let (tell, said) = channel();
        thread::spawn(move || lines.map_while(|line| tell.send(line).ok()).for_each(drop));
        let complaints = BufReader::new(process.stderr.take().expect("BUG: piped")).lines();
        let complaint = thread::spawn(move || {
            let said: Vec<String> = complaints.map_while(Result::ok).collect();
            said[said.len().saturating_sub(LAST_LINES)..].join("\n")
        });
        Ok(Self { process, said, stdin, complaint: Some(complaint) })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits for its next word.
    pub(crate) fn hear(&mut self) -> Outcome<String> {
        Ok(self.hear_within(PATIENCE)?.ok_or("a worker says nothing")?)
    }

    /// Waits for its next word; `None` if none comes in time.
    pub(crate) fn hear_within(&mut self, patience: Duration) -> Outcome<Option<String>> {
        match self.said.recv_timeout(patience) {
            Ok(line) => Ok(Some(line?)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.complaint().into()),
        }
    }

    /// Everything it says until its end.
    pub(crate) fn hear_out(&mut self) -> Outcome<Vec<String>> {
        let said = self.said.iter().collect::<io::Result<Vec<_>>>()?;
        if !self.process.wait()?.success() {
            return Err(self.complaint().into());
        }
        Ok(said)
    }

    /// Why it ended, in its own words.
    fn complaint(&mut self) -> String {
        let words = self.complaint.take().and_then(|told| told.join().ok()).unwrap_or_default();
        let status = self.process.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        format!("ended too early ({status}): {}", words.trim_start_matches("fencepost-bench: "))
    }

    /// Lets it go on from [`await_leave`].
    pub(crate) fn give_leave(&mut self) {
        self.stdin.take();
    }

    /// `kill -9`, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Outcome<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// The CPU time of all its threads that are still there, user and system.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        let mut nanos = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            // Not `stat`, which counts in hundredths of a second: more than most of these threads use.
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            nanos += text.split_whitespace().next().ok_or("an empty schedstat")?.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In a worker: says something to the process that started it.
pub(crate) fn say(word: &str) -> Outcome<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{word}")?;
    Ok(out.flush()?)
}

/// In a worker: waits until it may go on, or until the process that started it is gone.
pub(crate) fn await_leave() -> Outcome<()> {
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(())
}
