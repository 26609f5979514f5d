//! The lock service: the library behind a socket.
//!
//! A handler acquires with the library and answers the lease as data; whoever has it renews and releases it, at this
//! replica or at another. So the service keeps nothing: what is held is in the store, and several replicas may run in
//! front of one.
//!
//! Reading order: [`run`] accepts connections; `app` puts the routes together; `auth` asks who they are; `access` says who may do what,
//! and is the only way for a handler to a name; `witness` sees all that is done, for limits, metrics and the audit log;
//! `wire` has the bodies, `problem` the errors, `claim` what becomes of a claim.

mod access;
mod admission;
mod app;
mod at_once;
mod audit;
pub mod auth;
mod body;
mod bucket;
mod claim;
mod dashboard;
mod events;
mod hidden;
mod history;
mod holdings;
mod in_flight;
mod lease;
mod limits;
mod metrics;
mod notify;
mod openapi;
mod pieces;
mod problem;
mod routes;
mod serve;
mod settings;
mod sse;
mod tls;
mod traces;
mod watched;
mod wire;
mod witness;

pub use audit::AuditLog;
pub use bucket::Rate;
pub use limits::Limits;
pub use metrics::Metrics;
pub use notify::Manager;
pub use openapi::openapi;
pub use serve::run;
pub use settings::Settings;
pub use tls::TlsFiles;
#[cfg(feature = "otel")]
pub use traces::Traces;
