//! The check at the resource, inside a transaction of yours: with `rusqlite`.

use fencepost_core::FencingToken;
use fencepost_core::fence::{self, Bind, Column, FenceError, Sql, Statement};
use fencepost_core::store::{StoreError, StoreErrorKind};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

/// Turns an older token away, in the transaction that writes ([`fence::sql`]). The table is that of [`fence::schema`].
///
/// # Errors
/// [`FenceError::Stale`]: roll back, and stop working. Else what SQLite said.
pub fn check(transaction: &Connection, resource: &str, token: FencingToken) -> Result<(), FenceError> {
    verdict(transaction, &fence::sql(Sql::Sqlite, resource, token), token)
}

/// The same for a column of the row it guards. A row that is not there has seen nothing.
///
/// # Errors
/// As [`check`].
pub fn check_column(
    transaction: &Connection,
    column: &Column,
    key: impl Into<Bind>,
    token: FencingToken,
) -> Result<(), FenceError> {
    verdict(transaction, &column.statement(Sql::Sqlite, key, token), token)
}

fn verdict(transaction: &Connection, statement: &Statement, token: FencingToken) -> Result<(), FenceError> {
    let binds = statement.binds.iter().map(|bind| match bind {
        Bind::Number(number) => ToSqlOutput::from(*number),
        Bind::Text(text) => ToSqlOutput::from(text.as_str()),
        Bind::Bytes(bytes) => ToSqlOutput::from(bytes.as_slice()),
    });
    let mut prepared = transaction.prepare_cached(&statement.text).map_err(|error| said(&error))?;
    let seen = prepared.query_row(params_from_iter(binds), |row| row.get(0)).optional();
    Ok(token.check(seen.map_err(|error| said(&error))?.unwrap_or_default())?)
}

fn said(error: &rusqlite::Error) -> FenceError {
    let message = format!("{error}; is the table of `fencepost schema --fence sqlite` there?");
    FenceError::Store(StoreError::new(StoreErrorKind::Unexpected, "check", message))
}
