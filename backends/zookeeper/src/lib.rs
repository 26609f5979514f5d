#![doc = include_str!("../README.md")]

mod doctor;
mod engine;
mod error;
pub mod fence;
mod nodes;
mod session;
mod sessions;
mod sight;
mod steps;
mod store;
mod upkeep;
mod url;
mod watches;
mod wire;

pub use doctor::examine;

use fencepost_core::Connect;

/// The schemes of this store's URLs.
pub const SCHEMES: [&str; 2] = ["zk", "zookeeper"];

/// Connects to the locks in an ensemble. `rest` is what follows the colon of the URL.
pub fn connect(scheme: &str, rest: &str) -> Connect {
    store::ZooKeeper::connect(scheme, rest)
}
