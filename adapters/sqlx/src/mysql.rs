//! In transactions of MySQL and MariaDB.

use fencepost_core::FencingToken;
use fencepost_core::fence::{self, FenceError, RowLock, RowLockError, Sql};
use sqlx::mysql::{MySqlDatabaseError, MySqlRow};
use sqlx::{Error, MySqlConnection};

use crate::{bound, said, unless_busy};

/// "Lock wait timeout", which is how MariaDB says that somebody has the row; and how MySQL does.
const BUSY: [u16; 2] = [1205, 3572];

/// Turns an older token away, in the transaction that writes.
///
/// # Errors
/// [`FenceError::Stale`]: roll back, and stop working. Else what the database said.
pub async fn check(transaction: &mut MySqlConnection, resource: &str, token: FencingToken) -> Result<(), FenceError> {
    let statement = fence::sql(Sql::MySql, resource, token);
    let done = bound!(statement).execute(transaction).await.map_err(|error| said(&error, "mysql"))?;
    Ok(token.check(i64::try_from(done.last_insert_id()).unwrap_or(i64::MAX))?)
}

/// Locks rows of your own table until your transaction ends, and answers them.
///
/// # Errors
/// [`RowLockError::Busy`], after which your transaction goes on; else what sqlx said.
pub async fn lock_rows(
    transaction: &mut MySqlConnection,
    lock: &RowLock,
) -> Result<Vec<MySqlRow>, RowLockError<Error>> {
    let statement = lock.statement(Sql::MySql);
    bound!(statement).fetch_all(transaction).await.map_err(|error| {
        let code = error.as_database_error().and_then(|said| said.try_downcast_ref::<MySqlDatabaseError>());
        let busy = lock.fails_if_busy() && code.is_some_and(|said| BUSY.contains(&said.number()));
        unless_busy(error, busy)
    })
}
