//! The service against strangers: who may do what, how much, and what is seen of it.

mod audit;
mod dashboard;
mod drain;
mod hostile;
mod http2;
mod limits;
mod metrics;
mod origin;
mod reload;
mod rights;
mod support;
mod tls;
