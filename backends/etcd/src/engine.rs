//! Steps in order, per lock.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_core::store::{
    Answer, Claim, Clock, Deed, Event, LockName, Moment, Owner, Reply, Step, StoreErrorKind, Then, Trouble,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::Client;
use crate::error::Failure;
use crate::keys::{Keys, token};
use crate::leases::Leases;
use crate::proto::Order;
use crate::steps::{Mine, Woken};
use crate::watches::{Call, Watches};

/// A step that frees a lock is tried for so long, however late it is.
const FREE_WITHIN: Duration = Duration::from_secs(5);
/// A step that is out of time is answered so much before its deadline, or a tenth of what it had.
const EARLY_MAX: Duration = Duration::from_millis(100);
/// How long an end of a lease is tried that nobody waits for.
const REVOKE_WITHIN: Duration = Duration::from_secs(5);
/// A waiter's look is tried for so long; then it asks by itself.
const LOOK_WITHIN: Duration = Duration::from_secs(1);
/// The most steps that wait for one cluster.
const STEPS_MAX: usize = 100_000;
/// What is known of a claim that nobody ended is forgotten once there are so many, after so long.
const CLAIMS_MAX: (usize, Duration) = (10_000, Duration::from_secs(24 * 3600));

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
}

/// Work that is done one after the other: that of one lock, and reading, which waits for nobody, as it comes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Lock(LockName),
    Reads(u64),
}

/// What runs the steps of one store.
pub(crate) struct Engine {
    pub(crate) client: Arc<Client>,
    pub(crate) keys: Keys,
    pub(crate) leases: Leases,
    pub(crate) watches: Watches,
    pub(crate) clock: Clock,
    pub(crate) done: Notify,
    /// Leases that are being ended.
    ending: Mutex<JoinSet<()>>,
    mine: Mutex<HashMap<Owner, Mine>>,
    listeners: Mutex<HashMap<Owner, (Arc<Claim>, Reply)>>,
    lanes: Mutex<HashMap<Lane, VecDeque<Work>>>,
    waiting: AtomicUsize,
    reads: AtomicU64,
}

impl Engine {
    pub(crate) fn new(client: Arc<Client>, keys: Keys, watches: Watches, clock: Clock) -> Self {
        let leases = Leases::new(keys.prefix(), clock.clone());
        Self {
            client,
            keys,
            leases,
            watches,
            clock,
            done: Notify::new(),
            ending: Mutex::default(),
            mine: Mutex::default(),
            listeners: Mutex::default(),
            lanes: Mutex::default(),
            waiting: AtomicUsize::new(0),
            reads: AtomicU64::new(0),
        }
    }

    /// The first request: somebody answers, and lets us in.
    pub(crate) async fn check(&self, limit: Instant) -> Result<(), Failure> {
        self.client.greet().await?;
        // Anybody may have a lease; whether we may read our keys only a read tells.
        let [_, remembered] = self.keys.listing("");
        self.client.range(remembered.by_age(Order::None, 1, 0), limit).await?;
        self.leases.memory(&self.client, limit).await.map(drop)
    }

    /// Which lane a step belongs to.
    pub(crate) fn lane(&self, step: &Step) -> Lane {
        match step.name() {
            Some(name) if !only_reads(step) => Lane::Lock(name.clone()),
            _ => Lane::Reads(self.reads.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Takes a step. `true`: nobody works on its lane, and somebody has to ([`Engine::work`]).
    pub(crate) fn put(&self, lane: &Lane, work: Work) -> bool {
        if self.waiting.fetch_add(1, Ordering::SeqCst) >= STEPS_MAX {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            if let Work::Step(job) = work {
                let message = format!("{STEPS_MAX} steps wait for the cluster already; try again later");
                job.answer(Err(Trouble::new(StoreErrorKind::TooSlow, message)));
            }
            return false;
        }
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
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        self.done.notify_one();
    }

    /// Nothing is left to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// Ends a lease in the background. On the store's runtime only.
    pub(crate) fn end_lease(&self, id: i64) {
        let client = self.client.clone();
        let mut ending = lock(&self.ending);
        while ending.try_join_next().is_some() {}
        ending.spawn(async move {
            // If that fails, it ends by itself.
            let _ = client.revoke(id, Instant::now() + REVOKE_WITHIN).await;
        });
    }

    /// Ends every lease that nothing is under, and waits until the cluster has heard of it.
    pub(crate) async fn end_leases(&self) {
        self.leases.take_all_idle().into_iter().for_each(|id| self.end_lease(id));
        let ending = std::mem::take(&mut *lock(&self.ending));
        ending.join_all().await;
    }

    /// A watch has told: whoever it was for looks again. On the store's runtime only.
    pub(crate) fn call(self: &Arc<Self>, call: Call) {
        let lane = Lane::Lock(call.name);
        if self.put(&lane, Work::Look(call.owner)) {
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
            let message = "the cluster did not keep up: not run before its deadline";
            return job.answer(Err(Trouble::new(StoreErrorKind::TooSlow, message)));
        }
        // A little before whoever asks gives up: then it hears what was waited for.
        let early = left.saturating_sub((left / 10).min(EARLY_MAX));
        let limit = Instant::now() + if must_run { early.max(FREE_WITHIN) } else { early };
        let answer = self.run(&job.step, limit).await;
        job.answer(answer.map_err(Failure::trouble));
    }

    async fn run(&self, step: &Step, limit: Instant) -> Result<Answer, Failure> {
        match step {
            Step::Acquire { claim, attempt, .. } => self.run_acquire(claim, *attempt, limit).await,
            Step::Renew { claim, token, .. } => {
                let mut mine = self.take_mine(claim);
                let answer = self.renew(claim, token.as_i64(), &mut mine, limit).await;
                self.keep_mine(claim, mine);
                answer
            }
            Step::GiveBack { claim, attempt, token, .. } => {
                let others = lock(&self.mine)
                    .get(&claim.owner)
                    .is_some_and(|mine| mine.revision != 0 && mine.revision != token.as_i64());
                if others {
                    // It has been granted anew since: this was late.
                    return Ok(Answer::NotHeld);
                }
                let freed = self.run_release(claim, limit).await?;
                if claim.place().is_some()
                    && let Ok(Answer::Granted { token }) = self.run_acquire(claim, *attempt, limit).await
                {
                    self.push(&claim.owner, Event::HandedOver { token, attempt: *attempt });
                }
                Ok(if freed { Answer::Freed } else { Answer::NotHeld })
            }
            // A claim that was to follow asks by itself.
            Step::Release { claim, only: Some(only), .. } => {
                let mut mine = self.take_mine(claim);
                let freed = self.release_grant(claim, only.as_i64(), &mut mine, limit).await;
                self.keep_mine(claim, mine);
                Ok(if freed? { Answer::Freed } else { Answer::NotHeld })
            }
            Step::Release { claim, then, .. } => {
                let Some(Then { claim: next, attempt }) = then else {
                    let freed = self.run_release(claim, limit).await?;
                    return Ok(if freed { Answer::Freed } else { Answer::NotHeld });
                };
                let (mut left, mut came) = (self.take_mine(claim), self.take_mine(next));
                let done = self.relay((claim, &mut left), (next, *attempt, &mut came), limit).await;
                self.keep_mine(claim, left);
                self.keep_mine(next, came);
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

    async fn run_acquire(&self, claim: &Claim, attempt: u32, limit: Instant) -> Result<Answer, Failure> {
        let mut mine = self.take_mine(claim);
        let answer = self.acquire(claim, attempt, &mut mine, limit).await;
        self.keep_mine(claim, mine);
        answer
    }

    async fn run_release(&self, claim: &Claim, limit: Instant) -> Result<bool, Failure> {
        let mut mine = self.take_mine(claim);
        let freed = self.release(claim, &mut mine, limit).await;
        self.keep_mine(claim, mine);
        freed
    }

    async fn look_for(&self, owner: &Owner) {
        let listener = lock(&self.listeners).get(owner).map(|(claim, _)| claim.clone());
        let Some(claim) = listener else { return };
        let mut mine = self.take_mine(&claim);
        let woken = self.wake(&claim, &mut mine, Instant::now() + LOOK_WITHIN).await;
        let handed_over = token(mine.revision).map(|token| Event::HandedOver { token, attempt: mine.attempt });
        self.keep_mine(&claim, mine);
        match (woken, handed_over) {
            (Ok(Woken::No), _) => {}
            // With a delay, only a lease that has it counts: it asks, and gets one.
            (Ok(Woken::Yes), Some(event)) if claim.delay.is_zero() => self.push(owner, event),
            _ => self.push(owner, Event::MayPay),
        }
    }

    fn push(&self, owner: &Owner, event: Event) {
        let reply = lock(&self.listeners).get(owner).map(|(_, reply)| reply.clone());
        if let Some(reply) = reply {
            reply.push(event);
        }
    }

    /// What is known of a claim. Its lane has it alone until it is put back.
    fn take_mine(&self, claim: &Claim) -> Mine {
        let known = lock(&self.mine).remove(&claim.owner);
        known.unwrap_or_else(|| Mine::new(self.keys.claim(&claim.name, &claim.owner, claim.mode), claim))
    }

    fn keep_mine(&self, claim: &Claim, mut mine: Mine) {
        if mine.revision == 0 && mine.lease.is_none() && mine.doubtful.is_empty() {
            return;
        }
        mine.touched = Instant::now();
        let mut all = lock(&self.mine);
        if all.len() >= CLAIMS_MAX.0 {
            all.retain(|_, old| old.touched.elapsed() < CLAIMS_MAX.1);
        }
        all.insert(claim.owner, mine);
    }
}

fn only_reads(step: &Step) -> bool {
    matches!(step, Step::Inspect { .. } | Step::List { .. } | Step::Record { deed: Deed::Read, .. })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
