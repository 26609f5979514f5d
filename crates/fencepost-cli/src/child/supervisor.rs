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
use super::{Lease, Loss, Message, descendants};
use crate::args::OnLost;
use crate::exit_code::ExitCode;
use crate::output::{Output, say};

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
    output: Output,
    lease: Lease<'a>,
    /// When the lease has to be looked at again.
    look_at: Moment,
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
        output: Output,
        lease: Lease<'a>,
    ) -> Self {
        let mut supervisor = Self::without_terminal(leader, inbox, clock, on_lost, output, lease);
        supervisor.terminal = Terminal::open();
        if let Some(terminal) = &mut supervisor.terminal {
            terminal.offer(leader);
        }
        supervisor
    }

    fn without_terminal(
        leader: Pid,
        inbox: &'a Receiver<Message>,
        clock: Clock,
        on_lost: OnLost,
        output: Output,
        lease: Lease<'a>,
    ) -> Self {
        let look_at = clock.now();
        Self {
            leader,
            inbox,
            clock,
            on_lost,
            output,
            lease,
            look_at,
            terminal: None,
            status: None,
            loss: None,
            interrupted: false,
            killed_at: None,
        }
    }

    /// Returns when the command has ended; after a loss, when nothing of it is left. Nothing in here waits for the
    /// store, the engine's threads or a reader of our output: at each wake the lease is judged by the clock.
    pub(crate) fn watch(mut self) -> End {
        loop {
            match self.inbox.recv_timeout(self.nap()) {
                Ok(
                    Message::Signal(Signal::SIGCHLD)
                    | Message::Connected(_)
                    | Message::WaitingForStore(_)
                    | Message::Waiting
                    | Message::Acquired(_)
                    | Message::Lost,
                )
                | Err(_) => {}
                Ok(Message::Asked(words)) => self.output.note(&words),
                Ok(Message::Signal(signal)) => {
                    self.interrupted |=
                        matches!(signal, Signal::SIGHUP | Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTERM);
                    self.signal(signal);
                }
            }
            self.reap();
            self.judge();
            if self.is_ending() {
                self.kill_in_time();
            }
            if self.is_over() {
                let lost = self.loss.map(|loss| loss.reason);
                return End { code: self.status.unwrap_or(ExitCode::LOST), lost, interrupted: self.interrupted };
            }
        }
    }

    fn nap(&self) -> Duration {
        match self.loss {
            Some(_) if self.is_ending() && (self.status.is_some() || self.killed_at.is_some()) => NAP_ENDING,
            Some(loss) if self.is_ending() => loss.kill_at.since(self.clock.now()).min(NAP_MAX),
            Some(_) => NAP_MAX,
            None => self.look_at.since(self.clock.now()).min(NAP_MAX),
        }
    }

    /// Whether the lock is still ours, by the clock.
    fn judge(&mut self) {
        if self.loss.is_some() {
            return;
        }
        match self.lease.look() {
            Ok(left) => self.look_at = self.clock.now().plus(left),
            Err(loss) => self.lose(loss),
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
        if self.lease.look().is_ok() || self.on_lost == OnLost::Ignore {
            self.signal(Signal::SIGCONT);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// A supervisor takes every child of the process for its own.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Has a command run that takes no notice of SIGTERM.
    #[allow(clippy::zombie_processes, reason = "the supervisor waits for it")]
    fn supervised(clock: &Clock, lease: Lease<'_>, on_lost: OnLost) -> End {
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let command = Command::new("sh").args(["-c", "trap '' TERM; sleep 60 & wait; wait"]).process_group(0).spawn();
        let leader = Pid::from_raw(i32::try_from(command.expect("a shell").id()).expect("an id"));
        // The engine says nothing, as if all its threads hung.
        let (_silent, inbox) = channel();
        let output = Output { json: false, quiet: true, verbose: false };
        Supervisor::without_terminal(leader, &inbox, clock.clone(), on_lost, output, lease).watch()
    }

    const BY_FORCE: ExitCode = ExitCode(128 + 9);

    #[test]
    fn a_command_is_ended_within_its_lease_though_nobody_tells_of_the_loss() {
        let clock = Clock::system().expect("a clock");
        // Counts as lost after half a second, and lasts half a minute.
        let (ttl, margin) = (ms(30_000), ms(29_500));
        let end = clock.now().plus(ttl);
        let remaining = || {
            let remaining = end.since(clock.now());
            if remaining > margin { Ok(remaining) } else { Err(LossReason::Expired) }
        };
        let lease = Lease::begin(clock.clone(), ttl, margin, &remaining).expect("it is held");
        let done = supervised(&clock, lease, OnLost::Kill);
        assert_eq!((done.lost, done.code), (Some(LossReason::Expired), BY_FORCE));
        assert!(clock.now() < end, "the lease was over before the command was");
    }

    /// The machine stood still while the command was started.
    #[test]
    fn a_command_that_starts_after_its_lease_is_ended_at_once() {
        let clock = Clock::system().expect("a clock");
        let looks = Cell::new(0);
        let remaining = || {
            looks.set(looks.get() + 1);
            if looks.get() == 1 { Ok(Duration::ZERO) } else { Err(LossReason::Expired) }
        };
        let (ttl, margin) = (ms(3_600_000), ms(360_000));
        let lease = Lease::begin(clock.clone(), ttl, margin, &remaining).expect("it is held");
        let began = clock.now();
        let done = supervised(&clock, lease, OnLost::Term);
        assert_eq!((done.lost, done.code), (Some(LossReason::Expired), BY_FORCE));
        assert!(clock.now().since(began) < margin / 10, "it had time to end by itself");
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }
}
