//! What can go wrong with PostgreSQL.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_core::doctor::{Report, Severity};
use fencepost_core::store::StoreError;
use fencepost_sql::{Database, Examine, Failure};

use crate::database::Postgres;
use crate::link::{Link, Value};

/// Looks at the database of `SCHEME:REST`, which keeps locks of this ttl. Takes a moment, and blocks.
///
/// # Errors
/// If the URL cannot be used.
pub fn examine(scheme: &str, rest: &str, ttl: Duration) -> Result<Report, StoreError> {
    fencepost_sql::examine(|| Postgres::new(scheme, rest), ttl)
}

/// Everything that a server tells to anybody, as text.
const SERVER: &str = "SELECT current_setting('server_version'), pg_is_in_recovery()::text, \
     current_setting('default_transaction_read_only'), current_setting('fsync'), current_setting('synchronous_commit'), \
     current_setting('default_transaction_isolation'), current_setting('max_connections'), \
     (SELECT count(*) FROM pg_stat_activity)::text, current_setting('synchronous_standby_names'), \
     (SELECT count(*) FROM pg_stat_replication)::text, current_setting('full_page_writes')";
/// Sessions that wait for a row of ours for more than a second: shorter waits are what locks are made of.
const WAITING: &str = "SELECT count(*)::text FROM pg_stat_activity \
     WHERE wait_event_type = 'Lock' AND pid <> pg_backend_pid() AND position($1 in query) > 0 \
     AND clock_timestamp() - query_start > interval '1 second'";
const SESSION: &str = "SELECT pg_backend_pid()::text";
/// How often each of two connections is asked which session it has.
const LOOKS: usize = 5;

impl Examine for Postgres {
    fn scope(&self) -> String {
        "every process that uses these tables of this database".to_owned()
    }

    async fn look_at(&self, link: &mut Link, report: &mut Report) -> Result<(), Failure> {
        let place = self.label();
        let rows = link.rows(SERVER, &[]).await?;
        let text = |column: usize| rows.first().map_or("", |row| row.get::<_, &str>(column));
        let number = |column: usize| text(column).parse::<u64>().unwrap_or(0);
        report.fact(&place, "version", format!("PostgreSQL {}", text(0)));
        report.fact(&place, "isolation", format!("{} by default; steps are read committed", text(5)));
        if text(1) == "true" {
            let cure = "name the primary: a standby takes no writes";
            report.find(Severity::Error, "replica", &place, "it is a standby", cure);
            return Ok(());
        }
        if text(2) == "on" {
            let evidence = "default_transaction_read_only is on: somebody wants no writes here";
            report.find(Severity::Warning, "read-only", &place, evidence, "find out why, or name another database");
        }
        judge_durability(&place, text(3), text(4), text(10), report);
        report.judge_connections(&place, number(7), number(6), "max_connections, or put a pooler before it");
        if text(8).is_empty() && number(9) > 0 {
            let evidence = format!("{} standbys follow later than it answers: a failover may forget locks", number(9));
            let cure = "set synchronous_standby_names, or promote none before all leases are over";
            report.find(Severity::Warning, "failover", &place, evidence, cure);
        }
        let tables = self.settings.tables.fill("{locks}");
        let waiting = link.rows(WAITING, &[Value::text(tables)]).await?;
        let waiting: u64 = waiting.first().and_then(|row| row.get::<_, &str>(0).parse().ok()).unwrap_or(0);
        if waiting > 0 {
            let evidence = format!(
                "{waiting} sessions wait for a row of ours that another transaction keeps locked, for more than a second"
            );
            let cure =
                "find what keeps it with pg_blocking_pids(); if it has been left behind (idle in transaction), end it";
            report.find(Severity::Warning, "lock-waits", &place, evidence, cure);
        }
        if self.settings.listen {
            self.judge_pooler(&place, link, report).await?;
        }
        Ok(())
    }
}

fn judge_durability(place: &str, fsync: &str, commit: &str, full_pages: &str, report: &mut Report) {
    let cure = "set it on again, and restart or reload the server";
    if fsync == "off" || full_pages == "off" {
        let name = if fsync == "off" { "fsync" } else { "full_page_writes" };
        let evidence = format!("{name} is off: a crash of the machine spoils the tables or forgets locks");
        report.find(Severity::Error, "durability", place, evidence, cure);
    } else if commit == "off" {
        let evidence = "synchronous_commit is off: a crash forgets the locks of the last moments";
        report.find(Severity::Warning, "durability", place, evidence, cure);
    }
}

impl Postgres {
    /// Two of our connections in one session of the server, or one of them in several: a pooler lends them out.
    async fn judge_pooler(&self, place: &str, link: &Link, report: &mut Report) -> Result<(), Failure> {
        let other = self.open().await?;
        let mut lent = [BTreeSet::new(), BTreeSet::new()];
        // In turns: a pooler that has many sessions gives us the same one only at times.
        for _ in 0..LOOKS {
            for (link, sessions) in [link, &other].into_iter().zip(&mut lent) {
                let rows = link.rows(SESSION, &[]).await?;
                sessions.extend(rows.first().map(|row| row.get::<_, String>(0)));
            }
        }
        let [mine, theirs] = lent;
        if mine.len() > 1 || theirs.len() > 1 || !mine.is_disjoint(&theirs) {
            let evidence = "a pooler lends sessions for a transaction each: NOTIFY does not arrive, so waiters look again and again";
            let cure = "go past the pooler, or use its session mode; `?listen=off` says that it is meant so";
            report.find(Severity::Warning, "pooler", place, evidence, cure);
        }
        Ok(())
    }
}
