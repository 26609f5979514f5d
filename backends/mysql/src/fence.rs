//! The check at the resource and row locks, inside a transaction of yours: with `mysql_async`.

use fencepost_core::FencingToken;
use fencepost_core::fence::{
    self, Bind, Column, FenceError, InTransaction, RowLock, RowLockError, Sql, Statement, StockRows,
};
use fencepost_core::store::{StoreError, StoreErrorKind};
use fencepost_sql::Failure;
use mysql_async::prelude::Queryable;
use mysql_async::{DriverError, Error, Row, Value};

use crate::error::failure;

/// "Lock wait timeout", which is how MariaDB says that somebody has the row; and how MySQL does.
const BUSY: [u16; 2] = [1205, 3572];

/// There is no such table, or no such column.
const MISSING: [u16; 2] = [1146, 1054];
/// What to do where the table of [`check`] is missing.
const TABLE: &str = "create the table that `fencepost schema --fence mysql` prints";
/// What to do where the column of [`check_column`] is missing.
const COLUMN: &str = "name a table and a column that exist: a BIGINT that begins with 0";

/// Turns an older token away, in the transaction that writes ([`fence::sql`]). The table is that of [`fence::schema`].
///
/// # Errors
/// [`FenceError::Stale`]: roll back, and stop working. Else what the database said.
pub async fn check(transaction: &mut impl Queryable, resource: &str, token: FencingToken) -> Result<(), FenceError> {
    verdict(transaction, &fence::sql(Sql::MySql, resource, token), token, TABLE).await
}

/// The same for a column of the row it guards. A row that is not there has seen nothing.
///
/// # Errors
/// As [`check`].
pub async fn check_column(
    transaction: &mut impl Queryable,
    column: &Column,
    key: impl Into<Bind>,
    token: FencingToken,
) -> Result<(), FenceError> {
    verdict(transaction, &column.statement(Sql::MySql, key, token), token, COLUMN).await
}

async fn verdict(
    transaction: &mut impl Queryable,
    statement: &Statement,
    token: FencingToken,
    cure: &str,
) -> Result<(), FenceError> {
    let said = |error: Error| {
        let failure = match &error {
            Error::Server(said) if MISSING.contains(&said.code) => {
                Failure::new(StoreErrorKind::Misconfigured, &said.message, cure)
            }
            _ => failure(&error),
        };
        FenceError::Store(StoreError::new(failure.kind, "check", failure.message))
    };
    let result = transaction.exec_iter(statement.text.as_str(), values(statement)).await.map_err(said)?;
    let seen = result.last_insert_id().unwrap_or_default();
    result.drop_result().await.map_err(said)?;
    Ok(token.check(i64::try_from(seen).unwrap_or(i64::MAX))?)
}

/// Locks rows of your own table until your transaction ends, and answers them.
///
/// # Errors
/// [`RowLockError::Busy`], after which your transaction goes on; else what the driver said.
pub async fn lock_rows(transaction: &mut impl Queryable, lock: &RowLock) -> Result<Vec<Row>, RowLockError<Error>> {
    let statement = lock.statement(Sql::MySql);
    match transaction.exec(statement.text.as_str(), values(&statement)).await {
        Ok(rows) => Ok(rows),
        Err(Error::Server(said)) if lock.fails_if_busy() && BUSY.contains(&said.code) => Err(RowLockError::Busy),
        Err(error) => Err(RowLockError::Driver(error)),
    }
}

/// The stock of an item, to be changed in your transaction. The tables are those of [`fence::stock_schema`].
pub fn stock<Q: Queryable>(transaction: &mut Q, item: impl Into<String>) -> StockRows<Driver<'_, Q>> {
    StockRows::new(Driver(transaction), Sql::MySql, item)
}

/// A transaction of `mysql_async`, for [`stock`].
#[derive(Debug)]
pub struct Driver<'a, Q>(&'a mut Q);

impl<Q: Queryable> InTransaction for Driver<'_, Q> {
    type Error = Error;

    async fn execute(&mut self, statement: &Statement) -> Result<u64, Error> {
        let result = self.0.exec_iter(statement.text.as_str(), values(statement)).await?;
        let matched = result.affected_rows();
        result.drop_result().await?;
        Ok(matched)
    }

    async fn rows(&mut self, statement: &Statement) -> Result<Vec<(String, Vec<i64>)>, Error> {
        let rows: Vec<Row> = self.0.exec(statement.text.as_str(), values(statement)).await?;
        let odd = |error| Error::Driver(DriverError::FromRow { row: error });
        let read = |row: Row| {
            let text = row.get_opt(0).and_then(Result::ok);
            let numbers = (1..row.len()).map(|column| row.get_opt(column).and_then(Result::ok)).collect();
            text.zip(numbers).ok_or_else(|| odd(row))
        };
        rows.into_iter().map(read).collect()
    }
}

fn values(statement: &Statement) -> Vec<Value> {
    let values = statement.binds.iter().map(|bind| match bind {
        Bind::Number(number) => Value::Int(*number),
        Bind::Text(text) => Value::Bytes(text.clone().into_bytes()),
        Bind::Bytes(bytes) => Value::Bytes(bytes.clone()),
    });
    values.collect()
}
