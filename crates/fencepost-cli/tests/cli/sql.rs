//! The command on databases: tables are made by `init`, or by hand.

use fencepost_testkit::mariadb::MariaDb;
use fencepost_testkit::postgres::Postgres;

use crate::redis::works;
use crate::support::Place;

fn needs_init(store: &str) {
    let place = Place::new();
    let fencepost = |arguments: &[&str]| place.fencepost([&["--store", store], arguments].concat());
    fencepost(&["run", "x", "--", "true"]).end().with_code(78).saying("fencepost init");
    fencepost(&["init"]).end().with_code(0);
    fencepost(&["init"]).end().with_code(0);
    works(store);
}

#[test]
fn the_command_works_on_postgresql() {
    let server = Postgres::new().start();
    needs_init(&server.url());
}

#[test]
fn the_command_works_on_mariadb() {
    let server = MariaDb::new().start();
    needs_init(&server.url());
}

#[test]
fn the_schema_is_printed_with_the_names_that_were_chosen() {
    let place = Place::new();
    let schema = |arguments: &[&str]| place.fencepost([&["schema"], arguments].concat()).end();
    let postgres = schema(&["--schema", "a\"b", "--tables", "fp", "postgres"]).with_code(0);
    assert!(postgres.stdout.contains(r#"CREATE TABLE "a""b"."fp_locks""#), "{}", postgres.stdout);
    let mysql = schema(&["mysql"]).with_code(0);
    assert!(mysql.stdout.contains("CREATE TABLE IF NOT EXISTS `fencepost_holders`"), "{}", mysql.stdout);
    for dialect in ["postgres", "mysql", "sqlite"] {
        let fence = schema(&["--fence", dialect]).with_code(0);
        assert!(fence.stdout.contains("fencepost_fence"), "{}", fence.stdout);
        let stock = schema(&["--stock", dialect]).with_code(0);
        assert!(stock.stdout.contains("fencepost_reservations"), "{}", stock.stdout);
    }
    schema(&["sqlite"]).with_code(2).saying("first use");
    schema(&["--tables", "", "mysql"]).with_code(2).saying("1 to 50 bytes");
}

#[test]
fn a_database_that_cannot_be_reached_is_unreachable_and_no_password_is_shown() {
    let place = Place::new();
    for store in ["postgres://u:geheim@127.0.0.1:1/x", "mysql://u:geheim@127.0.0.1:1/x"] {
        let ended = place.fencepost(["--store", store, "run", "x", "--", "true"]).end().with_code(69);
        assert!(!ended.stderr.contains("geheim"), "{}", ended.stderr);
    }
    for store in
        ["postgres://u:geheim@h/x?pool=0", "mysql://u:geheim@h/x?nonsense=1", "postgres://u:geheim@h/x?nonsense=1"]
    {
        let ended = place.fencepost(["--store", store, "run", "x", "--", "true"]).end().with_code(78);
        assert!(!ended.stderr.contains("geheim"), "{}", ended.stderr);
    }
}
