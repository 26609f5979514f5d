//! Looking at a deployment before it is relied on: the library behind `fencepost doctor`.

use std::time::Duration;

pub use fencepost_core::doctor::*;
use fencepost_core::{StoreError, StoreErrorKind};

use crate::connect::unknown;

/// Looks at where a URL says that locks of this ttl live: what can go wrong there, with evidence and cure.
///
/// Takes a moment, and blocks. It takes and releases a lock of a random name, and changes nothing else that a client would
/// not change by connecting.
///
/// # Errors
/// If the URL cannot be used. Whatever the servers are like is in the report.
#[allow(unused_variables, reason = "a program without any back end examines nothing for which a ttl matters")]
pub fn examine(url: &str, ttl: Duration) -> Result<Report, StoreError> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(memory()),
        #[cfg(feature = "sqlite")]
        Some(("sqlite", path)) => Ok(fencepost_sqlite::examine(path, ttl)),
        #[cfg(feature = "redis")]
        Some((scheme, rest)) if fencepost_redis::SCHEMES.contains(&scheme) => {
            fencepost_redis::examine(scheme, rest, ttl)
        }
        #[cfg(feature = "postgres")]
        Some((scheme, rest)) if fencepost_postgres::SCHEMES.contains(&scheme) => {
            fencepost_postgres::examine(scheme, rest, ttl)
        }
        #[cfg(feature = "mysql")]
        Some((scheme, rest)) if fencepost_mysql::SCHEMES.contains(&scheme) => {
            fencepost_mysql::examine(scheme, rest, ttl)
        }
        #[cfg(feature = "etcd")]
        Some((scheme, rest)) if fencepost_etcd::SCHEMES.contains(&scheme) => fencepost_etcd::examine(scheme, rest, ttl),
        #[cfg(feature = "zookeeper")]
        Some((scheme, rest)) if fencepost_zookeeper::SCHEMES.contains(&scheme) => {
            fencepost_zookeeper::examine(scheme, rest, ttl)
        }
        #[cfg(feature = "service")]
        Some((scheme, rest)) if fencepost_service::SCHEMES.contains(&scheme) => {
            fencepost_service::examine(scheme, rest, ttl)
        }
        _ => Err(StoreError::new(StoreErrorKind::Misconfigured, "examine", unknown(url).to_string())),
    }
}

fn memory() -> Report {
    let mut report = Report::new("this connection only");
    let cure = "name a store that others reach, too: sqlite:, redis://, etcd://, postgres://";
    report.find(
        Severity::Warning,
        "nobody-else",
        "memory:",
        "locks in memory exclude only users of this connection",
        cure,
    );
    report
}
