#![doc = include_str!("../../../README.md")]

#[cfg(feature = "config")]
pub mod config;
mod connect;

#[cfg(feature = "config")]
pub use config::connect_from_config;
pub use connect::{connect, init};
pub use fencepost_core::*;
