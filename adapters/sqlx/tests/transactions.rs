//! Row locks and the check in transactions of sqlx: the same on both databases.

use fencepost_core::FencingToken;
use fencepost_core::fence::{self, FenceError, RowLock, RowLockError, Sql};
use fencepost_testkit::mariadb::MariaDb;
use fencepost_testkit::postgres::Postgres;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tokio::task::JoinSet;

const TICKETS: i64 = 10;
const BUYERS: i64 = 50;

fn token(number: u64) -> FencingToken {
    FencingToken::from_number(number).expect("a token")
}

macro_rules! on {
    ($name:ident, $server:expr, $connection:ty, $dialect:expr, $sale:literal) => {
        mod $name {
            use super::*;
            use fencepost_sqlx::$name::{check, lock_rows};
            use sqlx::Row;

            async fn connect(url: &str) -> $connection {
                <$connection>::connect(url).await.expect("the server is up")
            }

            /// Tables with tickets that nobody has bought.
            async fn office(url: &str) -> $connection {
                let mut connection = connect(url).await;
                let table = "CREATE TABLE tickets (id BIGINT PRIMARY KEY, buyer BIGINT)";
                connection.execute(table).await.expect("a table");
                connection.execute(fence::schema($dialect)).await.expect("a table");
                for id in 1..=TICKETS {
                    let row = format!("INSERT INTO tickets VALUES ({id}, NULL)");
                    connection.execute(AssertSqlSafe(row)).await.expect("a ticket");
                }
                connection
            }

            #[test]
            fn fifty_buyers_buy_ten_tickets_and_none_twice() {
                let server = $server.start();
                runtime().block_on(async {
                    let mut connection = office(&server.url()).await;
                    let mut all = JoinSet::new();
                    for buyer in 0..BUYERS {
                        let mut connection = connect(&server.url()).await;
                        all.spawn(async move {
                            let mut transaction = connection.begin().await.expect("begun");
                            let free = RowLock::any("tickets", "id").only("buyer IS NULL").skip_locked(1);
                            let rows = lock_rows(&mut transaction, &free).await.expect("locked, or none left");
                            let Some(ticket) = rows.first().map(|row| row.get::<i64, _>("id")) else { return 0 };
                            let sale = sqlx::query($sale).bind(buyer).bind(ticket);
                            let sold = sale.execute(&mut *transaction).await.expect("sold").rows_affected();
                            transaction.commit().await.expect("committed");
                            sold
                        });
                    }
                    let sold: u64 = all.join_all().await.into_iter().sum();
                    assert_eq!(sold, 10);
                    let count = "SELECT count(DISTINCT buyer) FROM tickets";
                    let row = connection.fetch_one(count).await.expect("a row");
                    assert_eq!(row.get::<i64, _>(0), TICKETS);
                });
            }

            #[test]
            fn a_missing_table_of_the_check_is_said_with_the_command_that_prints_it() {
                let server = $server.start();
                runtime().block_on(async {
                    let mut connection = connect(&server.url()).await;
                    let mut transaction = connection.begin().await.expect("begun");
                    let error = check(&mut transaction, "report", token(7)).await.expect_err("there is no table");
                    let command = format!("`fencepost schema --fence {}`", stringify!($name));
                    assert!(error.to_string().contains(&command), "{error}");
                });
            }

            #[test]
            fn a_busy_row_is_told_and_the_transaction_goes_on() {
                let server = $server.start();
                runtime().block_on(async {
                    let (mut one, mut other) = (office(&server.url()).await, connect(&server.url()).await);
                    let (mut holding, mut trying) =
                        (one.begin().await.expect("begun"), other.begin().await.expect("begun"));
                    let rows = RowLock::new("tickets", "id", [3_i64, 1]);
                    assert_eq!(lock_rows(&mut holding, &rows).await.expect("free").len(), 2);
                    let busy = lock_rows(&mut trying, &rows.clone().no_wait()).await;
                    assert!(matches!(busy, Err(RowLockError::Busy)), "{:?}", busy.map(|rows| rows.len()));
                    let others = RowLock::new("tickets", "id", [2_i64]).no_wait();
                    assert_eq!(lock_rows(&mut trying, &others).await.expect("free").len(), 1);
                    trying.commit().await.expect("committed");
                });
            }

            #[test]
            fn a_stale_token_is_turned_away() {
                let server = $server.start();
                runtime().block_on(async {
                    let mut connection = office(&server.url()).await;
                    for number in [33, 34, 34] {
                        check(&mut connection, "x", token(number)).await.expect("not older");
                    }
                    match check(&mut connection, "x", token(33)).await {
                        Err(FenceError::Stale(stale)) => assert_eq!((stale.token, stale.seen), (token(33), token(34))),
                        other => panic!("{other:?}"),
                    }
                    check(&mut connection, "X", token(1)).await.expect("another resource");
                });
            }
        }
    };
}

on!(postgres, Postgres::new(), sqlx::PgConnection, Sql::Postgres, "UPDATE tickets SET buyer = $1 WHERE id = $2");
on!(mysql, MariaDb::new(), sqlx::MySqlConnection, Sql::MySql, "UPDATE tickets SET buyer = ? WHERE id = ?");

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}
