#![doc = include_str!("../README.md")]

mod client;
mod doctor;
mod engine;
mod error;
pub mod fence;
mod keys;
mod leases;
mod proto;
mod pulse;
mod sight;
mod steps;
mod store;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
mod tls;
mod url;
mod watches;

pub use doctor::examine;

use fencepost_core::Connect;

/// The schemes of this store's URLs.
pub const SCHEMES: [&str; 2] = ["etcd", "etcd+tls"];

/// Connects to the locks in a cluster. `rest` is what follows the colon of the URL.
pub fn connect(scheme: &str, rest: &str) -> Connect {
    store::Etcd::connect(scheme, rest)
}
