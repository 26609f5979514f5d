#![doc = include_str!("../../../README.md")]

#[cfg(feature = "config")]
pub mod config;
mod connect;
pub mod doctor;
pub mod fence;
#[cfg(feature = "tower")]
mod http;
#[cfg(feature = "tower")]
mod idempotency;
#[cfg(feature = "redis")]
pub mod reconfigure;

#[cfg(feature = "config")]
pub use config::connect_from_config;
pub use connect::{connect, init, schema};
pub use fencepost_core::*;
#[cfg(feature = "tower")]
pub use idempotency::{IdempotencyLayer, Idempotent};

/// The pages of the handbook, for their examples: `cargo test --doc --all-features`.
#[cfg(all(doctest, feature = "postgres", feature = "schedule", feature = "sqlite"))]
mod handbook {
    #[doc = include_str!("../../../docs/fencing.md")]
    mod fencing {}
    #[doc = include_str!("../../../docs/kinds.md")]
    mod kinds {}
    #[doc = include_str!("../../../docs/loss.md")]
    mod loss {}
    #[doc = include_str!("../../../docs/migration.md")]
    mod migration {}
    #[doc = include_str!("../../../docs/recipes.md")]
    mod recipes {}
    #[doc = include_str!("../../../docs/redlock.md")]
    mod redlock {}
    #[doc = include_str!("../../../docs/start.md")]
    mod start {}
    #[doc = include_str!("../../../docs/stores.md")]
    mod stores {}
    #[doc = include_str!("../../../docs/waiting.md")]
    mod waiting {}
}
