//! MariaDB without contention and with one waiter, beside the statements that nobody can do without.

use fencepost::{Blocking, connect, init};
use fencepost_testkit::mariadb::MariaDb;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use tokio::runtime::{Builder, Runtime};

use super::turns;
use crate::Outcome;
use crate::process::now;
use crate::runner::{Readings, Round, Row, Samples, Unit, Workload};
use crate::site::Site;

const PAIR: &str = "acquire + release, p50";
const PAIR_P99: &str = "acquire + release, p99";
const RAW: &str = "the raw statements by hand, p50";
const RAW_P99: &str = "the raw statements by hand, p99";
const HAND_OVER: &str = "hand-over, 2 processes, p50";
const HAND_OVER_P99: &str = "hand-over, 2 processes, p99";

/// In one round ours and the raw statements have so many turns of so many pairs.
const TURNS: usize = 10;
const PAIRS: usize = 20;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "mysql",
    about: "One pair on a free lock on MariaDB (`innodb_flush_log_at_trx_commit` 1), beside its statements by hand over a \
            connection of the same kind: two packets and one commit per step. From calling `release` to the return of \
            the next process's `acquire`, which polls.",
    rounds: 7,
    rows: || {
        vec![
            Row::new(PAIR, Unit::Nanos).against(RAW),
            Row::new(PAIR_P99, Unit::Nanos).against(RAW_P99),
            Row::new(RAW, Unit::Nanos),
            Row::new(RAW_P99, Unit::Nanos),
            Row::new(HAND_OVER, Unit::Nanos),
            Row::new(HAND_OVER_P99, Unit::Nanos),
        ]
    },
    prepare,
    work: turns::work,
};

fn prepare(_site: &Site) -> Outcome<Round> {
    let server = MariaDb::new().with("--innodb-flush-log-at-trx-commit=1").start();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let url = server.url();
    init(&url).block()?;
    let locks = connect(&*url).block()?;
    let mut raw = runtime.block_on(Raw::new(&url))?;
    turns::pairs(&locks, 10 * PAIRS, &mut Samples::default())?;
    Ok(Box::new(move |readings: &mut Readings| {
        let (mut ours, mut floor) = (Samples::default(), Samples::default());
        for _ in 0..TURNS {
            turns::pairs(&locks, PAIRS, &mut ours)?;
            raw.pairs(&runtime, PAIRS, &mut floor)?;
        }
        readings.note(PAIR, ours.percentile(50));
        readings.note(PAIR_P99, ours.percentile(99));
        readings.note(RAW, floor.percentile(50));
        readings.note(RAW_P99, floor.percentile(99));
        let gaps = turns::between_processes(WORKLOAD.name, &server.url())?;
        readings.note(HAND_OVER, gaps.percentile(50));
        readings.note(HAND_OVER_P99, gaps.percentile(99));
        Ok(())
    }))
}

/// What whoever writes such a lock by hand would send, on a connection of its own.
struct Raw(Conn);

impl Raw {
    async fn new(url: &str) -> Outcome<Self> {
        let opts = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false);
        let mut conn = Conn::new(opts).await?;
        for table in [
            "CREATE TABLE raw_locks (name VARBINARY(255) PRIMARY KEY, last_token BIGINT NOT NULL, used_us BIGINT NOT NULL)",
            "CREATE TABLE raw_holders (name VARBINARY(255), owner CHAR(40), token BIGINT, until_us BIGINT, \
             label VARCHAR(255), PRIMARY KEY (name, owner))",
            "CREATE TABLE raw_waiters (name VARBINARY(255), owner CHAR(40), ticket BIGINT, PRIMARY KEY (name, owner), \
             INDEX (name, ticket, owner))",
            "INSERT INTO raw_locks VALUES ('pair', 0, 0)",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        ] {
            conn.query_drop(table).await?;
        }
        Ok(Self(conn))
    }

    fn pairs(&mut self, runtime: &Runtime, count: usize, samples: &mut Samples) -> Outcome<()> {
        for _ in 0..count {
            let began = now();
            runtime.block_on(self.pair())?;
            samples.extend([now() - began]);
        }
        Ok(())
    }

    async fn pair(&mut self) -> mysql_async::Result<()> {
        let owner = "0123456789012345678901234567890123456789";
        let last = self.begin().await?;
        let token = last + 1;
        let (hold, touch) = (
            format!("INSERT INTO raw_holders VALUES ('pair', '{owner}', {token}, {last}, 'a label')"),
            format!("UPDATE raw_locks SET last_token = {token}, used_us = {token} WHERE name = 'pair'"),
        );
        self.0.query_drop(format!("{hold}; {touch}; COMMIT")).await?;
        self.begin().await?;
        let (drop, touch) = (
            format!("DELETE FROM raw_holders WHERE name = 'pair' AND owner = '{owner}'"),
            format!("UPDATE raw_locks SET last_token = {token}, used_us = {token} + 1 WHERE name = 'pair'"),
        );
        self.0.query_drop(format!("{drop}; {touch}; COMMIT")).await
    }

    async fn begin(&mut self) -> mysql_async::Result<i64> {
        let text = "START TRANSACTION; SELECT last_token FROM raw_locks WHERE name = 'pair' FOR UPDATE; \
                    SELECT owner, token, until_us, label FROM raw_holders WHERE name = 'pair'; \
                    SELECT NOW(6), (SELECT owner FROM raw_waiters WHERE name = 'pair' ORDER BY ticket, owner LIMIT 1)";
        let mut result = self.0.query_iter(text).await?;
        let mut last = 0;
        let mut set = 0;
        while !result.is_empty() {
            let rows: Vec<mysql_async::Row> = result.collect().await?;
            if set == 1 {
                last = rows.first().and_then(|row| row.get(0)).unwrap_or_default();
            }
            set += 1;
        }
        Ok(last)
    }
}
