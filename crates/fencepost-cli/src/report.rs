//! `--report`: the outcome of a `run` as JSON, for callers to whom an exit code says too little.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost::LossReason;
use serde::Serialize;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output;

/// How a `run` ended.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The command ran under the lock to its end.
    Ran,
    /// Others had the lock for as long as we would wait.
    NotObtained,
    /// `once`: somebody else ran this window, or runs it.
    Skipped,
    /// A signal ended the wait.
    Interrupted,
    /// The lock was lost while the command ran.
    Lost,
    /// The store did not do its part.
    StoreError,
    /// Name or settings were refused.
    Refused,
    /// The command could not be started.
    Failed,
}

/// What is reported.
#[derive(Serialize, Debug)]
pub(crate) struct Record {
    lock: String,
    pub(crate) token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slot: Option<String>,
    pub(crate) outcome: Outcome,
    exit_code: u8,
    waited_ms: u64,
    held_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_reason: Option<String>,
}

impl Record {
    pub(crate) fn new(lock: &str) -> Self {
        Self {
            lock: lock.to_owned(),
            token: None,
            slot: None,
            outcome: Outcome::Failed,
            exit_code: ExitCode::OURS.0,
            waited_ms: 0,
            held_ms: None,
            lost_reason: None,
        }
    }

    pub(crate) fn waited(&mut self, waited: Duration) {
        self.waited_ms = ms(waited);
    }

    pub(crate) fn held(&mut self, held: Duration) {
        self.held_ms = Some(ms(held));
    }

    /// `None`: nobody knows why.
    pub(crate) fn lost(&mut self, reason: Option<LossReason>) {
        self.outcome = Outcome::Lost;
        self.lost_reason = reason.map(|reason| reason.to_string());
    }

    pub(crate) fn ended(&mut self, result: &Result<ExitCode, Failure>) {
        self.exit_code = match result {
            Ok(code) => code.0,
            Err(failure) => failure.code.0,
        };
    }
}

pub(crate) fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A file that is there in full or not at all.
#[derive(Debug)]
pub(crate) struct Report {
    path: PathBuf,
    /// Beside the target, so that a rename can put it there.
    draft: PathBuf,
}

impl Report {
    /// Makes sure that the report can be written, before anything is locked.
    pub(crate) fn prepare(flag: &str, path: &Path) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::new(ExitCode::CONFIGURATION, format!("{flag} {}: {why}", path.display()));
        // A link stays, and what it leads to is replaced; but `/dev/stdout` leads to what somebody else is writing.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_of_the_system = |path: &Path| ["/dev", "/proc", "/sys"].iter().any(|folder| path.starts_with(folder));
        let (named, path) = (path, &target);
        if is_of_the_system(named) || is_of_the_system(path) || fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(wrong("not a regular file; name one, it will be replaced".into()));
        }
        let Some(name) = path.file_name() else { return Err(wrong("name a file".into())) };
        let mut draft_name = std::ffi::OsString::from(".");
        draft_name.push(name);
        draft_name.push(format!(".{}", std::process::id()));
        let draft = path.with_file_name(draft_name);
        // It goes again at once: whoever is killed leaves nothing behind.
        let tried = File::create(&draft).and_then(|_| fs::remove_file(&draft));
        tried.map_err(|error| wrong(format!("cannot be written: {error}; name a file in a folder of yours")))?;
        Ok(Self { path: path.to_owned(), draft })
    }

    pub(crate) fn write(self, record: &Record) -> std::io::Result<()> {
        self.put(&output::json(record)?)
    }

    /// Any text, as one file.
    pub(crate) fn put(self, text: &str) -> std::io::Result<()> {
        let mut file = File::create(&self.draft)?;
        writeln!(file, "{text}")?;
        file.sync_all()?;
        fs::rename(&self.draft, &self.path)
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        // One that could not be written whole.
        let _ = fs::remove_file(&self.draft);
    }
}
