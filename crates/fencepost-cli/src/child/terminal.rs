//! The terminal, lent to the command as a shell lends it to a job.

use std::fs::File;
use std::io::IsTerminal;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal that controls us.
#[derive(Debug)]
pub(super) struct Terminal {
    tty: File,
    lent_to: Option<Pid>,
}

impl Terminal {
    /// `None`: we have none, as under cron.
    pub(super) fn open() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { tty, lent_to: None })
    }

    /// At the start. In a pipeline the others need the terminal too, so there the command has to ask for it.
    pub(super) fn offer(&mut self, group: Pid) {
        if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
            self.lend(group);
        }
    }

    /// Answers whether the group has the terminal now.
    fn lend(&mut self, group: Pid) -> bool {
        let ours = tcgetpgrp(&self.tty) == Ok(getpgrp());
        let lent = ours && tcsetpgrp(&self.tty, group).is_ok();
        if lent {
            self.lent_to = Some(group);
        }
        lent
    }

    pub(super) fn take_back(&mut self) {
        let Some(group) = self.lent_to.take() else { return };
        if tcgetpgrp(&self.tty).is_ok_and(|foreground| foreground == group) {
            let _ = tcsetpgrp(&self.tty, getpgrp());
        }
    }

    /// The command was stopped: by ctrl-Z, or because it wants a terminal that it does not have. Returns when the
    /// command shall go on, which may be days later.
    pub(super) fn stopped(&mut self, group: Pid, by: Signal) {
        let wants_terminal = matches!(by, Signal::SIGTTIN | Signal::SIGTTOU);
        if wants_terminal && self.lend(group) {
            return;
        }
        let had_it = self.lent_to.is_some() || wants_terminal;
        self.take_back();
        // As ctrl-Z would have done to the whole job. Where nobody could wake us the kernel ignores it.
        let _ = killpg(getpgrp(), Signal::SIGTSTP);
        if had_it {
            self.lend(group);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
