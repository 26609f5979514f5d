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
fn said(error: &sqlx::Error) -> FenceError {
    let kind = match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => StoreErrorKind::Unreachable,
        _ => StoreErrorKind::Unexpected,
    };
    FenceError::Store(StoreError::new(kind, "check", error.to_string()))
}

/// Busy is an answer, the rest is trouble.
#[allow(dead_code, reason = "each dialect uses it")]
fn unless_busy(error: sqlx::Error, busy: bool) -> RowLockError<sqlx::Error> {
    if busy { RowLockError::Busy } else { RowLockError::Driver(error) }
}
