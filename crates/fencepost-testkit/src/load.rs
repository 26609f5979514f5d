//! Many clients of one service, each of which holds locks and renews them.

use std::time::Duration;
use std::{fs, io};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::http::Client;

/// Pairs before anything counts: what the service keeps of the last few thousand events is full then.
const WARM_PAIRS: usize = 1200;

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections, each kept open.
    pub clients: usize,
    /// Locks that each of them holds at the same time.
    pub locks_each: usize,
    /// Of every lease.
    pub ttl: Duration,
    /// How often each lock is renewed.
    pub renewals: u32,
    /// From one renewal of a lock to the next. Zero: as fast as they are answered.
    pub every: Duration,
}

/// What became of it. Whatever was lost is an error of [`Load::put_on`].
#[derive(Debug)]
pub struct Borne {
    /// From when a renewal was due until its answer: whoever is late waits on that account too.
    pub renewals: Vec<Duration>,
    /// All acquisitions together.
    pub acquired_in: Duration,
    /// Memory of the service in bytes: before anybody came, with all clients connected, and the most while they held.
    pub memory: [u64; 3],
}

impl Load {
    /// Puts it on the service at `address`, which is the process `pid`.
    ///
    /// # Errors
    /// What a client heard instead of a success: a lock that is lost is one.
    pub async fn put_on(self, address: &str, pid: u32) -> io::Result<Borne> {
        let idle = resident(pid)?;
        let mut clients = Vec::with_capacity(self.clients);
        for number in 0..self.clients {
            clients.push(Holder::arrive(address, number).await?);
        }
        let clients = all(clients, move |client| client.warm_up(WARM_PAIRS.div_ceil(self.clients))).await?;
        let connected = resident(pid)?;
        let began = Instant::now();
        let mut clients = all(clients, move |client| client.acquire(self)).await?;
        let (acquired_in, mut most) = (began.elapsed(), resident(pid)?);
        let began = Instant::now();
        for client in &mut clients {
            client.began = Some(began);
        }
        let mut clients = all(clients, move |client| client.renew(self)).await?;
        most = most.max(resident(pid)?);
        let renewals = clients.iter_mut().flat_map(|client| std::mem::take(&mut client.took)).collect();
        all(clients, Holder::release).await?;
        Ok(Borne { renewals, acquired_in, memory: [idle, connected, most] })
    }

    /// All of them.
    pub fn locks(&self) -> usize {
        self.clients * self.locks_each
    }
}

impl Borne {
    /// Bytes that each held lock costs, beside the connections.
    pub fn per_lock(&self, load: &Load) -> f64 {
        let [_, connected, held] = self.memory;
        held.saturating_sub(connected) as f64 / load.locks() as f64
    }
}

/// Everybody at once, to the end or to the first failure.
async fn all<F>(clients: Vec<Holder>, act: impl Fn(Holder) -> F) -> io::Result<Vec<Holder>>
where
    F: Future<Output = io::Result<Holder>> + Send + 'static,
{
    let mut tasks: JoinSet<_> = clients.into_iter().map(act).collect();
    let mut clients = Vec::with_capacity(tasks.len());
    while let Some(client) = tasks.join_next().await {
        clients.push(client.map_err(io::Error::other)??);
    }
    Ok(clients)
}

struct Holder {
    client: Client,
    number: usize,
    leases: Vec<String>,
    began: Option<Instant>,
    took: Vec<Duration>,
}

impl Holder {
    async fn arrive(address: &str, number: usize) -> io::Result<Self> {
        let client = Client::connect(address).await?;
        Ok(Self { client, number, leases: Vec::new(), began: None, took: Vec::new() })
    }

    /// Has had locks: whatever the service has for a client is there then.
    async fn warm_up(mut self, pairs: usize) -> io::Result<Self> {
        for _ in 0..pairs {
            let lease = self.client.post(&self.path(0, "try"), "{}").await?.good()?;
            self.client.post(&self.path(0, "release"), &lease).await?.good()?;
        }
        Ok(self)
    }

    fn path(&self, lock: usize, act: &str) -> String {
        format!("/v1/locks/load%2F{}%2F{lock}/{act}", self.number)
    }

    async fn acquire(mut self, load: Load) -> io::Result<Self> {
        let claim = format!("{{\"ttl_ms\": {}}}", load.ttl.as_millis());
        for lock in 0..load.locks_each {
            let lease = self.client.post(&self.path(lock, "try"), &claim).await?.good()?;
            self.leases.push(lease);
        }
        Ok(self)
    }

    /// Each lock in its turn, spread evenly over the time between two renewals.
    async fn renew(mut self, load: Load) -> io::Result<Self> {
        let began = self.began.unwrap_or_else(Instant::now);
        let locks = load.locks();
        for round in 0..load.renewals {
            for lock in 0..load.locks_each {
                let turn = (lock * load.clients + self.number) as f64 / locks as f64;
                let due = began + load.every * round + load.every.mul_f64(turn);
                let due = if load.every.is_zero() { Instant::now() } else { due };
                sleep_until(due).await;
                self.client.post(&self.path(lock, "renew"), &self.leases[lock]).await?.good()?;
                self.took.push(due.elapsed());
            }
        }
        Ok(self)
    }

    async fn release(mut self) -> io::Result<Self> {
        for lock in 0..self.leases.len() {
            self.client.post(&self.path(lock, "release"), &self.leases[lock]).await?.good()?;
        }
        Ok(self)
    }
}

/// The memory that a process has, in bytes.
pub fn resident(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.map(|kib: u64| kib << 10).ok_or_else(|| io::Error::other("no VmRSS"))
}
