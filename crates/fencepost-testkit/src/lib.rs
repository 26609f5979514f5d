//! What Fencepost's tests share.
//!
//! - [`mod@contract`]: the promises that every back end keeps, one named test each; [`contract!`] runs them all on one.
//! - [`history`]: what happened to locks, as the library told it; [`checker`]: whether it may have.
//! - [`faulty`]: a store that loses, delays and duplicates, on a seed.
//! - [`nodes`]: memory nodes that vote, with or without faults.
//! - [`recorder`]: a store that writes down every step.
//! - [`server`]: real servers on free ports, stopped when dropped; [`redis`]: Redis among them.
//! - [`sentinels`]: a Redis master with replicas and sentinels; [`cluster`]: a Redis Cluster.
//! - [`proxy`]: a wire to such a server that can be cut, slowed and made to lose what it carries.
//! - [`steps`]: single steps on a store, without the engine.
//! - [`poll`]: futures polled by hand; [`wait`]: for something to be so.

pub mod checker;
pub mod cluster;
pub mod contract;
pub mod dice;
pub mod faulty;
pub mod history;
pub mod nodes;
pub mod poll;
pub mod proxy;
pub mod recorder;
pub mod redis;
pub mod sentinels;
pub mod server;
pub mod steps;
pub mod wait;
