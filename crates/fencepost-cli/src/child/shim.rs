//! The moment between `run` and its command: our own program, started again, becomes the command.
//!
//! What has to be set in the new process before the command starts is set here in safe code, instead of between fork
//! and exec.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::SigSet;
use nix::unistd::{Pid, getppid};

use crate::exit_code::ExitCode;
use crate::output::say;

/// `fencepost __exec PARENT -- CMD…`, for our own use.
pub(crate) const VERB: &str = "__exec";

/// Becomes the command, if that is what we were started for; then it returns only if that failed.
pub(crate) fn play(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    arguments.nth(1).filter(|verb| verb == VERB)?;
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse().ok());
    let command = arguments.nth(1);
    let (Some(parent), Some(command)) = (parent, command) else {
        say("__exec is for fencepost's own use; see fencepost run --help");
        return Some(ExitCode::USAGE);
    };
    Some(become_command(parent, &command, arguments))
}

/// Ends with the process that started us, and hears all signals: that one may have blocked some.
///
/// # Errors
/// The code to end with.
pub(crate) fn belong_to(parent: i32) -> Result<(), ExitCode> {
    let refused = |what: &str, error| {
        say(&format!("{what}: {error}"));
        ExitCode::OURS
    };
    die_with_parent().map_err(|error| refused("cannot tie this process to the one that started it", error))?;
    // It may have died before we asked to die with it.
    if getppid() != Pid::from_raw(parent) {
        return Err(ExitCode::OURS);
    }
    SigSet::all().thread_unblock().map_err(|error| refused("cannot unblock signals", error))
}

fn become_command(parent: i32, command: &OsStr, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    if let Err(code) = belong_to(parent) {
        return code;
    }
    let error = Command::new(command).args(arguments).exec();
    say(&format!("cannot run {command:?}: {}", why(&error)));
    match error.kind() {
        io::ErrorKind::NotFound => ExitCode::NOT_FOUND,
        _ => ExitCode::CANNOT_EXECUTE,
    }
}

fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such program".into(),
        io::ErrorKind::PermissionDenied => "it is not executable, or is a directory".into(),
        _ => error.to_string(),
    }
}

#[cfg(target_os = "linux")]
fn die_with_parent() -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
}

/// Other systems have nothing like it: there the command outlives a `run` that is killed.
#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> nix::Result<()> {
    Ok(())
}
