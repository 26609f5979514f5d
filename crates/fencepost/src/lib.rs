#![doc = include_str!("../../../README.md")]

mod connect;

pub use connect::connect;
pub use fencepost_core::*;
