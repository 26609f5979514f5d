//! The check at the resource, in a transaction of the caller's.

mod common;

use common::Place;
use fencepost_core::FencingToken;
use fencepost_core::fence::FenceError;
use fencepost_core::store::StoreErrorKind;
use fencepost_testkit::sql::SqlPlace as _;
use tokio_postgres::NoTls;

/// `fencepost init` makes the tables of locks, and not the one beside the resource.
#[test]
fn a_missing_table_of_the_check_is_said_with_the_command_that_prints_it() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&place.server.url(), NoTls).await.expect("the server is up");
        tokio::spawn(async move { drop(connection.await) });
        client.batch_execute("SET search_path TO nothing_is_here").await.expect("set");
        let token = FencingToken::from_number(7).expect("a token");
        match fencepost_postgres::fence::check(&client, "report", token).await {
            Err(FenceError::Store(error)) => {
                assert_eq!(error.kind, StoreErrorKind::Misconfigured);
                assert!(error.message.contains("`fencepost schema --fence postgres`"), "{error}");
                assert!(!error.message.contains("fencepost init"), "{error}");
            }
            other => panic!("there is no table: {other:?}"),
        }
    });
}
