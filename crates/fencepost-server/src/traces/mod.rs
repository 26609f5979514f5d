//! Traces: a span for each request, and within it one for each step at the store. Compiled in with the feature `otel`.
//!
//! A span has the route, never the path: names of locks are in paths. What is secret is in neither.

#[cfg(not(feature = "otel"))]
mod none;
#[cfg(feature = "otel")]
mod otel;
#[cfg(feature = "otel")]
mod sender;

#[cfg(not(feature = "otel"))]
pub(crate) use none::Traces;
#[cfg(feature = "otel")]
pub use otel::Traces;
