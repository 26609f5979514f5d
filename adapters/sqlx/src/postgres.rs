//! In transactions of PostgreSQL.

use fencepost_core::FencingToken;
use fencepost_core::fence::{self, FenceError, RowLock, RowLockError, Sql};
use sqlx::postgres::PgRow;
use sqlx::{Error, Executor, PgConnection, Row};

use crate::{bound, said, unless_busy};

/// "Lock not available".
const BUSY: &str = "55P03";

/// Turns an older token away, in the transaction that writes.
///
/// # Errors
/// [`FenceError::Stale`]: roll back, and stop working. Else what the database said.
pub async fn check(transaction: &mut PgConnection, resource: &str, token: FencingToken) -> Result<(), FenceError> {
    let statement = fence::sql(Sql::Postgres, resource, token);
    let row = bound!(statement).fetch_one(transaction).await.map_err(|error| said(&error, "postgres"))?;
    Ok(token.check(row.try_get(0).map_err(|error| said(&error, "postgres"))?)?)
}

/// Locks rows of your own table until your transaction ends, and answers them.
///
/// With [`RowLock::no_wait`] a savepoint stands around the statement, so that a busy row does not end your transaction.
///
/// # Errors
/// [`RowLockError::Busy`]; else what sqlx said.
pub async fn lock_rows(transaction: &mut PgConnection, lock: &RowLock) -> Result<Vec<PgRow>, RowLockError<Error>> {
    let statement = lock.statement(Sql::Postgres);
    if !lock.fails_if_busy() {
        return bound!(statement).fetch_all(transaction).await.map_err(RowLockError::Driver);
    }
    transaction.execute("SAVEPOINT fencepost_row_lock").await.map_err(RowLockError::Driver)?;
    match bound!(statement).fetch_all(&mut *transaction).await {
        Ok(rows) => {
            transaction.execute("RELEASE SAVEPOINT fencepost_row_lock").await.map_err(RowLockError::Driver)?;
            Ok(rows)
        }
        Err(error) => {
            let busy = error.as_database_error().and_then(|said| said.code()).is_some_and(|code| code == BUSY);
            if busy {
                let back = "ROLLBACK TO SAVEPOINT fencepost_row_lock";
                transaction.execute(back).await.map_err(RowLockError::Driver)?;
            }
            Err(unless_busy(error, busy))
        }
    }
}
