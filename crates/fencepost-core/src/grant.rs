//! What a holder can show to a resource: the kinds of lock.

use crate::store::Mode;
use crate::token::{FencingToken, SharedToken};

/// What a held lock proves. Sealed: the kinds of lock are the implementations here.
///
/// - [`FencingToken`], exclusive;
/// - [`SharedToken`], one of many readers;
/// - `()`, exclusive and without a token to show.
pub trait Grant: Clone + Send + Sync + Unpin + 'static + sealed::Sealed {
    #[doc(hidden)]
    const MODE: Mode;
    #[doc(hidden)]
    const FENCED: bool = true;
    #[doc(hidden)]
    fn from_token(token: FencingToken) -> Self;
}

impl Grant for FencingToken {
    const MODE: Mode = Mode::Exclusive;
    fn from_token(token: FencingToken) -> Self {
        token
    }
}

impl Grant for SharedToken {
    const MODE: Mode = Mode::Shared;
    fn from_token(token: FencingToken) -> Self {
        SharedToken::new(token)
    }
}

impl Grant for () {
    const MODE: Mode = Mode::Exclusive;
    const FENCED: bool = false;
    fn from_token(_: FencingToken) -> Self {}
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for () {}
    impl Sealed for super::FencingToken {}
    impl Sealed for super::SharedToken {}
}
