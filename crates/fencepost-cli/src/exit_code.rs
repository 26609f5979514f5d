//! The exit codes and what they mean.

use fencepost::StoreErrorKind;

/// What the command tells its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExitCode(pub(crate) u8);

impl ExitCode {
    pub(crate) const DONE: Self = Self(0);
    /// `check`: a newer token was granted.
    pub(crate) const STALE: Self = Self(1);
    /// `leader`: nobody leads.
    pub(crate) const NOBODY: Self = Self(1);
    /// `deadlocks`: there is one; `doctor`: something is wrong; `audit check`: the log is not in order; `verify`: a rule was
    /// broken.
    pub(crate) const FOUND: Self = Self(1);
    pub(crate) const USAGE: Self = Self(2);
    pub(crate) const STORE: Self = Self(69);
    /// `run`: not now. `reconfigure`: not yet.
    pub(crate) const NOT_OBTAINED: Self = Self(75);
    pub(crate) const DENIED: Self = Self(77);
    pub(crate) const CONFIGURATION: Self = Self(78);
    pub(crate) const LOST: Self = Self(80);
    pub(crate) const OURS: Self = Self(125);
    pub(crate) const CANNOT_EXECUTE: Self = Self(126);
    pub(crate) const NOT_FOUND: Self = Self(127);
    /// The reader of our output went away.
    pub(crate) const PIPE_CLOSED: Self = Self(128 + 13);

    /// Ended by a signal, as shells say it.
    pub(crate) fn by_signal(signal: i32) -> Self {
        Self(u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }

    pub(crate) fn of_store(kind: &StoreErrorKind) -> Self {
        match kind {
            StoreErrorKind::Denied => Self::DENIED,
            StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported | StoreErrorKind::OtherKind => {
                Self::CONFIGURATION
            }
            _ => Self::STORE,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.0)
    }
}

/// For `--help` and the manual.
pub(crate) const TABLE: &str = "\
Exit codes:
  0     done; once: not due, because another run did it (-E changes this code)
  1     check: the token is stale; deadlocks: found; doctor: found an error; leader: nobody leads;
        audit check: the log is not in order; verify: a rule was broken
  2     usage, a bad name or a bad ttl
  69    the store is unreachable, has no quorum, is quarantined or too slow
  75    run: the lock was not obtained (-E changes this code); reconfigure: run it again;
        verify: no verdict
  77    the store denied access
  78    bad configuration
  80    run, once: the lock was lost while the command ran
  125   fencepost itself failed
  126   run, once, elect: the command cannot be executed
  127   run, once, elect: the command was not found
  128+N ended by signal N
  else  run, once, elect: the command's own code";
