//! Cron once: a job that runs once per window of time in the whole cluster.

use std::convert::Infallible;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::noted::{Elsewhere, Noted, checked_span, invalid, not_begun, not_sealed, refused, unrecorded};
use super::windows::{Begun, Current, Note, Ran, Window, WindowState, millis, millis_of};
use crate::error::{AcquireError, Invalid, RunError, StoreError};
use crate::fence::FenceError;
use crate::guard::Guard;
use crate::lock::{Lock, working};
use crate::locks::Locks;
use crate::records::Record;
use crate::span::spoken;
use crate::token::FencingToken;

/// What is known of a job is kept for so long after its last run.
const KEEP: Duration = Duration::from_secs(400 * 24 * 3600);

/// One run per window in the cluster. It skips, and never waits.
///
/// Guaranteed: of all who call it in one window one runs, as long as the runner lives; the others get `None` at once. A
/// window is told by the time of the schedule, and none is run after a later one has run, so a clock that is slow by a few
/// seconds runs nothing twice. A run whose process died is not done: whoever calls next in that window, after the
/// lease, runs it. A run that failed is done; [`inspect`](Self::inspect) tells.
///
/// Not guaranteed: that the work itself runs once. One that died in the middle is begun anew. Show the
/// [token](Guard::token) to whatever the work writes to.
///
/// Nor that anybody calls again in a window whose runner died, or while an older window still ran: call more often than
/// once per window, such as every five minutes for a daily job. A clock that is fast by many windows makes all others wait until that time has come.
///
/// The lock and the record are named `cron/NAME`, so a name has 250 bytes at most.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it runs"]
pub struct OncePerWindow {
    locks: Locks,
    name: String,
    window: Window,
    at: Option<SystemTime>,
    within: Option<Duration>,
    ttl: Option<Duration>,
    loss_margin: Option<Duration>,
    at_least: Duration,
    at_most: Option<Duration>,
}

impl OncePerWindow {
    pub(super) fn new(locks: Locks, name: String, window: Window) -> Self {
        let name = named(&name);
        Self {
            locks,
            name,
            window,
            at: None,
            within: None,
            ttl: None,
            loss_margin: None,
            at_least: Duration::ZERO,
            at_most: None,
        }
    }

    /// The window of that time, such as that for which it was scheduled. Default: the time when it runs.
    pub fn at(mut self, time: SystemTime) -> Self {
        self.at = Some(time);
        self
    }

    /// A window that nobody ran within this time after it began is skipped. Default: it can be run until the next one
    /// begins, so a job that is called for the first time at noon runs at noon, whatever its schedule.
    pub fn start_within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// The lease of whoever runs it: so long after its death another may. Default: that of the connection.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// So long before the end of the lease the work is stopped. Default: a tenth of the ttl.
    pub fn loss_margin(mut self, margin: Duration) -> Self {
        self.loss_margin = Some(margin);
        self
    }

    /// Nobody starts it again before that, counted from the start of a run that came to an end, however short the work or
    /// slow a clock. A record, not a lease. Default: none.
    pub fn at_least_for(mut self, least: Duration) -> Self {
        self.at_least = least;
        self
    }

    /// The run is stopped then, also where the store's largest ttl is shorter. It counts as failed.
    pub fn at_most_for(mut self, most: Duration) -> Self {
        self.at_most = Some(most);
        self
    }

    /// Runs it. `Ok(None)`: somebody else ran, or is running, this window.
    ///
    /// # Errors
    /// If the work was done but that could not be noted, [`RunError::Unrecorded`]: the next caller would do it again.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work and schedules the release; the window is not done.
    pub async fn run<T, E: fmt::Display>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Option<T>, RunError<E>> {
        let Some(window) = self.current().map_err(invalid)? else { return Ok(None) };
        let noted = Noted::new(&self.locks, &self.name, "name").map_err(invalid)?;
        // Most calls find it done: they need no lock.
        if self.is_settled(&noted, &window).await.map_err(not_begun)? {
            return Ok(None);
        }
        let lock = self.lock();
        let Some(guard) = lock.try_acquire().await.map_err(RunError::Acquire)? else { return Ok(None) };
        let outcome = self.run_as(&guard, &noted, &window, work).await;
        let _ = guard.release().await;
        outcome
    }

    async fn is_settled(&self, noted: &Noted<'_>, window: &Current) -> Result<bool, StoreError> {
        let note = noted.read::<Note>().await?;
        Ok(note.is_some_and(|(note, record)| note.settles(window, age(&record))))
    }

    /// The lock of whoever runs it.
    pub fn lock(&self) -> Lock {
        let mut lock = self.locks.lock(&*self.name);
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(margin) = self.loss_margin {
            lock = lock.loss_margin(margin);
        }
        if let Some(most) = self.at_most {
            lock = lock.max_hold(most);
        }
        lock
    }

    async fn run_as<T, E: fmt::Display>(
        &self,
        guard: &Guard,
        noted: &Noted<'_>,
        window: &Current,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Option<T>, RunError<E>> {
        let Some(note) = due(noted, guard.token(), window).await.map_err(not_sealed)? else { return Ok(None) };
        let began = self.locks.now();
        let began_ms = millis(self.locks.wall());
        let done = working(guard, work(guard)).await;
        let failed = match &done {
            Ok(_) => None,
            Err(RunError::Work(error)) => Some(error.to_string()),
            Err(RunError::Lost(lost)) if lost.reason == crate::LossReason::HoldLimit => {
                Some(stopped_after(self.at_most.unwrap_or_default()))
            }
            // Not done: another may run it.
            Err(_) => return done.map(Some),
        };
        let mut note = window.noted_in(note, began_ms, failed);
        note.rest_ms = millis_of(self.at_least.saturating_sub(self.locks.now().since(began)));
        match noted.put(guard, &note, KEEP).await {
            Err(unnoted) if done.is_ok() => Err(unrecorded(unnoted)),
            _ => done.map(Some),
        }
    }

    /// Whether somebody may begin its window now, as far as can be seen without the lock.
    pub async fn is_due(&self) -> Result<bool, AcquireError> {
        let Some(window) = self.current()? else { return Ok(false) };
        let noted = Noted::new(&self.locks, &self.name, "name")?;
        Ok(!self.is_settled(&noted, &window).await?)
    }

    /// Begins a run for somebody elsewhere who has the [lock](Self::lock) under this token, and
    /// [finishes](Locks::finish_window) it. Answers which window that is: begun again under the same token, it is the one of
    /// the first time. `None`: the window has run; give the lock back.
    pub async fn begin(&self, token: FencingToken) -> Result<Option<Ran>, RunError<Infallible>> {
        let Some(window) = self.current().map_err(invalid)? else { return Ok(None) };
        let noted = Noted::new(&self.locks, &self.name, "name").map_err(invalid)?;
        // Whoever finished it under this token has had the last word.
        if self.is_settled(&noted, &window).await.map_err(not_begun)? {
            return Ok(None);
        }
        let Some(mut note) = due(&noted, token, &window).await.map_err(not_sealed)? else { return Ok(None) };
        // Begun again under the same token, it is the same run: what is noted, and when, stays.
        if let Some(begun) = note.begun.as_ref().filter(|begun| begun.token == token.as_u64()) {
            return Ok(Some(begun.window.shown()));
        }
        let shown = window.shown();
        let (at_least_ms, at_most_ms) = (millis_of(self.at_least), self.at_most.map(millis_of));
        let began_ms = millis(self.locks.wall());
        note.begun = Some(Begun { token: token.as_u64(), began_ms, window, at_least_ms, at_most_ms });
        // It is over, or nobody would begin.
        note.rest_ms = 0;
        let holder = Elsewhere { locks: &self.locks, token, until: self.locks.now() };
        noted.put_once(&holder, &note, KEEP).await.map_err(not_sealed)?;
        Ok(Some(shown))
    }

    /// What is known of the job: anybody may ask.
    pub async fn inspect(&self) -> Result<WindowState, StoreError> {
        let noted = Noted::new(&self.locks, &self.name, "name").map_err(|bad| refused(&bad, "inspect"))?;
        let note = noted.read::<Note>().await?.map(|(note, _)| note);
        let running = self.locks.inspect(&self.name).await?.holders.into_iter().next();
        let window = self.window_by(note.as_ref());
        let next = match &window {
            Window::Every(every) => self.begins(*every).map(|began| UNIX_EPOCH + began + *every),
            #[cfg(feature = "schedule")]
            Window::Scheduled(schedule) => schedule.next(self.time()),
            Window::Named(_) => None,
        };
        Ok(WindowState {
            last_run: note.as_ref().map(|note| UNIX_EPOCH + Duration::from_millis(note.began_ms)),
            last_window: note.as_ref().and_then(Note::last),
            failed: note.and_then(|note| note.failed),
            running,
            next,
            #[cfg(feature = "schedule")]
            schedule: match window {
                Window::Scheduled(schedule) => Some(schedule),
                _ => None,
            },
        })
    }

    /// The windows of this job; of a job whose windows have names, those of its last run.
    fn window_by(&self, note: Option<&Note>) -> Window {
        match (&self.window, note) {
            #[cfg(feature = "schedule")]
            (Window::Named(_), Some(Note { schedule: Some(text), .. })) => {
                text.read().map_or_else(|| self.window.clone(), Window::Scheduled)
            }
            (Window::Named(_), Some(Note { every_ms: Some(every), .. })) => Duration::from_millis(*every).into(),
            (window, _) => window.clone(),
        }
    }

    /// The window that it would run now.
    pub fn which(&self) -> Ran {
        match &self.window {
            Window::Every(every) => Ran::Since(UNIX_EPOCH + self.begins(*every).unwrap_or_default()),
            #[cfg(feature = "schedule")]
            Window::Scheduled(schedule) => Ran::Since(schedule.last(self.time()).unwrap_or(UNIX_EPOCH)),
            Window::Named(name) => Ran::Named(name.clone()),
        }
    }

    /// The time whose window this is, by our clock.
    fn time(&self) -> SystemTime {
        self.at.unwrap_or_else(|| self.locks.wall())
    }

    /// When the window began in which we are.
    fn begins(&self, every: Duration) -> Option<Duration> {
        let every = u64::try_from(every.as_millis()).ok().filter(|every| *every > 0)?;
        Some(Duration::from_millis(millis(self.time()) / every * every))
    }

    /// The window that is to be run now; `None`: it is too late for it.
    fn current(&self) -> Result<Option<Current>, Invalid> {
        if let Some(most) = self.at_most {
            checked_span("at_most_for", most)?;
        }
        if self.at_least > KEEP {
            return Err(Invalid::new("at_least_for", spoken(self.at_least), "400 days are the most"));
        }
        let window = self.window_now()?;
        let Some(within) = self.within else { return Ok(Some(window)) };
        checked_span("start_within", within)?;
        let Some(began) = window.began() else {
            let cure = "a named window has no beginning: leave it out, or name the windows by a schedule";
            return Err(Invalid::new("start_within", spoken(within), cure));
        };
        let is_late = millis(self.time()).saturating_sub(began) > millis_of(within);
        Ok((!is_late).then_some(window))
    }

    fn window_now(&self) -> Result<Current, Invalid> {
        match &self.window {
            Window::Every(every) => match self.begins(*every) {
                Some(began) => Ok(Current::Since { began: millis_of(began), every: millis_of(*every) }),
                None => Err(Invalid::new("window", spoken(*every), "a window has at least a millisecond")),
            },
            #[cfg(feature = "schedule")]
            Window::Scheduled(schedule) => match schedule.last(self.time()) {
                Some(began) => Ok(Current::Scheduled { began: millis(began), schedule: schedule.text().clone() }),
                None => Err(Invalid::new("window", schedule.zone(), "this schedule has not begun yet")),
            },
            Window::Named(name) if name.is_empty() || name.len() > 255 => {
                let cure = format!("it has {} bytes: give the window a name of 1 to 255", name.len());
                Err(Invalid::new("window", name, cure))
            }
            Window::Named(name) => Ok(Current::Named(name.clone())),
        }
    }
}

impl Locks {
    /// Finishes a run of this job that was [begun](OncePerWindow::begin) under this token, whose holder has the lock for
    /// so long still. `failed`: what its error said. `false`: no such run is there; it was never begun, or another has
    /// begun since. Finished again under the same token, the first time counts.
    pub async fn finish_window(
        &self,
        job: &str,
        token: FencingToken,
        failed: Option<String>,
        within: Duration,
    ) -> Result<bool, FenceError> {
        let finished = async {
            let name = named(job);
            let noted = Noted::new(self, &name, "name").map_err(|bad| refused(&bad, "write_record"))?;
            if self.window_finished_by(job, token).await.map_err(FenceError::Store)? {
                return Ok(true);
            }
            let holder = Elsewhere { locks: self, token, until: self.now().plus(within) };
            let Some((mut note, record)) = noted.seal::<Note>(token).await? else { return Ok(false) };
            let Some(begun) = note.begun.take().filter(|begun| begun.token == token.as_u64()) else {
                return Ok(note.finished_by == Some(token.as_u64()));
            };
            let mut note = begun.window.noted_in(note, begun.began_ms, failed);
            note.rest_ms = begun.at_least_ms.saturating_sub(millis_of(age(&record)));
            note.finished_by = Some(token.as_u64());
            noted.conclude(&holder, &note, KEEP).await?;
            Ok(true)
        };
        match finished.await {
            // Sent twice at once, both find it unfinished, and one comes too late.
            Err(FenceError::Stale(_)) if self.window_finished_by(job, token).await? => Ok(true),
            finished => finished,
        }
    }

    /// The same for a run that took as long as it may.
    pub async fn stop_window(&self, name: &str, token: FencingToken, limit: Duration) -> Result<bool, FenceError> {
        self.finish_window(name, token, Some(stopped_after(limit)), Duration::ZERO).await
    }

    /// How long the run may take that was begun under this token, if there is a limit.
    pub async fn window_limit(&self, name: &str, token: FencingToken) -> Result<Option<Duration>, StoreError> {
        Ok(self.begun(name, token).await?.and_then(|begun| begun.at_most_ms).map(Duration::from_millis))
    }

    /// Whether the last run of this job was finished under this token.
    pub async fn window_finished_by(&self, name: &str, token: FencingToken) -> Result<bool, StoreError> {
        let note = self.window_note(name).await?;
        Ok(note.is_some_and(|note| note.finished_by == Some(token.as_u64())))
    }

    async fn begun(&self, name: &str, token: FencingToken) -> Result<Option<Begun>, StoreError> {
        let begun = self.window_note(name).await?.and_then(|note| note.begun);
        Ok(begun.filter(|begun| begun.token == token.as_u64()))
    }

    async fn window_note(&self, name: &str) -> Result<Option<Note>, StoreError> {
        let name = named(name);
        let noted = Noted::new(self, &name, "name").map_err(|bad| refused(&bad, "read_record"))?;
        Ok(noted.read().await?.map(|(note, _)| note))
    }
}

/// What is noted, sealed under this token; `None`: this window is not to be run.
async fn due(noted: &Noted<'_>, token: FencingToken, window: &Current) -> Result<Option<Note>, FenceError> {
    Ok(match noted.seal::<Note>(token).await? {
        Some((note, record)) if note.settles(window, age(&record)) => None,
        found => Some(found.map(|(note, _)| note).unwrap_or_default()),
    })
}

/// How long ago a note was written.
fn age(record: &Record) -> Duration {
    KEEP.saturating_sub(record.left)
}

/// What a run that took too long has come to.
fn stopped_after(limit: Duration) -> String {
    format!("stopped after {}", spoken(limit))
}

fn named(name: &str) -> String {
    format!("cron/{name}")
}
