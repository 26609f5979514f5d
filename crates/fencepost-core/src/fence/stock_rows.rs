//! A stock in rows of the caller's database, changed in the caller's own transaction.

use std::time::Duration;

use super::sql::{Bind, Sql, Statement};
use crate::error::Invalid;

/// The longest text that every database takes as a key.
const KEY_BYTES_MAX: usize = 255;
/// The longest reservation: ten years.
const HOLD_MAX: Duration = Duration::from_secs(3650 * 24 * 3600);
/// So many expired reservations are put back at a time.
const AT_A_TIME: u32 = 100;

/// How a reservation ended, whoever ended it first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "recipes", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "recipes", serde(rename_all = "snake_case"))]
pub enum Settled {
    /// Sold.
    Confirmed,
    /// Back in stock.
    Cancelled,
    /// Back in stock: nobody confirmed it in time, or it was never made.
    Expired,
}

impl Settled {
    /// As it is kept in a row; 0 is open.
    fn state(self) -> i64 {
        match self {
            Self::Confirmed => 1,
            Self::Cancelled => 2,
            Self::Expired => 3,
        }
    }
}

/// A driver, inside a transaction of the caller's: how it runs a statement there.
pub trait InTransaction {
    /// What the driver says when something is wrong.
    type Error;

    /// Runs it, and answers how many rows it matched.
    fn execute(&mut self, statement: &Statement) -> impl Future<Output = Result<u64, Self::Error>>;

    /// The rows that it answers: of each the first column, which is text, and the others, which are 64-bit numbers.
    fn rows(&mut self, statement: &Statement) -> impl Future<Output = Result<Vec<(String, Vec<i64>)>, Self::Error>>;
}

/// Why a stock was not changed.
#[derive(Debug, thiserror::Error)]
pub enum StockRowsError<E> {
    /// Input that makes no sense; the transaction goes on.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The driver or the server failed; roll back.
    #[error(transparent)]
    Driver(E),
}

/// So many of an item, in rows of the *user's* database; every change is part of the user's own transaction.
///
/// The item's row is locked from the first change until the transaction ends, so keep that short: whoever wants the same item
/// waits. Nothing is committed, rolled back or retried here. Rolled back, a sale never was; so what else the transaction
/// writes (the order, the payment) and the stock agree, and no token is needed. Times are the database's.
///
/// Made by `fence::postgres::stock` and `fence::mysql::stock` of the `fencepost` crate; any other driver is an
/// [`InTransaction`]. The tables are those of [`stock_schema`].
#[derive(Debug)]
pub struct StockRows<D> {
    driver: D,
    dialect: Sql,
    item: String,
}

impl<D: InTransaction> StockRows<D> {
    /// The stock of this item.
    pub fn new(driver: D, dialect: Sql, item: impl Into<String>) -> Self {
        Self { driver, dialect, item: item.into() }
    }

    /// There are so many now, beside what is reserved.
    pub async fn set(&mut self, count: u32) -> Result<(), StockRowsError<D::Error>> {
        checked_key("item", &self.item)?;
        self.lock().await?;
        while self.put_expired_back().await? > 0 {}
        let put = match self.dialect {
            Sql::MySql => "ON DUPLICATE KEY UPDATE left_over = VALUES(left_over)",
            _ => "ON CONFLICT (item) DO UPDATE SET left_over = excluded.left_over",
        };
        let text = format!("INSERT INTO fencepost_stock (item, left_over) VALUES ({{1}}, {{2}}) {put}");
        self.execute(&text, &[i64::from(count).into()]).await.map(drop)
    }

    /// How many can be reserved now. Nothing is locked.
    pub async fn left(&mut self) -> Result<u32, StockRowsError<D::Error>> {
        checked_key("item", &self.item)?;
        let text = format!(
            "SELECT s.item, CAST(s.left_over + COALESCE((SELECT SUM(r.amount) FROM fencepost_reservations r \
             WHERE r.item = s.item AND r.state = 0 AND r.expires_ms <= {now}), 0) AS {number}) \
             FROM fencepost_stock s WHERE s.item = {{1}}",
            now = self.now(),
            number = match self.dialect {
                Sql::Postgres => "int8",
                Sql::MySql => "SIGNED",
                Sql::Sqlite => "INTEGER",
            }
        );
        let rows = self.rows(&text, &[]).await?;
        let left = rows.first().and_then(|(_, numbers)| numbers.first().copied()).unwrap_or_default();
        Ok(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// Takes so many out of the stock, for so long, under an id of yours that no other reservation of the item has, such as
    /// the number of the order. `false`: there are not so many left. Expired reservations are put back if they are needed.
    pub async fn reserve(
        &mut self,
        id: &str,
        count: u32,
        hold_for: Duration,
    ) -> Result<bool, StockRowsError<D::Error>> {
        checked_key("item", &self.item)?;
        checked_key("id", id)?;
        if count == 0 {
            return Err(Invalid::new("count", "0", "reserve at least one").into());
        }
        if hold_for < Duration::from_millis(1) || hold_for > HOLD_MAX {
            let cure = "hold it for at least a millisecond and for ten years at most";
            return Err(Invalid::new("hold_for", crate::span::spoken(hold_for), cure).into());
        }
        let count = i64::from(count);
        if !self.take(count).await? {
            self.lock().await?;
            loop {
                let returned = self.put_expired_back().await?;
                if self.take(count).await? {
                    break;
                }
                if returned == 0 {
                    return Ok(false);
                }
            }
        }
        let text = format!(
            "INSERT INTO fencepost_reservations (item, id, amount, expires_ms, state) \
             VALUES ({{1}}, {{2}}, {{3}}, {} + {{4}}, 0)",
            self.now()
        );
        let ms = i64::try_from(hold_for.as_millis()).unwrap_or(i64::MAX);
        self.execute(&text, &[id.into(), count.into(), ms.into()]).await?;
        Ok(true)
    }

    /// Sells what was reserved. Answers how the reservation ended: only `Confirmed` is a sale, once you commit.
    pub async fn confirm(&mut self, id: &str) -> Result<Settled, StockRowsError<D::Error>> {
        self.end(id, Settled::Confirmed).await
    }

    /// Puts it back. Answers how the reservation ended: `Confirmed` if it was sold before.
    pub async fn cancel(&mut self, id: &str) -> Result<Settled, StockRowsError<D::Error>> {
        self.end(id, Settled::Cancelled).await
    }

    /// Forgets reservations of the item that have ended and whose time was over so long ago; until then it can be asked how
    /// they ended. Nothing else removes rows.
    pub async fn forget(&mut self, over_for: Duration) -> Result<u64, StockRowsError<D::Error>> {
        checked_key("item", &self.item)?;
        self.lock().await?;
        let text = format!(
            "DELETE FROM fencepost_reservations WHERE item = {{1}} AND state > 0 AND expires_ms <= {} - {{2}}",
            self.now()
        );
        let ms = i64::try_from(over_for.min(HOLD_MAX).as_millis()).unwrap_or(i64::MAX);
        self.execute(&text, &[ms.into()]).await
    }

    async fn end(&mut self, id: &str, wanted: Settled) -> Result<Settled, StockRowsError<D::Error>> {
        checked_key("item", &self.item)?;
        checked_key("id", id)?;
        // The item first, as everybody does: else two would wait for each other's row.
        self.lock().await?;
        let text = format!(
            "SELECT id, state, amount, expires_ms - {} FROM fencepost_reservations WHERE item = {{1}} AND id = {{2}}{}",
            self.now(),
            self.for_update()
        );
        let rows = self.rows(&text, &[id.into()]).await?;
        let Some([state, amount, left_ms]) = rows.first().map(|(_, numbers)| &numbers[..]) else {
            return Ok(Settled::Expired);
        };
        let ended = [Settled::Confirmed, Settled::Cancelled, Settled::Expired];
        if let Some(how) = ended.into_iter().find(|how| how.state() == *state) {
            return Ok(how);
        }
        let how = if *left_ms <= 0 { Settled::Expired } else { wanted };
        self.note_end(id, how, *amount).await?;
        Ok(how)
    }

    /// Whether there were enough.
    async fn take(&mut self, count: i64) -> Result<bool, StockRowsError<D::Error>> {
        let text = "UPDATE fencepost_stock SET left_over = left_over - {2} WHERE item = {1} AND left_over >= {2}";
        Ok(self.execute(text, &[count.into()]).await? > 0)
    }

    /// Until the transaction ends nobody else changes this stock.
    async fn lock(&mut self) -> Result<(), StockRowsError<D::Error>> {
        let text = format!("SELECT item FROM fencepost_stock WHERE item = {{1}}{}", self.for_update());
        self.rows(&text, &[]).await.map(drop)
    }

    /// Puts some expired reservations back, and answers how many. The item is locked.
    ///
    /// They are looked for without a lock and then ended one by one: a range that is locked would keep sales of *other* items
    /// waiting in MySQL. One that is not seen yet is put back by a later call.
    async fn put_expired_back(&mut self) -> Result<usize, StockRowsError<D::Error>> {
        let text = format!(
            "SELECT id, amount FROM fencepost_reservations WHERE item = {{1}} AND state = 0 AND expires_ms <= {} \
             ORDER BY expires_ms LIMIT {AT_A_TIME}",
            self.now()
        );
        let mut returned = 0;
        for (id, numbers) in self.rows(&text, &[]).await? {
            let amount = numbers.first().copied().unwrap_or_default();
            returned += usize::from(self.note_end(&id, Settled::Expired, amount).await?);
        }
        Ok(returned)
    }

    /// Whether it was open until now.
    async fn note_end(&mut self, id: &str, how: Settled, amount: i64) -> Result<bool, StockRowsError<D::Error>> {
        let text = "UPDATE fencepost_reservations SET state = {3} WHERE item = {1} AND id = {2} AND state = 0";
        let was_open = self.execute(text, &[id.into(), how.state().into()]).await? > 0;
        if was_open && how != Settled::Confirmed {
            let text = "UPDATE fencepost_stock SET left_over = left_over + {2} WHERE item = {1}";
            self.execute(text, &[amount.into()]).await?;
        }
        Ok(was_open)
    }

    async fn execute(&mut self, text: &str, more: &[Bind]) -> Result<u64, StockRowsError<D::Error>> {
        let statement = self.statement(text, more);
        self.driver.execute(&statement).await.map_err(StockRowsError::Driver)
    }

    async fn rows(&mut self, text: &str, more: &[Bind]) -> Result<Vec<(String, Vec<i64>)>, StockRowsError<D::Error>> {
        let statement = self.statement(text, more);
        self.driver.rows(&statement).await.map_err(StockRowsError::Driver)
    }

    /// The item is `{1}`, the others follow.
    fn statement(&self, text: &str, more: &[Bind]) -> Statement {
        let all: Vec<Bind> = [Bind::from(self.item.as_str())].into_iter().chain(more.iter().cloned()).collect();
        numbered(self.dialect, text, all)
    }

    /// In milliseconds since 1970, when the statement began.
    fn now(&self) -> &'static str {
        match self.dialect {
            Sql::Postgres => "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS int8)",
            Sql::MySql => "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000)",
            Sql::Sqlite => "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
        }
    }

    fn for_update(&self) -> &'static str {
        // Transactions of SQLite have the whole file to themselves.
        if self.dialect == Sql::Sqlite { "" } else { " FOR UPDATE" }
    }
}

/// `{1}` stands for the first bind, wherever it is.
fn numbered(dialect: Sql, text: &str, binds: Vec<Bind>) -> Statement {
    let mut parts = text.split('{');
    let (mut text, mut in_order) = (parts.next().unwrap_or_default().to_owned(), Vec::new());
    for part in parts {
        let (number, rest) = part.split_once('}').expect("BUG: a marker has an end");
        let number: usize = number.parse().expect("BUG: a marker is a number");
        text += &dialect.placeholder(number);
        text += rest;
        in_order.push(binds[number - 1].clone());
    }
    Statement { text, binds: if dialect == Sql::MySql { in_order } else { binds } }
}

fn checked_key(field: &'static str, key: &str) -> Result<(), Invalid> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX || key.contains('\0') {
        let cure = format!("it has {} bytes: give it 1 to {KEY_BYTES_MAX}, none of them zero", key.len());
        return Err(Invalid::new(field, key, cure));
    }
    Ok(())
}

/// The tables that [`StockRows`] uses.
pub fn stock_schema(dialect: Sql) -> &'static str {
    match dialect {
        Sql::Postgres => {
            "CREATE TABLE IF NOT EXISTS fencepost_stock (\n    item text COLLATE \"C\" PRIMARY KEY,\n    \
             left_over int8 NOT NULL CHECK (left_over >= 0)\n);\n\
             CREATE TABLE IF NOT EXISTS fencepost_reservations (\n    item text COLLATE \"C\" NOT NULL,\n    \
             id text COLLATE \"C\" NOT NULL,\n    amount int8 NOT NULL,\n    expires_ms int8 NOT NULL,\n    \
             state int8 NOT NULL,\n    PRIMARY KEY (item, id)\n);\n\
             CREATE INDEX IF NOT EXISTS fencepost_reservations_open ON fencepost_reservations (item, expires_ms) \
             WHERE state = 0;\n"
        }
        Sql::MySql => {
            "CREATE TABLE IF NOT EXISTS fencepost_stock (\n    item VARBINARY(255) PRIMARY KEY,\n    \
             left_over BIGINT NOT NULL CHECK (left_over >= 0)\n) ENGINE = InnoDB;\n\
             CREATE TABLE IF NOT EXISTS fencepost_reservations (\n    item VARBINARY(255) NOT NULL,\n    \
             id VARBINARY(255) NOT NULL,\n    amount BIGINT NOT NULL,\n    expires_ms BIGINT NOT NULL,\n    \
             state BIGINT NOT NULL,\n    PRIMARY KEY (item, id),\n    INDEX (item, state, expires_ms)\n) ENGINE = InnoDB;\n"
        }
        Sql::Sqlite => {
            "CREATE TABLE IF NOT EXISTS fencepost_stock (\n    item TEXT PRIMARY KEY,\n    \
             left_over INTEGER NOT NULL CHECK (left_over >= 0)\n) STRICT, WITHOUT ROWID;\n\
             CREATE TABLE IF NOT EXISTS fencepost_reservations (\n    item TEXT NOT NULL,\n    id TEXT NOT NULL,\n    \
             amount INTEGER NOT NULL,\n    expires_ms INTEGER NOT NULL,\n    state INTEGER NOT NULL,\n    \
             PRIMARY KEY (item, id)\n) STRICT, WITHOUT ROWID;\n\
             CREATE INDEX IF NOT EXISTS fencepost_reservations_open ON fencepost_reservations (item, expires_ms) \
             WHERE state = 0;\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_is_given_as_often_as_its_dialect_asks_for_it() {
        let text = "a = {2}, b = {1} AND c = {2}";
        let binds = || vec![Bind::from("x'; DROP"), Bind::from(7)];
        let postgres = numbered(Sql::Postgres, text, binds());
        assert_eq!((postgres.text.as_str(), postgres.binds), ("a = $2, b = $1 AND c = $2", binds()));
        let mysql = numbered(Sql::MySql, text, binds());
        assert_eq!(mysql.text, "a = ?, b = ? AND c = ?");
        assert_eq!(mysql.binds, [7.into(), "x'; DROP".into(), 7.into()]);
    }

    #[test]
    fn keys_that_a_database_would_cut_off_are_refused() {
        for bad in [String::new(), "x".repeat(256), "a\0b".to_owned()] {
            assert_eq!(checked_key("item", &bad).expect_err("refused").field, "item");
        }
        assert!(checked_key("item", &"x".repeat(255)).is_ok());
    }
}
