//! Row locks in the caller's own transaction: the last ticket is sold once.

mod common;

use std::collections::HashSet;
use std::sync::Arc;

use common::Place;
use fencepost_core::fence::{RowLock, RowLockError};
use fencepost_mysql::fence::lock_rows;
use fencepost_testkit::sql::SqlPlace;
use fencepost_testkit::wait::PATIENCE;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, TxOpts};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const STOCK: [&str; 4] = [
    "CREATE TABLE stock (id BIGINT PRIMARY KEY, left_over BIGINT NOT NULL)",
    "INSERT INTO stock VALUES (1, 0)",
    "CREATE TABLE tickets (id BIGINT PRIMARY KEY, buyer BIGINT)",
    "CREATE TABLE sales (buyer BIGINT NOT NULL, ticket BIGINT NOT NULL)",
];

struct Office(Place);

impl Office {
    /// A box office with so many tickets.
    fn with(tickets: i64) -> Self {
        let place = Place::alone();
        let session = place.session();
        STOCK.iter().for_each(|statement| session.run(statement));
        session.run(&format!("UPDATE stock SET left_over = {tickets}"));
        session.run(&format!("INSERT INTO tickets SELECT seq, NULL FROM seq_1_to_{tickets}"));
        Self(place)
    }

    async fn connect(&self) -> Conn {
        let opts = OptsBuilder::from_opts(Opts::from_url(&self.0.server.url()).expect("a URL"));
        Conn::new(opts.prefer_socket(false)).await.expect("the server is up")
    }

    fn number(&self, statement: &str) -> i64 {
        self.0.session().number(statement)
    }
}

async fn begin(conn: &mut Conn) -> mysql_async::Transaction<'_> {
    conn.start_transaction(TxOpts::default()).await.expect("begun")
}

/// Buys from the stock: whoever has its row decides. Whether there was one left.
async fn buy_from_stock(conn: &mut Conn, buyer: i64) -> bool {
    let mut transaction = begin(conn).await;
    let rows = lock_rows(&mut transaction, &RowLock::new("stock", "id", [1])).await.expect("locked");
    let left: i64 = rows[0].get("left_over").expect("a column");
    if left == 0 {
        transaction.rollback().await.expect("rolled back");
        return false;
    }
    transaction.exec_drop("INSERT INTO sales VALUES (?, ?)", (buyer, left)).await.expect("noted");
    transaction.query_drop("UPDATE stock SET left_over = left_over - 1 WHERE id = 1").await.expect("sold");
    transaction.commit().await.expect("committed");
    true
}

/// Any ticket that nobody else is about to buy.
fn free_ticket() -> RowLock {
    RowLock::any("tickets", "id").only("buyer IS NULL").skip_locked(1)
}

/// Buys one of them.
async fn buy_any(conn: &mut Conn, buyer: i64) -> bool {
    let mut transaction = begin(conn).await;
    let rows = lock_rows(&mut transaction, &free_ticket()).await.expect("locked, or none left");
    let Some(ticket) = rows.first().map(|row| row.get::<i64, _>("id").expect("a column")) else { return false };
    transaction.exec_drop("UPDATE tickets SET buyer = ? WHERE id = ?", (buyer, ticket)).await.expect("sold");
    transaction.exec_drop("INSERT INTO sales VALUES (?, ?)", (buyer, ticket)).await.expect("noted");
    transaction.commit().await.expect("committed");
    true
}

#[derive(Clone, Copy)]
enum Way {
    Stock,
    Any,
}

/// So many buyers, each for one ticket; how many got one.
async fn rush(office: &Office, buyers: i64, way: Way) -> usize {
    let mut all = JoinSet::new();
    for buyer in 0..buyers {
        let mut conn = office.connect().await;
        all.spawn(async move {
            match way {
                Way::Stock => buy_from_stock(&mut conn, buyer).await,
                Way::Any => buy_any(&mut conn, buyer).await,
            }
        });
    }
    all.join_all().await.into_iter().filter(|bought| *bought).count()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

#[test]
fn fifty_buyers_buy_ten_tickets_and_none_twice() {
    for way in [Way::Stock, Way::Any] {
        let office = Office::with(10);
        assert_eq!(runtime().block_on(rush(&office, 50, way)), 10);
        assert_eq!(office.number("SELECT count(*) FROM sales"), 10);
        assert_eq!(office.number("SELECT count(DISTINCT ticket) FROM sales"), 10, "one was sold twice");
        assert_eq!(office.number("SELECT count(DISTINCT buyer) FROM sales"), 10);
    }
}

#[test]
fn ten_buyers_of_the_last_ticket_buy_it_once() {
    for way in [Way::Stock, Way::Any] {
        let office = Office::with(1);
        assert_eq!(runtime().block_on(rush(&office, 10, way)), 1);
        assert_eq!(office.number("SELECT count(*) FROM sales"), 1);
    }
}

#[test]
fn rows_named_in_opposite_orders_never_deadlock() {
    let office = Office::with(10);
    runtime().block_on(async {
        let mut all = JoinSet::new();
        for buyer in 0..8_i64 {
            let mut conn = office.connect().await;
            all.spawn(async move {
                for round in 0..25 {
                    let mut keys: Vec<i64> = (1..=10).collect();
                    if (buyer + round) % 2 == 0 {
                        keys.reverse();
                    }
                    let mut transaction = begin(&mut conn).await;
                    let rows = lock_rows(&mut transaction, &RowLock::new("tickets", "id", keys)).await;
                    assert_eq!(rows.expect("no deadlock").len(), 10);
                    transaction.commit().await.expect("committed");
                }
            });
        }
        all.join_all().await;
    });
}

/// Each has a ticket in hand while all the others have theirs: nobody queues. How much faster that sells is measured in
/// `bench/`.
#[test]
fn whoever_skips_locked_rows_works_beside_all_others() {
    const CASHIERS: i64 = 8;
    let office = Office::with(CASHIERS);
    let tickets: HashSet<i64> = runtime().block_on(async {
        let all_busy = Arc::new(Barrier::new(CASHIERS as usize));
        let mut all = JoinSet::new();
        for _ in 0..CASHIERS {
            let (mut conn, all_busy) = (office.connect().await, Arc::clone(&all_busy));
            all.spawn(async move {
                let mut transaction = begin(&mut conn).await;
                let rows = lock_rows(&mut transaction, &free_ticket()).await.expect("one for each");
                tokio::time::timeout(PATIENCE, all_busy.wait()).await.expect("all have one");
                transaction.commit().await.expect("committed");
                rows[0].get::<i64, _>("id").expect("a column")
            });
        }
        all.join_all().await.into_iter().collect()
    });
    assert_eq!(tickets, (1..=CASHIERS).collect());
}

#[test]
fn a_row_that_is_busy_is_told_at_once_and_the_transaction_goes_on() {
    let office = Office::with(2);
    runtime().block_on(async {
        let (mut one, mut other) = (office.connect().await, office.connect().await);
        let (first, second) = (RowLock::new("tickets", "id", [1]), RowLock::new("tickets", "id", [2]));
        let mut holding = begin(&mut one).await;
        lock_rows(&mut holding, &first).await.expect("free");
        let mut trying = begin(&mut other).await;
        trying.query_drop("UPDATE tickets SET buyer = 7 WHERE id = 2").await.expect("written");
        assert!(matches!(lock_rows(&mut trying, &first.clone().no_wait()).await, Err(RowLockError::Busy)));
        lock_rows(&mut trying, &second.no_wait()).await.expect("its own");
        trying.commit().await.expect("committed");
        holding.rollback().await.expect("rolled back");
    });
    assert_eq!(office.number("SELECT buyer FROM tickets WHERE id = 2"), 7, "what was written before stands");
}

#[test]
fn readers_share_rows_and_keep_writers_out() {
    let office = Office::with(1);
    runtime().block_on(async {
        let (mut one, mut two, mut three) = (office.connect().await, office.connect().await, office.connect().await);
        let (mut reading, mut also_reading) = (begin(&mut one).await, begin(&mut two).await);
        let row = RowLock::new("tickets", "id", [1]);
        for reader in [&mut reading, &mut also_reading] {
            lock_rows(reader, &row.clone().shared().no_wait()).await.expect("shared");
        }
        let mut writing = begin(&mut three).await;
        assert!(matches!(lock_rows(&mut writing, &row.no_wait()).await, Err(RowLockError::Busy)));
    });
}

#[test]
fn the_callers_savepoints_stay_the_callers() {
    let office = Office::with(1);
    runtime().block_on(async {
        let (mut one, mut other) = (office.connect().await, office.connect().await);
        let row = RowLock::new("tickets", "id", [1]);
        let mut outer = begin(&mut one).await;
        outer.query_drop("UPDATE stock SET left_over = 5").await.expect("written");
        outer.query_drop("SAVEPOINT mine").await.expect("a savepoint");
        lock_rows(&mut outer, &row.clone().no_wait()).await.expect("free");
        outer.query_drop("ROLLBACK TO SAVEPOINT mine").await.expect("rolled back");
        outer.commit().await.expect("the caller's transaction is untouched");
        let mut next = begin(&mut other).await;
        lock_rows(&mut next, &row.no_wait()).await.expect("free again");
    });
    assert_eq!(office.number("SELECT left_over FROM stock"), 5);
}
