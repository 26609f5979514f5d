//! The clients, as processes: started, heard, stopped, killed, started anew.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::client::VERB;
use super::talk::{Heard, Job, Said};
use crate::child::own_program;

/// What the one who watches hears.
#[derive(Debug)]
pub(super) enum Message {
    /// A client, by its place, said something.
    Said(usize, Said),
    /// A client has ended, and all that it said was heard.
    Gone(usize),
    /// Somebody signalled us.
    Signal(Signal),
}

impl From<Signal> for Message {
    fn from(signal: Signal) -> Self {
        Self::Signal(signal)
    }
}

/// All clients. They are killed when this is dropped.
pub(super) struct Crew {
    jobs: Vec<Job>,
    members: Vec<Option<Member>>,
    sender: Sender<Message>,
}

struct Member {
    process: Child,
    stdin: ChildStdin,
}

impl Member {
    fn id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).expect("BUG: process ids are positive i32"))
    }
}

impl Crew {
    /// One client per job, none of them started.
    pub(super) fn new(jobs: Vec<Job>, sender: Sender<Message>) -> Self {
        let members = jobs.iter().map(|_| None).collect();
        Self { jobs, members, sender }
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Starts a client. To be called on the main thread: the kernel ends it with the thread that started it.
    pub(super) fn start(&mut self, client: usize) -> io::Result<()> {
        let mut command = Command::new(own_program()?);
        command.arg0("fencepost").arg(VERB).arg(std::process::id().to_string());
        // Ctrl-C is for us: clients are told to end, so that they leave nothing locked.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let (mut stdin, stdout) = (stdin.expect("BUG: piped"), stdout.expect("BUG: piped"));
        // If it is gone already, its end is heard.
        let _ = writeln!(stdin, "{}", serde_json::to_string(&self.jobs[client])?);
        self.members[client] = Some(Member { process, stdin });
        let sender = self.sender.clone();
        thread::Builder::new().name("client".into()).spawn(move || {
            // A line that was cut off by a kill is none.
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            for said in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                if sender.send(Message::Said(client, said)).is_err() {
                    return;
                }
            }
            let _ = sender.send(Message::Gone(client));
        })?;
        Ok(())
    }

    pub(super) fn tell(&mut self, client: usize, word: Heard) {
        let line = serde_json::to_string(&word).expect("BUG: numbers are JSON");
        if let Some(member) = &mut self.members[client] {
            // If it is gone, its end is heard.
            let _ = writeln!(member.stdin, "{line}");
        }
    }

    /// Stops it in its tracks, or lets it go on, or kills it.
    pub(super) fn signal(&self, client: usize, signal: Signal) {
        if let Some(member) = &self.members[client] {
            let _ = kill(member.id(), signal);
        }
    }

    /// Takes note of its end.
    pub(super) fn bury(&mut self, client: usize) {
        if let Some(mut member) = self.members[client].take() {
            let _ = member.process.wait();
        }
    }

    pub(super) fn is_alive(&self, client: usize) -> bool {
        self.members[client].is_some()
    }

    pub(super) fn alive(&self) -> usize {
        self.members.iter().flatten().count()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for mut member in self.members.drain(..).flatten() {
            let _ = member.process.kill();
            let _ = member.process.wait();
        }
    }
}
