//! What Fencepost's SQL back ends share. Use `fencepost`, or the crate of a back end.
//!
//! A step is one transaction: it locks the row of its lock, reads the rows of that lock, runs
//! `fencepost_core::store::table` on them, writes what changed and commits. Where nobody waits, one statement does what
//! the table would. A back end says how to do each of these in its dialect ([`Database`]); the rest is here:
//!
//! - `store`: [`SqlStore`], what the engine sees, and its thread;
//! - `engine`: steps in order per lock, each tried again while it certainly has not run;
//! - `shortcut`: [`Take`] and [`Free`], the steps of one statement, and when they may be tried;
//! - [`Page`], [`Changes`]: the rows of one lock, as the table wants them;
//! - [`Hub`]: who listens here, and where to write to them; `watch`: looking on their behalf;
//! - [`Examine`], [`examine()`]: what can go wrong with a database that keeps locks;
//! - `pool`: a bounded number of connections;
//! - [`Tables`], [`Settings`]: names, quoted, and what a URL says.

mod begin;
mod changes;
mod database;
mod doctor;
mod engine;
mod hub;
mod page;
mod pool;
mod settings;
mod shortcut;
mod store;
mod tables;
mod watch;

pub use changes::{Changes, LockRow};
pub use database::{Database, Failure, Grant, Want};
pub use doctor::{Examine, examine};
pub use hub::Hub;
pub use page::{Page, Row, RowKind};
pub use settings::Settings;
pub use shortcut::{Free, Take};
pub use store::{SqlStore, on_a_thread, within};
pub use tables::{Tables, Version, check_version, schema_text};
