//! The check at the resource, in a transaction of the caller's.

mod common;

use common::Place;
use fencepost_core::FencingToken;
use fencepost_core::fence::FenceError;
use fencepost_core::store::StoreErrorKind;
use fencepost_testkit::sql::SqlPlace as _;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts, OptsBuilder};

/// `fencepost init` makes the tables of locks, and not the one beside the resource.
#[test]
fn a_missing_table_of_the_check_is_said_with_the_command_that_prints_it() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let opts = OptsBuilder::from_opts(Opts::from_url(&place.server.url()).expect("a URL"));
        let mut conn = Conn::new(opts.prefer_socket(false)).await.expect("the server is up");
        conn.query_drop("CREATE DATABASE nothing_is_here").await.expect("made");
        conn.query_drop("USE nothing_is_here").await.expect("used");
        let token = FencingToken::from_number(7).expect("a token");
        match fencepost_mysql::fence::check(&mut conn, "report", token).await {
            Err(FenceError::Store(error)) => {
                assert_eq!(error.kind, StoreErrorKind::Misconfigured);
                assert!(error.message.contains("`fencepost schema --fence mysql`"), "{error}");
                assert!(!error.message.contains("fencepost init"), "{error}");
            }
            other => panic!("there is no table: {other:?}"),
        }
        conn.query_drop("DROP DATABASE nothing_is_here").await.expect("gone");
    });
}
