//! The check at the resource, with the drivers of the back ends that this build has.

pub use fencepost_core::fence::*;

#[cfg(feature = "tower")]
pub use crate::http::{HttpFence, HttpLayer, Marks, MemoryMarks, http_value};
#[cfg(feature = "etcd")]
pub use fencepost_etcd::fence as etcd;
#[cfg(feature = "mysql")]
pub use fencepost_mysql::fence as mysql;
#[cfg(feature = "postgres")]
pub use fencepost_postgres::fence as postgres;
#[cfg(feature = "sqlite")]
pub use fencepost_sqlite::fence as sqlite;
#[cfg(feature = "zookeeper")]
pub use fencepost_zookeeper::fence as zookeeper;
