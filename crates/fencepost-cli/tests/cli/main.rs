//! The promises of the command, kept by the real program.

mod bad_input;
mod configuration;
mod deadlocks;
mod elect;
mod etcd;
mod generated;
#[cfg(feature = "serve")]
mod guarded;
mod loss;
mod nesting;
mod once;
mod permits;
mod queries;
mod redis;
mod run;
mod serve;
mod signals;
mod sql;
mod support;
mod zookeeper;
