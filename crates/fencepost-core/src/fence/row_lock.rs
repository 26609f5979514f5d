//! Row locks in the caller's own transaction: `SELECT … FOR UPDATE` on the caller's own table.

use super::sql::{Bind, Sql, Statement};

/// Rows of the *user's* table, locked until the user's transaction ends.
///
/// Rows are locked in the order of their keys, whatever order they are given in: two that lock the same rows never
/// deadlock. Nothing is committed, rolled back or retried: the transaction stays the caller's. A savepoint may stand
/// around it; rolling back to that lets the rows go again.
///
/// ```
/// use fencepost_core::fence::{RowLock, Sql};
///
/// let both = RowLock::new("accounts", "id", [7, 3]);
/// let statement = both.statement(Sql::Postgres);
/// assert_eq!(
///     statement.text,
///     r#"SELECT * FROM "accounts" WHERE "id" IN ($1, $2) ORDER BY "id" FOR UPDATE"#
/// );
/// ```
#[derive(Clone, Debug)]
#[must_use = "it locks nothing until its statement is run"]
pub struct RowLock {
    table: String,
    key_column: String,
    keys: Option<Vec<Bind>>,
    condition: Option<&'static str>,
    shared: bool,
    wait: Wait,
    limit: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    AsLongAsItTakes,
    No,
    Skip,
}

/// Why rows are not locked.
#[derive(Debug, thiserror::Error)]
pub enum RowLockError<E> {
    /// Somebody else has one of them ([`RowLock::no_wait`]). The transaction goes on.
    #[error("somebody else has locked one of the rows")]
    Busy,
    /// The driver or the server failed.
    #[error(transparent)]
    Driver(E),
}

impl RowLock {
    /// The rows with these keys. Names are quoted as they are; a dot parts schema and table.
    pub fn new<K: Into<Bind>>(
        table: impl Into<String>,
        key_column: impl Into<String>,
        keys: impl IntoIterator<Item = K>,
    ) -> Self {
        let mut keys: Vec<Bind> = keys.into_iter().map(Into::into).collect();
        keys.sort_unstable();
        keys.dedup();
        Self { keys: Some(keys), ..Self::any(table, key_column) }
    }

    /// Any rows; see [`RowLock::only`] and [`RowLock::skip_locked`].
    pub fn any(table: impl Into<String>, key_column: impl Into<String>) -> Self {
        let (table, key_column, wait) = (table.into(), key_column.into(), Wait::AsLongAsItTakes);
        Self { table, key_column, keys: None, condition: None, shared: false, wait, limit: None }
    }

    /// Only rows of which this is true: SQL of your program's own, which is why it cannot come from elsewhere.
    pub fn only(mut self, condition: &'static str) -> Self {
        self.condition = Some(condition);
        self
    }

    /// Others may read and share them, nobody may change them. Default: for this transaction alone.
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Fails at once if somebody has one of them. Default: waits as long as the database lets it.
    pub fn no_wait(mut self) -> Self {
        self.wait = Wait::No;
        self
    }

    /// At most so many of those that nobody else has locked.
    pub fn skip_locked(mut self, limit: u32) -> Self {
        (self.wait, self.limit) = (Wait::Skip, Some(limit));
        self
    }

    /// Whether a row that is locked is an error to the database.
    pub fn fails_if_busy(&self) -> bool {
        self.wait == Wait::No
    }

    /// The statement; it answers the rows, whole.
    pub fn statement(&self, dialect: Sql) -> Statement {
        let (table, key) = (dialect.quoted(&self.table), dialect.quoted(&self.key_column));
        let mut conditions: Vec<String> = Vec::new();
        if let Some(keys) = &self.keys {
            let binds: Vec<String> = (1..=keys.len()).map(|number| dialect.placeholder(number)).collect();
            // A list must not be empty.
            let list = if binds.is_empty() { "NULL".to_owned() } else { binds.join(", ") };
            conditions.push(format!("{key} IN ({list})"));
        }
        conditions.extend(self.condition.map(|condition| format!("({condition})")));
        let filter = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
        let limit = self.limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
        let text = format!("SELECT * FROM {table}{filter} ORDER BY {key}{limit}{}", self.ending(dialect));
        Statement { text, binds: self.keys.clone().unwrap_or_default() }
    }

    fn ending(&self, dialect: Sql) -> String {
        let mode = match (dialect, self.shared) {
            // Its transactions have the whole file to themselves.
            (Sql::Sqlite, _) => return String::new(),
            (_, false) => " FOR UPDATE",
            (Sql::Postgres, true) => " FOR SHARE",
            // MariaDB and MySQL say it differently, and each reads a comment that the other does not.
            (Sql::MySql, true) => " /*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */",
        };
        let wait = match self.wait {
            Wait::AsLongAsItTakes => "",
            Wait::No => " NOWAIT",
            Wait::Skip => " SKIP LOCKED",
        };
        format!("{mode}{wait}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_locked_in_one_order_each_once_and_never_part_of_the_text() {
        let lock = RowLock::new("t", "id", ["b", "a'; DROP TABLE t; --", "b"]);
        let statement = lock.statement(Sql::MySql);
        assert_eq!(statement.text, "SELECT * FROM `t` WHERE `id` IN (?, ?) ORDER BY `id` FOR UPDATE");
        assert_eq!(statement.binds, ["a'; DROP TABLE t; --".into(), "b".into()]);
    }

    #[test]
    fn each_way_of_waiting_has_its_words() {
        let text = |lock: &RowLock| lock.statement(Sql::Postgres).text;
        let all = RowLock::any("s.t", "id");
        assert_eq!(text(&all.clone().no_wait()), r#"SELECT * FROM "s"."t" ORDER BY "id" FOR UPDATE NOWAIT"#);
        assert_eq!(
            text(&all.clone().only("NOT sold").skip_locked(2)),
            r#"SELECT * FROM "s"."t" WHERE (NOT sold) ORDER BY "id" LIMIT 2 FOR UPDATE SKIP LOCKED"#
        );
        assert!(text(&all.clone().shared()).ends_with(" FOR SHARE"));
        assert!(text(&RowLock::new("t", "id", [] as [i64; 0])).contains("IN (NULL)"));
    }
}
