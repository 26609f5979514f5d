#![doc = include_str!("../../../README.md")]

#[cfg(feature = "config")]
pub mod config;
mod connect;
pub mod fence;
#[cfg(feature = "tower")]
mod http;
#[cfg(feature = "tower")]
mod idempotency;

#[cfg(feature = "config")]
pub use config::connect_from_config;
pub use connect::{connect, init, schema};
pub use fencepost_core::*;
#[cfg(feature = "tower")]
pub use idempotency::{IdempotencyLayer, Idempotent};

#[cfg(all(doctest, feature = "recipes"))]
#[doc = include_str!("../../../docs/recipes.md")]
mod recipes_page {}
