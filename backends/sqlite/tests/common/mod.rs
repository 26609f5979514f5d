//! A file of locks for one test, and what to wait for.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fencepost_core::{Blocking, Feed, Locks};

/// A test that takes so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self) -> String {
        self.path("locks.db").to_str().expect("UTF-8").to_owned()
    }

    pub fn connect(&self) -> Locks {
        fencepost_sqlite::connect(&self.file()).block().expect("opens")
    }

    /// Waits until so many are in line.
    pub fn await_waiters(&self, name: &str, count: usize) {
        let locks = self.connect();
        until("waiters in line", || locks.inspect(name).block().expect("read").waiters.len() == count);
    }

    pub fn await_gone(&self, name: &str) {
        until("the file is gone", || !self.path(name).exists());
    }

    pub fn await_empty(&self, folder: &str) {
        until("the folder is empty", || self.path(folder).read_dir().expect("a folder").next().is_none());
    }
}

/// Waits for something that only shows from outside.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never saw: {what}");
        std::thread::yield_now();
    }
}

/// The next of a feed, which posts from other threads.
pub fn next<T>(mut feed: Pin<&mut Feed<T>>) -> Option<<Feed<T> as futures_core::Stream>::Item>
where
    Feed<T>: futures_core::Stream,
{
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(item) = futures_core::Stream::poll_next(feed.as_mut(), &mut context) {
            return item;
        }
        std::thread::yield_now();
    }
}
