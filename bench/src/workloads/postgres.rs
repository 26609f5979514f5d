//! PostgreSQL without contention and with one waiter, beside the statements that nobody can do without.

use std::time::Duration;

use fencepost::{Blocking, Locks, connect, init};
use fencepost_testkit::postgres::Postgres;
use fencepost_testkit::server::Server;
use futures_util::future::{try_join, try_join3, try_join4};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

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
const NOTIFIED: &str = "commit + NOTIFY to another connection, after 20 ms of rest, p50";

/// In one round ours and the raw statements have so many turns of so many pairs.
const TURNS: usize = 10;
const PAIRS: usize = 20;
const LETTERS: usize = 50;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "postgres",
    about: "One pair on a free lock (fsync on), beside its statements by hand over a connection of the same kind: prepared, \
            pipelined, two round trips and one commit per step. From calling `release` to the return of the next \
            process's `acquire`, beside one commit with a NOTIFY that another connection hears.",
    rounds: 7,
    rows: || {
        vec![
            Row::new(PAIR, Unit::Nanos).against(RAW),
            Row::new(PAIR_P99, Unit::Nanos).against(RAW_P99),
            Row::new(RAW, Unit::Nanos),
            Row::new(RAW_P99, Unit::Nanos),
            Row::new(HAND_OVER, Unit::Nanos).against(NOTIFIED),
            Row::new(HAND_OVER_P99, Unit::Nanos),
            Row::new(NOTIFIED, Unit::Nanos),
        ]
    },
    prepare,
    work: turns::work,
};

fn prepare(_site: &Site) -> Outcome<Round> {
    let server = Postgres::new().with("fsync=on").start();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let url = server.url();
    init(&url).block()?;
    let locks = connect(&*url).block()?;
    let raw = runtime.block_on(Raw::new(&url))?;
    warm_up(&locks)?;
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
        let gaps = turns::between_processes(WORKLOAD.name, &url)?;
        readings.note(HAND_OVER, gaps.percentile(50));
        readings.note(HAND_OVER_P99, gaps.percentile(99));
        readings.note(NOTIFIED, letters(&runtime, &server)?.percentile(50));
        Ok(())
    }))
}

/// The store keeps statements at the server once it knows that no pooler stands between, which takes it a second.
fn warm_up(locks: &Locks) -> Outcome<()> {
    let began = now();
    while now() - began < 3_000_000_000 {
        turns::pairs(locks, PAIRS, &mut Samples::default())?;
    }
    Ok(())
}

/// What whoever writes such a lock by hand would send, on a connection of its own.
struct Raw {
    client: Client,
    lock: Statement,
    holders: Statement,
    line: Statement,
    hold: Statement,
    drop: Statement,
    touch: Statement,
}

impl Raw {
    async fn new(url: &str) -> Outcome<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let tables = "CREATE TABLE raw_locks (name text PRIMARY KEY, last_token int8 NOT NULL, used_us int8 NOT NULL);
             CREATE TABLE raw_holders (name text, owner text, token int8, until_us int8, label text, PRIMARY KEY (name, owner));
             CREATE TABLE raw_waiters (name text, owner text, ticket int8, PRIMARY KEY (name, owner));
             CREATE INDEX ON raw_waiters (name, ticket, owner);
             INSERT INTO raw_locks VALUES ('pair', 0, 0)";
        client.batch_execute(tables).await?;
        let clock = "(extract(epoch FROM clock_timestamp()) * 1000000)::int8";
        let lock = client.prepare("SELECT last_token FROM raw_locks WHERE name = $1 FOR UPDATE").await?;
        let holders = client.prepare("SELECT owner, token, until_us, label FROM raw_holders WHERE name = $1").await?;
        let line =
            format!("SELECT {clock}, (SELECT owner FROM raw_waiters WHERE name = $1 ORDER BY ticket, owner LIMIT 1)");
        let line = client.prepare(&line).await?;
        let hold = client.prepare("INSERT INTO raw_holders VALUES ($1, $2, $3, $4, $5)").await?;
        let drop = client.prepare("DELETE FROM raw_holders WHERE name = $1 AND owner = $2").await?;
        let touch = client.prepare("UPDATE raw_locks SET last_token = $2, used_us = $3 WHERE name = $1").await?;
        Ok(Self { lock, holders, line, hold, drop, touch, client })
    }

    fn pairs(&self, runtime: &Runtime, count: usize, samples: &mut Samples) -> Outcome<()> {
        for _ in 0..count {
            let began = now();
            runtime.block_on(self.pair())?;
            samples.extend([now() - began]);
        }
        Ok(())
    }

    async fn pair(&self) -> Result<(), tokio_postgres::Error> {
        let (client, name, owner) = (&self.client, "pair", "0123456789012345678901234567890123456789");
        let last = self.begin(name).await?;
        let row: [&(dyn tokio_postgres::types::ToSql + Sync); 5] = [&name, &owner, &(last + 1), &last, &"a label"];
        let touched: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&name, &(last + 1), &last];
        let (hold, touch) = (client.execute(&self.hold, &row), client.execute(&self.touch, &touched));
        try_join(try_join(hold, touch), client.batch_execute("COMMIT")).await?;
        self.begin(name).await?;
        let gone: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&name, &owner];
        let (drop, touch) = (client.execute(&self.drop, &gone), client.execute(&self.touch, &touched));
        try_join(try_join(drop, touch), client.batch_execute("COMMIT")).await?;
        Ok(())
    }

    async fn begin(&self, name: &str) -> Result<i64, tokio_postgres::Error> {
        let (client, key): (_, [&(dyn tokio_postgres::types::ToSql + Sync); 1]) = (&self.client, [&name]);
        let begin = "BEGIN; SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '2s'";
        let (_, row, _, _) = try_join4(
            client.batch_execute(begin),
            client.query_one(&self.lock, &key),
            client.query(&self.holders, &key),
            client.query_one(&self.line, &key),
        )
        .await?;
        Ok(row.get(0))
    }
}

/// From sending a commit with a NOTIFY to hearing it on another connection.
fn letters(runtime: &Runtime, server: &Server<Postgres>) -> Outcome<Samples> {
    runtime.block_on(async {
        let (writer, connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
        tokio::spawn(connection);
        let (reader, mut connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
        let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if matches!(message, AsyncMessage::Notification(_)) {
                    let _ = heard.send(now());
                }
            }
        });
        reader.batch_execute("LISTEN raw").await?;
        let touch = writer.prepare("UPDATE raw_locks SET used_us = $1 WHERE name = 'pair'").await?;
        let mut samples = Samples::default();
        for number in 0..LETTERS as i64 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let began = now();
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&number];
            let (begin, change) = (writer.batch_execute("BEGIN"), writer.execute(&touch, &params));
            try_join3(begin, change, writer.batch_execute("NOTIFY raw, 'x'; COMMIT")).await?;
            let at = hears.recv().await.ok_or("the connection was closed")?;
            samples.extend([at - began]);
        }
        Ok(samples)
    })
}
