//! The check at the resource: what makes a fencing token protect anything.
//!
//! Each of these remembers the newest token that a resource has seen, turns an older one away and accepts an equal one, in
//! the same atomic step as the write it guards:
//!
//! | the resource is in | the check |
//! |---|---|
//! | PostgreSQL, MySQL, SQLite | [`sql`], one statement in your own transaction; or a [`Column`] of your own table |
//! | Redis | [`redis_set`], [`redis_hset`]: one script that checks and writes |
//! | etcd | `fence::etcd` of the `fencepost` crate: conditions for your own transaction |
//! | ZooKeeper | `fence::zookeeper` of the `fencepost` crate: a check for your own `multi` |
//! | a file | [`replace_file`] |
//! | an HTTP service | [`HEADER`] with every request, and the layer of the `fencepost` crate at the service |
//!
//! All but the last answer the newest token seen, a number: [`FencingToken::check`] makes a verdict of it. Readers'
//! tokens are another type, [`SharedToken`](crate::SharedToken), and as text no fence takes them either.
//!
//! ```compile_fail
//! # use fencepost_core::{Locks, Blocking, fence};
//! # fn write(locks: &Locks) -> Result<(), Box<dyn std::error::Error>> {
//! let reading = locks.lock("x").shared().acquire().block()?;
//! fence::sql(fence::Sql::Postgres, "x", reading.token()); // expected `FencingToken`, found `SharedToken`
//! # Ok(()) }
//! ```
//!
//! [`RowLock`] is the lock for work that fits into one transaction: it needs no lease and no token. [`StockRows`] sells so
//! many of an item by such a lock.

mod file;
mod redis;
mod row_lock;
mod sql;
mod stock_rows;

pub use file::replace_file;
pub use redis::{RedisScript, redis_hset, redis_set};
pub use row_lock::{RowLock, RowLockError};
pub use sql::{Bind, Column, Sql, Statement, schema, sql};
pub use stock_rows::{InTransaction, Settled, StockRows, StockRowsError, stock_schema};

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::error::StoreError;
use crate::token::FencingToken;

/// A newer holder was here: the write was rejected, and the old holder must stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("stale fencing token {token}: the resource has already seen {seen}, so a newer holder was here; stop working")]
pub struct Stale {
    /// The token that was shown.
    pub token: FencingToken,
    /// The newest token that the resource has seen.
    pub seen: FencingToken,
}

/// The HTTP header that carries a token to a service, and the newest one seen back from it.
pub const HEADER: &str = "fencing-token";

/// Why a fenced write did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A newer holder was here.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The store that keeps the newest token did not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is kept beside the resource could not be read or written.
    #[error("the token beside {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A value that rejects writes with an older token and accepts an equal one: for tests, and to teach.
///
/// ```
/// # use fencepost_core::{fence::FencedCell, FencingToken};
/// let (old, new) = (FencingToken::from_number(33).unwrap(), FencingToken::from_number(34).unwrap());
/// let cell = FencedCell::new("empty");
/// cell.write(new, "by the new holder")?;
/// assert_eq!(cell.write(old, "by the one that slept").unwrap_err().seen, new);
/// assert_eq!(cell.read(), "by the new holder");
/// # Ok::<(), fencepost_core::fence::Stale>(())
/// ```
pub struct FencedCell<T> {
    inner: Mutex<(Option<FencingToken>, T)>,
}

impl<T: Clone> FencedCell<T> {
    /// A cell that has seen no token yet.
    pub fn new(value: T) -> Self {
        Self { inner: Mutex::new((None, value)) }
    }

    /// The value.
    pub fn read(&self) -> T {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Writes, unless a newer token was seen.
    pub fn write(&self, token: FencingToken, value: T) -> Result<(), Stale> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.0 {
            Some(seen) if seen > token => Err(Stale { token, seen }),
            _ => {
                *inner = (Some(token), value);
                Ok(())
            }
        }
    }
}

impl<T> fmt::Debug for FencedCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FencedCell(..)")
    }
}
