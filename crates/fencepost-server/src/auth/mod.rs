//! Who asks, and what they may.
//!
//! `scope` has the rights, `key` and `file` the credentials, `origin` tells programs from web pages, `gate` asks every
//! request.

mod file;
mod gate;
mod key;
mod origin;
mod scope;

pub use file::{Credentials, key_entry};
pub(crate) use gate::{Gate, gate};
pub use key::{ApiKey, KeyDigest};
pub use scope::{Principal, Scope, Verb};
