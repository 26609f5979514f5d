//! A store that is measured: its clients, their turns, and leaving it as it was.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use fencepost::config::Config;
use fencepost::{AcquireError, Blocking, Guard, Lock, Locks, StoreError};

use super::plan::Plan;
use super::round::Round;
use super::stop::{Interrupt, Stop};
use super::trouble::Troubles;
use super::workload::{Baton, Client, Workload};
use crate::exit_code::ExitCode;
use crate::failure::Failure;

/// How long the end waits for releases that are under way.
const LEAVE_MAX: Duration = Duration::from_secs(3);
/// How often a client asks for its first lock.
const TRIES: u32 = 3;
/// How often the bar moves in a turn.
const TICK: Duration = Duration::from_millis(100);

/// A store under test.
pub(super) struct Subject {
    /// Without secrets.
    pub(super) store: String,
    /// What all names begin with.
    pub(super) prefix: String,
    connections: Vec<Locks>,
    clients: Vec<Client>,
    /// Of each workload, in the order of the plan.
    pub(super) rounds: Vec<Vec<Round>>,
    pub(super) troubles: Troubles,
}

/// What stayed behind.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Names that are held, or whose release nobody confirmed: free when their ttl is over.
    pub(super) held: Vec<String>,
    /// Why nobody looked.
    pub(super) unknown: Option<String>,
}

impl Subject {
    /// Connects every client and lets it take and release its lock once, so that nothing is measured that happens once.
    pub(super) fn open(config: &Config, prefix: String, plan: &Plan) -> Result<Self, Failure> {
        let mut config = config.clone();
        config.records = None;
        let store = config.store_redacted();
        let named = |failure: Failure| {
            let message = failure.message.as_ref().map(|message| format!("{store}: {message}"));
            Failure { message, ..failure }
        };
        let connect = || config.clone().connect().ttl(plan.ttl).block();
        // What lives in one connection is not there for a second one.
        let count = if config.store.value == "memory:" { 1 } else { plan.clients };
        let connections: Result<Vec<Locks>, StoreError> = (0..count).map(|_| connect()).collect();
        let connections = connections.map_err(|error| named(error.into()))?;
        let client = |number: usize| {
            let locks = &connections[number % connections.len()];
            let own = locks.lock(format!("{prefix}own-{number}"));
            Client { number, own, shared: locks.lock(format!("{prefix}shared")).wait_forever() }
        };
        let clients: Vec<Client> = (0..plan.clients).map(client).collect();
        let rounds = plan.workloads.iter().map(|_| Vec::new()).collect();
        let subject =
            Self { store: store.clone(), prefix, connections, clients, rounds, troubles: Troubles::default() };
        if let Err(failure) = subject.warm_up() {
            let _ = subject.give_back();
            return Err(named(failure));
        }
        Ok(subject)
    }

    fn warm_up(&self) -> Result<(), Failure> {
        for client in &self.clients {
            // Whether its release is confirmed shows when it is measured.
            drop(taken(&client.own)?.release().block());
        }
        Ok(())
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// One turn with one workload; `show` is told how much of it has passed.
    pub(super) fn take_turn(
        &mut self,
        number: usize,
        workload: Workload,
        turn: Duration,
        interrupt: &Interrupt,
        show: &mut dyn FnMut(Duration),
    ) {
        let count = if workload.takes_several() { self.clients.len() } else { 1 };
        let (stop, baton, start) = (Stop::new(count), Baton::default(), Barrier::new(count + 1));
        let (began, tallies) = thread::scope(|scope| {
            let work = |client| {
                let (stop, baton, start) = (&stop, &baton, &start);
                scope.spawn(move || {
                    start.wait();
                    workload.work(client, stop, baton)
                })
            };
            let workers: Vec<_> = self.clients[..count].iter().map(work).collect();
            start.wait();
            let began = Instant::now();
            let end = began + turn;
            while interrupt.signal().is_none() && Instant::now() < end {
                show(began.elapsed());
                interrupt.wait_until(end.min(Instant::now() + TICK));
            }
            stop.end();
            let tallies = workers.into_iter().map(|worker| worker.join().expect("BUG: a client panicked"));
            (began, tallies.collect::<Vec<_>>())
        });
        let round = Round::of(workload, began, &tallies);
        tallies.into_iter().for_each(|tally| self.troubles.add(tally.troubles));
        self.rounds[number].push(round);
    }

    pub(super) fn has_measured(&self) -> bool {
        self.rounds.iter().flatten().any(|round| round.latency.count() > 0)
    }

    /// Waits for what is under way, then asks the store whether anything is held.
    pub(super) fn leave(&self) -> Leftovers {
        let mut held = self.give_back();
        let mut unknown = None;
        let names = self.clients.iter().map(|client| format!("{}own-{}", self.prefix, client.number));
        for name in names.chain([format!("{}shared", self.prefix)]) {
            match self.connections[0].inspect(&name).block() {
                Ok(state) if !state.holders.is_empty() || !state.waiters.is_empty() => held.push(name),
                Ok(_) => {}
                Err(error) => {
                    unknown = Some(error.to_string());
                    break;
                }
            }
        }
        held.sort_unstable();
        held.dedup();
        Leftovers { held, unknown }
    }

    /// Ends all connections; answers the names whose release nobody confirmed in time.
    fn give_back(&self) -> Vec<String> {
        thread::scope(|scope| {
            let leave = |locks: &Locks| {
                let locks = locks.clone();
                scope.spawn(move || locks.shutdown(LEAVE_MAX).block())
            };
            let leaving: Vec<_> = self.connections.iter().map(leave).collect();
            leaving.into_iter().flat_map(|one| one.join().expect("BUG: shutdown panicked")).collect()
        })
    }
}

/// Takes a lock for the first time: one answer that comes too late is no reason not to begin.
fn taken(lock: &Lock) -> Result<Guard, Failure> {
    let mut tries = 1..TRIES;
    loop {
        match lock.acquire().block() {
            Ok(guard) => return Ok(guard),
            Err(error) if error.is_retryable() && tries.next().is_some() => {}
            Err(AcquireError::Store(error)) => return Err(error.into()),
            Err(AcquireError::Invalid(invalid)) => return Err(invalid.into()),
            Err(other) => return Err(Failure::new(ExitCode::STORE, other.to_string())),
        }
    }
}
