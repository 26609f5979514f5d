//! Selling tickets with row locks in one's own transaction: those who skip locked rows beside those who queue for one.

use std::time::Duration;

use fencepost::fence::RowLock;
use fencepost_testkit::mariadb::MariaDb;
use fencepost_testkit::postgres::Postgres;
use futures_util::future::try_join_all;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, TxOpts};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

use crate::Outcome;
use crate::process::now;
use crate::runner::{Goal, Readings, Round, Row, Unit, Workload, no_work};
use crate::site::Site;

const CASHIERS: i64 = 8;
const TICKETS: i64 = 80;
/// What a cashier does with a ticket before it is sold.
const WORK: Duration = Duration::from_millis(10);

const SKIPPING: [&str; 2] = ["PostgreSQL: skipping locked rows", "MariaDB: skipping locked rows"];
const QUEUEING: [&str; 2] = ["PostgreSQL: queueing for one row", "MariaDB: queueing for one row"];

pub(crate) const WORKLOAD: Workload = Workload {
    name: "tickets",
    about: "Eight cashiers sell 80 tickets with the row locks of `fencepost::fence`, 10 ms of work with each: whoever skips \
            locked rows takes any free ticket, whoever queues waits for the row of the stock. Tickets sold per second.",
    rounds: 5,
    rows: || {
        let rows = SKIPPING.iter().zip(QUEUEING).flat_map(|(skipping, queueing)| {
            let skipping = Row::new(*skipping, Unit::PerSecond).against(queueing).goal(Goal::RatioAtLeast(3.0));
            [skipping, Row::new(queueing, Unit::PerSecond)]
        });
        rows.collect()
    },
    prepare,
    work: no_work,
};

#[derive(Clone, Copy)]
enum Way {
    Queue,
    Skip,
}

fn prepare(_site: &Site) -> Outcome<Round> {
    let (postgres, mariadb) = (Postgres::new().with("fsync=on").start(), MariaDb::new().start());
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let clients = runtime.block_on(try_join_all((0..CASHIERS).map(|_| connect(postgres.url()))))?;
    let conns = runtime.block_on(try_join_all((0..CASHIERS).map(|_| connect_to_mariadb(mariadb.url()))))?;
    let (mut clients, mut conns) = (clients, conns);
    Ok(Box::new(move |readings: &mut Readings| {
        // The servers live as long as this.
        let _servers = (&postgres, &mariadb);
        for way in [Way::Queue, Way::Skip] {
            let names = match way {
                Way::Queue => QUEUEING,
                Way::Skip => SKIPPING,
            };
            readings.note(names[0], on_postgres(&runtime, &mut clients, way)?);
            readings.note(names[1], on_mariadb(&runtime, &mut conns, way)?);
        }
        Ok(())
    }))
}

/// A box office; what was there before is thrown away.
fn office() -> [String; 6] {
    let tickets: Vec<String> = (1..=TICKETS).map(|ticket| format!("({ticket}, NULL)")).collect();
    [
        "DROP TABLE IF EXISTS stock, tickets, sales".to_owned(),
        "CREATE TABLE stock (id BIGINT PRIMARY KEY, left_over BIGINT NOT NULL)".to_owned(),
        format!("INSERT INTO stock VALUES (1, {TICKETS})"),
        "CREATE TABLE tickets (id BIGINT PRIMARY KEY, buyer BIGINT)".to_owned(),
        format!("INSERT INTO tickets VALUES {}", tickets.join(", ")),
        "CREATE TABLE sales (buyer BIGINT NOT NULL, ticket BIGINT NOT NULL)".to_owned(),
    ]
}

fn the_stock() -> RowLock {
    RowLock::new("stock", "id", [1])
}

fn any_ticket() -> RowLock {
    RowLock::any("tickets", "id").only("buyer IS NULL").skip_locked(1)
}

/// What was sold in a second; every ticket has to be, and once.
fn rate(sold: i64, began: u64) -> Outcome<f64> {
    match sold {
        TICKETS => Ok(TICKETS as f64 / ((now() - began) as f64 / 1e9)),
        sold => Err(format!("{sold} of {TICKETS} tickets were sold").into()),
    }
}

async fn connect(url: String) -> Outcome<Client> {
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn on_postgres(runtime: &Runtime, clients: &mut [Client], way: Way) -> Outcome<f64> {
    runtime.block_on(async {
        clients[0].batch_execute(&office().join("; ")).await?;
        let began = now();
        let cashiers = clients.iter_mut().zip(0..).map(|(client, cashier)| async move {
            while sell_on_postgres(client, cashier, way).await? {}
            Outcome::Ok(())
        });
        try_join_all(cashiers).await?;
        let took = now();
        let sold = clients[0].query_one("SELECT count(DISTINCT ticket) FROM sales", &[]).await?.get(0);
        rate(sold, began + (now() - took))
    })
}

async fn sell_on_postgres(client: &mut Client, cashier: i64, way: Way) -> Outcome<bool> {
    let transaction = client.transaction().await?;
    let lock = match way {
        Way::Queue => the_stock(),
        Way::Skip => any_ticket(),
    };
    let rows = fencepost::fence::postgres::lock_rows(&transaction, &lock).await?;
    let ticket: Option<i64> = match way {
        Way::Queue => rows.first().map(|row| row.get("left_over")).filter(|left| *left > 0),
        Way::Skip => rows.first().map(|row| row.get("id")),
    };
    let Some(ticket) = ticket else { return Ok(false) };
    tokio::time::sleep(WORK).await;
    match way {
        Way::Queue => transaction.execute("UPDATE stock SET left_over = left_over - 1 WHERE id = 1", &[]).await?,
        Way::Skip => transaction.execute("UPDATE tickets SET buyer = $1 WHERE id = $2", &[&cashier, &ticket]).await?,
    };
    transaction.execute("INSERT INTO sales VALUES ($1, $2)", &[&cashier, &ticket]).await?;
    transaction.commit().await?;
    Ok(true)
}

async fn connect_to_mariadb(url: String) -> Outcome<Conn> {
    Ok(Conn::new(OptsBuilder::from_opts(Opts::from_url(&url)?).prefer_socket(false)).await?)
}

fn on_mariadb(runtime: &Runtime, conns: &mut [Conn], way: Way) -> Outcome<f64> {
    runtime.block_on(async {
        for statement in office() {
            conns[0].query_drop(statement).await?;
        }
        let began = now();
        let cashiers = conns.iter_mut().zip(0..).map(|(conn, cashier)| async move {
            while sell_on_mariadb(conn, cashier, way).await? {}
            Outcome::Ok(())
        });
        try_join_all(cashiers).await?;
        let took = now();
        let sold: Option<i64> = conns[0].query_first("SELECT count(DISTINCT ticket) FROM sales").await?;
        rate(sold.unwrap_or_default(), began + (now() - took))
    })
}

async fn sell_on_mariadb(conn: &mut Conn, cashier: i64, way: Way) -> Outcome<bool> {
    let mut transaction = conn.start_transaction(TxOpts::default()).await?;
    let lock = match way {
        Way::Queue => the_stock(),
        Way::Skip => any_ticket(),
    };
    let rows = fencepost::fence::mysql::lock_rows(&mut transaction, &lock).await?;
    let ticket: Option<i64> = match way {
        Way::Queue => rows.first().and_then(|row| row.get("left_over")).filter(|left| *left > 0),
        Way::Skip => rows.first().and_then(|row| row.get("id")),
    };
    let Some(ticket) = ticket else {
        transaction.rollback().await?;
        return Ok(false);
    };
    tokio::time::sleep(WORK).await;
    match way {
        Way::Queue => transaction.query_drop("UPDATE stock SET left_over = left_over - 1 WHERE id = 1").await?,
        Way::Skip => transaction.exec_drop("UPDATE tickets SET buyer = ? WHERE id = ?", (cashier, ticket)).await?,
    }
    transaction.exec_drop("INSERT INTO sales VALUES (?, ?)", (cashier, ticket)).await?;
    transaction.commit().await?;
    Ok(true)
}
