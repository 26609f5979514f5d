//! Deployments that cannot be good, and what an examination says of each: that, and nothing else.

mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::{Place, Sql};
use fencepost_core::doctor::Report;
use fencepost_testkit::findings::{bad, finding};
use fencepost_testkit::pgbouncer::PgBouncer;
use fencepost_testkit::ports::free_port;
use fencepost_testkit::postgres::Postgres;
use fencepost_testkit::preload::Clocks;
use fencepost_testkit::server::find;
use fencepost_testkit::sql::{Session, SqlPlace, assert_good};
use fencepost_testkit::wait::until;

const PASSWORD: &str = "canary-9c4e";

fn examined(url: &str) -> Report {
    let (scheme, rest) = url.split_once(':').expect("a URL");
    let report = fencepost_postgres::examine(scheme, rest, Duration::from_secs(30)).expect("a URL of ours");
    assert!(!format!("{report:?}").contains(PASSWORD), "a secret: {report:?}");
    report
}

/// A server that forgets nothing, with our tables.
fn good(more: &[&str]) -> Place {
    let recipe = more.iter().fold(Postgres::new().with("fsync=on"), |recipe, option| recipe.with(option));
    Place::on(Arc::new(recipe.start()))
}

#[test]
fn a_good_database_has_no_warning() {
    let place = good(&[]);
    assert_good(&place, &examined(&place.url()));
}

#[test]
fn a_database_that_is_not_there() {
    assert_eq!(bad(&examined(&format!("postgres://me:{PASSWORD}@127.0.0.1:{}/x", free_port()))), ["error unreachable"]);
}

#[test]
fn a_database_that_does_not_know_us() {
    let place = good(&[]);
    let session = place.session();
    session.run(&format!("CREATE USER app PASSWORD '{PASSWORD}'"));
    for ending in ["locks", "holders", "waiters", "revoked", "records", "meta"] {
        session.run(&format!("GRANT ALL ON {} TO app", place.table(ending)));
    }
    fs::write(
        place.server.folder().join("data/pg_hba.conf"),
        "host all app all scram-sha-256\nhost all all all trust\n",
    )
    .expect("its own file");
    session.run("SELECT pg_reload_conf()");
    let url = |user: &str| place.url().replace("postgres@", &format!("{user}@"));
    until("it asks who we are", || bad(&examined(&url(&format!("app:{PASSWORD}x")))) == ["error denied"]);
    assert_eq!(bad(&examined(&url(&format!("app:{PASSWORD}")))), [""; 0]);
}

#[test]
fn clocks_that_are_apart() {
    for (behind, severity) in [(Duration::from_secs(3), "warning"), (Duration::from_secs(3600), "error")] {
        let clocks = Clocks::new();
        let place = Place::on(Arc::new(Postgres::new().with("fsync=on").preloaded(clocks.environment()).start()));
        clocks.wall_behind(behind);
        assert_eq!(bad(&examined(&place.url())), [format!("{severity} clock")], "{behind:?}");
    }
}

#[test]
fn tables_that_are_missing_or_old() {
    let place = good(&[]);
    let report = examined(&format!("{}?tables=others", place.server.url()));
    assert_eq!(bad(&report), ["error schema"]);
    assert!(finding(&report, "schema").cure.contains("fencepost init"), "{report:?}");
    place.session().run(&format!("UPDATE {} SET version = 1", place.table("meta")));
    assert_eq!(bad(&examined(&place.url())), ["error schema"]);
}

#[test]
fn a_database_that_forgets() {
    assert_eq!(bad(&examined(&good(&["fsync=off"]).url())), ["error durability"]);
    assert_eq!(bad(&examined(&good(&["synchronous_commit=off"]).url())), ["warning durability"]);
}

#[test]
fn a_database_that_wants_no_writes() {
    let place = good(&[]);
    place.session().run("ALTER DATABASE postgres SET default_transaction_read_only = on");
    assert_eq!(bad(&examined(&place.url())), ["warning read-only"]);
}

#[test]
fn a_standby() {
    let mut server = Postgres::new().with("fsync=on").start();
    server.stop();
    fs::write(server.folder().join("data/standby.signal"), "").expect("its own folder");
    server.restart();
    until("it lets us in", || !bad(&examined(&server.url())).contains(&"error unreachable".to_owned()));
    assert_eq!(bad(&examined(&server.url())), ["error replica"]);
}

/// Somebody follows who is not waited for.
#[test]
fn standbys_that_follow_late() {
    let place = good(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(find("pg_receivewal", "postgresql"));
    command
        .args(["-h", "127.0.0.1", "-p", &place.server.port().to_string(), "-U", "postgres", "-D"])
        .arg(folder.path());
    let mut follower = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let session = place.session();
    until("it follows", || session.number("SELECT count(*) FROM pg_stat_replication") == 1);
    let report = examined(&place.url());
    follower.kill().expect("our own child");
    follower.wait().expect("our own child");
    assert_eq!(bad(&report), ["warning failover"], "{report:#?}");
}

#[test]
fn a_pooler_that_lends_sessions() {
    let place = good(&[]);
    let pooler = PgBouncer::before(place.server.port());
    let url = place.url().replace(&place.server.address(), &pooler.address());
    assert_eq!(bad(&examined(&url)), ["warning pooler"]);
    assert_eq!(bad(&examined(&format!("{url}&listen=off"))), [""; 0]);
}

/// Then two connections that ask once each have two sessions, as without it.
#[test]
fn a_pooler_that_lends_many_sessions_in_turns() {
    let place = good(&[]);
    let pooler = PgBouncer::of(place.server.port()).in_turns().start();
    let clients: Vec<Sql> = (0..4).map(|_| Sql::to(&pooler.url())).collect();
    for end in ["BEGIN", "COMMIT"] {
        clients.iter().for_each(|client| client.run(end));
    }
    let url = place.url().replace(&place.server.address(), &pooler.address());
    assert_eq!(bad(&examined(&url)), ["warning pooler"]);
}

#[test]
fn sessions_that_wait_for_a_row() {
    let place = good(&[]);
    let (keeper, waiter) = (place.session(), place.session());
    // Used just now: one that nobody used for days would be cleaned away by whoever connects.
    let values = "('x', 0, (extract(epoch FROM now()) * 1000000)::int8)";
    let insert = format!("INSERT INTO {} (name, newest_token, used_us) VALUES {values}", place.table("locks"));
    keeper.run(&insert);
    keeper.run("BEGIN");
    let lock = format!("SELECT 1 FROM {} FOR UPDATE", place.table("locks"));
    keeper.run(&lock);
    std::thread::scope(|scope| {
        // Given back also if this fails, and with it the row.
        let (keeper, wait) = (keeper, &lock);
        scope.spawn(move || waiter.run(wait));
        until("it is told of", || bad(&examined(&place.url())) == ["warning lock-waits"]);
        keeper.run("COMMIT");
    });
}

/// That is the business of whoever has them.
#[test]
fn sessions_that_wait_for_a_row_of_others() {
    let place = good(&[]);
    let (keeper, waiter, look) = (place.session(), place.session(), place.session());
    keeper.run("CREATE TABLE others (id int PRIMARY KEY)");
    keeper.run("INSERT INTO others VALUES (1)");
    keeper.run("BEGIN");
    let lock = "SELECT 1 FROM others FOR UPDATE";
    keeper.run(lock);
    std::thread::scope(|scope| {
        let keeper = keeper;
        scope.spawn(move || waiter.run(lock));
        let long = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                    AND clock_timestamp() - query_start > interval '1 second'";
        until("it has waited for long", || look.number(long) == 1);
        let report = examined(&place.url());
        keeper.run("COMMIT");
        assert_eq!(bad(&report), [""; 0], "{report:#?}");
    });
}

#[test]
fn connections_that_are_nearly_all_taken() {
    let place = good(&["max_connections=20", "superuser_reserved_connections=1"]);
    let taken: Vec<_> = (0..13).map(|_| place.session()).collect();
    let report = examined(&place.url());
    drop(taken);
    assert_eq!(bad(&report), ["warning connections"], "{report:#?}");
}

#[test]
fn rights_that_are_missing() {
    let place = good(&[]);
    let session = place.session();
    session.run("CREATE USER reader");
    for ending in ["locks", "holders", "waiters", "revoked", "records", "meta"] {
        session.run(&format!("GRANT SELECT ON {} TO reader", place.table(ending)));
    }
    let report = examined(&place.url().replace("postgres@", "reader@"));
    assert_eq!(bad(&report), ["error rights"], "{report:#?}");
}

#[test]
fn it_can_be_asked_where_a_runtime_is() {
    let place = good(&[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let report = runtime.block_on(async { examined(&place.url()) });
    assert_eq!(bad(&report), [""; 0]);
}
