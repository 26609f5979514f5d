//! Locks in this process: the reference semantics on a map, and the store of tests.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{
    Abilities, Answer, Claim, Clock, Deed, Event, Listening, LockName, Minting, Moment, Part, Reply, Step, Store,
    Trouble,
};
use crate::name::Owner;
use crate::store::table::{self, Held, Kept, Notice, Now, Queued, Shelf};
use crate::token::FencingToken;

/// Locks that live in this process and end with it.
#[derive(Clone)]
pub struct Memory {
    clock: Clock,
    minting: Minting,
    label: Arc<str>,
    rows: Arc<Mutex<Rows>>,
}

#[derive(Default)]
struct Rows {
    locks: BTreeMap<LockName, Entry>,
    listeners: HashMap<Owner, Reply>,
    quarantined_until: Option<Moment>,
    steps: u64,
}

#[derive(Default)]
struct Entry {
    holders: Vec<Held>,
    last: Option<FencingToken>,
    spent: Option<FencingToken>,
    line: BTreeMap<(FencingToken, Owner), Queued>,
    tickets: HashMap<Owner, FencingToken>,
    revoked: HashMap<Owner, Moment>,
    used_at: Option<Moment>,
    record: Option<Kept>,
}

impl Memory {
    /// A store that decides alone and mints its tokens.
    pub fn new(clock: Clock) -> Self {
        Self::minting(clock, Minting::InOrder, "memory")
    }

    /// A store that decides alone and mints its tokens, although requests may reach it late.
    pub fn bounded(clock: Clock) -> Self {
        Self::minting(clock, Minting::Bounded, "memory")
    }

    /// A node of a quorum: the engine proposes the tokens.
    pub fn node(clock: Clock, label: &str) -> Self {
        Self::minting(clock, Minting::Engine, label)
    }

    fn minting(clock: Clock, minting: Minting, label: &str) -> Self {
        Self { clock, minting, label: label.into(), rows: Arc::default() }
    }

    /// A restart that loses everything. Until the quarantine is over the node grants nothing.
    pub fn forget(&self, quarantine: Duration) {
        let mut rows = self.rows();
        rows.locks.clear();
        rows.quarantined_until = Some(self.clock.now().plus(quarantine));
    }

    /// How many grants and places in line there are: zero when nothing is left behind.
    pub fn rows_in_use(&self) -> usize {
        let now = self.clock.now();
        let live = |entry: &Entry| {
            let held = entry.holders.iter().filter(|held| held.until > now).count();
            held + entry.line.values().filter(|queued| queued.until > now).count()
        };
        self.rows().locks.values().map(live).sum()
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one step; answers it, and whom to tell what.
    fn run(&self, step: &Step) -> (Result<Answer, Trouble>, Vec<(Reply, Event)>) {
        let moment = self.clock.now();
        let mut rows = self.rows();
        rows.steps += 1;
        let quarantined = rows.quarantined_until.filter(|until| *until > moment).map(|until| until.since(moment));
        let now = Now { moment, clock: FencingToken::at(self.clock.wall()), quarantined };
        let Rows { locks, listeners, steps, .. } = &mut *rows;
        if let Step::AcquireAll { parts } = step {
            return (Ok(acquire_all(locks, parts, now)), Vec::new());
        }
        let Some(name) = step.name() else { return (Ok(list(locks, step, now)), Vec::new()) };
        if matches!(step, Step::Inspect { .. }) && !locks.contains_key(name) {
            return (Ok(Answer::State(crate::LockState::free(name.as_str()))), Vec::new());
        }
        if matches!(step, Step::Record { deed: Deed::Read, .. }) && !locks.contains_key(name) {
            return (Ok(Answer::Record(None)), Vec::new());
        }
        let entry = locks.entry(name.clone()).or_default();
        entry.used_at = Some(moment);
        let mut shelf = MemoryShelf { entry, listeners, notices: Vec::new(), moment };
        let answer = match table::apply(&mut shelf, step, now) {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let notices = shelf.notices;
        if *steps % PRUNE_EVERY == 0 {
            prune(locks, now);
        }
        (answer, notices)
    }
}

/// All of them, or nothing is changed. Nobody in line is told of anything: it is not their turn.
fn acquire_all(locks: &mut BTreeMap<LockName, Entry>, parts: &[Part], now: Now) -> Answer {
    let (listeners, moment) = (HashMap::new(), now.moment);
    for part in parts {
        let entry = locks.entry(part.claim.name.clone()).or_default();
        entry.used_at = Some(moment);
        let mut shelf = MemoryShelf { entry, listeners: &listeners, notices: Vec::new(), moment };
        let Ok(granted) = table::would_grant(&mut shelf, part, now);
        if !granted {
            return Answer::NotAll;
        }
    }
    let tokens = parts.iter().filter_map(|part| {
        let entry = locks.get_mut(&part.claim.name)?;
        let mut shelf = MemoryShelf { entry, listeners: &listeners, notices: Vec::new(), moment };
        match table::apply(&mut shelf, &part.alone(), now) {
            Ok(Ok(Answer::Granted { token })) => Some(token),
            unexpected => unreachable!("BUG: it would have been granted: {unexpected:?}"),
        }
    });
    Answer::AllGranted { tokens: tokens.collect() }
}

fn list(locks: &mut BTreeMap<LockName, Entry>, step: &Step, now: Now) -> Answer {
    let Step::List { prefix, after, limit, contended } = step else { unreachable!("BUG: only a listing has no name") };
    let listeners = HashMap::new();
    let wanted = locks
        .iter_mut()
        .filter(|(name, _)| name.as_str().starts_with(&**prefix) && after.as_ref().is_none_or(|after| *name > after))
        .filter(|(_, entry)| !contended || !entry.line.is_empty());
    let states = wanted.take(*limit as usize).map(|(name, entry)| {
        let mut shelf = MemoryShelf { entry, listeners: &listeners, notices: Vec::new(), moment: now.moment };
        match table::state(&mut shelf, name.as_str(), now) {
            Ok(state) => state,
            Err(never) => match never {},
        }
    });
    Answer::States(states.collect())
}

/// After so many steps the store looks for locks to forget.
const PRUNE_EVERY: u64 = 4096;

/// Forgets locks that nobody used for long, where the clock alone mints a higher token.
fn prune(locks: &mut BTreeMap<LockName, Entry>, now: Now) {
    locks.retain(|_, entry| {
        let kept = entry.record.as_ref().is_some_and(|kept| kept.until > now.clock);
        let in_use = !entry.holders.is_empty() || !entry.line.is_empty() || kept;
        let recent = entry.used_at.is_some_and(|used| now.moment.since(used) < table::REMEMBER);
        in_use || recent || entry.last.is_some_and(|last| last >= now.clock)
    });
}

impl Store for Memory {
    fn abilities(&self) -> Abilities {
        Abilities {
            minting: self.minting,
            queues: true,
            tells: false,
            relays: true,
            together: true,
            records: self.minting.by_store(),
            survives_restart: false,
            smallest_ttl: Duration::from_millis(20),
            largest_ttl: None,
            answer_within: None,
        }
    }

    fn label(&self) -> String {
        self.label.to_string()
    }

    fn submit(&self, step: Step, _deadline: Moment, reply: Reply) {
        let (answer, notices) = self.run(&step);
        // Outside the lock: a mailbox may submit the next step at once.
        reply.answer(answer);
        for (to, event) in notices {
            to.push(event);
        }
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.rows().listeners.insert(claim.owner, reply);
        Listening::new(Ear { rows: self.rows.clone(), owner: claim.owner })
    }

    fn clock(&self) -> Option<FencingToken> {
        Some(FencingToken::at(self.clock.wall()))
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({})", self.label)
    }
}

struct Ear {
    rows: Arc<Mutex<Rows>>,
    owner: Owner,
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).listeners.remove(&self.owner);
    }
}

struct MemoryShelf<'a> {
    entry: &'a mut Entry,
    listeners: &'a HashMap<Owner, Reply>,
    notices: Vec<(Reply, Event)>,
    moment: Moment,
}

impl Shelf for MemoryShelf<'_> {
    type Error = Infallible;

    fn holders(&mut self) -> Result<Vec<Held>, Infallible> {
        Ok(self.entry.holders.clone())
    }

    fn put_holder(&mut self, held: &Held) -> Result<(), Infallible> {
        self.remove_holder(&held.owner)?;
        self.entry.holders.push(held.clone());
        Ok(())
    }

    fn remove_holder(&mut self, owner: &Owner) -> Result<(), Infallible> {
        self.entry.holders.retain(|held| held.owner != *owner);
        Ok(())
    }

    fn last(&mut self) -> Result<Option<FencingToken>, Infallible> {
        Ok(self.entry.last)
    }

    fn set_last(&mut self, last: FencingToken) -> Result<(), Infallible> {
        self.entry.last = Some(last);
        Ok(())
    }

    fn spent(&mut self) -> Result<Option<FencingToken>, Infallible> {
        Ok(self.entry.spent)
    }

    fn set_spent(&mut self, bound: FencingToken) -> Result<(), Infallible> {
        self.entry.spent = Some(bound);
        Ok(())
    }

    fn head(&mut self) -> Result<Option<Queued>, Infallible> {
        Ok(self.entry.line.values().next().cloned())
    }

    fn tail(&mut self) -> Result<Option<FencingToken>, Infallible> {
        Ok(self.entry.line.keys().next_back().map(|(ticket, _)| *ticket))
    }

    fn waiter(&mut self, owner: &Owner) -> Result<Option<Queued>, Infallible> {
        let ticket = self.entry.tickets.get(owner);
        Ok(ticket.and_then(|ticket| self.entry.line.get(&(*ticket, *owner))).cloned())
    }

    fn waiters(&mut self, limit: u32) -> Result<Vec<Queued>, Infallible> {
        Ok(self.entry.line.values().take(limit as usize).cloned().collect())
    }

    fn waiter_count(&mut self) -> Result<u32, Infallible> {
        Ok(u32::try_from(self.entry.line.len()).unwrap_or(u32::MAX))
    }

    fn put_waiter(&mut self, queued: &Queued) -> Result<(), Infallible> {
        self.entry.tickets.insert(queued.owner, queued.ticket);
        self.entry.line.insert((queued.ticket, queued.owner), queued.clone());
        Ok(())
    }

    fn remove_waiter(&mut self, owner: &Owner) -> Result<bool, Infallible> {
        let Some(ticket) = self.entry.tickets.remove(owner) else { return Ok(false) };
        Ok(self.entry.line.remove(&(ticket, *owner)).is_some())
    }

    fn revoked(&mut self, owner: &Owner) -> Result<bool, Infallible> {
        Ok(self.entry.revoked.contains_key(owner))
    }

    fn set_revoked(&mut self, owner: &Owner) -> Result<(), Infallible> {
        self.entry.revoked.retain(|_, at| self.moment.since(*at) < table::REMEMBER);
        self.entry.revoked.insert(*owner, self.moment);
        Ok(())
    }

    fn record(&mut self) -> Result<Option<Kept>, Infallible> {
        Ok(self.entry.record.clone())
    }

    fn put_record(&mut self, kept: &Kept) -> Result<(), Infallible> {
        self.entry.record = Some(kept.clone());
        Ok(())
    }

    fn tell(&mut self, to: &Queued, notice: Notice) -> Result<bool, Infallible> {
        let Some(reply) = self.listeners.get(&to.owner) else { return Ok(false) };
        let event = match notice {
            Notice::HandedOver { token } => Event::HandedOver { token, attempt: to.attempt },
            Notice::MayPay => Event::MayPay,
        };
        self.notices.push((reply.clone(), event));
        Ok(true)
    }
}
