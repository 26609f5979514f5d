//! PostgreSQL without contention and with one waiter, beside the statements that nobody can do without.

use std::time::Duration;

use fencepost::{Blocking, Locks, connect, init};
use fencepost_testkit::postgres::Postgres;
use fencepost_testkit::server::Server;
use futures_util::future::try_join3;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

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
const NOTIFIED: &str = "commit + NOTIFY to another connection, after 20 ms of rest, p50";

/// In one round ours and the raw statements have so many turns of so many pairs.
const TURNS: usize = 10;
const PAIRS: usize = 20;
const LETTERS: usize = 50;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "postgres",
    about: "One pair on a free lock (fsync on), beside the least that a lease with a token takes by hand over a connection \
            of the same kind: one upsert that takes it and mints the token, one update that frees it if it is still the \
            owner's, both prepared, each a commit of its own; in a program whose connections have a thread of their own, and in one that has only one thread. From calling `release` to the return of the next \
            process's `acquire`, beside one commit with a NOTIFY that another connection hears.",
    rounds: 7,
    rows: || {
        vec![
            Row::new(PAIR, Unit::Nanos).against(RAW).goal(Goal::RatioAtMost(1.2)),
            Row::new(PAIR_P99, Unit::Nanos).against(RAW_P99),
            Row::new(RAW, Unit::Nanos),
            Row::new(RAW_P99, Unit::Nanos),
            Row::new(ALONE, Unit::Nanos),
            Row::new(HAND_OVER, Unit::Nanos).against(NOTIFIED).goal(Goal::RatioAtMost(3.0)),
            Row::new(HAND_OVER_P99, Unit::Nanos),
            Row::new(NOTIFIED, Unit::Nanos),
        ]
    },
    prepare,
    work: turns::work,
};

fn prepare(_site: &Site) -> Outcome<Round> {
    let server = Postgres::new().with("fsync=on").start();
    // As ours, and as in most programs: connections are read from by a thread of their own.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let one_thread = Builder::new_current_thread().enable_all().build()?;
    let url = server.url();
    init(&url).block()?;
    let locks = connect(&*url).block()?;
    let raw = runtime.block_on(Raw::new(&url))?;
    let raw_alone = one_thread.block_on(Raw::new(&url))?;
    warm_up(&locks)?;
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
        let gaps = turns::between_processes(WORKLOAD.name, &url)?;
        readings.note(HAND_OVER, gaps.percentile(50));
        readings.note(HAND_OVER_P99, gaps.percentile(99));
        readings.note(NOTIFIED, letters(&one_thread, &server)?.percentile(50));
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

/// The least that whoever writes a lease with a token by hand would send, on a connection of its own: one upsert that takes
/// it if it is free or over and mints the token, one update that frees it if it is still the owner's. Each commits by itself.
struct Raw {
    client: Client,
    take: Statement,
    free: Statement,
}

impl Raw {
    async fn new(url: &str) -> Outcome<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let table =
            "CREATE TABLE IF NOT EXISTS raw_locks (name text PRIMARY KEY, owner text, token int8 NOT NULL, until_us int8 NOT NULL,
             label text) WITH (fillfactor = 70); SET plan_cache_mode = force_generic_plan";
        client.batch_execute(table).await?;
        let now_us = "(extract(epoch FROM clock_timestamp()) * 1000000)::int8";
        let take = format!(
            "INSERT INTO raw_locks AS held (name, owner, token, until_us, label)
             VALUES ($1, $2, {now_us}, {now_us} + $3, $4)
             ON CONFLICT (name) DO UPDATE SET owner = $2, token = greatest(held.token + 1, excluded.token),
                 until_us = excluded.until_us, label = $4
             WHERE held.owner IS NULL OR held.until_us <= {now_us} RETURNING token"
        );
        let free = format!("UPDATE raw_locks SET owner = NULL WHERE name = $1 AND owner = $2 AND until_us > {now_us}");
        let (take, free) = (client.prepare(&take).await?, client.prepare(&free).await?);
        Ok(Self { client, take, free })
    }

    fn pairs(&self, runtime: &Runtime, count: usize, samples: &mut Samples) -> Outcome<()> {
        for _ in 0..count {
            let began = now();
            runtime.block_on(self.pair())?;
            samples.extend([now() - began]);
        }
        Ok(())
    }

    async fn pair(&self) -> Outcome<()> {
        let (name, owner, ttl_us) = ("pair", "0123456789012345678901234567890123456789", 30_000_000_i64);
        let taken = self.client.query_one(&self.take, &[&name, &owner, &ttl_us, &"a label"]).await?;
        if taken.get::<_, i64>(0) == 0 || self.client.execute(&self.free, &[&name, &owner]).await? != 1 {
            return Err("somebody else had it".into());
        }
        Ok(())
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
        let touch = writer.prepare("UPDATE raw_locks SET until_us = $1 WHERE name = 'pair'").await?;
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
