//! A file of locks for one test, and what to wait for.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;

use fencepost_core::{Blocking, Locks};
pub(crate) use fencepost_testkit::wait::until;

pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self) -> String {
        self.path("locks.db").to_str().expect("UTF-8").to_owned()
    }

    pub(crate) fn connect(&self) -> Locks {
        fencepost_sqlite::connect(&self.file()).block().expect("opens")
    }

    /// Waits until so many are in line.
    pub(crate) fn await_waiters(&self, name: &str, count: usize) {
        let locks = self.connect();
        until("waiters in line", || locks.inspect(name).block().expect("read").waiters.len() == count);
    }

    pub(crate) fn await_gone(&self, name: &str) {
        until("the file is gone", || !self.path(name).exists());
    }

    pub(crate) fn await_empty(&self, folder: &str) {
        until("the folder is empty", || self.path(folder).read_dir().expect("a folder").next().is_none());
    }
}
