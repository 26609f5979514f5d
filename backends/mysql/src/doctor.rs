//! What can go wrong with MySQL and MariaDB.

use std::time::Duration;

use fencepost_core::doctor::{Report, Severity};
use fencepost_core::store::StoreError;
use fencepost_sql::{Database, Examine, Failure};
use mysql_async::Conn;

use crate::database::{MySql, sets};

/// Looks at the database of `SCHEME:REST`, which keeps locks of this ttl. Takes a moment, and blocks.
///
/// # Errors
/// If the URL cannot be used.
pub fn examine(scheme: &str, rest: &str, ttl: Duration) -> Result<Report, StoreError> {
    fencepost_sql::examine(|| MySql::new(scheme, rest), ttl)
}

/// Everything that a server tells to anybody, as text.
const SERVER: &str = "SELECT CAST(VERSION() AS CHAR), CAST(@@global.read_only AS CHAR), \
     CAST(@@global.innodb_flush_log_at_trx_commit AS CHAR), CAST(@@global.max_connections AS CHAR), \
     CAST(@@global.log_bin AS CHAR), CAST(@@global.sync_binlog AS CHAR)";
const CONNECTIONS: &str = "SHOW GLOBAL STATUS LIKE 'Threads_connected'";
/// The isolation that others get. Its name differs between the two kinds of server.
const ISOLATION: &str = "SHOW GLOBAL VARIABLES WHERE variable_name IN ('transaction_isolation', 'tx_isolation')";
/// What transactions do that wait for a row for more than a second; the seconds are whole ones. Who may not see them is not
/// told.
const WAITING: &str = "SELECT CAST(client.info AS CHAR) FROM information_schema.innodb_trx AS waiting \
     JOIN information_schema.processlist AS client ON client.id = waiting.trx_mysql_thread_id \
     WHERE waiting.trx_state = 'LOCK WAIT' AND client.time >= 2";
/// Who follows it, by its newer name and by its older one.
const FOLLOWERS: [&str; 2] = ["SHOW REPLICA HOSTS", "SHOW SLAVE HOSTS"];
/// Whether a commit waits for one of them.
const IN_STEP: &str = "SHOW GLOBAL STATUS WHERE variable_name IN \
     ('Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status') AND value = 'ON'";

impl Examine for MySql {
    fn scope(&self) -> String {
        "every process that uses these tables of this database".to_owned()
    }

    async fn look_at(&self, link: &mut Conn, report: &mut Report) -> Result<(), Failure> {
        let place = self.label();
        let server = texts(link, SERVER).await?;
        let text = |column: usize| server.first().and_then(|row| row.get(column)).map_or("", String::as_str);
        report.fact(&place, "version", text(0));
        if let Some(isolation) = texts(link, ISOLATION).await?.first().and_then(|row| row.get(1)) {
            report.fact(&place, "isolation", format!("{isolation} by default; steps are READ-COMMITTED"));
        }
        if is_on(text(1)) {
            let cure = "name the primary: a replica takes no writes, and what administrators write there is lost";
            report.find(
                Severity::Error,
                "replica",
                &place,
                "read_only is on: it is a replica, or wants no writes",
                cure,
            );
            return Ok(());
        }
        if text(2) != "1" {
            let evidence =
                format!("innodb_flush_log_at_trx_commit is {}: a crash forgets the locks of a second", text(2));
            report.find(Severity::Warning, "durability", &place, evidence, "set it to 1");
        }
        if is_on(text(4)) && text(5) != "1" {
            let evidence = format!(
                "sync_binlog is {}: after a crash the replicas may know of locks that it forgot, or not",
                text(5)
            );
            report.find(Severity::Notice, "binlog", &place, evidence, "set it to 1");
        }
        let taken = texts(link, CONNECTIONS).await?;
        let taken = taken.first().and_then(|row| row.get(1)).and_then(|text| text.parse().ok()).unwrap_or(0);
        report.judge_connections(&place, taken, text(3).parse().unwrap_or(0), "max_connections");
        // Tables that are not there yet are told of later.
        let making = texts(link, &self.statements.making()).await.unwrap_or_default();
        let making = making.first().and_then(|row| row.get(1)).map_or("", String::as_str);
        let engine = making.split_once("ENGINE=").and_then(|(_, rest)| rest.split_whitespace().next());
        if let Some(engine) = engine.filter(|engine| !engine.eq_ignore_ascii_case("innodb")) {
            let evidence = format!("its tables have the engine {engine}, which knows no transactions");
            report.find(Severity::Error, "engine", &place, evidence, "ALTER TABLE … ENGINE=InnoDB, each of them");
        }
        self.judge_waits(&place, link, report).await;
        judge_followers(&place, link, report).await;
        Ok(())
    }
}

impl MySql {
    async fn judge_waits(&self, place: &str, link: &mut Conn, report: &mut Report) {
        let ours = self.statements.locks();
        // Who may not look at others is not told of them.
        let waiting = texts(link, WAITING).await.unwrap_or_default();
        let waiting = waiting.iter().flatten().filter(|statement| statement.contains(&ours)).count();
        if waiting > 0 {
            let evidence = format!(
                "{waiting} transactions wait for rows of ours that another one keeps locked, for a second or more"
            );
            let cure = "find what keeps them in information_schema.innodb_trx; if it has been left behind, end it";
            report.find(Severity::Warning, "lock-waits", place, evidence, cure);
        }
    }
}

/// Replicas that hear of a lock later than its holder.
async fn judge_followers(place: &str, link: &mut Conn, report: &mut Report) {
    let mut followers = Vec::new();
    for question in FOLLOWERS {
        // Not every server knows both, and not everybody may ask.
        if let Ok(found) = texts(link, question).await {
            followers = found;
            break;
        }
    }
    if followers.is_empty() || !texts(link, IN_STEP).await.unwrap_or_default().is_empty() {
        return;
    }
    let evidence = format!("{} replicas follow later than it answers: a failover may forget locks", followers.len());
    let cure =
        "let commits wait for a replica (semi-synchronous replication), or promote none before all leases are over";
    report.find(Severity::Warning, "failover", place, evidence, cure);
}

fn is_on(text: &str) -> bool {
    !matches!(text, "0" | "OFF" | "NO" | "")
}

/// The rows of one statement, as texts.
async fn texts(link: &mut Conn, statement: &str) -> Result<Vec<Vec<String>>, Failure> {
    let rows = sets(link, statement).await?.into_iter().flatten();
    let text = |value: Option<Option<String>>| value.flatten().unwrap_or_default();
    Ok(rows.map(|row| (0..row.len()).map(|column| text(row.get(column))).collect()).collect())
}
