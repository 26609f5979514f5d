//! What a holder can show to a resource: the kinds of lock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kinds::Kind;
use crate::lock::MAX_HOLD;
use crate::store::Mode;
use crate::token::{FencingToken, SharedToken};

/// What a held lock proves. Sealed: the kinds of lock are the implementations here.
///
/// - [`FencingToken`], exclusive;
/// - [`SharedToken`], one of many readers;
/// - `()`, exclusive and without a token to show;
/// - [`Term`], leadership ([`Locks::election`](crate::Locks::election));
/// - `BTreeMap<String, FencingToken>`, several names at once ([`Locks::all_of`](crate::Locks::all_of));
/// - `Vec<Permit>`, some permits of a semaphore ([`Locks::semaphore`](crate::Locks::semaphore)).
pub trait Grant: Clone + Send + Sync + Unpin + 'static + Kind {}

impl<G: Clone + Send + Sync + Unpin + 'static + Kind> Grant for G {}

/// What the holder of a single lock proves: only that can be [leaked](crate::Guard::leak). Sealed.
pub trait Single: Grant {
    #[doc(hidden)]
    const MODE: Mode;
    #[doc(hidden)]
    const FENCED: bool = true;
    #[doc(hidden)]
    const MAX_HOLD: Option<Duration> = Some(MAX_HOLD);
    #[doc(hidden)]
    fn from_token(token: FencingToken) -> Self;
}

impl Single for FencingToken {
    const MODE: Mode = Mode::Exclusive;
    fn from_token(token: FencingToken) -> Self {
        token
    }
}

impl Single for SharedToken {
    const MODE: Mode = Mode::Shared;
    fn from_token(token: FencingToken) -> Self {
        SharedToken::new(token)
    }
}

impl Single for () {
    const MODE: Mode = Mode::Exclusive;
    const FENCED: bool = false;
    fn from_token(_: FencingToken) -> Self {}
}

/// What a leader proves: a fencing token by its election name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Term(FencingToken);

impl Term {
    /// The token to show to every resource that the leader writes to.
    pub fn token(self) -> FencingToken {
        self.0
    }
}

impl Single for Term {
    const MODE: Mode = Mode::Exclusive;
    const MAX_HOLD: Option<Duration> = None;
    fn from_token(token: FencingToken) -> Self {
        Self(token)
    }
}

/// The tokens of several locks, by name.
pub(crate) type Tokens = BTreeMap<String, FencingToken>;

/// One permit of a semaphore: a lock of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Permit {
    /// Which one, from 0. No two holders have the same at a time: it can name a port, a directory, a worker.
    pub slot: u32,
    /// Grows with every holder of this slot.
    pub token: FencingToken,
}
