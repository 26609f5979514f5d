//! The promises of the command, kept by the real program.

mod bad_input;
mod bench;
mod catalogue;
mod configuration;
mod deadlocks;
mod doctor;
mod elect;
mod etcd;
mod exit;
#[cfg(feature = "serve")]
mod fuzz;
mod generated;
#[cfg(feature = "serve")]
mod guarded;
#[cfg(feature = "serve")]
mod load;
mod loss;
mod nesting;
mod once;
mod package;
mod permits;
mod queries;
mod quickstart;
mod reconfigure;
mod redis;
mod run;
mod serve;
mod signals;
mod sql;
mod support;
mod tmux;
mod top;
#[cfg(feature = "verify")]
mod verify;
mod waiting;
mod zookeeper;
