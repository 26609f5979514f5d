//! A client: a process of its own that takes locks, works under them, and tells what it saw.
//!
//! It tells no more than it knows: a hold begins after the library gave it, ends before it is given back, and is believed
//! in only for as long as the library said when it was asked. So whatever overlaps in its story did overlap.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use fencepost::{AcquireError, Blocking, Event, EventKind, FencingToken, Guard, Lock, Locks, StoreErrorKind, connect};

use super::bugs;
use super::talk::{Heard, Job, Said, Word, below, between, nanos, now};
use crate::args::Bug;
use crate::child::shim;
use crate::exit_code::ExitCode;

/// `fencepost __verify-client PARENT`, for our own use.
pub(crate) const VERB: &str = "__verify-client";

/// One piece of work between a look at the lock and a write.
const WORK: (Duration, Duration) = (Duration::from_millis(3), Duration::from_millis(12));
/// Between two turns.
const REST: (Duration, Duration) = (Duration::ZERO, Duration::from_millis(8));
/// After trouble with the store.
const RETRY: Duration = Duration::from_millis(100);

/// Is a client, if that is what we were started for.
pub(crate) fn play(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    arguments.nth(1).filter(|verb| verb == VERB)?;
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse().ok());
    Some(match parent.map(shim::belong_to) {
        Some(Ok(())) => live(),
        Some(Err(code)) => code,
        None => ExitCode::USAGE,
    })
}

fn live() -> ExitCode {
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    let Some(job) = read.ok().and_then(|_| serde_json::from_str::<Job>(&line).ok()) else { return ExitCode::USAGE };
    let (shared, (sender, replies)) = (Arc::new(Shared::default()), channel());
    let (ears, leaves) = (shared.clone(), job.bug == Some(Bug::LeavesLock));
    thread::spawn(move || ears.hear(&sender, leaves));
    let Some(locks) = connected(&job, &shared) else { return ExitCode::DONE };
    let mut client = Client { job, locks, shared, replies, claim: 0, last: None };
    while !client.shared.stopped() {
        client.turn();
        nap(REST);
    }
    if client.job.bug == Some(Bug::LeavesLock) {
        bugs::leave_a_lock(&client);
    }
    let _ = client.locks.shutdown(client.job.ttl).block();
    ExitCode::DONE
}

/// Tries until it succeeds, or is told to end: a wire may be cut just now.
fn connected(job: &Job, shared: &Arc<Shared>) -> Option<Locks> {
    while !shared.stopped() {
        let telling = shared.clone();
        // Events count from connecting. The one that is told with the least delay knows best when that was.
        let connected = AtomicU64::new(u64::MAX);
        let observer = move |event: &Event| {
            let since = now().saturating_sub(nanos(event.at));
            let connected = connected.fetch_min(since, Ordering::SeqCst).min(since);
            telling.observe(event, connected.saturating_add(nanos(event.at)));
        };
        let opened = connect(&job.url).label(&job.label).ttl(job.ttl).observer(observer).block();
        match opened {
            Ok(locks) => {
                let _ = shared.locks.set(locks.clone());
                return Some(locks);
            }
            Err(error) => {
                shared.say(0, 0, Word::Trouble { message: error.to_string() });
                thread::sleep(RETRY);
            }
        }
    }
    None
}

pub(super) fn nap((least, most): (Duration, Duration)) {
    thread::sleep(between(least, most));
}

/// What the threads of a client share.
#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    /// What the library's own events are about: there is one claim at a time.
    claim: AtomicU64,
    lock: AtomicU32,
    /// When that claim began.
    since: AtomicU64,
    locks: OnceLock<Locks>,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn say(&self, claim: u64, lock: u32, word: Word) {
        self.say_of(now(), claim, lock, word);
    }

    fn say_of(&self, at: u64, claim: u64, lock: u32, word: Word) {
        let said = Said { at, claim, lock, word };
        let line = serde_json::to_string(&said).expect("BUG: numbers and text are JSON");
        let mut out = io::stdout().lock();
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            // Nobody is left who would judge us.
            std::process::exit(ExitCode::OURS.0.into());
        }
    }

    /// `at`: when it happened. It is told a little later, and may be about the claim before.
    fn observe(&self, event: &Event, at: u64) {
        let word = match event.kind {
            EventKind::Waiting => Word::Waiting,
            EventKind::Renewed { .. } => Word::Renewed,
            EventKind::RenewalUnknown { .. } => Word::Unrenewed,
            _ => return,
        };
        if at >= self.since.load(Ordering::SeqCst) {
            self.say_of(at, self.claim.load(Ordering::SeqCst), self.lock.load(Ordering::SeqCst), word);
        }
    }

    /// Passes on what the resource answers, until it is time to end.
    fn hear(&self, replies: &Sender<(bool, u64)>, leaves: bool) {
        for line in io::stdin().lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Heard::Resource { taken, version }) => drop(replies.send((taken, version))),
                Ok(Heard::Stop) => {
                    self.stopped.store(true, Ordering::SeqCst);
                    if let Some(locks) = self.locks.get().filter(|_| !leaves).cloned() {
                        // It ends waiting, on a thread of its own: the resource goes on answering.
                        thread::spawn(move || drop(locks.shutdown(Duration::ZERO).block()));
                    }
                }
                Err(_) => {}
            }
        }
        // Whoever started us is gone.
        self.stopped.store(true, Ordering::SeqCst);
    }
}

/// A client at work.
pub(super) struct Client {
    pub(super) job: Job,
    pub(super) locks: Locks,
    shared: Arc<Shared>,
    replies: Receiver<(bool, u64)>,
    claim: u64,
    /// The lock and the token of the last hold.
    pub(super) last: Option<(u32, u64)>,
}

impl Client {
    fn turn(&mut self) {
        let lock = u32::try_from(below(self.job.names.len() as u64)).expect("BUG: few locks");
        if bugs::turn(self, lock) {
            return;
        }
        let Some((guard, token)) = self.hold(lock, self.lock(lock)) else { return };
        self.work(lock, token, &guard);
        self.release(lock, guard);
    }

    pub(super) fn name(&self, lock: u32) -> &str {
        &self.job.names[lock as usize]
    }

    pub(super) fn lock(&self, lock: u32) -> Lock {
        let wanted = self.locks.lock(self.name(lock));
        // Most give up on a lock whose holder was struck, so that the others go on changing hands.
        match below(16) {
            0 => wanted.wait_forever(),
            _ => wanted.wait_at_most(self.job.ttl / 4),
        }
    }

    pub(super) fn say(&self, lock: u32, word: Word) {
        self.shared.say(self.claim, lock, word);
    }

    pub(super) fn stopped(&self) -> bool {
        self.shared.stopped()
    }

    /// A new claim from here on.
    pub(super) fn ask(&mut self, lock: u32) {
        self.claim += 1;
        self.shared.claim.store(self.claim, Ordering::SeqCst);
        self.shared.lock.store(lock, Ordering::SeqCst);
        self.shared.since.store(now(), Ordering::SeqCst);
        self.say(lock, Word::Asked);
    }

    pub(super) fn acquire(&mut self, lock: u32, wanted: Lock) -> Option<Guard> {
        self.ask(lock);
        match wanted.acquire().block() {
            Ok(guard) => Some(guard),
            // It is told to end: nobody asks any more.
            Err(AcquireError::ShuttingDown) => {
                self.say(lock, Word::Refused { why: None });
                None
            }
            Err(error) => {
                let why = match &error {
                    AcquireError::Busy { .. } => "busy".to_owned(),
                    // Without the figures of some kinds: these are counted by their names.
                    AcquireError::Store(error) => match error.kind {
                        StoreErrorKind::ClockOff { .. } => "clock off".to_owned(),
                        StoreErrorKind::Quarantined { .. } => "quarantined".to_owned(),
                        ref kind => kind.to_string(),
                    },
                    other => other.to_string(),
                };
                let busy = matches!(error, AcquireError::Busy { .. });
                self.say(lock, Word::Refused { why: Some(why) });
                if !busy {
                    thread::sleep(RETRY);
                }
                None
            }
        }
    }

    /// Acquires, and says so.
    pub(super) fn hold(&mut self, lock: u32, wanted: Lock) -> Option<(Guard, u64)> {
        let guard = self.acquire(lock, wanted)?;
        let token = guard.token().as_u64();
        self.acquired(lock, token, &guard);
        Some((guard, token))
    }

    /// Until when the hold is valid at least: dated from before the library was asked.
    fn valid_until(guard: &Guard) -> u64 {
        let before = now();
        before.saturating_add(nanos(guard.remaining()))
    }

    pub(super) fn acquired(&mut self, lock: u32, token: u64, guard: &Guard) {
        let until = Self::valid_until(guard);
        self.say(lock, Word::Acquired { token, until });
    }

    /// Reads, works and writes, as long as the lock is held and the resource takes the token.
    pub(super) fn work(&mut self, lock: u32, token: u64, guard: &Guard) {
        let (mut taken, mut version) = self.read(lock, token);
        let end = now() + nanos(self.length());
        while self.still_holds(lock, guard) && taken && now() < end {
            // Whoever is stopped in here writes when its lease is over: that is what the fence is for.
            nap(WORK);
            (taken, version) = self.write(lock, token, version);
        }
    }

    /// How long to work. Most do so for a moment; some need a renewal or two.
    fn length(&self) -> Duration {
        match below(128) {
            0 => between(self.job.ttl / 3, self.job.ttl * 4 / 3),
            _ => between(Duration::ZERO, 2 * WORK.1),
        }
    }

    /// Looks at the lock, and tells how long it is good for.
    fn still_holds(&self, lock: u32, guard: &Guard) -> bool {
        let until = Self::valid_until(guard);
        let held = guard.ensure_held();
        self.say(
            lock,
            match &held {
                Ok(()) => Word::Believes { until },
                Err(lost) => Word::Lost { reason: lost.reason.to_string() },
            },
        );
        held.is_ok()
    }

    pub(super) fn release(&mut self, lock: u32, guard: Guard) {
        self.last = Some((lock, guard.token().as_u64()));
        self.say(lock, Word::Releasing);
        if guard.release().block().is_ok() {
            self.say(lock, Word::Released);
        }
    }

    /// Whether the resource took the token, and its version.
    pub(super) fn read(&self, lock: u32, token: u64) -> (bool, u64) {
        self.answer_to(lock, Word::Read { token })
    }

    pub(super) fn write(&self, lock: u32, token: u64, read: u64) -> (bool, u64) {
        self.answer_to(lock, Word::Write { token, read })
    }

    pub(super) fn peek(&self, lock: u32) -> u64 {
        self.answer_to(lock, Word::Peek).1
    }

    fn answer_to(&self, lock: u32, word: Word) -> (bool, u64) {
        self.say(lock, word);
        // If nobody answers any more, nobody is there to work for.
        self.replies.recv().unwrap_or_else(|_| std::process::exit(ExitCode::OURS.0.into()))
    }

    /// Claims to hold the lock until then, whatever is true.
    pub(super) fn believe(&self, lock: u32, until: u64) {
        self.say(lock, Word::Believes { until });
    }

    /// The newest token that the store knows of.
    pub(super) fn newest_token(&self, lock: u32) -> Option<FencingToken> {
        self.locks.inspect(self.name(lock)).block().ok()?.last_token
    }
}
