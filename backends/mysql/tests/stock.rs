//! A stock in rows, in the caller's own transactions.

mod common;

use std::sync::{Mutex, PoisonError};

use common::Place;
use fencepost_core::fence::{Sql, stock_schema};
use fencepost_testkit::sql::SqlPlace;
use mysql_async::{Conn, Opts, OptsBuilder, Transaction, TxOpts};

/// One at a time makes the tables: it is not safe to make them twice at once.
static MAKING: Mutex<()> = Mutex::new(());

fn open() -> Place {
    let place = Place::new();
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let session = place.session();
    let statements = stock_schema(Sql::MySql).split(";\n").filter(|statement| !statement.is_empty());
    statements.for_each(|statement| session.run(statement));
    place
}

async fn connect(place: &Place) -> Conn {
    let opts = OptsBuilder::from_opts(Opts::from_url(&place.server.url()).expect("a URL"));
    Conn::new(opts.prefer_socket(false)).await.expect("the server is up")
}

async fn begin(conn: &mut Conn) -> Transaction<'_> {
    conn.start_transaction(TxOpts::default()).await.expect("begun")
}

macro_rules! stock {
    ($transaction:ident, $item:expr) => {
        fencepost_mysql::fence::stock(&mut $transaction, $item)
    };
}

fencepost_testkit::stock_rows!();
