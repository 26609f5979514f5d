//! One verb each.

#[cfg(feature = "serve")]
pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod deadlocks;
pub(crate) mod doctor;
pub(crate) mod elect;
pub(crate) mod init;
#[cfg(feature = "serve")]
pub(crate) mod key;
pub(crate) mod leader;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod once;
#[cfg(feature = "redis")]
pub(crate) mod reconfigure;
mod reference;
pub(crate) mod release;
pub(crate) mod run;
pub(crate) mod schema;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod show;
mod state;
pub(crate) mod top;
#[cfg(feature = "verify")]
pub(crate) mod verify;
mod watch;
