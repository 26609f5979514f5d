//! The check at the resource and row locks, inside a transaction of yours: with `tokio-postgres`.

use fencepost_core::FencingToken;
use fencepost_core::fence::{
    self, Bind, Column, FenceError, InTransaction, RowLock, RowLockError, Sql, Statement, StockRows,
};
use fencepost_core::store::{StoreError, StoreErrorKind};
use fencepost_sql::Failure;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, GenericClient, Row};

use crate::error::failure;

/// What to do where the table of [`check`] is missing.
const TABLE: &str = "create the table that `fencepost schema --fence postgres` prints";
/// What to do where the column of [`check_column`] is missing.
const COLUMN: &str = "name a table and a column that exist: a BIGINT that begins with 0";

/// Turns an older token away, in the transaction that writes ([`fence::sql`]). The table is that of [`fence::schema`].
///
/// # Errors
/// [`FenceError::Stale`]: roll back, and stop working. Else what the database said.
pub async fn check(client: &impl GenericClient, resource: &str, token: FencingToken) -> Result<(), FenceError> {
    verdict(client, &fence::sql(Sql::Postgres, resource, token), token, TABLE).await
}

/// The same for a column of the row it guards. A row that is not there has seen nothing.
///
/// # Errors
/// As [`check`].
pub async fn check_column(
    client: &impl GenericClient,
    column: &Column,
    key: impl Into<Bind>,
    token: FencingToken,
) -> Result<(), FenceError> {
    verdict(client, &column.statement(Sql::Postgres, key, token), token, COLUMN).await
}

async fn verdict(
    client: &impl GenericClient,
    statement: &Statement,
    token: FencingToken,
    cure: &str,
) -> Result<(), FenceError> {
    let rows = rows(client, statement).await.map_err(|error| {
        let failure = match error.code() {
            Some(&(SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN)) => {
                let said = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
                Failure::new(StoreErrorKind::Misconfigured, said, cure)
            }
            _ => failure(&error),
        };
        FenceError::Store(StoreError::new(failure.kind, "check", failure.message))
    })?;
    let seen = rows.first().map_or(0, |row| row.get(0));
    Ok(token.check(seen)?)
}

/// Locks rows of your own table until your transaction ends, and answers them.
///
/// With [`RowLock::no_wait`] a savepoint of ours stands around the statement, because PostgreSQL gives up the whole
/// transaction with a statement that fails: yours goes on.
///
/// # Errors
/// [`RowLockError::Busy`]; else what the driver said.
pub async fn lock_rows(client: &impl GenericClient, lock: &RowLock) -> Result<Vec<Row>, RowLockError<Error>> {
    let statement = lock.statement(Sql::Postgres);
    if !lock.fails_if_busy() {
        return rows(client, &statement).await.map_err(RowLockError::Driver);
    }
    client.batch_execute("SAVEPOINT fencepost_row_lock").await.map_err(RowLockError::Driver)?;
    match rows(client, &statement).await {
        Ok(rows) => {
            client.batch_execute("RELEASE SAVEPOINT fencepost_row_lock").await.map_err(RowLockError::Driver)?;
            Ok(rows)
        }
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            let back = "ROLLBACK TO SAVEPOINT fencepost_row_lock; RELEASE SAVEPOINT fencepost_row_lock";
            client.batch_execute(back).await.map_err(RowLockError::Driver)?;
            Err(RowLockError::Busy)
        }
        Err(error) => Err(RowLockError::Driver(error)),
    }
}

/// The stock of an item, to be changed in your transaction. The tables are those of [`fence::stock_schema`].
pub fn stock<C: GenericClient>(transaction: &C, item: impl Into<String>) -> StockRows<Driver<'_, C>> {
    StockRows::new(Driver(transaction), Sql::Postgres, item)
}

/// A transaction of `tokio-postgres`, for [`stock`].
#[derive(Debug)]
pub struct Driver<'a, C>(&'a C);

impl<C: GenericClient> InTransaction for Driver<'_, C> {
    type Error = Error;

    async fn execute(&mut self, statement: &Statement) -> Result<u64, Error> {
        self.0.execute_typed(&statement.text, &binds(statement)).await
    }

    async fn rows(&mut self, statement: &Statement) -> Result<Vec<(String, Vec<i64>)>, Error> {
        let rows = rows(self.0, statement).await?;
        let numbers = |row: &Row| (1..row.len()).map(|column| row.try_get::<_, i64>(column)).collect::<Result<_, _>>();
        rows.iter().map(|row| Ok((row.try_get(0)?, numbers(row)?))).collect()
    }
}

/// Without a statement that the server keeps: a pooler may stand between.
async fn rows(client: &impl GenericClient, statement: &Statement) -> Result<Vec<Row>, Error> {
    client.query_typed(&statement.text, &binds(statement)).await
}

fn binds(statement: &Statement) -> Vec<(&(dyn ToSql + Sync), Type)> {
    let binds = statement.binds.iter().map(|bind| match bind {
        Bind::Number(number) => (number as &(dyn ToSql + Sync), Type::INT8),
        Bind::Text(text) => (text as &(dyn ToSql + Sync), Type::TEXT),
        Bind::Bytes(bytes) => (bytes as &(dyn ToSql + Sync), Type::BYTEA),
    });
    binds.collect()
}
