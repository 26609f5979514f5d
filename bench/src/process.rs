//! This program again, as another process that takes part in a workload.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;

/// The first argument of a worker.
pub(crate) const WORKER: &str = "--worker";

/// Nanoseconds on a clock that all processes of the machine share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// Another process. It ends, at the latest, when this is dropped.
pub(crate) struct Worker {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
    stdin: Option<ChildStdin>,
}

impl Worker {
    /// Starts this program in the part that the workload's `work` plays.
    pub(crate) fn start(workload: &str, args: &[&str]) -> Outcome<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args([WORKER, workload]).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let said = BufReader::new(process.stdout.take().expect("BUG: piped")).lines();
        let stdin = process.stdin.take();
        Ok(Self { process, said, stdin })
    }

    /// Waits for its next word.
    pub(crate) fn hear(&mut self) -> Outcome<String> {
        Ok(self.said.next().ok_or("a worker ended too early")??)
    }

    /// Everything it says until its end.
    pub(crate) fn hear_out(&mut self) -> Outcome<Vec<String>> {
        let said = self.said.by_ref().collect::<io::Result<Vec<_>>>()?;
        if !self.process.wait()?.success() {
            return Err("a worker failed".into());
        }
        Ok(said)
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

    /// The CPU time of all its threads, user and system, since it started.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        cpu_of(&self.process.id().to_string())
    }
}

/// The CPU time of all threads of this process that are still there.
pub(crate) fn cpu_of_this_process() -> Outcome<Duration> {
    cpu_of("self")
}

fn cpu_of(process: &str) -> Outcome<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        // Not `stat`, which counts in hundredths of a second: more than most of these threads use.
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        nanos += text.split_whitespace().next().ok_or("an empty schedstat")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
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
