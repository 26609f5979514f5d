//! Deployments that cannot be good, and what an examination says of each: that, and nothing else.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::Place;
use fencepost_core::doctor::{Report, Severity};
use fencepost_testkit::findings::{bad, finding};
use fencepost_testkit::mariadb::MariaDb;
use fencepost_testkit::ports::free_port;
use fencepost_testkit::preload::Clocks;
use fencepost_testkit::sql::{SqlPlace, assert_good};
use fencepost_testkit::wait::until;

const PASSWORD: &str = "canary-5ea1";

fn examined(url: &str) -> Report {
    let (scheme, rest) = url.split_once(':').expect("a URL");
    let report = fencepost_mysql::examine(scheme, rest, Duration::from_secs(30)).expect("a URL of ours");
    assert!(!format!("{report:?}").contains(PASSWORD), "a secret: {report:?}");
    report
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
    assert_eq!(bad(&examined(&format!("mysql://me:{PASSWORD}@127.0.0.1:{}/x", free_port()))), ["error unreachable"]);
}

#[test]
fn a_database_that_does_not_know_us() {
    let place = good(&[]);
    place.session().run(&format!("CREATE USER app@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'"));
    place.session().run("GRANT ALL ON test.* TO app@'127.0.0.1'");
    let url = |user: &str| place.url().replace("root@", &format!("{user}@"));
    assert_eq!(bad(&examined(&url(&format!("app:{PASSWORD}")))), [""; 0]);
    assert_eq!(bad(&examined(&url(&format!("app:{PASSWORD}x")))), ["error denied"]);
}

#[test]
fn clocks_that_are_apart() {
    for (behind, severity) in [(Duration::from_secs(3), "warning"), (Duration::from_secs(3600), "error")] {
        let clocks = Clocks::new();
        let recipe = MariaDb::new().with("--innodb-flush-log-at-trx-commit=1").preloaded(clocks.environment());
        let place = Place::on(Arc::new(recipe.start()));
        clocks.wall_behind(behind);
        assert_eq!(bad(&examined(&place.url())), [format!("{severity} clock")], "{behind:?}");
    }
}

#[test]
fn replicas_that_follow_late() {
    let place = good(&["--log-bin=binlog", "--server-id=1", "--sync-binlog=1"]);
    let replica = good(&["--server-id=2", "--replicate-ignore-db=test"]);
    let follow = format!("master_host='127.0.0.1', master_port={}, master_user='root'", place.server.port());
    replica.session().run(&format!("CHANGE MASTER TO {follow}"));
    replica.session().run("START SLAVE");
    let session = place.session();
    let followers = "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'";
    until("it follows", || session.number(followers) == 1);
    let report = examined(&place.url());
    assert_eq!(bad(&report), ["warning failover"], "{report:#?}");
    // One that is waited for is none of them.
    session.run("SET GLOBAL rpl_semi_sync_master_enabled = 1");
    let other = replica.session();
    other.run("SET GLOBAL rpl_semi_sync_slave_enabled = 1");
    other.run("STOP SLAVE");
    other.run("START SLAVE");
    until("it is waited for", || bad(&examined(&place.url())).is_empty());
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
        // Given back also if this fails, and with it the row.
        let (keeper, wait) = (keeper, &lock);
        scope.spawn(move || waiter.number(wait));
        until("it is told of", || bad(&examined(&place.url())) == ["warning lock-waits"]);
        keeper.run("COMMIT");
    });
}

/// That is the business of whoever has them.
#[test]
fn transactions_that_wait_for_a_row_of_others() {
    let place = good(&[]);
    let (keeper, waiter, look) = (place.session(), place.session(), place.session());
    keeper.run("CREATE TABLE others (id INT PRIMARY KEY) ENGINE=InnoDB");
    keeper.run("INSERT INTO others VALUES (1)");
    keeper.run("BEGIN");
    let lock = "SELECT id FROM others WHERE id = 1 FOR UPDATE";
    keeper.number(lock);
    std::thread::scope(|scope| {
        let keeper = keeper;
        scope.spawn(move || waiter.number(lock));
        let long = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%FROM others%' AND time >= 2 \
                    AND id <> CONNECTION_ID()";
        until("it has waited for long", || look.number(long) == 1);
        let report = examined(&place.url());
        keeper.run("COMMIT");
        assert_eq!(bad(&report), [""; 0], "{report:#?}");
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
