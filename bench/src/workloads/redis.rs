//! Uncontended locks on Redis, one server and five: ours beside a hand-written floor and beside `rslock`, which has no
//! fencing and so asks about half as much of each server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use fencepost::{Blocking, Grant, Lock, connect, init};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
use rslock::LockManager;

use crate::Outcome;
use crate::process::{cpu_of_this_process, now};
use crate::runner::{Readings, Round, Row, Samples, Unit, Workload, no_work};

const TTL: Duration = Duration::from_secs(30);
const PAIRS: u32 = 600;
const MANY: u32 = 6_000;

const RAW: &str = "raw floor, 1 task, p50";
const OURS: &str = "ours, 1 task, p50";
const RSLOCK: &str = "rslock, 1 task, p50";
const OURS_64: &str = "ours, 64 tasks";
const RSLOCK_64: &str = "rslock, 64 tasks";
const OURS_256: &str = "ours, 256 tasks";
const RSLOCK_256: &str = "rslock, 256 tasks";
const PLAIN: &str = "ours without a token, 1 task, p50";
const PLAIN_64: &str = "ours without a token, 64 tasks";
const OURS_CPU: &str = "ours, 64 tasks, client CPU per pair";
const RSLOCK_CPU: &str = "rslock, 64 tasks, client CPU per pair";

const ROWS: &[Row] = &[
    Row::new(RAW, Unit::Nanos),
    Row::new(OURS, Unit::Nanos).against(&[RAW]),
    Row::new(PLAIN, Unit::Nanos).against(&[RAW]),
    Row::new(RSLOCK, Unit::Nanos).against(&[RAW]),
    Row::new(PLAIN_64, Unit::PerSecond).against(&[RSLOCK_64]),
    Row::new(OURS_64, Unit::PerSecond).against(&[RSLOCK_64]),
    Row::new(RSLOCK_64, Unit::PerSecond),
    Row::new(OURS_256, Unit::PerSecond).against(&[RSLOCK_256]),
    Row::new(RSLOCK_256, Unit::PerSecond),
    Row::new(OURS_CPU, Unit::Nanos).against(&[RSLOCK_CPU]),
    Row::new(RSLOCK_CPU, Unit::Nanos),
];

pub(crate) const ONE: Workload = Workload {
    name: "redis",
    about: "Acquire + release on a free lock, one Redis server.",
    rounds: 5,
    rows: ROWS,
    prepare: |_| prepare(1),
    work: no_work,
};

pub(crate) const FIVE: Workload = Workload {
    name: "redlock",
    about: "Acquire + release on a free lock, a majority of five Redis servers.",
    rounds: 5,
    rows: ROWS,
    prepare: |_| prepare(5),
    work: no_work,
};

fn prepare(count: usize) -> Outcome<Round> {
    let servers: Vec<Server<Redis>> = (0..count).map(|_| Redis::new().start()).collect();
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let url = format!("{}://{}", if count == 1 { "redis" } else { "redlock" }, addresses.join(","));
    init(&url).block()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // Far beyond what a crowded machine needs: what is measured is speed, not patience.
    let locks = connect(url).ttl(TTL).answer_within(Duration::from_secs(5)).block()?;
    let peer = LockManager::new(addresses.iter().map(|address| format!("redis://{address}")).collect());
    let mut raw = Raw::connect(&addresses)?;
    Ok(Box::new(move |readings: &mut Readings| {
        let _servers = &servers;
        raw.pairs(PAIRS / 4)?;
        readings.note(RAW, raw.pairs(PAIRS)?.percentile(50));
        let one = |samples: Vec<u64>| {
            let mut all = Samples::default();
            all.extend(samples);
            all.percentile(50)
        };
        readings.note(OURS, one(runtime.block_on(ours(locks.lock("one"), PAIRS))?));
        readings.note(PLAIN, one(runtime.block_on(ours(locks.lock("one").unfenced(), PAIRS))?));
        readings.note(RSLOCK, one(runtime.block_on(theirs(peer.clone(), "one".into(), PAIRS))?));
        for (tasks, our_row, their_row) in [(64, OURS_64, RSLOCK_64), (256, OURS_256, RSLOCK_256)] {
            let (rate, cpu) = many(&runtime, tasks, |name| ours(locks.lock(name), MANY / tasks))?;
            readings.note(our_row, rate);
            let (their_rate, their_cpu) = many(&runtime, tasks, |name| theirs(peer.clone(), name, MANY / tasks))?;
            readings.note(their_row, their_rate);
            if tasks == 64 {
                let (rate, _) = many(&runtime, tasks, |name| ours(locks.lock(name).unfenced(), MANY / tasks))?;
                readings.note(PLAIN_64, rate);
                readings.note(OURS_CPU, cpu);
                readings.note(RSLOCK_CPU, their_cpu);
            }
        }
        Ok(())
    }))
}

/// Pairs per second, and CPU nanoseconds of this process per pair.
fn many<F>(runtime: &tokio::runtime::Runtime, tasks: u32, start: impl Fn(String) -> F) -> Outcome<(f64, f64)>
where
    F: Future<Output = Outcome<Vec<u64>>> + Send + 'static,
{
    let (began, cpu) = (now(), cpu_of_this_process()?);
    let pairs = runtime.block_on(async {
        let tasks: Vec<_> = (0..tasks).map(|number| tokio::spawn(start(format!("key-{number}")))).collect();
        let mut pairs = 0;
        for task in tasks {
            pairs += task.await??.len();
        }
        Outcome::Ok(pairs)
    })?;
    let took = (now() - began) as f64;
    let used = (cpu_of_this_process()? - cpu).as_nanos() as f64;
    Ok((pairs as f64 * 1e9 / took, used / pairs as f64))
}

async fn ours<G: Grant>(lock: Lock<G>, pairs: u32) -> Outcome<Vec<u64>> {
    let mut samples = Vec::with_capacity(pairs as usize);
    for _ in 0..pairs {
        let began = now();
        lock.acquire().await?.release().await?;
        samples.push(now() - began);
    }
    Ok(samples)
}

async fn theirs(peer: LockManager, name: String, pairs: u32) -> Outcome<Vec<u64>> {
    let mut samples = Vec::with_capacity(pairs as usize);
    for _ in 0..pairs {
        let began = now();
        let lock = peer.lock(name.as_bytes(), TTL).await.map_err(|error| format!("{error:?}"))?;
        peer.unlock(&lock).await;
        samples.push(now() - began);
    }
    Ok(samples)
}

/// The floor: plain sockets, one write and one read per node and step, the cheapest scripts that fence.
struct Raw {
    links: Vec<TcpStream>,
    acquire: String,
    release: String,
    token: u64,
}

const ACQUIRE: &str = "if redis.call('PTTL', KEYS[3]) == -3 then return -1 end \
    local v = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[3]) if v then return 0 end \
    local last = redis.call('SET', KEYS[2], ARGV[2], 'GET', 'PX', 86400000) \
    if tonumber(ARGV[2]) > tonumber(last or 0) then return 1 end return 2";
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

impl Raw {
    fn connect(addresses: &[String]) -> Outcome<Self> {
        let mut links = addresses.iter().map(TcpStream::connect).collect::<Result<Vec<_>, _>>()?;
        let mut hashes = Vec::new();
        for script in [ACQUIRE, RELEASE] {
            for link in &mut links {
                link.set_nodelay(true)?;
                link.write_all(&command(&["SCRIPT", "LOAD", script]))?;
                let mut reply = [0; 128];
                let length = link.read(&mut reply)?;
                let text = String::from_utf8_lossy(&reply[..length]).into_owned();
                hashes.push(text.lines().nth(1).ok_or("no hash")?.to_owned());
            }
        }
        Ok(Self { acquire: hashes[0].clone(), release: hashes[links.len()].clone(), links, token: 1 })
    }

    fn pairs(&mut self, pairs: u32) -> Outcome<Samples> {
        let mut samples = Samples::default();
        for _ in 0..pairs {
            self.token += 1;
            let token = self.token.to_string();
            let acquire =
                command(&["EVALSHA", &self.acquire, "3", "raw", "raw-fence", "raw-marker", "owner", &token, "30000"]);
            let release = command(&["EVALSHA", &self.release, "1", "raw", "owner"]);
            let began = now();
            self.round(&acquire)?;
            self.round(&release)?;
            samples.extend([now() - began]);
        }
        Ok(samples)
    }

    fn round(&mut self, bytes: &[u8]) -> Outcome<()> {
        for link in &mut self.links {
            link.write_all(bytes)?;
        }
        for link in &mut self.links {
            let mut reply = [0; 64];
            let length = link.read(&mut reply)?;
            if !reply[..length].starts_with(b":1") {
                return Err(format!("the floor fell through: {:?}", String::from_utf8_lossy(&reply[..length])).into());
            }
        }
        Ok(())
    }
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| text += &format!("${}\r\n{word}\r\n", word.len()));
    text.into_bytes()
}
