//! Many waiters on one Redis lock: 64 tasks that lock, hold for a millisecond and unlock, in one process and in four.
//! Every round is also a check: two holders at once, or a token that does not rise, end the run.

use std::time::Duration;

use fencepost::{Blocking, connect, init};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
use rslock::LockManager;

use crate::Outcome;
use crate::process::{self, Worker, now, say};
use crate::runner::{Readings, Round, Row, Samples, Unit, Workload};

const TTL: Duration = Duration::from_secs(30);
const HOLD: Duration = Duration::from_millis(1);
const TASKS: usize = 64;
/// How long a round of one row goes; `FENCEPOST_BENCH_SECONDS` makes it longer.
const SECONDS: u64 = 4;

const ONE_RATE: &str = "to another waiter, 1 process";
const FOUR_RATE: &str = "to another waiter, 4 processes";
const PEER_RATE: &str = "rslock, to another waiter, 4 processes";
const ONE_GAP: &str = "unlock to next holder, 1 process, p50";
const FOUR_GAP: &str = "unlock to next holder, 4 processes, p50";
const FOUR_GAP_99: &str = "unlock to next holder, 4 processes, p99";
const FOUR_WAIT: &str = "a waiter's wait, 4 processes, p99 / p50, percent";
const ONE_JAIN: &str = "fairness (Jain index), 1 process, percent";
const FOUR_JAIN: &str = "fairness (Jain index), 4 processes, percent";
const PEER_JAIN: &str = "rslock, fairness, 4 processes, percent";

const ROWS: &[Row] = &[
    Row::new(ONE_RATE, Unit::PerSecond).against(&[PEER_RATE]),
    Row::new(FOUR_RATE, Unit::PerSecond).against(&[PEER_RATE]),
    Row::new(PEER_RATE, Unit::PerSecond),
    Row::new(ONE_GAP, Unit::Nanos),
    Row::new(FOUR_GAP, Unit::Nanos),
    Row::new(FOUR_GAP_99, Unit::Nanos),
    Row::new(FOUR_WAIT, Unit::Percent),
    Row::new(ONE_JAIN, Unit::Percent),
    Row::new(FOUR_JAIN, Unit::Percent),
    Row::new(PEER_JAIN, Unit::Percent),
];

pub(crate) const ONE: Workload = Workload {
    name: "contended-redis",
    about: "64 waiters on one lock, held for a millisecond each, one Redis server.",
    rounds: 3,
    rows: ROWS,
    prepare: |_| prepare(1, "contended-redis"),
    work,
};

pub(crate) const FIVE: Workload = Workload {
    name: "contended-redlock",
    about: "64 waiters on one lock, held for a millisecond each, a majority of five Redis servers.",
    rounds: 3,
    rows: ROWS,
    prepare: |_| prepare(5, "contended-redlock"),
    work,
};

fn prepare(count: usize, workload: &'static str) -> Outcome<Round> {
    let servers: Vec<Server<Redis>> = (0..count).map(|_| Redis::new().start()).collect();
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let url = format!("{}://{}", if count == 1 { "redis" } else { "redlock" }, addresses.join(","));
    init(&url).block()?;
    let peer = addresses.join(",");
    Ok(Box::new(move |readings: &mut Readings| {
        let _servers = &servers;
        let one = contend(workload, "ours", &url, 1)?;
        let four = contend(workload, "ours", &url, 4)?;
        let theirs = contend(workload, "rslock", &peer, 4)?;
        readings.note(ONE_RATE, one.rate);
        readings.note(FOUR_RATE, four.rate);
        readings.note(PEER_RATE, theirs.rate);
        readings.note(ONE_GAP, one.gaps.percentile(50));
        readings.note(FOUR_GAP, four.gaps.percentile(50));
        readings.note(FOUR_GAP_99, four.gaps.percentile(99));
        readings.note(FOUR_WAIT, 100.0 * four.waits.percentile(99) / four.waits.percentile(50));
        readings.note(ONE_JAIN, one.jain * 100.0);
        readings.note(FOUR_JAIN, four.jain * 100.0);
        readings.note(PEER_JAIN, theirs.jain * 100.0);
        Ok(())
    }))
}

struct Story {
    rate: f64,
    gaps: Samples,
    waits: Samples,
    jain: f64,
}

/// One hold: who, since when asked, from when to when, under which token.
struct Hold {
    waiter: usize,
    asked: u64,
    from: u64,
    until: u64,
    token: u64,
}

fn contend(workload: &str, kind: &str, place: &str, processes: usize) -> Outcome<Story> {
    let each = (TASKS / processes).to_string();
    let mut workers =
        (0..processes).map(|_| Worker::start(workload, &[kind, place, &each])).collect::<Outcome<Vec<_>>>()?;
    for worker in &mut workers {
        worker.hear()?;
    }
    workers.iter_mut().for_each(Worker::give_leave);
    let mut holds = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        for line in worker.hear_out()? {
            let figures: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
            let [task, asked, from, until, token] = figures[..] else { return Err("an odd line".into()) };
            holds.push(Hold { waiter: number * TASKS + task as usize, asked, from, until, token });
        }
    }
    holds.sort_by_key(|hold| hold.from);
    story(&holds, kind == "ours")
}

fn story(holds: &[Hold], fenced: bool) -> Outcome<Story> {
    let (mut gaps, mut waits) = (Samples::default(), Samples::default());
    let mut to_another = 0_u64;
    for pair in holds.windows(2) {
        let [last, next] = pair else { unreachable!("BUG: windows of two") };
        if next.from < last.until {
            return Err(format!("two holders at once, for {} ns", last.until - next.from).into());
        }
        if fenced && next.token <= last.token {
            return Err(format!("token {} after {}", next.token, last.token).into());
        }
        if next.waiter != last.waiter {
            to_another += 1;
            gaps.extend([next.from - last.until]);
        }
    }
    waits.extend(holds.iter().map(|hold| hold.from - hold.asked));
    let mut turns = std::collections::HashMap::new();
    holds.iter().for_each(|hold| *turns.entry(hold.waiter).or_insert(0.0) += 1.0);
    let (sum, squares) =
        turns.values().fold((0.0, 0.0), |(sum, squares), count| (sum + count, squares + count * count));
    let span = holds.last().map_or(0, |hold| hold.until) - holds.first().map_or(0, |hold| hold.from);
    let (rate, jain) = (to_another as f64 * 1e9 / span as f64, sum * sum / (TASKS as f64 * squares));
    Ok(Story { rate, gaps, waits, jain })
}

fn work(args: &[String]) -> Outcome<()> {
    let [kind, place, tasks] = args else { return Err("a worker needs kind, place and tasks".into()) };
    let tasks: usize = tasks.parse()?;
    let seconds = std::env::var("FENCEPOST_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let locks = match kind.as_str() {
        "ours" => Some(connect(place).ttl(TTL).answer_within(Duration::from_secs(5)).block()?),
        _ => None,
    };
    let servers = place.split(',').filter(|_| locks.is_none());
    let peer = LockManager::new(servers.map(|address| format!("redis://{address}")).collect::<Vec<_>>());
    say("ready")?;
    process::await_leave()?;
    let end = now() + seconds * 1_000_000_000;
    let lines = runtime.block_on(async {
        let tasks: Vec<_> = (0..tasks)
            .map(|task| match &locks {
                Some(locks) => tokio::spawn(ours(locks.lock("x").wait_forever(), task, end)),
                None => tokio::spawn(theirs(peer.clone(), task, end)),
            })
            .collect();
        let mut lines = Vec::new();
        for task in tasks {
            lines.extend(task.await??);
        }
        Outcome::Ok(lines)
    })?;
    lines.iter().try_for_each(|line: &String| say(line))
}

async fn ours(lock: fencepost::Lock, task: usize, end: u64) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    while now() < end {
        let asked = now();
        let guard = lock.acquire().await?;
        let from = now();
        tokio::time::sleep(HOLD).await;
        let (until, token) = (now(), guard.token());
        guard.release().await?;
        lines.push(format!("{task} {asked} {from} {until} {token}"));
    }
    Ok(lines)
}

async fn theirs(peer: LockManager, task: usize, end: u64) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    while now() < end {
        let asked = now();
        let Ok(lock) = peer.lock(b"peer", TTL).await else { continue };
        let from = now();
        tokio::time::sleep(HOLD).await;
        let until = now();
        peer.unlock(&lock).await;
        lines.push(format!("{task} {asked} {from} {until} 0"));
    }
    Ok(lines)
}
