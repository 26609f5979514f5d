#![doc = include_str!("../README.md")]

mod database;
mod doctor;
mod error;
pub mod fence;
mod statements;
mod text;

pub use doctor::examine;

use std::sync::Arc;

use fencepost_core::store::{Clock, Store, StoreError};
use fencepost_core::{Connect, Invalid};
use fencepost_sql::{SqlStore, Tables};

use database::MySql;
use statements::Statements;

/// The schemes of this store's URLs.
pub const SCHEMES: [&str; 2] = ["mysql", "mariadb"];

/// Connects to the locks in a database, whose tables are there already ([`ensure_schema`]). `rest` is what follows the
/// colon of the URL.
pub fn connect(scheme: &str, rest: &str) -> Connect {
    MySql::connect(scheme, rest)
}

/// A URL's store without an engine above it: for tests of what a step does.
///
/// # Errors
/// A database that cannot be reached, tables that are missing or of another version.
pub async fn store(scheme: &str, rest: &str, clock: Clock) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(SqlStore::open(MySql::new(scheme, rest)?, clock).await?))
}

/// Creates the tables, or brings those of an older version up to date. Several may do so at once.
///
/// # Errors
/// A database that cannot be reached, rights that are missing, tables of a newer version.
pub async fn ensure_schema(scheme: &str, rest: &str) -> Result<(), StoreError> {
    let database = MySql::new(scheme, rest)?;
    // The driver needs a runtime, and whoever calls may have none.
    fencepost_sql::on_a_thread("mysql", async move { database.ensure_schema().await }).await
}

/// The statements that create the tables, for those who run them by hand; in a comment those that bring version 1 up to date.
///
/// # Errors
/// Names that cannot be.
pub fn schema(schema: Option<&str>, tables: &str) -> Result<String, Invalid> {
    let statements = Statements::new(Tables::new('`', schema, tables)?);
    let from_1 = format!("{}{};", statements.from_1, statements.set_version());
    Ok(fencepost_sql::schema_text(&statements.schema, &from_1))
}
