//! A stock in rows, in the caller's own transactions.

mod common;

use std::sync::{Mutex, PoisonError};

use common::Place;
use fencepost_core::fence::{Sql, stock_schema};
use fencepost_testkit::sql::SqlPlace;
use tokio_postgres::{Client, NoTls, Transaction};

/// One at a time makes the tables: it is not safe to make them twice at once.
static MAKING: Mutex<()> = Mutex::new(());

fn open() -> Place {
    let place = Place::new();
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    place.session().run(stock_schema(Sql::Postgres));
    place
}

async fn connect(place: &Place) -> Client {
    let (client, connection) = tokio_postgres::connect(&place.server.url(), NoTls).await.expect("the server is up");
    tokio::spawn(async move { drop(connection.await) });
    client
}

async fn begin(client: &mut Client) -> Transaction<'_> {
    client.transaction().await.expect("begun")
}

macro_rules! stock {
    ($transaction:ident, $item:expr) => {
        fencepost_postgres::fence::stock(&$transaction, $item)
    };
}

fencepost_testkit::stock_rows!();
