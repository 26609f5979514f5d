//! The end of a connection, as a store is told of it.

use std::fmt;

use crate::quorum::Errand;

/// What a store still has to do before its connection is closed: over when it is dropped.
pub struct Closing(#[allow(dead_code, reason = "held for its Drop")] Errand);

impl Closing {
    pub(crate) fn new(errand: Errand) -> Self {
        Self(errand)
    }
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closing")
    }
}
