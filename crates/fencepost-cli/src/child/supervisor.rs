//! Watches over the running command: passes signals on, follows stops, and ends it in time when the lock is lost.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use fencepost::LossReason;
use fencepost::store::{Clock, Moment};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::terminal::Terminal;
use super::{Loss, Message, descendants};
use crate::args::OnLost;
use crate::exit_code::ExitCode;
use crate::output::say;

/// The longest nap: a system that tells us nothing of our children is asked so often.
const NAP_MAX: Duration = Duration::from_secs(1);
/// The nap while orphans of the command are to end: nobody tells us of them.
const NAP_ENDING: Duration = Duration::from_millis(5);
/// So long a killed process may take to vanish; one that hangs in the kernel would hold us for ever.
const BURIAL_MAX: Duration = Duration::from_secs(5);

/// The command, running.
pub(crate) struct Supervisor<'a> {
    /// The command; also its process group.
    leader: Pid,
    inbox: &'a Receiver<Message>,
    clock: Clock,
    on_lost: OnLost,
    /// By the clock.
    still_held: &'a dyn Fn() -> Result<(), LossReason>,
    terminal: Option<Terminal>,
    status: Option<ExitCode>,
    loss: Option<Loss>,
    interrupted: bool,
    killed_at: Option<Moment>,
}

/// How the command ended.
#[derive(Debug)]
pub(crate) struct End {
    /// The command's own code.
    pub(crate) code: ExitCode,
    /// The lock was lost before.
    pub(crate) lost: Option<LossReason>,
    /// Somebody told us to end.
    pub(crate) interrupted: bool,
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(
        leader: Pid,
        inbox: &'a Receiver<Message>,
        clock: Clock,
        on_lost: OnLost,
        still_held: &'a dyn Fn() -> Result<(), LossReason>,
    ) -> Self {
        let mut terminal = Terminal::open();
        if let Some(terminal) = &mut terminal {
            terminal.offer(leader);
        }
        Self {
            leader,
            inbox,
            clock,
            on_lost,
            still_held,
            terminal,
            status: None,
            loss: None,
            interrupted: false,
            killed_at: None,
        }
    }

    /// Returns when the command has ended; after a loss, when nothing of it is left.
    pub(crate) fn watch(mut self) -> End {
        loop {
            match self.inbox.recv_timeout(self.nap()) {
                Ok(
                    Message::Signal(Signal::SIGCHLD)
                    | Message::Connected(_)
                    | Message::WaitingForStore(_)
                    | Message::Waiting
                    | Message::Acquired(_),
                )
                | Err(_) => {}
                Ok(Message::Signal(signal)) => {
                    self.interrupted |=
                        matches!(signal, Signal::SIGHUP | Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTERM);
                    self.signal(signal);
                }
                Ok(Message::Lost(loss)) => self.lose(loss),
            }
            self.reap();
            if self.is_ending() {
                self.kill_in_time();
            }
            if self.is_over() {
                let lost = self.loss.map(|loss| loss.reason).or_else(|| (self.still_held)().err());
                return End { code: self.status.unwrap_or(ExitCode::LOST), lost, interrupted: self.interrupted };
            }
        }
    }

    fn nap(&self) -> Duration {
        match self.loss {
            Some(_) if self.is_ending() && (self.status.is_some() || self.killed_at.is_some()) => NAP_ENDING,
            Some(loss) if self.is_ending() => loss.kill_at.since(self.clock.now()).min(NAP_MAX),
            _ => NAP_MAX,
        }
    }

    fn is_ending(&self) -> bool {
        self.loss.is_some() && self.on_lost != OnLost::Ignore
    }

    fn is_over(&self) -> bool {
        let hopeless = self.killed_at.is_some_and(|at| self.clock.now().since(at) > BURIAL_MAX);
        let gone = self.status.is_some() && (!self.is_ending() || self.nobody_is_left());
        gone || hopeless
    }

    fn nobody_is_left(&self) -> bool {
        killpg(self.leader, None).is_err() && descendants::living().is_empty()
    }

    fn lose(&mut self, loss: Loss) {
        self.loss = Some(loss);
        match self.on_lost {
            OnLost::Ignore => {}
            OnLost::Kill => self.kill(),
            OnLost::Term if self.clock.now() >= loss.kill_at => self.kill(),
            OnLost::Term => {
                self.signal(Signal::SIGTERM);
                // A stopped process does not even hear that it shall end.
                self.signal(Signal::SIGCONT);
            }
        }
    }

    fn kill_in_time(&mut self) {
        let due = self.loss.is_some_and(|loss| self.clock.now() >= loss.kill_at);
        if due || self.killed_at.is_some() {
            self.kill();
        }
    }

    fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        descendants::kill_all();
        self.killed_at.get_or_insert(self.clock.now());
    }

    /// To the whole group; there may be nobody left in it.
    fn signal(&self, signal: Signal) {
        let _ = killpg(self.leader, signal);
    }

    /// Takes note of what became of our children; those that are not the command are orphans that came to us.
    fn reap(&mut self) {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.leader => {
                    self.status = Some(ExitCode(u8::try_from(code & 0xff).unwrap_or(u8::MAX)));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.leader => {
                    self.status = Some(ExitCode::by_signal(signal as i32));
                }
                Ok(WaitStatus::Stopped(pid, by)) if pid == self.leader => self.stopped(by),
                Ok(WaitStatus::StillAlive) => return,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => {
                    if self.status.is_none() {
                        say("the command's exit code is not known: SIGCHLD was ignored when fencepost was started");
                        self.status = Some(ExitCode::OURS);
                    }
                    return;
                }
            }
        }
    }

    fn stopped(&mut self, by: Signal) {
        let by_job_control = matches!(by, Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU);
        let Some(terminal) = self.terminal.as_mut().filter(|_| by_job_control) else { return };
        terminal.stopped(self.leader, by);
        // We may have slept past the lease: then the command must not take one more step.
        if (self.still_held)().is_ok() || self.on_lost == OnLost::Ignore {
            self.signal(Signal::SIGCONT);
        }
    }
}
