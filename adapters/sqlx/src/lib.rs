#![doc = include_str!("../README.md")]

use fencepost_core::fence::{FenceError, RowLockError};
use fencepost_core::store::{StoreError, StoreErrorKind};

#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;

/// Binds the values of a statement, whose text never has one in it.
#[cfg(any(feature = "mysql", feature = "postgres"))]
macro_rules! bound {
    ($statement:expr) => {{
        let query = sqlx::query(sqlx::AssertSqlSafe($statement.text.as_str()));
        $statement.binds.iter().fold(query, |query, bind| match bind {
            fencepost_core::fence::Bind::Number(number) => query.bind(*number),
            fencepost_core::fence::Bind::Text(text) => query.bind(text.clone()),
            fencepost_core::fence::Bind::Bytes(bytes) => query.bind(bytes.clone()),
        })
    }};
}
#[cfg(any(feature = "mysql", feature = "postgres"))]
use bound;

/// What sqlx said while a token was checked.
#[allow(dead_code, reason = "each dialect uses it")]
fn said(error: &sqlx::Error, database: &str) -> FenceError {
    let code = error.as_database_error().and_then(|said| said.code());
    let (kind, cure) = match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => {
            (StoreErrorKind::Unreachable, String::new())
        }
        _ if code.as_deref().is_some_and(|code| MISSING.contains(&code)) => {
            let cure = format!("; create the table that `fencepost schema --fence {database}` prints");
            (StoreErrorKind::Misconfigured, cure)
        }
        _ => (StoreErrorKind::Unexpected, String::new()),
    };
    FenceError::Store(StoreError::new(kind, "check", format!("{error}{cure}")))
}

/// There is no such table: in PostgreSQL, and in MySQL.
const MISSING: [&str; 2] = ["42P01", "42S02"];

/// Busy is an answer, the rest is trouble.
#[allow(dead_code, reason = "each dialect uses it")]
fn unless_busy(error: sqlx::Error, busy: bool) -> RowLockError<sqlx::Error> {
    if busy { RowLockError::Busy } else { RowLockError::Driver(error) }
}
