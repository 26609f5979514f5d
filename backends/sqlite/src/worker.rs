//! The thread that runs the steps: all that wait, in one transaction and with one commit.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::store::table::{self, Now, Shelf};
use fencepost_core::store::{
    AlarmId, Answer, Claim, Clock, Deed, Event, FencingToken, LockName, LockState, Moment, Owner, Part, Step,
    StoreErrorKind, Trouble,
};
use rusqlite::{Connection, Transaction, TransactionBehavior, named_params};

use crate::database::{Database, now_ms};
use crate::error::Failure;
use crate::presence::Presence;
use crate::queue::{Job, Queue};
use crate::shelf::{Access, SqlShelf, Told};
use crate::sight::{self, Sight};
use crate::wake::Wake;

/// How often a process looks that others cannot reach, while somebody waits in it.
const POLL_PAUSE: Duration = Duration::from_millis(50);
/// After so many write transactions the file is asked whether old rows should go.
const PRUNE_EVERY: u64 = 1000;

/// The thread of one store.
pub(crate) struct Worker {
    queue: Arc<Queue>,
    clock: Clock,
    file: PathBuf,
    /// None after trouble: it is opened anew.
    database: Option<Database>,
    /// Kept through trouble: the leases of this process run on.
    presence: Option<Arc<Presence>>,
    wake: Wake,
    /// When to look again at the locks that are waited for here.
    due: HashMap<LockName, Moment>,
    alarm: Option<(Moment, AlarmId)>,
    writes: u64,
}

/// What a transaction brought: an answer per step, and whom to tell.
#[derive(Default)]
struct Outcome {
    answers: Vec<Result<Answer, Trouble>>,
    told: Vec<(LockName, Told)>,
}

/// Why a transaction brought nothing.
struct Setback {
    failure: Failure,
    /// It was rolled back for sure.
    undone: bool,
}

impl From<Failure> for Setback {
    fn from(failure: Failure) -> Self {
        Self { failure, undone: true }
    }
}

impl Worker {
    pub(crate) fn new(database: Database, queue: Arc<Queue>, clock: Clock) -> Self {
        let file = database.file.clone();
        let wake = Wake::new(&file, queue.clone());
        let (presence, due) = (Some(database.presence.clone()), HashMap::new());
        Self { queue, clock, file, database: Some(database), presence, wake, due, alarm: None, writes: 0 }
    }

    pub(crate) fn run(mut self) {
        while let Some(turn) = self.queue.next_turn() {
            if !turn.jobs.is_empty() {
                self.serve(turn.jobs);
            }
            self.look(turn.hints);
            self.set_alarm();
        }
        if let Some(database) = self.database.take() {
            database.close();
        }
    }

    fn serve(&mut self, jobs: Vec<Job>) {
        if jobs.iter().any(|job| waits(&job.step)) {
            self.wake.bind();
        }
        let outcome = if jobs.iter().all(|job| only_reads(&job.step)) { self.read(&jobs) } else { self.write(&jobs) };
        match outcome {
            Ok(outcome) => self.deliver(jobs, outcome),
            // A row that cannot be read fails its own step, not its neighbours'.
            Err(Setback { failure, undone: true })
                if jobs.len() > 1 && *failure.kind() == StoreErrorKind::Unexpected =>
            {
                jobs.into_iter().for_each(|job| self.serve(vec![job]));
            }
            Err(Setback { failure, .. }) => jobs.into_iter().for_each(|job| job.answer(Err(failure.trouble()))),
        }
    }

    fn deliver(&mut self, jobs: Vec<Job>, outcome: Outcome) {
        // Other processes first: once it is answered, this one may end.
        let pushes: Vec<(Owner, Event)> =
            outcome.told.into_iter().filter_map(|(name, told)| told.send(&name)).collect();
        let now = self.clock.now();
        for (job, answer) in jobs.into_iter().zip(outcome.answers) {
            if let (Step::Acquire { claim, .. }, Ok(Answer::Held { holder, .. })) = (&job.step, &answer)
                && claim.place().is_some()
            {
                let left = holder.as_ref().and_then(|holder| holder.expires_in).unwrap_or(POLL_PAUSE);
                self.due.insert(claim.name.clone(), now.plus(left));
            }
            job.answer(answer);
        }
        for (owner, event) in pushes {
            self.queue.push(&owner, event);
        }
    }

    /// Nobody waits for a reader, and a reader waits for nobody.
    fn read(&mut self, jobs: &[Job]) -> Result<Outcome, Setback> {
        let database = self.open_database()?;
        let said = |error: rusqlite::Error| Failure::sqlite(&database.file, &error);
        let transaction =
            Transaction::new_unchecked(&database.connection, TransactionBehavior::Deferred).map_err(said)?;
        let (now, now_ms) = self.now();
        let answers = jobs.iter().map(|job| match self.is_late(job, now.moment) {
            true => Ok(Err(too_late())),
            false => view(&transaction, &job.step, now, now_ms).map(Ok),
        });
        let answers = answers.collect::<rusqlite::Result<_>>().map_err(said)?;
        transaction.commit().map_err(said)?;
        self.database = Some(database);
        Ok(Outcome { answers, told: Vec::new() })
    }

    /// Runs all steps, in order, and commits once.
    fn write(&mut self, jobs: &[Job]) -> Result<Outcome, Setback> {
        let database = self.open_database()?;
        let said = |error: rusqlite::Error| Failure::sqlite(&database.file, &error);
        let pass = database.pass()?;
        let transaction =
            Transaction::new_unchecked(&database.connection, TransactionBehavior::Immediate).map_err(said)?;
        let (now, now_ms) = self.now();
        let mut outcome = Outcome::default();
        for job in jobs {
            let answer = match &job.step {
                _ if self.is_late(job, now.moment) => Err(too_late()),
                step if only_reads(step) => Ok(view(&transaction, step, now, now_ms).map_err(said)?),
                Step::AcquireAll { parts } => {
                    Ok(self.acquire_all(&transaction, parts, now, now_ms, &mut outcome.told).map_err(said)?)
                }
                step => self.apply(&transaction, step, now, now_ms, &mut outcome.told).map_err(said)?,
            };
            outcome.answers.push(answer);
        }
        self.writes += 1;
        if self.writes.is_multiple_of(PRUNE_EVERY) {
            Database::prune(&transaction, &self.clock).map_err(said)?;
        }
        transaction.commit().map_err(|error| Setback { failure: said(error), undone: false })?;
        drop(pass);
        self.database = Some(database);
        Ok(outcome)
    }

    fn apply(
        &mut self,
        connection: &Connection,
        step: &Step,
        now: Now,
        now_ms: i64,
        all_told: &mut Vec<(LockName, Told)>,
    ) -> rusqlite::Result<Result<Answer, Trouble>> {
        let name = step.name().expect("BUG: only a listing has no name");
        let mut told = Vec::new();
        let access = Access::Write { wake: &mut self.wake, told: &mut told };
        let mut shelf = SqlShelf { connection, name, moment: now.moment, now_ms, access };
        let answer = table::apply(&mut shelf, step, now)?;
        if must_run(step) {
            shelf.touch()?;
        }
        all_told.extend(told.into_iter().map(|told| (name.clone(), told)));
        Ok(answer)
    }

    /// Looks at all before it takes the first: the transaction has other steps too.
    fn acquire_all(
        &mut self,
        connection: &Connection,
        parts: &[Part],
        now: Now,
        now_ms: i64,
        told: &mut Vec<(LockName, Told)>,
    ) -> rusqlite::Result<Answer> {
        for part in parts {
            let access = Access::Write { wake: &mut self.wake, told: &mut Vec::new() };
            let mut shelf = SqlShelf { connection, name: &part.claim.name, moment: now.moment, now_ms, access };
            if !table::would_grant(&mut shelf, part, now)? {
                return Ok(Answer::NotAll);
            }
        }
        let mut tokens = Vec::with_capacity(parts.len());
        for part in parts {
            match self.apply(connection, &part.alone(), now, now_ms, told)? {
                Ok(Answer::Granted { token }) => tokens.push(token),
                unexpected => unreachable!("BUG: it would have been granted: {unexpected:?}"),
            }
        }
        Ok(Answer::AllGranted { tokens })
    }

    /// Looks at locks that were hinted at or whose holder's time is over, for those who listen here.
    fn look(&mut self, mut names: HashSet<LockName>) {
        let now = self.clock.now();
        names.extend(self.due.iter().filter(|(_, due)| **due <= now).map(|(name, _)| name.clone()));
        let everywhere = self.wake.polls();
        if names.is_empty() && !everywhere {
            return;
        }
        self.due.retain(|name, _| !names.contains(name));
        let claims = self.queue.listening((!everywhere).then_some(&names));
        if claims.is_empty() {
            return;
        }
        let Ok(sights) = self.sights(&claims) else {
            // Whoever waits asks again by itself, and is told of the trouble then.
            return;
        };
        for (claim, sight) in claims.iter().zip(sights) {
            match sight {
                Sight::Tell(event) => self.queue.push(&claim.owner, event),
                Sight::Later(Some(at)) => {
                    let due = self.due.entry(claim.name.clone()).or_insert(at);
                    *due = at.min(*due);
                }
                Sight::Later(None) => {}
            }
        }
    }

    fn sights(&mut self, claims: &[Arc<Claim>]) -> Result<Vec<Sight>, Failure> {
        let database = self.open_database()?;
        let said = |error: rusqlite::Error| Failure::sqlite(&database.file, &error);
        let transaction =
            Transaction::new_unchecked(&database.connection, TransactionBehavior::Deferred).map_err(said)?;
        let (now, now_ms) = self.now();
        let sights = claims.iter().map(|claim| {
            let mut shelf = reader(&transaction, &claim.name, now, now_ms);
            let (holders, head, me) = (shelf.holders()?, shelf.head()?, shelf.waiter(&claim.owner)?);
            let mine = holders.iter().find(|held| held.owner == claim.owner);
            Ok(sight::judge(&holders, head.as_ref(), me.as_ref(), mine, now.moment))
        });
        let sights = sights.collect::<rusqlite::Result<_>>().map_err(said)?;
        transaction.commit().map_err(said)?;
        self.database = Some(database);
        Ok(sights)
    }

    /// Takes the open file, or opens it. It is put back when all went well.
    fn open_database(&mut self) -> Result<Database, Failure> {
        if let Some(database) = self.database.take()
            && database.is_in_place()
        {
            return Ok(database);
        }
        // Of a file that was replaced no lease is left, and its presence would speak for the new one.
        self.presence.take_if(|presence| presence.is_over(&self.file));
        let database = Database::open(&self.file, &self.clock, self.presence.as_ref())?;
        self.presence = Some(database.presence.clone());
        Ok(database)
    }

    fn set_alarm(&mut self) {
        let polls = self.wake.polls() && !self.queue.listening(None).is_empty();
        let poll = polls.then(|| self.clock.now().plus(POLL_PAUSE));
        let next = self.due.values().copied().chain(poll).min();
        if self.alarm.map(|(at, _)| at) == next {
            return;
        }
        if let Some((_, id)) = self.alarm.take() {
            self.clock.cancel(id);
        }
        let target: Arc<dyn fencepost_core::store::Alarm> = self.queue.clone();
        self.alarm = next.map(|at| (at, self.clock.alarm(at, Arc::downgrade(&target))));
    }

    fn now(&self) -> (Now, i64) {
        let (moment, clock) = (self.clock.now(), FencingToken::at(self.clock.wall()));
        (Now { moment, clock, quarantined: None }, now_ms(&self.clock))
    }

    fn is_late(&self, job: &Job, now: Moment) -> bool {
        job.deadline <= now && !must_run(&job.step)
    }
}

/// What frees a lock is run however late it is.
fn must_run(step: &Step) -> bool {
    matches!(step, Step::Release { .. } | Step::GiveBack { .. } | Step::Evict { .. })
}

fn only_reads(step: &Step) -> bool {
    matches!(step, Step::Inspect { .. } | Step::List { .. } | Step::Record { deed: Deed::Read, .. })
}

fn waits(step: &Step) -> bool {
    matches!(step, Step::Acquire { claim, .. } if claim.place().is_some())
}

fn too_late() -> Trouble {
    Trouble::new(StoreErrorKind::TooSlow, "the disk did not keep up: not run before its deadline")
}

fn reader<'a>(connection: &'a Connection, name: &'a LockName, now: Now, now_ms: i64) -> SqlShelf<'a> {
    SqlShelf { connection, name, moment: now.moment, now_ms, access: Access::Read }
}

/// Runs a step that only reads.
fn view(connection: &Connection, step: &Step, now: Now, now_ms: i64) -> rusqlite::Result<Answer> {
    let state = |name: &LockName| table::state(&mut reader(connection, name, now, now_ms), name.as_str(), now);
    match step {
        Step::Inspect { name } => state(name).map(Answer::State),
        Step::Record { name, .. } => match table::apply(&mut reader(connection, name, now, now_ms), step, now)? {
            Ok(answer) => Ok(answer),
            Err(refusal) => unreachable!("BUG: a record is read by anybody: {refusal:?}"),
        },
        Step::List { prefix, after, limit, contended } => {
            let sql = match contended {
                true => include_str!("sql/names_waited_for.sql"),
                false => include_str!("sql/names.sql"),
            };
            let names = names(connection, sql, prefix, after.as_ref(), *limit)?;
            names.iter().map(state).collect::<rusqlite::Result<Vec<LockState>>>().map(Answer::States)
        }
        _ => unreachable!("BUG: this step writes"),
    }
}

/// The next names in order that start so.
fn names(
    connection: &Connection,
    sql: &str,
    prefix: &str,
    after: Option<&LockName>,
    limit: u32,
) -> rusqlite::Result<Vec<LockName>> {
    let mut statement = connection.prepare_cached(sql)?;
    let after = after.map_or("", LockName::as_str);
    let params = named_params! { ":prefix": prefix, ":after": after, ":limit": limit };
    let rows = statement.query_map(params, |row| row.get::<_, String>(0))?;
    let mut found = Vec::new();
    for name in rows {
        match LockName::new(name?) {
            Ok(name) if name.as_str().starts_with(prefix) => found.push(name),
            _ => break,
        }
    }
    Ok(found)
}
