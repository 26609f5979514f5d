//! Deployments that cannot be good, and what an examination says of each: that, and nothing else.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::Place;
use fencepost_core::doctor::{Report, Severity};
use fencepost_testkit::findings::{bad, finding};
use fencepost_testkit::mariadb::MariaDb;
use fencepost_testkit::ports::free_port;
use fencepost_testkit::sql::{SqlPlace, assert_good};
use fencepost_testkit::wait::until;

fn examined(url: &str) -> Report {
    let (scheme, rest) = url.split_once(':').expect("a URL");
    fencepost_mysql::examine(scheme, rest, Duration::from_secs(30)).expect("a URL of ours")
}

/// A server that forgets nothing, with our tables.
fn good(more: &[&str]) -> Place {
    let kept = MariaDb::new().with("--innodb-flush-log-at-trx-commit=1");
    Place::on(Arc::new(more.iter().fold(kept, |recipe, option| recipe.with(option)).start()))
}

#[test]
fn a_good_database_has_no_warning() {
    let place = good(&[]);
    assert_good(&place, &examined(&place.url()));
}

#[test]
fn a_database_that_is_not_there() {
    assert_eq!(bad(&examined(&format!("mysql://me@127.0.0.1:{}/x", free_port()))), ["error unreachable"]);
}

#[test]
fn tables_that_are_missing_or_no_tables_of_transactions() {
    let place = good(&[]);
    assert_eq!(bad(&examined(&format!("{}?tables=others", place.server.url()))), ["error schema"]);
    place.session().run(&format!("ALTER TABLE {} ENGINE=MyISAM", place.table("locks")));
    let report = examined(&place.url());
    assert_eq!(bad(&report), ["error engine"]);
    assert!(finding(&report, "engine").evidence.contains("MyISAM"), "{report:?}");
}

#[test]
fn a_database_that_forgets() {
    let place = good(&["--innodb-flush-log-at-trx-commit=2"]);
    assert_eq!(bad(&examined(&place.url())), ["warning durability"]);
    let logging = good(&["--log-bin=binlog", "--server-id=1", "--sync-binlog=0"]);
    let report = examined(&logging.url());
    assert_eq!(bad(&report), [""; 0]);
    assert_eq!(finding(&report, "binlog").severity, Severity::Notice);
}

#[test]
fn a_database_that_only_reads() {
    let place = good(&[]);
    place.session().run("SET GLOBAL read_only = 1");
    assert_eq!(bad(&examined(&place.url())), ["error replica"]);
}

#[test]
fn transactions_that_wait_for_a_row() {
    let place = good(&[]);
    let (keeper, waiter) = (place.session(), place.session());
    // Used just now: one that nobody used for days would be cleaned away by whoever connects.
    let values = "('x', 0, UNIX_TIMESTAMP() * 1000000)";
    keeper.run(&format!("INSERT INTO {} (name, newest_token, used_us) VALUES {values}", place.table("locks")));
    keeper.run("BEGIN");
    let lock = format!("SELECT 1 FROM {} WHERE name = X'78' FOR UPDATE", place.table("locks"));
    keeper.number(&lock);
    std::thread::scope(|scope| {
        let wait = lock.clone();
        scope.spawn(move || waiter.number(&wait));
        let look = place.session();
        // Not from the table of transactions, which stays as it is while somebody reads it again and again.
        let waits = "SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM information_schema.GLOBAL_STATUS \
                     WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'";
        until("it waits", || look.number(waits) == 1);
        let report = examined(&place.url());
        keeper.run("COMMIT");
        assert_eq!(bad(&report), ["warning lock-waits"], "{report:#?}");
    });
}

#[test]
fn connections_that_are_nearly_all_taken() {
    let place = good(&["--max-connections=20"]);
    let taken: Vec<_> = (0..18).map(|_| place.session()).collect();
    let report = examined(&place.url());
    drop(taken);
    assert_eq!(bad(&report), ["warning connections"], "{report:#?}");
}

#[test]
fn rights_that_are_missing() {
    let place = good(&[]);
    let session = place.session();
    // In a new server everybody may write to the database `test`.
    session.run("DELETE FROM mysql.db");
    session.run("FLUSH PRIVILEGES");
    session.run("CREATE USER reader@'127.0.0.1'");
    session.run("GRANT SELECT ON test.* TO reader@'127.0.0.1'");
    let report = examined(&place.url().replace("root@", "reader@"));
    assert_eq!(bad(&report), ["error rights"], "{report:#?}");
}
