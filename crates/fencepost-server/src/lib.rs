//! The lock service: the library behind a socket.
//!
//! A handler acquires with the library and answers the lease as data; whoever has it renews and releases it, at this
//! replica or at another. So the service keeps nothing: what is held is in the store, and several replicas may run in
//! front of one.
//!
//! Reading order: [`run`] accepts connections; `app` puts the routes together; `access` says who may do what, and is
//! the only way for a handler to a name; `wire` has the bodies, `problem` the errors, `claim` what becomes of a claim.

mod access;
mod app;
mod body;
mod claim;
mod events;
mod in_flight;
mod lease;
mod limits;
mod openapi;
mod problem;
mod routes;
mod serve;
mod settings;
mod sse;
mod wire;

pub use access::{Principal, Scope, Verb};
pub use limits::Limits;
pub use openapi::openapi;
pub use serve::run;
pub use settings::Settings;
