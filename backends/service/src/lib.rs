#![doc = include_str!("../README.md")]

mod client;
mod connector;
mod doctor;
mod lanes;
mod lines;
mod steps;
mod store;
mod stream;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
mod tls;
mod trouble;
mod url;
mod wire;

pub use doctor::examine;

use fencepost_core::Connect;

/// The schemes of this store's URLs.
pub const SCHEMES: [&str; 2] = ["fencepost+http", "fencepost+https"];

/// Connects to the locks behind a service. `rest` is what follows the colon of the URL.
pub fn connect(scheme: &str, rest: &str) -> Connect {
    store::Service::connect(scheme, rest)
}
