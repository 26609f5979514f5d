//! What happened to locks, and whether it may have.
//!
//! - [`history`]: what happened, as the library told it.
//! - [`checker`]: whether two held a lock at a time, a token fell, or a write was lost.
#![cfg_attr(feature = "audit", doc = "- [`audit`]: the log of a service, whose lines cannot be changed without trace.")]

#[cfg(feature = "audit")]
pub mod audit;
pub mod checker;
pub mod history;
