//! What went wrong, in one line that names the file and the cure.

use std::io;
use std::path::{Path, PathBuf};

use fencepost_core::store::{StoreError, StoreErrorKind, Trouble};
use rusqlite::ErrorCode;

use crate::path;

/// Why the file could not be used.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: StoreErrorKind,
    file: PathBuf,
    what: String,
    cure: String,
}

impl Failure {
    pub(crate) fn new(kind: StoreErrorKind, file: &Path, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { kind, file: file.to_owned(), what: what.into(), cure: cure.into() }
    }

    /// What the operating system said about a file.
    pub(crate) fn io(file: &Path, error: &io::Error) -> Self {
        let (kind, cure) = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                (StoreErrorKind::Denied, "give this user the right to write there, or choose another file")
            }
            io::ErrorKind::NotFound => (StoreErrorKind::Misconfigured, "create the folder, or choose another file"),
            io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidFilename => {
                (StoreErrorKind::Misconfigured, "name a file in a folder that exists")
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (StoreErrorKind::Unreachable, FULL),
            _ => (StoreErrorKind::Unreachable, "check the disk"),
        };
        Self::new(kind, file, error.to_string(), cure)
    }

    /// What SQLite said about a file.
    pub(crate) fn sqlite(file: &Path, error: &rusqlite::Error) -> Self {
        let (kind, cure) = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (StoreErrorKind::TooSlow, "find the program that keeps a transaction open on it and end it")
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                (StoreErrorKind::Denied, "give this user the right to write to the file and its folder")
            }
            Some(ErrorCode::DiskFull) => (StoreErrorKind::Unreachable, FULL),
            Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) if path::is_denied(file) => {
                (StoreErrorKind::Denied, "give this user the right to read and write the file and those beside it")
            }
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
                (StoreErrorKind::Unreachable, "check the disk and that the folder is still there")
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (StoreErrorKind::Unexpected, SPOILT),
            _ => (StoreErrorKind::Unexpected, SPOILT),
        };
        Self::new(kind, file, error.to_string(), cure)
    }

    pub(crate) fn kind(&self) -> &StoreErrorKind {
        &self.kind
    }

    pub(crate) fn into_store_error(self) -> StoreError {
        let message = self.message();
        StoreError::new(self.kind, "connect", message)
    }

    pub(crate) fn trouble(&self) -> Trouble {
        Trouble::new(self.kind.clone(), self.message())
    }

    fn message(&self) -> String {
        let what = self.what.replace('\n', " ");
        format!("{}: {what}; {}", self.file.display(), self.cure)
    }
}

const FULL: &str = "free some disk space: until then no lock is granted or renewed";
const SPOILT: &str = "stop its users and move it away with its -wal file: a new one is made, and tokens still rise";

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: rusqlite::ffi::ErrorCode, extended: i32) -> Failure {
        let error = rusqlite::ffi::Error { code, extended_code: extended };
        Failure::sqlite(Path::new("/x/locks.db"), &rusqlite::Error::SqliteFailure(error, None))
    }

    #[test]
    fn every_failure_is_one_line_that_names_the_file_and_a_cure() {
        for code in [ErrorCode::DiskFull, ErrorCode::NotADatabase, ErrorCode::ReadOnly, ErrorCode::DatabaseBusy] {
            let message = said(code, 1).trouble().message;
            assert!(message.starts_with("/x/locks.db: ") && message.contains("; "), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn what_may_pass_is_retryable_and_what_a_person_must_mend_is_not() {
        let retryable = |failure: Failure| failure.into_store_error().is_retryable();
        assert!(retryable(said(ErrorCode::DiskFull, 13)) && retryable(said(ErrorCode::SystemIoFailure, 10)));
        assert!(!retryable(said(ErrorCode::ReadOnly, 8)) && !retryable(said(ErrorCode::DatabaseCorrupt, 11)));
    }
}
