//! A server that the tests of one program share: started by the first, stopped with the last that uses it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::server::{Recipe, Server};

/// A server while somebody uses it.
#[derive(Debug)]
pub struct Shared<R: Recipe>(Mutex<Weak<Server<R>>>);

impl<R: Recipe> Shared<R> {
    /// Nobody uses it yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// The server that runs, or a new one.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn get(&self, recipe: impl FnOnce() -> R) -> Arc<Server<R>> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Server::start(recipe()));
            *shared = Arc::downgrade(&server);
            server
        })
    }
}

impl<R: Recipe> Default for Shared<R> {
    fn default() -> Self {
        Self::new()
    }
}
