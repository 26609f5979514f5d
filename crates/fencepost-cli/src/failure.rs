//! Why a command ended without doing its work: one line for people, one code for scripts.

use std::io;

use fencepost::config::ConfigError;
use fencepost::{Invalid, NodeVote, StoreError};

use crate::exit_code::ExitCode;

/// A command that did not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: ExitCode,
    /// One line. `None`: there is nothing to say, or nobody to say it to.
    pub(crate) message: Option<String>,
    /// What each node said, where several were asked.
    pub(crate) votes: Vec<NodeVote>,
}

impl Failure {
    pub(crate) fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()), votes: Vec::new() }
    }

    /// Something that the operating system refused us.
    pub(crate) fn ours(what: &str, error: impl std::fmt::Display) -> Self {
        Self::new(ExitCode::OURS, format!("{what}: {error}"))
    }

    /// Only the code, without a word.
    pub(crate) fn silent(code: ExitCode) -> Self {
        Self { code, message: None, votes: Vec::new() }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = ExitCode::of_store(&error.kind);
        Self { code, message: Some(error.to_string()), votes: error.votes }
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::new(ExitCode::USAGE, invalid.to_string())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(ExitCode::CONFIGURATION, error.to_string())
    }
}

/// Writing our own output failed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(ExitCode::PIPE_CLOSED),
            _ => Self::ours("cannot write the output", error),
        }
    }
}
