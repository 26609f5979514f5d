//! Servers, the sets they are in, and workers that take a lock all the time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fencepost_core::store::StoreError;
use fencepost_core::{Blocking, Locks};
use fencepost_redis::{Orders, Progress, Reconfiguration, reconfigure};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
use fencepost_testkit::turns::{History, Kind, Turn, now};
use fencepost_testkit::wait::{a_moment, until};

/// The shortest wait there is for leases of a closed set: this and a second. Answers may be slow on a busy machine.
pub(crate) const SETTINGS: &str = "max_ttl_ms=1000&answer_within_ms=1000";
pub(crate) const TTL: Duration = Duration::from_secs(1);
/// So many turns are work.
const TURNS: usize = 6;

/// Whoever uses a set that is left is thrown out.
pub(crate) fn by_force() -> Orders {
    Orders { force: true, gone: Vec::new() }
}

pub(crate) fn start(count: usize) -> Vec<Server<Redis>> {
    (0..count).map(|_| Redis::new().start()).collect()
}

/// A change from some of the servers to others.
pub(crate) struct Change {
    pub(crate) servers: Vec<Server<Redis>>,
    pub(crate) old: Vec<usize>,
    pub(crate) new: Vec<usize>,
    /// Of the old ones, who is off for good.
    pub(crate) gone: Vec<usize>,
}

impl Change {
    /// The old ones are a cluster already.
    pub(crate) fn new(servers: Vec<Server<Redis>>, old: &[usize], new: &[usize]) -> Self {
        let change = Self { servers, old: old.to_vec(), new: new.to_vec(), gone: Vec::new() };
        fencepost_redis::init("redlock", &change.old()).block().expect("all are there");
        change
    }

    fn hosts(&self, numbers: &[usize]) -> String {
        numbers.iter().map(|number| self.servers[*number].address()).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn old(&self) -> String {
        format!("//{}?{SETTINGS}", self.hosts(&self.old))
    }

    pub(crate) fn new_set(&self) -> String {
        format!("//{}?{SETTINGS}", self.hosts(&self.new))
    }

    pub(crate) fn both(&self) -> String {
        format!("{}&next={}", self.old(), self.hosts(&self.new))
    }

    pub(crate) fn try_step(&self, force: bool) -> Result<Reconfiguration, StoreError> {
        let gone = self.gone.iter().map(|number| self.servers[*number].address()).collect();
        reconfigure(("redlock", &self.old()), ("redlock", &self.new_set()), &Orders { force, gone })
    }

    pub(crate) fn step(&self, force: bool) -> Progress {
        self.try_step(force).expect("the servers are there").progress
    }

    /// Runs it again and again while it only says that it waits; answers what comes then.
    pub(crate) fn step_after(&self, waits: impl Fn(&Progress) -> bool, force: bool) -> Progress {
        let mut progress = self.step(force);
        until("it goes on", || {
            if waits(&progress) {
                progress = self.step(force);
            }
            !waits(&progress)
        });
        progress
    }

    /// Back, from wherever it is.
    pub(crate) fn reversed(self) -> Self {
        Self { servers: self.servers, old: self.new, new: self.old, gone: Vec::new() }
    }
}

pub(crate) fn is_closing(progress: &Progress) -> bool {
    matches!(progress, Progress::Closing { .. })
}

pub(crate) fn has_old_clients(progress: &Progress) -> bool {
    matches!(progress, Progress::OldClients { .. })
}

pub(crate) fn has_both_clients(progress: &Progress) -> bool {
    matches!(progress, Progress::BothClients { .. })
}

pub(crate) fn connect(rest: &str) -> Result<Locks, StoreError> {
    fencepost_redis::connect("redlock", rest).block()
}

/// What all workers noted.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<Turn>>>);

impl Notes {
    pub(crate) fn add(&self, turn: Turn) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(turn);
    }

    /// Two at once, or a token that did not rise.
    pub(crate) fn assert_lawful(&self) {
        let history = History::new(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone());
        assert_eq!(history.violations(0), Vec::<String>::new());
        assert!(history.turns().len() >= TURNS, "there was little work: {}", history.turns().len());
    }
}

/// Takes the lock `x` all the time, with one URL, whatever it is told.
pub(crate) struct Worker {
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicUsize>,
    refused: Arc<Mutex<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start(number: u32, rest: String, notes: &Notes) -> Self {
        let (stop, turns, refused) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default(), Arc::default());
        let mut worker = Self { stop: stop.clone(), turns: turns.clone(), refused: Arc::clone(&refused), thread: None };
        let notes = notes.clone();
        let work = move || {
            let note = |text: String| *refused.lock().unwrap_or_else(PoisonError::into_inner) = text;
            while !stop.load(Ordering::SeqCst) {
                let locks = match connect(&rest) {
                    Ok(locks) => locks,
                    Err(error) => {
                        note(error.to_string());
                        a_moment();
                        continue;
                    }
                };
                while !stop.load(Ordering::SeqCst) {
                    let asked = now();
                    let lock = locks.lock("x").ttl(TTL).wait_at_most(TTL);
                    match lock.acquire().block() {
                        Ok(guard) => {
                            let from = now();
                            a_moment();
                            let until = now();
                            if guard.is_held() {
                                let token = guard.token().as_u64();
                                notes.add(Turn { process: number, kind: Kind::Writes, asked, from, until, token });
                                turns.fetch_add(1, Ordering::SeqCst);
                            }
                            let _ = guard.release().block();
                        }
                        Err(error) => {
                            note(error.to_string());
                            a_moment();
                        }
                    }
                }
            }
        };
        worker.thread = Some(std::thread::spawn(work));
        worker
    }

    pub(crate) fn turns(&self) -> usize {
        self.turns.load(Ordering::SeqCst)
    }

    /// Waits until it has had the lock several times more.
    pub(crate) fn until_it_worked(&self, who: &str) {
        let enough = self.turns() + TURNS;
        until(&format!("{who} takes the lock; it was told {:?}", self.last_refusal()), || self.turns() >= enough);
    }

    pub(crate) fn last_refusal(&self) -> String {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it; its connections are closed then.
    pub(crate) fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().expect("it was started").join().expect("no panic");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}
