#![doc = include_str!("../../../README.md")]

#[cfg(feature = "config")]
pub mod config;
mod connect;
pub mod fence;
#[cfg(feature = "tower")]
mod http;

#[cfg(feature = "config")]
pub use config::connect_from_config;
pub use connect::{connect, init, schema};
pub use fencepost_core::*;
