//! `fencepost schema`: the statements that create tables.

use std::io::Write;

use fencepost::fence::{self, Sql};

use crate::args::{Dialect, Schema};
use crate::exit_code::ExitCode;
use crate::failure::Failure;

pub(crate) fn schema(arguments: &Schema) -> Result<ExitCode, Failure> {
    let dialect = match arguments.dialect {
        Dialect::Postgres => Sql::Postgres,
        Dialect::Mysql => Sql::MySql,
        Dialect::Sqlite => Sql::Sqlite,
    };
    let text = match arguments {
        Schema { fence: true, .. } => fence::schema(dialect).to_owned(),
        Schema { stock: true, .. } => fence::stock_schema(dialect).to_owned(),
        _ => fencepost::schema(dialect, arguments.schema.as_deref(), &arguments.tables)?,
    };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(ExitCode::DONE)
}
