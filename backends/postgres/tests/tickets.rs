//! Row locks in the caller's own transaction: the last ticket is sold once.

mod common;

use std::collections::HashSet;
use std::sync::Arc;

use common::Place;
use fencepost_core::fence::{RowLock, RowLockError};
use fencepost_postgres::fence::lock_rows;
use fencepost_testkit::sql::SqlPlace;
use fencepost_testkit::wait::PATIENCE;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

const STOCK: &str = "CREATE TABLE stock (id int8 PRIMARY KEY, left_over int8 NOT NULL);
    INSERT INTO stock VALUES (1, 0);
    CREATE TABLE tickets (id int8 PRIMARY KEY, buyer int8);
    CREATE TABLE sales (buyer int8 NOT NULL, ticket int8 NOT NULL)";

struct Office(Place);

impl Office {
    /// A box office with so many tickets.
    fn with(tickets: i64) -> Self {
        let place = Place::alone();
        let session = place.session();
        session.run(STOCK);
        session.run(&format!("UPDATE stock SET left_over = {tickets}"));
        session.run(&format!("INSERT INTO tickets SELECT generate_series(1, {tickets})"));
        Self(place)
    }

    async fn connect(&self) -> Client {
        let (client, connection) =
            tokio_postgres::connect(&self.0.server.url(), NoTls).await.expect("the server is up");
        tokio::spawn(async move { drop(connection.await) });
        client
    }

    fn number(&self, statement: &str) -> i64 {
        self.0.session().number(statement)
    }
}

/// Buys from the stock: whoever has its row decides. Whether there was one left.
async fn buy_from_stock(client: &mut Client, buyer: i64) -> bool {
    let transaction = client.transaction().await.expect("begun");
    let rows = lock_rows(&transaction, &RowLock::new("stock", "id", [1])).await.expect("locked");
    let left: i64 = rows[0].get("left_over");
    if left == 0 {
        transaction.rollback().await.expect("rolled back");
        return false;
    }
    let sale = "INSERT INTO sales SELECT $1, left_over FROM stock WHERE id = 1";
    transaction.execute(sale, &[&buyer]).await.expect("noted");
    transaction.execute("UPDATE stock SET left_over = left_over - 1 WHERE id = 1", &[]).await.expect("sold");
    transaction.commit().await.expect("committed");
    true
}

/// Any ticket that nobody else is about to buy.
fn free_ticket() -> RowLock {
    RowLock::any("tickets", "id").only("buyer IS NULL").skip_locked(1)
}

/// Buys one of them.
async fn buy_any(client: &mut Client, buyer: i64) -> bool {
    let transaction = client.transaction().await.expect("begun");
    let rows = lock_rows(&transaction, &free_ticket()).await.expect("locked, or none left");
    let Some(ticket) = rows.first().map(|row| row.get::<_, i64>("id")) else { return false };
    transaction.execute("UPDATE tickets SET buyer = $1 WHERE id = $2", &[&buyer, &ticket]).await.expect("sold");
    transaction.execute("INSERT INTO sales VALUES ($1, $2)", &[&buyer, &ticket]).await.expect("noted");
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
        let mut client = office.connect().await;
        all.spawn(async move {
            match way {
                Way::Stock => buy_from_stock(&mut client, buyer).await,
                Way::Any => buy_any(&mut client, buyer).await,
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
            let mut client = office.connect().await;
            all.spawn(async move {
                for round in 0..25 {
                    let mut keys: Vec<i64> = (1..=10).collect();
                    if (buyer + round) % 2 == 0 {
                        keys.reverse();
                    }
                    let transaction = client.transaction().await.expect("begun");
                    let rows = lock_rows(&transaction, &RowLock::new("tickets", "id", keys)).await;
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
            let (mut client, all_busy) = (office.connect().await, Arc::clone(&all_busy));
            all.spawn(async move {
                let transaction = client.transaction().await.expect("begun");
                let rows = lock_rows(&transaction, &free_ticket()).await.expect("one for each");
                tokio::time::timeout(PATIENCE, all_busy.wait()).await.expect("all have one");
                transaction.commit().await.expect("committed");
                rows[0].get::<_, i64>("id")
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
        let holding = one.transaction().await.expect("begun");
        lock_rows(&holding, &first).await.expect("free");
        let trying = other.transaction().await.expect("begun");
        trying.execute("UPDATE tickets SET buyer = 7 WHERE id = 2", &[]).await.expect("written");
        assert!(matches!(lock_rows(&trying, &first.clone().no_wait()).await, Err(RowLockError::Busy)));
        lock_rows(&trying, &second.no_wait()).await.expect("its own");
        trying.commit().await.expect("committed");
        drop(holding);
    });
    assert_eq!(office.number("SELECT buyer FROM tickets WHERE id = 2"), 7, "what was written before stands");
}

#[test]
fn readers_share_rows_and_keep_writers_out() {
    let office = Office::with(1);
    runtime().block_on(async {
        let (mut one, mut two, mut three) = (office.connect().await, office.connect().await, office.connect().await);
        let (reading, also_reading) =
            (one.transaction().await.expect("begun"), two.transaction().await.expect("begun"));
        let row = RowLock::new("tickets", "id", [1]);
        for reader in [&reading, &also_reading] {
            lock_rows(reader, &row.clone().shared().no_wait()).await.expect("shared");
        }
        let writing = three.transaction().await.expect("begun");
        assert!(matches!(lock_rows(&writing, &row.no_wait()).await, Err(RowLockError::Busy)));
    });
}

#[test]
fn rolling_back_to_the_callers_savepoint_lets_the_rows_go() {
    let office = Office::with(1);
    runtime().block_on(async {
        let (mut one, mut other) = (office.connect().await, office.connect().await);
        let row = RowLock::new("tickets", "id", [1]);
        let mut outer = one.transaction().await.expect("begun");
        outer.execute("UPDATE stock SET left_over = 5", &[]).await.expect("written");
        let savepoint = outer.savepoint("mine").await.expect("a savepoint");
        lock_rows(&savepoint, &row.clone().no_wait()).await.expect("free");
        savepoint.rollback().await.expect("rolled back");
        let next = other.transaction().await.expect("begun");
        lock_rows(&next, &row.no_wait()).await.expect("free again");
        outer.commit().await.expect("the caller's transaction is untouched");
    });
    assert_eq!(office.number("SELECT left_over FROM stock"), 5);
}
