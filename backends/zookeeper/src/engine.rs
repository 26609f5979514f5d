//! Steps in order, per lock.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fencepost_core::store::{
    Answer, Claim, Clock, Event, LockName, Moment, Owner, Reply, Step, StoreErrorKind, Then, Trouble, WeakReply,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::Failure;
use crate::nodes::{Paths, token};
use crate::sessions::Sessions;
use crate::steps::{Mine, Woken};
use crate::upkeep::Ends;
use crate::url::Settings;
use crate::watches::{Call, Watches};

/// A step that frees a lock is tried for so long, however late it is.
const FREE_WITHIN: Duration = Duration::from_secs(5);
/// A step that is out of time is answered so much before its deadline, or a tenth of what it had.
const EARLY_MAX: Duration = Duration::from_millis(100);
/// A waiter's look is tried for so long; then it asks by itself.
const LOOK_WITHIN: Duration = Duration::from_secs(1);
/// A place in line that somebody waits in is looked at again after so long.
const PLACE_LASTS: Duration = Duration::from_secs(1);
/// The most steps that wait for the servers.
const STEPS_MAX: usize = 100_000;

/// A step that waits to be run.
pub(crate) struct Job {
    pub(crate) step: Step,
    pub(crate) deadline: Moment,
    pub(crate) reply: Reply,
}

impl Job {
    /// Answers the step.
    fn answer(self, answer: Result<Answer, Trouble>) {
        self.reply.answer(answer);
    }
}

/// What there is to do.
pub(crate) enum Work {
    Step(Job),
    /// A waiter's watch has told.
    Look(Owner),
    /// The time of a claim may be over.
    End(Owner),
}

/// Work that is done one after the other: that of one lock, and reading, which waits for nobody, as it comes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Lock(LockName),
    Reads(u64),
}

/// What runs the steps of one store.
pub(crate) struct Engine {
    pub(crate) settings: Arc<Settings>,
    pub(crate) sessions: Sessions,
    pub(crate) paths: Paths,
    pub(crate) watches: Watches,
    pub(crate) ends: Ends,
    pub(crate) clock: Clock,
    pub(crate) done: Notify,
    /// How far the servers' clock is ahead of ours, once it was measured.
    pub(crate) ahead_ms: OnceLock<i64>,
    mine: Mutex<HashMap<Owner, Mine>>,
    listeners: Mutex<HashMap<Owner, (Arc<Claim>, Reply)>>,
    lanes: Mutex<HashMap<Lane, VecDeque<Work>>>,
    waiting: AtomicUsize,
    reads: AtomicU64,
}

impl Engine {
    pub(crate) fn new(settings: Arc<Settings>, sessions: Sessions, clock: Clock) -> Self {
        Self {
            paths: Paths::new(settings.root.clone()),
            settings,
            sessions,
            watches: Watches::default(),
            ends: Ends::default(),
            clock,
            done: Notify::new(),
            ahead_ms: OnceLock::new(),
            mine: Mutex::default(),
            listeners: Mutex::default(),
            lanes: Mutex::default(),
            waiting: AtomicUsize::new(0),
            reads: AtomicU64::new(0),
        }
    }

    /// Which lane a step belongs to.
    pub(crate) fn lane(&self, step: &Step) -> Lane {
        match step.claim() {
            Some(claim) => Lane::Lock(claim.name.clone()),
            // What is about no claim of ours holds no renewal up.
            None => Lane::Reads(self.reads.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Takes a step. `true`: nobody works on its lane, and somebody has to ([`Engine::work`]).
    pub(crate) fn put(&self, lane: &Lane, work: Work) -> bool {
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst);
        let work = match work {
            Work::Step(job) if waiting >= STEPS_MAX => {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                let message = format!("{STEPS_MAX} steps wait for the servers already; try again later");
                job.answer(Err(Trouble::new(StoreErrorKind::TooSlow, message)));
                return false;
            }
            // What a claim has to do by itself is never left out.
            work => work,
        };
        let mut lanes = lock(&self.lanes);
        match lanes.get_mut(lane) {
            Some(all) => {
                all.push_back(work);
                false
            }
            None => {
                lanes.insert(lane.clone(), VecDeque::from([work]));
                true
            }
        }
    }

    /// Does the work of one lane, in order, until there is none.
    pub(crate) async fn work(self: Arc<Self>, lane: Lane) {
        loop {
            let work = {
                let mut lanes = lock(&self.lanes);
                let Some(work) = lanes.get_mut(&lane).and_then(VecDeque::pop_front) else {
                    lanes.remove(&lane);
                    break;
                };
                work
            };
            match work {
                Work::Step(job) => self.serve(job).await,
                Work::Look(owner) => self.look_for(&owner).await,
                Work::End(owner) => self.end(&owner).await,
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        self.done.notify_one();
    }

    /// Nothing is left to do, not even for a lease whose owner is gone.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0 && lock(&self.mine).is_empty()
    }

    /// A watch has told: whoever it was for looks again. On the store's runtime only.
    pub(crate) fn call(self: &Arc<Self>, call: Call) {
        self.put_now(call.name, Work::Look(call.owner));
    }

    /// Takes work for a lock and sees to it that it is done. On the store's runtime only.
    pub(crate) fn put_now(self: &Arc<Self>, name: LockName, work: Work) {
        let lane = Lane::Lock(name);
        if self.put(&lane, work) {
            tokio::spawn(self.clone().work(lane));
        }
    }

    pub(crate) fn listen(&self, claim: &Arc<Claim>, reply: Reply) {
        lock(&self.listeners).insert(claim.owner, (claim.clone(), reply));
    }

    pub(crate) fn unlisten(&self, owner: &Owner) {
        let ended = lock(&self.listeners).remove(owner);
        // Outside the lock: its mailbox may be the last one that is dropped.
        drop(ended);
    }

    async fn serve(&self, job: Job) {
        let left = job.deadline.since(self.clock.now());
        let must_run = matches!(job.step, Step::Release { .. } | Step::GiveBack { .. } | Step::Evict { .. });
        if left.is_zero() && !must_run {
            let message = "the servers did not keep up: not run before its deadline";
            return job.answer(Err(Trouble::new(StoreErrorKind::TooSlow, message)));
        }
        // A little before whoever asks gives up: then it hears what was waited for.
        let early = left.saturating_sub((left / 10).min(EARLY_MAX));
        let limit = Instant::now() + if must_run { early.max(FREE_WITHIN) } else { early };
        let answer = self.run(&job.step, &job.reply, limit).await;
        job.answer(answer.map_err(Failure::trouble));
    }

    async fn run(&self, step: &Step, reply: &Reply, limit: Instant) -> Result<Answer, Failure> {
        match step {
            Step::Acquire { claim, attempt, .. } => self.run_acquire(claim, *attempt, reply, limit).await,
            Step::Renew { claim, token, .. } => {
                let mut mine = self.take_mine(claim);
                mine.hints = Some(reply.downgrade());
                let answer = self.renew(claim, token.as_i64(), &mut mine, limit).await;
                self.keep_mine(mine);
                answer
            }
            Step::GiveBack { claim, attempt, token, .. } => {
                let newer =
                    lock(&self.mine).get(&claim.owner).and_then(|mine| mine.place.as_ref().map(|place| place.token));
                if newer.is_some_and(|newer| newer != token.as_i64()) {
                    // It has been granted anew since: this was late.
                    return Ok(Answer::NotHeld);
                }
                let freed = self.run_release(claim, limit).await?;
                if claim.place().is_some()
                    && let Ok(Answer::Granted { token }) = self.run_acquire(claim, *attempt, reply, limit).await
                {
                    self.push(&claim.owner, Event::HandedOver { token, attempt: *attempt });
                }
                Ok(if freed { Answer::Freed } else { Answer::NotHeld })
            }
            // A claim that was to follow asks by itself.
            Step::Release { claim, only: Some(only), .. } => {
                let mut mine = self.take_mine(claim);
                let freed = self.release_grant(claim, only.as_i64(), &mut mine, limit).await;
                self.keep_mine(mine);
                Ok(if freed? { Answer::Freed } else { Answer::NotHeld })
            }
            Step::Release { claim, then, .. } => {
                let Some(Then { claim: next, attempt }) = then else {
                    let freed = self.run_release(claim, limit).await?;
                    return Ok(if freed { Answer::Freed } else { Answer::NotHeld });
                };
                let (mut left, mut came) = (self.take_mine(claim), self.take_mine(next));
                came.hints = self.hints_for(&next.owner);
                let done = self.relay((claim, &mut left), (next, *attempt, &mut came), limit).await;
                self.keep_mine(left);
                self.keep_mine(came);
                Ok(match done? {
                    (freed, Some(answer)) => Answer::Relayed { freed, then: Box::new(answer) },
                    // The other claim asks again by itself.
                    (true, None) => Answer::Freed,
                    (false, None) => Answer::NotHeld,
                })
            }
            Step::Evict { name, .. } => self.evict(name, limit).await,
            Step::Ask { name, request } => self.ask(name, request, limit).await,
            Step::Inspect { name } => self.state(name, limit).await.map(Answer::State),
            Step::List { prefix, after, limit: most, contended } => {
                self.list(prefix, after.as_ref(), *most, *contended, limit).await.map(Answer::States)
            }
            Step::Record { name, deed } => self.record(name, deed, limit).await,
            Step::AcquireAll { .. } => {
                let cure = "ask for each alone";
                Err(Failure::new(StoreErrorKind::Unsupported, "this store does not take several locks at once", cure))
            }
        }
    }

    async fn run_acquire(
        &self,
        claim: &Arc<Claim>,
        attempt: u32,
        reply: &Reply,
        limit: Instant,
    ) -> Result<Answer, Failure> {
        let mut mine = self.take_mine(claim);
        mine.hints = Some(reply.downgrade());
        let answer = self.acquire(claim, attempt, &mut mine, limit).await;
        self.keep_mine(mine);
        answer
    }

    async fn run_release(&self, claim: &Arc<Claim>, limit: Instant) -> Result<bool, Failure> {
        let mut mine = self.take_mine(claim);
        let freed = self.release(claim, &mut mine, limit).await;
        self.keep_mine(mine);
        freed
    }

    async fn look_for(&self, owner: &Owner) {
        let listener = lock(&self.listeners).get(owner).map(|(claim, _)| claim.clone());
        let Some(claim) = listener else { return };
        let mut mine = self.take_mine(&claim);
        let woken = self.wake(&claim, &mut mine, Instant::now() + LOOK_WITHIN).await;
        let held = mine.place.as_ref().and_then(|place| token(place.token));
        let handed_over = held.map(|token| Event::HandedOver { token, attempt: mine.attempt });
        self.keep_mine(mine);
        match (woken, handed_over) {
            (Ok(Woken::No), _) => {}
            (Ok(Woken::Yes), Some(event)) => self.push(owner, event),
            _ => self.push(owner, Event::MayPay),
        }
    }

    /// Ends a claim that nobody has renewed, and tries again what could not be given up.
    async fn end(&self, owner: &Owner) {
        let Some(mut mine) = lock(&self.mine).remove(owner) else { return };
        mine.scheduled = false;
        if mine.is_waiting() && lock(&self.listeners).contains_key(owner) {
            // The servers do not answer, and it waits on: its place outlives that, if its session does.
            mine.ends = mine.ends.max(Instant::now() + PLACE_LASTS);
        }
        if mine.ends <= Instant::now() {
            let claim = mine.claim.clone();
            // What fails is tried again; a session that has expired has ended everything.
            let _ = self.release(&claim, &mut mine, Instant::now() + FREE_WITHIN).await;
        }
        self.keep_mine(mine);
    }

    /// A session has ended: whoever holds by it asks at once, instead of at the next renewal.
    pub(crate) fn tell_holders_of(&self, session: i64) {
        let held: Vec<WeakReply> = lock(&self.mine)
            .values()
            .filter(|mine| mine.holds_by(session))
            .filter_map(|mine| mine.hints.clone())
            .collect();
        held.iter().for_each(say_it_may_be_lost);
    }

    /// Where a claim hears that its session has ended, if it listens.
    fn hints_for(&self, owner: &Owner) -> Option<WeakReply> {
        lock(&self.listeners).get(owner).map(|(_, reply)| reply.downgrade())
    }

    fn push(&self, owner: &Owner, event: Event) {
        let reply = lock(&self.listeners).get(owner).map(|(_, reply)| reply.clone());
        if let Some(reply) = reply {
            reply.push(event);
        }
    }

    /// What is known of a claim. Its lane has it alone until it is put back.
    fn take_mine(&self, claim: &Arc<Claim>) -> Mine {
        let known = lock(&self.mine).remove(&claim.owner);
        known.unwrap_or_else(|| Mine::new(claim))
    }

    fn keep_mine(&self, mut mine: Mine) {
        let owner = mine.claim.owner;
        if mine.is_over() {
            return self.watches.forget(&owner);
        }
        if mine.holds_nothing() {
            // The session ended while a step was at work on it.
            mine.hints.iter().for_each(say_it_may_be_lost);
        }
        if !mine.scheduled {
            mine.scheduled = true;
            self.ends.add(mine.ends, mine.claim.name.clone(), owner);
        }
        lock(&self.mine).insert(owner, mine);
    }
}

/// A mailbox that panics must not take the store with it.
fn say_it_may_be_lost(to: &WeakReply) {
    to.push(Event::MayBeLost);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
