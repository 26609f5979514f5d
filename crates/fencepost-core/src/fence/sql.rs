//! The check in a database: text and binds for any driver, to be run inside the caller's own transaction.

use std::fmt::Write as _;

use crate::token::FencingToken;

/// A dialect of SQL.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Sql {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    /// SQLite.
    Sqlite,
}

impl Sql {
    /// The placeholder of the bind with this number, from 1.
    pub fn placeholder(self, number: usize) -> String {
        match self {
            Self::Postgres => format!("${number}"),
            Self::MySql => "?".to_owned(),
            Self::Sqlite => format!("?{number}"),
        }
    }

    /// A name of a table or column, quoted; with a dot, each part of it.
    pub fn quoted(self, name: &str) -> String {
        let quote = if self == Self::MySql { '`' } else { '"' };
        let part = |part: &str| format!("{quote}{}{quote}", part.replace(quote, &format!("{quote}{quote}")));
        name.split('.').map(part).collect::<Vec<_>>().join(".")
    }
}

/// A statement to run in the caller's own transaction, which we never take over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// With the placeholders of its dialect. No value is ever part of it.
    pub text: String,
    /// The values, in order.
    pub binds: Vec<Bind>,
}

/// A value to bind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bind {
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl From<i64> for Bind {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for Bind {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for Bind {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Bind {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for Bind {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<FencingToken> for Bind {
    fn from(token: FencingToken) -> Self {
        Self::Number(token.as_i64())
    }
}

/// Remembers the newest token per resource, in the table of [`schema`], and answers the newest seen, whatever it was.
///
/// Run it in the transaction that writes, before the write, and give what it answers to [`FencingToken::check`]. Until
/// that transaction ends nobody else passes the check for this resource, so two writers never overlap.
///
/// PostgreSQL and SQLite answer one row with one number. MySQL answers it as the *last insert id* of the statement, which
/// every driver has (or `SELECT LAST_INSERT_ID()` after it).
///
/// ```
/// # use fencepost_core::{fence, FencingToken};
/// # fn fetch_one(statement: &fence::Statement) -> i64 { 34 }
/// # let token = FencingToken::from_number(33).unwrap();
/// let statement = fence::sql(fence::Sql::Postgres, "account 7", token);
/// let seen = fetch_one(&statement); // in your transaction
/// let stale = token.check(seen).unwrap_err(); // roll back, and stop working
/// assert_eq!(stale.seen.as_u64(), 34);
/// ```
pub fn sql(dialect: Sql, resource: &str, token: FencingToken) -> Statement {
    let text = match dialect {
        Sql::Postgres => {
            "INSERT INTO fencepost_fence (resource, token) VALUES ($1, $2) ON CONFLICT (resource) DO UPDATE \
             SET token = greatest(fencepost_fence.token, excluded.token) RETURNING token"
        }
        Sql::MySql => {
            "INSERT INTO fencepost_fence (resource, token) VALUES (?, LAST_INSERT_ID(?)) ON DUPLICATE KEY UPDATE \
             token = LAST_INSERT_ID(GREATEST(token, VALUES(token)))"
        }
        Sql::Sqlite => {
            "INSERT INTO fencepost_fence (resource, token) VALUES (?1, ?2) ON CONFLICT (resource) DO UPDATE \
             SET token = max(token, excluded.token) RETURNING token"
        }
    };
    Statement { text: text.to_owned(), binds: vec![resource.into(), token.into()] }
}

/// The table that [`sql`] uses.
pub fn schema(dialect: Sql) -> &'static str {
    match dialect {
        Sql::Postgres => {
            "CREATE TABLE IF NOT EXISTS fencepost_fence (\n    resource text COLLATE \"C\" PRIMARY KEY,\n    \
             token int8 NOT NULL\n);\n"
        }
        Sql::MySql => {
            "CREATE TABLE IF NOT EXISTS fencepost_fence (\n    resource VARBINARY(255) PRIMARY KEY,\n    \
             token BIGINT NOT NULL\n) ENGINE = InnoDB;\n"
        }
        Sql::Sqlite => {
            "CREATE TABLE IF NOT EXISTS fencepost_fence (\n    resource TEXT PRIMARY KEY,\n    token INTEGER NOT NULL\n) \
             STRICT, WITHOUT ROWID;\n"
        }
    }
}

/// The newest token as a column of the very row it guards: no table of ours is needed.
///
/// The column is a `BIGINT NOT NULL DEFAULT 0`.
#[derive(Clone, Debug)]
pub struct Column {
    table: String,
    key_column: String,
    token_column: String,
}

impl Column {
    /// In this table, whose rows have this key, the column with the newest token. Names are quoted as they are; a dot
    /// parts schema and table.
    pub fn new(table: impl Into<String>, key_column: impl Into<String>, token_column: impl Into<String>) -> Self {
        Self { table: table.into(), key_column: key_column.into(), token_column: token_column.into() }
    }

    /// Raises the column of one row and answers the newest token it has seen, as [`sql`] does. No row: there is no such
    /// key (MySQL: no row was affected, and there is no last insert id).
    pub fn statement(&self, dialect: Sql, key: impl Into<Bind>, token: FencingToken) -> Statement {
        let names = [&self.table, &self.key_column, &self.token_column].map(|name| dialect.quoted(name));
        let [table, key_column, column] = names;
        let (text, in_order) = match dialect {
            Sql::Postgres => (
                format!(
                    "UPDATE {table} SET {column} = greatest({column}, $2) WHERE {key_column} = $1 RETURNING {column}"
                ),
                true,
            ),
            Sql::Sqlite => (
                format!("UPDATE {table} SET {column} = max({column}, ?2) WHERE {key_column} = ?1 RETURNING {column}"),
                true,
            ),
            Sql::MySql => (
                format!("UPDATE {table} SET {column} = LAST_INSERT_ID(GREATEST({column}, ?)) WHERE {key_column} = ?"),
                false,
            ),
        };
        let (key, token) = (key.into(), Bind::from(token));
        Statement { text, binds: if in_order { vec![key, token] } else { vec![token, key] } }
    }

    /// What to put behind the `WHERE` of your own `UPDATE`, which then also sets the column to the token. It touches no row
    /// if a newer token was seen, or if there is no such row.
    pub fn condition(&self, dialect: Sql, bind_number: usize) -> String {
        let mut text = dialect.quoted(&self.token_column);
        let _ = write!(text, " <= {}", dialect.placeholder(bind_number));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_binds_and_names_are_quoted() {
        let token = FencingToken::from_number(7).expect("a token");
        let hostile = "x'); DROP TABLE y; --";
        for dialect in [Sql::Postgres, Sql::MySql, Sql::Sqlite] {
            assert!(!sql(dialect, hostile, token).text.contains("DROP"));
            assert_eq!(sql(dialect, hostile, token).binds, [Bind::from(hostile), Bind::Number(7)]);
        }
        let column = Column::new("s.a\"b", "id", "last_token");
        let statement = column.statement(Sql::Postgres, 3, token);
        assert!(statement.text.starts_with(r#"UPDATE "s"."a""b" SET "last_token" ="#), "{}", statement.text);
        assert_eq!(statement.binds, [Bind::Number(3), Bind::Number(7)]);
        assert_eq!(column.statement(Sql::MySql, 3, token).binds, [Bind::Number(7), Bind::Number(3)]);
        assert_eq!(column.condition(Sql::Postgres, 4), r#""last_token" <= $4"#);
        assert_eq!(column.condition(Sql::MySql, 4), "`last_token` <= ?");
    }
}
