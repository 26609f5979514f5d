//! Whether another process has the file open, which decides whether its leases may be cleared after a restart.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::path;

/// A shared lock on `FILE-open` for as long as a store uses the file, also while trouble keeps the file itself closed.
///
/// The lock is on a file of its own: as soon as any code of a process closes the database file, POSIX drops all locks
/// that this process has on it, SQLite's included. `flock(2)` locks belong to the open file instead.
#[derive(Debug)]
pub(crate) struct Presence {
    lock: File,
    at: PathBuf,
    /// Which database file it is about: the path may lead to another one later.
    identity: (u64, u64),
}

impl Presence {
    /// Takes the lock. Only behind the gate, where nobody asks [`is_alone`](Self::is_alone).
    pub(crate) fn of(file: &Path) -> Result<Self, (PathBuf, io::Error)> {
        let at = path::beside(file, "-open");
        let taken = path::open_beside(file, &at).and_then(|lock| {
            lock.try_lock_shared()?;
            Ok((lock, path::identity(file)?))
        });
        match taken {
            Ok((lock, identity)) => Ok(Self { lock, at, identity }),
            Err(error) => Err((at, error)),
        }
    }

    /// The path still leads to the database file that this is about.
    pub(crate) fn is_of(&self, file: &Path) -> bool {
        path::identity(file).is_ok_and(|found| found == self.identity)
    }

    /// The database file that this is about was deleted or replaced.
    pub(crate) fn is_over(&self, file: &Path) -> bool {
        match path::identity(file) {
            Ok(found) => found != self.identity,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Whether no other store has the file open. Only behind the gate, where nobody else takes the lock or asks.
    pub(crate) fn is_alone(&self) -> Result<bool, (PathBuf, io::Error)> {
        self.is_alone_by(File::try_lock)
    }

    /// Asks by this attempt to take the exclusive lock, and takes the shared one again whatever comes of it: this store is asked
    /// about by others as long as it lives.
    fn is_alone_by(
        &self,
        try_lock: impl FnOnce(&File) -> Result<(), TryLockError>,
    ) -> Result<bool, (PathBuf, io::Error)> {
        let asked = self.lock.unlock().and_then(|()| match try_lock(&self.lock) {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        });
        let shared = self.lock.unlock().and_then(|()| Ok(self.lock.try_lock_shared()?));
        asked.and_then(|alone| shared.map(|()| alone)).map_err(|error| (self.at.clone(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_could_not_ask_is_still_seen_by_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("locks.db");
        File::create(&file).expect("made");
        let first = Presence::of(&file).expect("taken");
        let fails = |_: &File| Err(TryLockError::Error(io::Error::other("no locks available")));
        first.is_alone_by(fails).expect_err("the attempt failed");
        let second = Presence::of(&file).expect("shared");
        assert!(!second.is_alone().expect("asked"), "the first one's lock is gone");
    }

    #[test]
    fn a_store_is_alone_until_another_one_opens_the_file_and_after_that_one_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("locks.db");
        File::create(&file).expect("made");
        let first = Presence::of(&file).expect("taken");
        assert!(first.is_alone().expect("asked"));
        let second = Presence::of(&file).expect("shared");
        assert!(!first.is_alone().expect("asked") && !second.is_alone().expect("asked"));
        drop(first);
        assert!(second.is_alone().expect("asked"));
        assert!(second.is_of(&file) && !second.is_over(&file));
        std::fs::rename(&file, folder.path().join("older")).expect("moved");
        assert!(!second.is_of(&file) && second.is_over(&file));
        File::create(&file).expect("made");
        assert!(!second.is_of(&file) && second.is_over(&file));
    }
}
