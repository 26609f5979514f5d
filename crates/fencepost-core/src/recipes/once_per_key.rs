//! Idempotency: work that is done once for a key.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::WAIT;
use super::noted::{Elsewhere, Noted, checked_span, invalid, not_begun, not_sealed, refused, unrecorded, unwritable};
use crate::error::{AcquireError, RunError, StoreError};
use crate::fence::FenceError;
use crate::guard::Guard;
use crate::lock::{Lock, working};
use crate::locks::Locks;
use crate::token::FencingToken;

/// How long an outcome is remembered unless told.
const KEEP_FOR: Duration = Duration::from_secs(24 * 3600);

/// Work that is done once for a key: the first caller works, all others get its result.
///
/// Guaranteed: of all callers with this key the outcome of one is stored, in one step with "done", and everybody who
/// asks within [`keep_for`](Self::keep_for) gets it. Callers that come while it works wait for it. A worker that dies is
/// taken over when its lease is over, by a caller with a higher token; what the dead one says after that is refused.
///
/// Not guaranteed: that the work itself runs once. One that died in the middle is begun anew, and one that was lost but
/// not stopped (it never awaited) goes on beside its successor. So show the [token](Guard::token) to whatever the work
/// writes to, or hand the key on to a service that knows keys itself.
///
/// The lock and the record are named `once/KEY`, so a key has 250 bytes at most.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it runs"]
pub struct OncePerKey {
    locks: Locks,
    name: String,
    payload: String,
    ttl: Option<Duration>,
    wait: Duration,
    keep: Duration,
    keep_failures: bool,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Once<T> {
    /// This call did the work.
    Ran(T),
    /// It was done before.
    Replayed(T),
}

impl<T> Once<T> {
    /// The result, whoever worked.
    pub fn into_inner(self) -> T {
        match self {
            Self::Ran(result) | Self::Replayed(result) => result,
        }
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The lock was not obtained (another caller works still: `Busy`), it was lost, or the work failed.
    #[error(transparent)]
    Run(#[from] RunError<E>),
    /// This key was used for another request.
    #[error("this key was used with another payload; a new request needs a new key")]
    OtherPayload,
    /// With [`keep_failures`](OncePerKey::keep_failures): what the first caller's error said.
    #[error("it failed before: {0}")]
    FailedBefore(String),
}

/// What is noted under a key.
#[derive(Serialize, Deserialize)]
struct Note {
    /// A digest of what the request says.
    payload: String,
    state: State,
    /// Begun for somebody elsewhere, who finishes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begun: Option<Begun>,
}

/// Work that was begun under this token.
#[derive(Clone, Serialize, Deserialize)]
struct Begun {
    token: u64,
    keep_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Somebody works on it, or died doing so.
    Working,
    Done(Value),
    Failed(String),
}

impl OncePerKey {
    pub(super) fn new(locks: Locks, key: String, payload: &[u8]) -> Self {
        Self::of_digest(locks, &key, Sha256::digest(payload).into())
    }

    pub(super) fn of_digest(locks: Locks, key: &str, payload: [u8; 32]) -> Self {
        let mut digest = String::with_capacity(64);
        for byte in payload {
            digest.push_str(&format!("{byte:02x}"));
        }
        let name = named(key);
        Self { locks, name, payload: digest, ttl: None, wait: WAIT, keep: KEEP_FOR, keep_failures: false }
    }

    /// The lease of whoever works: so long after its death another takes over. Default: that of the connection.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait for a caller that works; then it is `Busy`. Default 10 s.
    pub fn wait_at_most(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long the result is remembered. Default 24 h.
    pub fn keep_for(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Failures are replayed too. Default: the next caller tries again.
    pub fn keep_failures(mut self) -> Self {
        self.keep_failures = true;
        self
    }

    /// Does the work, or answers what it brought before.
    ///
    /// # Errors
    /// If the work was done but that could not be noted, [`RunError::Unrecorded`]: the next caller would do it again.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work and schedules the release; the next caller begins anew.
    pub async fn run<T: Serialize + DeserializeOwned, E: fmt::Display>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Once<T>, OnceError<E>> {
        checked_span("keep_for", self.keep).map_err(invalid)?;
        let noted = Noted::new(&self.locks, &self.name, "key").map_err(invalid)?;
        let note = noted.read::<Note>().await.map_err(not_begun)?;
        if let Some(settled) = self.settled(note.map(|(note, _)| note))? {
            return Ok(settled);
        }
        let guard = self.lock().acquire().await.map_err(RunError::Acquire)?;
        let outcome = self.work_on(&noted, &guard, work).await;
        let _ = guard.release().await;
        outcome
    }

    /// The lock of whoever works.
    pub fn lock(&self) -> Lock {
        let mut lock = self.locks.lock(&*self.name).wait_at_most(self.wait);
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        lock
    }

    /// What came of it before; `None`: it is still to be done, as far as can be seen without the lock.
    pub async fn replayed(&self) -> Result<Option<Value>, OnceError<Infallible>> {
        checked_span("keep_for", self.keep).map_err(invalid)?;
        let noted = Noted::new(&self.locks, &self.name, "key").map_err(invalid)?;
        let note = noted.read::<Note>().await.map_err(not_begun)?;
        Ok(self.settled(note.map(|(note, _)| note))?.map(Once::into_inner))
    }

    /// Begins the work for somebody elsewhere who has the [lock](Self::lock) under this token, and
    /// [finishes](Locks::finish_key) it. What came of it before, if it was done: then give the lock back.
    pub async fn begin(&self, token: FencingToken) -> Result<Option<Value>, OnceError<Infallible>> {
        // Whoever finished it under this token has had the last word.
        if let Some(settled) = self.replayed().await? {
            return Ok(Some(settled));
        }
        let noted = Noted::new(&self.locks, &self.name, "key").map_err(invalid)?;
        let note = noted.seal::<Note>(token).await.map_err(not_sealed)?.map(|(note, _)| note);
        let begun = note.as_ref().and_then(|note| note.begun.as_ref());
        // Begun again under the same token, it is the same work: a note that comes late must not undo its outcome.
        let is_begun = begun.is_some_and(|begun| begun.token == token.as_u64());
        if let Some(settled) = self.settled(note)? {
            return Ok(Some(settled.into_inner()));
        }
        if !is_begun {
            let keep_ms = u64::try_from(self.keep.as_millis()).unwrap_or(u64::MAX);
            let begun = Some(Begun { token: token.as_u64(), keep_ms });
            let holder = Elsewhere { locks: &self.locks, token, until: self.locks.now() };
            let note = Note { begun, ..self.note(State::Working) };
            // For as long as the work may take, which may be longer than its outcome is kept.
            noted.put_once(&holder, &note, self.keep.max(KEEP_FOR)).await.map_err(not_sealed)?;
        }
        Ok(None)
    }

    async fn work_on<T: Serialize + DeserializeOwned, E: fmt::Display>(
        &self,
        noted: &Noted<'_>,
        guard: &Guard,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Once<T>, OnceError<E>> {
        let note = noted.seal::<Note>(guard.token()).await.map_err(not_sealed)?;
        if let Some(settled) = self.settled(note.map(|(note, _)| note))? {
            return Ok(settled);
        }
        noted.put_once(guard, &self.note(State::Working), self.keep).await.map_err(not_sealed)?;
        match working(guard, work(guard)).await {
            Ok(result) => {
                let value = serde_json::to_value(&result).map_err(|error| unrecorded(unwritable(&error).into()))?;
                noted.put(guard, &self.note(State::Done(value)), self.keep).await.map_err(unrecorded)?;
                Ok(Once::Ran(result))
            }
            Err(RunError::Work(error)) => {
                let put = match self.keep_failures {
                    true => noted.put(guard, &self.note(State::Failed(error.to_string())), self.keep).await,
                    false => noted.forget(guard).await,
                };
                match put {
                    Err(unnoted) if self.keep_failures => Err(unrecorded(unnoted).into()),
                    _ => Err(RunError::Work(error).into()),
                }
            }
            Err(other) => Err(other.into()),
        }
    }

    fn note(&self, state: State) -> Note {
        Note { payload: self.payload.clone(), state, begun: None }
    }

    /// What a note says to this request; `None`: it is still to be done.
    fn settled<T: DeserializeOwned, E>(&self, note: Option<Note>) -> Result<Option<Once<T>>, OnceError<E>> {
        let Some(Note { payload, state, .. }) = note else { return Ok(None) };
        if payload != self.payload {
            return Err(OnceError::OtherPayload);
        }
        match state {
            State::Working => Ok(None),
            State::Failed(said) => Err(OnceError::FailedBefore(said)),
            State::Done(value) => match serde_json::from_value(value) {
                Ok(result) => Ok(Some(Once::Replayed(result))),
                Err(error) => Err(other_kind(&error).into()),
            },
        }
    }
}

/// How work ended that somebody elsewhere did.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Finished {
    /// With this result.
    Done(Value),
    /// It failed, and the next caller tries again.
    Failed,
    /// It failed, and that is told to all who ask.
    FailedForAll(String),
}

impl Locks {
    /// Finishes work that was [begun](OncePerKey::begin) for this key under this token, whose holder has the lock for so
    /// long still. `false`: no such work is there; it was never begun, has failed, or another has begun since. Finished
    /// again under the same token, the first time counts.
    pub async fn finish_key(
        &self,
        key: &str,
        token: FencingToken,
        outcome: Finished,
        within: Duration,
    ) -> Result<bool, FenceError> {
        let finished = async {
            let name = named(key);
            let noted = Noted::new(self, &name, "key").map_err(|bad| refused(&bad, "write_record"))?;
            if self.key_finished_by(key, token).await.map_err(FenceError::Store)? {
                return Ok(true);
            }
            let holder = Elsewhere { locks: self, token, until: self.now().plus(within) };
            let note = noted.seal::<Note>(token).await?.map(|(note, _)| note);
            let Some(Note { payload, state, begun: Some(begun) }) = note else { return Ok(false) };
            if begun.token != token.as_u64() {
                return Ok(false);
            }
            if !matches!(state, State::Working) {
                return Ok(true);
            }
            let keep = Duration::from_millis(begun.keep_ms);
            let note = |state| Note { payload, state, begun: Some(begun) };
            match outcome {
                Finished::Done(value) => noted.conclude(&holder, &note(State::Done(value)), keep).await?,
                Finished::FailedForAll(said) => noted.conclude(&holder, &note(State::Failed(said)), keep).await?,
                Finished::Failed => noted.conclude(&holder, &(), Duration::ZERO).await?,
            }
            Ok(true)
        };
        match finished.await {
            // Sent twice at once, both find it unfinished, and one comes too late.
            Err(FenceError::Stale(_)) if self.key_finished_by(key, token).await? => Ok(true),
            finished => finished,
        }
    }

    /// Whether the outcome that is kept for this key came from whoever had this token.
    pub async fn key_finished_by(&self, key: &str, token: FencingToken) -> Result<bool, StoreError> {
        let name = named(key);
        let noted = Noted::new(self, &name, "key").map_err(|bad| refused(&bad, "read_record"))?;
        let Some((note, _)) = noted.read::<Note>().await? else { return Ok(false) };
        let by = note.begun.is_some_and(|begun| begun.token == token.as_u64());
        Ok(by && !matches!(note.state, State::Working))
    }
}

fn named(key: &str) -> String {
    format!("once/{key}")
}

fn other_kind<E>(error: &serde_json::Error) -> RunError<E> {
    let message = format!("the result that is kept is of another type: {error}");
    let error = StoreError::new(crate::StoreErrorKind::OtherKind, "read_record", message);
    RunError::Acquire(AcquireError::Store(error))
}
