//! What is kept beside a lock, and what can be done with it.

use std::sync::Arc;
use std::time::Duration;

use crate::token::FencingToken;

/// What to do with a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Tell what is there.
    Read,
    /// Tell what is there; nobody with an older token writes any more.
    Seal {
        /// Of whoever will write.
        token: FencingToken,
    },
    /// Put this in its place.
    Put {
        /// Of whoever writes.
        token: FencingToken,
        /// What.
        value: Arc<[u8]>,
        /// Forget it after so long; zero: at once. The token is remembered for
        /// [`table::REMEMBER`](super::table::REMEMBER) at least.
        keep: Duration,
    },
}

impl Deed {
    /// Of whoever has to have the newest.
    pub fn token(&self) -> Option<FencingToken> {
        match self {
            Self::Read => None,
            Self::Seal { token } | Self::Put { token, .. } => Some(*token),
        }
    }
}

/// What is kept beside a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The newest token seen.
    pub token: FencingToken,
    /// What was put there.
    pub value: Vec<u8>,
    /// It is forgotten then.
    pub left: Duration,
}
