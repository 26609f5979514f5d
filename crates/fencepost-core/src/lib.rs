//! The lock core of Fencepost. Use the `fencepost` crate, which adds the places where locks live.
//!
//! The parts, in reading order:
//! - [`token`](FencingToken), names and owners: the words;
//! - [`store`]: the contract of single atomic steps, and the memory store;
//! - [`table`](store::table): what each step means, executable;
//! - `quorum`: the engine that acquires, renews and releases over one store or several;
//! - `kinds`: how each kind of lock is made of claims on single names;
//! - [`Connect`], [`Locks`], [`Lock`], [`Guard`]: what users see;
//! - [`Election`], [`Leadership`]: the same for leaders;
//! - [`fence`]: the check at the resource;
//! - [`Records`]: what is remembered beside locks, and `recipes`: the jobs that need that;
//! - [`doctor`]: what a deployment is examined for;
//! - `clock`: time, real and virtual.

mod actor;
mod behalf;
mod bell;
mod blocking;
mod clock;
mod connect;
mod deadlock;
pub mod doctor;
mod election;
mod error;
mod event;
pub mod fence;
mod grant;
mod guard;
mod handle;
mod kinds;
mod lease;
mod lock;
mod locks;
mod name;
mod quorum;
#[cfg(feature = "recipes")]
mod recipes;
mod records;
mod share;
mod state;
pub mod store;

mod token;

pub use actor::{Actor, ActorId};
pub use blocking::Blocking;
#[cfg(feature = "test-util")]
pub use clock::VirtualClock;
pub use connect::Connect;
pub use election::{Election, Leadership, Standing};
pub use error::{
    AcquireError, Invalid, LossReason, Lost, NodeVote, ReleaseOutcome, RenewError, RunError, StoreError,
    StoreErrorKind, Vote,
};
pub use event::{Event, EventKind, Feed, Observer};
pub use grant::{Grant, Permit, Single, Term};
pub use guard::Guard;
pub use lease::Lease;
pub use lock::Lock;
pub use locks::{Guarantees, Locks};
#[cfg(feature = "recipes")]
pub use recipes::{
    Boxed, Finished, Once, OnceError, OncePerKey, OncePerWindow, Ran, Reservation, Settled, SingleFlight, Stock,
    Values, Window, WindowState,
};
pub use records::{Record, Records};
pub use state::{Holder, LockState, Waiter, YieldRequest};
pub use token::{FencingToken, SharedToken};
