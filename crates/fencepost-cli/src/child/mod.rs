//! The command below `run`: started so that it cannot outlive us, watched, and ended when the lock is lost.

mod descendants;
mod lease_watch;
pub(crate) mod shim;
pub(crate) mod signals;
mod supervisor;
mod terminal;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use fencepost::store::Moment;
use fencepost::{AcquireError, Locks, LossReason, StoreError};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::hold::Hold;
use crate::output;

pub(crate) use lease_watch::{Lease, LeaseWatch, reserve};
pub(crate) use supervisor::{End, Supervisor};

/// What the main thread waits for, from lock to exit.
#[derive(Debug)]
pub(crate) enum Message {
    /// Somebody signalled us.
    Signal(Signal),
    /// The connection is there, or cannot be.
    Connected(Result<Locks, StoreError>),
    /// The store cannot decide now, for this reason.
    WaitingForStore(Box<StoreError>),
    /// Others have the lock; we are in line.
    Waiting,
    /// Somebody asks for the lock, in these words.
    Asked(String),
    /// The acquisition ended.
    Acquired(Result<Hold, AcquireError>),
    /// A hold ended unasked: time to look.
    Lost,
}

impl From<Signal> for Message {
    fn from(signal: Signal) -> Self {
        Self::Signal(signal)
    }
}

/// A hold that ended unasked.
#[derive(Clone, Copy, Debug)]
struct Loss {
    reason: LossReason,
    /// By then the command must be gone.
    kill_at: Moment,
}

/// Starts a command in a process group of its own. To be called on the main thread: the kernel ends the command
/// with the thread that started it.
pub(crate) fn start(command: &[OsString], variables: &[(&str, Option<String>)]) -> io::Result<Pid> {
    descendants::adopt_orphans();
    let mut shim = Command::new(own_program()?);
    shim.arg0("fencepost").arg(shim::VERB).arg(std::process::id().to_string()).arg("--").args(command);
    for (name, value) in variables {
        match value {
            Some(value) => shim.env(name, value),
            None => shim.env_remove(name),
        };
    }
    output::catch_up();
    let child = shim.process_group(0).spawn()?;
    Ok(Pid::from_raw(i32::try_from(child.id()).expect("BUG: process ids are positive i32")))
}

/// This very program, even if its file was replaced while we waited for the lock.
pub(crate) fn own_program() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}
