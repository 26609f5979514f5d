//! MariaDB without contention and with one waiter, beside the statements that nobody can do without.

use fencepost::{Blocking, connect, init};
use fencepost_testkit::mariadb::MariaDb;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Statement};
use tokio::runtime::{Builder, Runtime};

use super::turns;
use crate::Outcome;
use crate::process::now;
use crate::runner::{Goal, Readings, Round, Row, Samples, Unit, Workload};
use crate::site::Site;

const PAIR: &str = "acquire + release, p50";
const PAIR_P99: &str = "acquire + release, p99";
const RAW: &str = "the raw statements by hand, p50";
const RAW_P99: &str = "the raw statements by hand, p99";
const ALONE: &str = "the same in a program of one thread, p50";
const HAND_OVER: &str = "hand-over, 2 processes, p50";
const HAND_OVER_P99: &str = "hand-over, 2 processes, p99";

/// In one round ours and the raw statements have so many turns of so many pairs.
const TURNS: usize = 10;
const PAIRS: usize = 20;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "mysql",
    about: "One pair on a free lock on MariaDB (`innodb_flush_log_at_trx_commit` 1), beside the least that a \
            lease with a token takes by hand over a connection of the same kind: one upsert that takes it and mints the \
            token, one update that frees it if it is still the owner's, both prepared, each a commit of its own; in a program whose connections have a thread of their own, and in one that has only one thread. From calling `release` to the return of \
            the next process's `acquire`, which polls.",
    rounds: 7,
    rows: || {
        vec![
            Row::new(PAIR, Unit::Nanos).against(RAW).goal(Goal::RatioAtMost(1.2)),
            Row::new(PAIR_P99, Unit::Nanos).against(RAW_P99),
            Row::new(RAW, Unit::Nanos),
            Row::new(RAW_P99, Unit::Nanos),
            Row::new(ALONE, Unit::Nanos),
            Row::new(HAND_OVER, Unit::Nanos),
            Row::new(HAND_OVER_P99, Unit::Nanos),
        ]
    },
    prepare,
    work: turns::work,
};

fn prepare(_site: &Site) -> Outcome<Round> {
    let server = MariaDb::new().with("--innodb-flush-log-at-trx-commit=1").start();
    // As ours, and as in most programs: connections are read from by a thread of their own.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let one_thread = Builder::new_current_thread().enable_all().build()?;
    let url = server.url();
    init(&url).block()?;
    let locks = connect(&*url).block()?;
    let mut raw = runtime.block_on(Raw::new(&url))?;
    let mut raw_alone = one_thread.block_on(Raw::new(&url))?;
    turns::pairs(&locks, 10 * PAIRS, &mut Samples::default())?;
    Ok(Box::new(move |readings: &mut Readings| {
        let [mut ours, mut floor, mut alone] = [(); 3].map(|()| Samples::default());
        for _ in 0..TURNS {
            turns::pairs(&locks, PAIRS, &mut ours)?;
            raw.pairs(&runtime, PAIRS, &mut floor)?;
            raw_alone.pairs(&one_thread, PAIRS, &mut alone)?;
        }
        readings.note(PAIR, ours.percentile(50));
        readings.note(PAIR_P99, ours.percentile(99));
        readings.note(RAW, floor.percentile(50));
        readings.note(RAW_P99, floor.percentile(99));
        readings.note(ALONE, alone.percentile(50));
        let gaps = turns::between_processes(WORKLOAD.name, &server.url())?;
        readings.note(HAND_OVER, gaps.percentile(50));
        readings.note(HAND_OVER_P99, gaps.percentile(99));
        Ok(())
    }))
}

/// The least that whoever writes a lease with a token by hand would send, on a connection of its own: one upsert that takes
/// it if it is free or over and mints the token, one update that frees it if it is still the owner's. Each commits by itself.
struct Raw {
    conn: Conn,
    take: Statement,
    free: Statement,
}

impl Raw {
    async fn new(url: &str) -> Outcome<Self> {
        let opts = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false);
        let mut conn = Conn::new(opts).await?;
        conn.query_drop(
            "CREATE TABLE IF NOT EXISTS raw_locks (name VARBINARY(255) PRIMARY KEY, owner CHAR(40), token BIGINT NOT NULL, \
             until_us BIGINT NOT NULL, label VARCHAR(255))",
        )
        .await?;
        let now_us = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)";
        // From left to right: the owner is written first, and the others go by it.
        let take = format!(
            "INSERT INTO raw_locks (name, owner, token, until_us, label) VALUES (?, ?, LAST_INSERT_ID({now_us}), {now_us} + ?, ?) \
             ON DUPLICATE KEY UPDATE owner = IF(owner IS NULL OR until_us <= {now_us}, VALUES(owner), owner), \
             token = IF(owner = VALUES(owner), LAST_INSERT_ID(GREATEST(token + 1, VALUES(token))), token), \
             until_us = IF(owner = VALUES(owner), VALUES(until_us), until_us), \
             label = IF(owner = VALUES(owner), VALUES(label), label)"
        );
        let free = format!("UPDATE raw_locks SET owner = NULL WHERE name = ? AND owner = ? AND until_us > {now_us}");
        let (take, free) = (conn.prep(take).await?, conn.prep(free).await?);
        Ok(Self { conn, take, free })
    }

    fn pairs(&mut self, runtime: &Runtime, count: usize, samples: &mut Samples) -> Outcome<()> {
        for _ in 0..count {
            let began = now();
            runtime.block_on(self.pair())?;
            samples.extend([now() - began]);
        }
        Ok(())
    }

    async fn pair(&mut self) -> Outcome<()> {
        let (name, owner, ttl_us) = ("pair", "0123456789012345678901234567890123456789", 30_000_000_i64);
        self.conn.exec_drop(&self.take, (name, owner, ttl_us, "a label")).await?;
        let token = self.conn.last_insert_id();
        self.conn.exec_drop(&self.free, (name, owner)).await?;
        match token.is_some() && self.conn.affected_rows() == 1 {
            true => Ok(()),
            false => Err("somebody else had it".into()),
        }
    }
}
