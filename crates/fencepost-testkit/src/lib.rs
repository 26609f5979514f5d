//! What Fencepost's tests share.
//!
//! - [`mod@contract`]: the promises that every back end keeps, one named test each; [`contract!`] runs them all on one.
//! - [`history`]: what happened to locks, as the library told it; [`checker`]: whether it may have.
//! - [`faulty`]: a store that loses, delays and duplicates, on a seed.
//! - [`turns`]: what processes noted of their turns, and what is wrong with it.
//! - [`nodes`]: memory nodes that vote, with or without faults.
//! - [`recorder`]: a store that writes down every step; [`skewed`]: one whose clock is not known well.
//! - [`server`]: real servers on free ports, stopped when dropped; [`ports`]: which nobody else has; [`redis`]: Redis among them.
//! - [`postgres`], [`mariadb`]: databases, one shared by the tests of a program; [`pgbouncer`]: a pooler before one.
//! - [`sentinels`]: a Redis master with replicas and sentinels; [`cluster`]: a Redis Cluster.
//! - [`etcd`]: etcd servers, one or a cluster of three.
//! - [`zookeeper`]: ZooKeeper servers, one or an ensemble of three.
//! - [`shared`]: a server that lives as long as somebody uses it.
//! - [`sql`]: what goes wrong with databases, the same for each; [`sql_races`]: many at one lock of theirs; [`minted_table`]:
//!   their steps against the table.
//! - [`proxy`]: a wire to such a server that can be cut, slowed and made to lose what it carries.
//! - [`net`]: who can reach whom, by namespaces (a [`room`]) or by proxies.
//! - [`preload`]: clocks that are set and disks that forget, for one process.
//! - [`process`]: this test program again, in a role; [`queue`]: a line of such processes, some of which are killed.
//! - [`candidates`]: an election between such processes, whose leaders are killed.
//! - [`findings`]: what an examination of a deployment found.
//! - [`http`]: a plain client that keeps its connection; [`load`]: many of them at one service.
//! - [`steps`]: single steps on a store, without the engine.
//! - [`poll`]: futures polled by hand; [`wait`]: for something to be so.

pub use fencepost_history::{checker, history};

pub mod candidates;
pub mod cluster;
pub mod contract;
pub mod dice;
pub mod etcd;
pub mod faulty;
pub mod findings;
pub mod http;
pub mod load;
pub mod mariadb;
pub mod minted_table;
pub mod net;
pub mod nodes;
pub mod pgbouncer;
pub mod poll;
pub mod ports;
pub mod postgres;
pub mod preload;
pub mod process;
pub mod proxy;
pub mod queue;
pub mod recorder;
pub mod redis;
pub mod room;
pub mod sentinels;
pub mod server;
pub mod shared;
pub mod skewed;
pub mod sql;
pub mod sql_races;
pub mod steps;
mod stock_rows;
pub mod turns;
pub mod wait;
pub mod zookeeper;
