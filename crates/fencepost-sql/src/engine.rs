//! Steps, in order per lock; each one statement or one transaction, tried again while it certainly has not run.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencepost_core::notice;
use fencepost_core::store::table::{self, Kept, Notice};
use fencepost_core::store::{
    Answer, Clock, Deed, Event, FencingToken, LockName, Moment, Owner, Reply, Step, StoreErrorKind, Trouble,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::changes::Changes;
use crate::database::{Database, Failure, Want};
use crate::hub::Hub;
use crate::page::OpenPage;
use crate::pool::Pool;
use crate::shortcut::{Free, Moods, Shortcut, Take};

/// So much of a line is read with its lock; the rest only if that is not enough.
const LINE: i64 = 16;
/// A step that frees a lock is tried for so long, however late it is.
const FREE_WITHIN: Duration = Duration::from_secs(5);
/// A step that is out of time is answered so much before its deadline, or a tenth of what it had.
const EARLY_MAX: Duration = Duration::from_millis(100);
/// The pauses between tries grow from the first to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(150));
/// After so many steps the database is asked whether old rows should go.
const PRUNE_EVERY: u64 = 1000;
/// Pruning that takes longer is left to the next one.
const PRUNE_WITHIN: Duration = Duration::from_secs(30);
/// The most steps that wait for one database.
const STEPS_MAX: usize = 100_000;
/// When the head of the line does not take a free lock for so long, the others wake the line.
const GRACE: Duration = Duration::from_millis(200);

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

/// Steps that run one after the other: those of one lock, and reading ones, which wait for nobody, as they come.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Lock(LockName),
    Reads(u64),
}

/// What runs the steps of one store.
pub(crate) struct Engine<D: Database> {
    pub(crate) database: D,
    pub(crate) pool: Pool<D>,
    pub(crate) hub: Hub,
    clock: Clock,
    moods: Moods,
    lanes: Mutex<HashMap<Lane, VecDeque<Job>>>,
    waiting: AtomicUsize,
    pub(crate) done: Notify,
    steps: AtomicU64,
    reads: AtomicU64,
    /// How far the database's clock is ahead of ours, in microseconds.
    ahead_us: AtomicI64,
}

/// What a step brought.
struct Outcome {
    answer: Result<Answer, Trouble>,
    told: Vec<(Owner, u32, Notice)>,
    /// Whether the one who asked is the first in line.
    is_head: bool,
}

impl Outcome {
    /// Nobody else is concerned.
    fn alone(answer: Answer) -> Self {
        Self { answer: Ok(answer), told: Vec::new(), is_head: false }
    }
}

impl<D: Database> Engine<D> {
    pub(crate) fn new(database: D, clock: Clock) -> Result<Self, Failure> {
        Ok(Self {
            pool: Pool::new(database.links_max()),
            database,
            hub: Hub::new()?,
            clock,
            moods: Moods::default(),
            lanes: Mutex::default(),
            waiting: AtomicUsize::new(0),
            done: Notify::new(),
            steps: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            ahead_us: AtomicI64::new(0),
        })
    }

    /// The first connection: everything is as it should be.
    pub(crate) async fn check(&self) -> Result<(), Failure> {
        let mut lent = self.pool.take(&self.database).await?;
        let now_us = self.database.check(&mut lent.link).await?;
        self.learn(now_us);
        match self.database.prune(&mut lent.link).await {
            Ok(()) => lent.keep(),
            // That is no reason not to connect.
            Err(failure) => notice!(DEBUG, reason = failure.message, "old rows stay for now"),
        }
        Ok(())
    }

    /// Which lane a step belongs to.
    pub(crate) fn lane(&self, step: &Step) -> Lane {
        match step {
            Step::Inspect { .. } | Step::List { .. } | Step::Record { deed: Deed::Read, .. } => {
                Lane::Reads(self.reads.fetch_add(1, Ordering::Relaxed))
            }
            other => Lane::Lock(other.name().expect("BUG: only a listing has no name").clone()),
        }
    }

    /// Takes a step. `true`: nobody works on its lane, and somebody has to ([`Engine::work`]).
    pub(crate) fn put(&self, lane: &Lane, job: Job) -> bool {
        if self.waiting.fetch_add(1, Ordering::SeqCst) >= STEPS_MAX {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            let message = format!("{STEPS_MAX} steps wait for the database already; try again later");
            job.answer(Err(Trouble::new(StoreErrorKind::TooSlow, message)));
            return false;
        }
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        match lanes.get_mut(lane) {
            Some(jobs) => {
                jobs.push_back(job);
                false
            }
            None => {
                lanes.insert(lane.clone(), VecDeque::from([job]));
                true
            }
        }
    }

    /// Runs the steps of one lane, in order, until there are none.
    pub(crate) async fn work(self: Arc<Self>, lane: Lane) {
        loop {
            let job = {
                let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(job) = lanes.get_mut(&lane).and_then(VecDeque::pop_front) else {
                    lanes.remove(&lane);
                    break;
                };
                job
            };
            self.serve(job).await;
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        self.done.notify_one();
        self.prune_sometimes().await;
    }

    /// Nothing is left to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    async fn serve(&self, job: Job) {
        let left = job.deadline.since(self.clock.now());
        let must_run = matches!(job.step, Step::Release { .. } | Step::GiveBack { .. } | Step::Evict { .. });
        if left.is_zero() && !must_run {
            let message = "the database did not keep up: not run before its deadline";
            return job.answer(Err(Trouble::new(StoreErrorKind::TooSlow, message)));
        }
        // A little before whoever asks gives up: then it hears what was waited for.
        let early = left.saturating_sub((left / 10).min(EARLY_MAX));
        let limit = Instant::now() + if must_run { early.max(FREE_WITHIN) } else { early };
        match self.run(&job.step, limit).await {
            Ok(outcome) => self.deliver(job, outcome),
            Err(failure) => job.answer(Err(failure.trouble())),
        }
    }

    fn deliver(&self, job: Job, outcome: Outcome) {
        if let (Step::Acquire { claim, .. }, Ok(Answer::Held { holder: Some(holder), .. })) =
            (&job.step, &outcome.answer)
            && let Some(left) = holder.expires_in
        {
            let grace = if outcome.is_head { Duration::ZERO } else { GRACE };
            self.hub.set_due(&claim.owner, Instant::now() + left + grace);
        }
        job.answer(outcome.answer);
        for (owner, attempt, notice) in outcome.told {
            let event = match notice {
                Notice::HandedOver { token } => Event::HandedOver { token, attempt },
                Notice::MayPay => Event::MayPay,
            };
            self.hub.push(&owner, event);
        }
    }

    /// Tries until it has run, may have run, or there is no time left.
    async fn run(&self, step: &Step, limit: Instant) -> Result<Outcome, Failure> {
        let mut pause = PAUSE.0;
        let mut unanswered = None;
        loop {
            let failure = match self.attempt(step, limit).await {
                Ok(outcome) if outcome.answer == Ok(Answer::NotHeld) => {
                    // Not the owner's, or freed by the statement that was not answered: nobody knows.
                    return unanswered.map_or(Ok(outcome), Err);
                }
                Ok(outcome) => return Ok(outcome),
                Err(Setback { failure, unharmed, may_have_run }) if unharmed && Instant::now() + pause < limit => {
                    if may_have_run {
                        unanswered = Some(failure.clone());
                    }
                    failure
                }
                Err(Setback { failure, .. }) => {
                    // What was not answered may have run, however certain the refusal of the next try is.
                    let certain = !failure.kind.outcome_unknown();
                    return Err(unanswered.filter(|_| certain).unwrap_or(failure));
                }
            };
            if failure.kind == StoreErrorKind::Unreachable {
                // The others were opened at the same server, and are probably gone too.
                self.pool.forget();
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    async fn attempt(&self, step: &Step, limit: Instant) -> Result<Outcome, Setback> {
        let taking = timeout_at(limit, self.pool.take(&self.database)).await;
        let mut lent = taking.map_err(|_| Setback::for_good(self.all_busy()))?.map_err(Setback::before_commit)?;
        // Dropped when time is up, with its connection: the server undoes what was not committed.
        let work = async {
            let short = match Shortcut::of(step) {
                Some(shortcut) => self.cut_short(&mut lent.link, shortcut, limit).await,
                None => Ok(None),
            };
            let done = match (short, step) {
                (Ok(Some(answer)), _) => Ok(Outcome::alone(answer)),
                (Err(setback), _) => Err(setback),
                (Ok(None), Step::Record { name, deed }) => self.record(&mut lent.link, name, deed).await,
                (Ok(None), Step::Inspect { .. } | Step::List { .. }) => {
                    self.read(&mut lent.link, step).await.map_err(Setback::before_commit)
                }
                (Ok(None), _) => self.write(&mut lent.link, step).await,
            };
            match done {
                Ok(outcome) => {
                    lent.keep();
                    Ok(outcome)
                }
                Err(setback) => {
                    if setback.failure.undone && self.database.rollback(&mut lent.link).await.is_ok() {
                        lent.keep();
                    }
                    Err(setback)
                }
            }
        };
        timeout_at(limit, work).await.unwrap_or_else(|_| {
            let what = format!("{} did not answer in time", self.database.label());
            let cure = "look for long transactions on its tables, or give it more time with answer_within";
            Err(Setback::for_good(Failure::new(StoreErrorKind::TooSlow, what, cure)))
        })
    }

    /// One statement, where that may do; no answer: it did not.
    async fn cut_short(
        &self,
        link: &mut D::Link,
        shortcut: Shortcut<'_>,
        limit: Instant,
    ) -> Result<Option<Answer>, Setback> {
        let done = match shortcut {
            Shortcut::Take { claim, .. } | Shortcut::Free(Free { claim, .. }) if !self.moods.allow(&claim.name) => {
                return Ok(None);
            }
            Shortcut::Take { claim, attempt } => {
                let left = micros_of(limit.saturating_duration_since(Instant::now()));
                let take = Take { claim, attempt, before_us: self.database_now_us().saturating_add(left) };
                // Before it is sent: whoever is dropped on the way has left word.
                self.moods.sending(&take);
                let taken = self.database.take(link, &take).await;
                if !taken.as_ref().is_err_and(|failure| !failure.undone) {
                    self.moods.answered(&claim.name);
                }
                taken.map(|token| token.map(|token| Answer::Granted { token }))
            }
            Shortcut::Free(free) => self.database.free(link, &free).await.map(|freed| freed.then_some(Answer::Freed)),
        };
        match done {
            Err(failure) if failure.undone => Ok(None),
            done => done.map_err(Setback::of_one_statement),
        }
    }

    async fn write(&self, link: &mut D::Link, step: &Step) -> Result<Outcome, Setback> {
        let name = step.name().expect("BUG: only a listing has no name");
        let late_us = self.moods.unanswered_until_us(name);
        let mut want = want(name, step);
        let mut page = self.database.begin(link, &want).await.map_err(Setback::before_commit)?;
        self.learn(page.now_us);
        let (answer, changes) = loop {
            let now = page.now();
            let mut open = OpenPage::new(&mut page, &self.hub);
            match table::apply(&mut open, step, now) {
                Ok(answer) => break (answer, open.close(late_us)),
                Err(_short) => {
                    want = more(want, step);
                    page = self.database.again(link, &want).await.map_err(Setback::before_commit)?;
                }
            }
        };
        let is_head = step.claim().is_some_and(|claim| page.is_head(&claim.owner));
        self.finish(link, name, &changes).await?;
        self.moods.saw(name, page.is_busy() || !page.is_only_of(&owners(step)));
        Ok(Outcome { answer, told: changes.told, is_head })
    }

    async fn record(&self, link: &mut D::Link, name: &LockName, deed: &Deed) -> Result<Outcome, Setback> {
        let locking = deed.token().is_some();
        let (found, now_us) = self.database.record(link, name, locking).await.map_err(Setback::before_commit)?;
        self.learn(now_us);
        let (answer, written) = Kept::decide(found, deed, token_at(now_us));
        match written {
            Some(kept) => self.database.put_record(link, name, &kept).await.map_err(Setback::at_commit)?,
            None if locking => self.database.rollback(link).await.map_err(Setback::before_commit)?,
            None => {}
        }
        Ok(Outcome::alone(answer))
    }

    async fn finish(&self, link: &mut D::Link, name: &LockName, changes: &Changes) -> Result<(), Setback> {
        if changes.is_empty() && changes.letters.is_empty() {
            return self.database.rollback(link).await.map_err(Setback::before_commit);
        }
        self.database.commit(link, name, changes).await.map_err(Setback::at_commit)
    }

    async fn read(&self, link: &mut D::Link, step: &Step) -> Result<Outcome, Failure> {
        let names = match step {
            Step::List { prefix, after, limit, contended } => {
                let after = after.as_ref().map_or("", LockName::as_str);
                self.database.names(link, prefix, after, *limit, *contended).await?
            }
            other => other.name().cloned().into_iter().collect(),
        };
        let pages = self.database.look(link, &names).await?;
        let states = names.iter().zip(pages).map(|(name, mut page)| {
            let now = page.now();
            table::state(&mut OpenPage::new(&mut page, &self.hub), name.as_str(), now)
                .expect("BUG: the whole line is here")
        });
        let mut states: Vec<_> = states.collect();
        let answer = match step {
            Step::List { .. } => Answer::States(states),
            _ => Answer::State(states.pop().expect("BUG: one name has one page")),
        };
        Ok(Outcome::alone(answer))
    }

    async fn prune_sometimes(&self) {
        if !(self.steps.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(PRUNE_EVERY) {
            return;
        }
        let pruning = async {
            let mut lent = self.pool.take(&self.database).await?;
            self.database.prune(&mut lent.link).await?;
            lent.keep();
            Ok::<_, Failure>(())
        };
        if let Ok(Err(failure)) = timeout(PRUNE_WITHIN, pruning).await {
            notice!(DEBUG, reason = failure.message, "old rows stay for now");
        }
    }

    /// The database's clock as a token, as far as we know it.
    pub(crate) fn store_clock(&self) -> FencingToken {
        token_at(self.database_now_us())
    }

    fn database_now_us(&self) -> i64 {
        micros(self.clock.wall()).saturating_add(self.ahead_us.load(Ordering::Relaxed))
    }

    fn learn(&self, now_us: i64) {
        self.ahead_us.store(now_us.saturating_sub(micros(self.clock.wall())), Ordering::Relaxed);
    }

    fn all_busy(&self) -> Failure {
        let what = format!("all {} connections to {} are busy", self.database.links_max(), self.database.label());
        Failure::new(StoreErrorKind::TooSlow, what, "raise `pool` in the URL, or find out why the database is slow")
    }
}

/// A moment of the database's clock as a token.
fn token_at(now_us: i64) -> FencingToken {
    FencingToken::at(UNIX_EPOCH + Duration::from_micros(u64::try_from(now_us).unwrap_or_default()))
}

/// Why a step was not done.
struct Setback {
    failure: Failure,
    /// It has certainly not run or does no harm if it has, and trying again may help.
    unharmed: bool,
    may_have_run: bool,
}

impl Setback {
    fn before_commit(failure: Failure) -> Self {
        Self { unharmed: failure.may_pass(), failure, may_have_run: false }
    }

    /// Only what the server says it has undone is certain.
    fn at_commit(failure: Failure) -> Self {
        Self { unharmed: failure.undone, may_have_run: !failure.undone, failure }
    }

    /// It may have run, but asking again is right: the long way finds what it did.
    fn of_one_statement(failure: Failure) -> Self {
        Self { unharmed: failure.may_pass(), failure, may_have_run: true }
    }

    fn for_good(failure: Failure) -> Self {
        Self { failure, unharmed: false, may_have_run: true }
    }
}

/// What nearly every step can do with.
fn want(name: &LockName, step: &Step) -> Want {
    let (line, revoked) = match step {
        // Who renews does not look at the line.
        Step::Renew { claim, .. } => (0, Some(claim.owner)),
        _ => (LINE, None),
    };
    Want { name: name.clone(), line, revoked, places: Vec::new() }
}

/// It was not enough: the line is longer. First its own places, wherever they are; then all of it.
fn more(want: Want, step: &Step) -> Want {
    if !want.places.is_empty() || want.line == 0 {
        return Want { line: Want::WHOLE, ..want };
    }
    let places = owners(step);
    let line = if places.is_empty() { Want::WHOLE } else { want.line };
    Want { places, line, ..want }
}

/// Whose claims the step is of.
fn owners(step: &Step) -> Vec<Owner> {
    let then = match step {
        Step::Release { then, .. } => then.as_ref().map(|then| then.claim.owner),
        _ => None,
    };
    step.claim().map(|claim| claim.owner).into_iter().chain(then).collect()
}

fn micros(wall: SystemTime) -> i64 {
    micros_of(wall.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn micros_of(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
