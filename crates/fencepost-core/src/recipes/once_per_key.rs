//! Idempotency: work that is done once for a key.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::WAIT;
use super::noted::{Noted, checked_span, invalid, not_begun, not_sealed, unrecorded, unwritable};
use crate::error::{AcquireError, RunError};
use crate::guard::Guard;
use crate::lock::working;
use crate::locks::Locks;

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
        let mut digest = String::with_capacity(64);
        for byte in Sha256::digest(payload) {
            digest.push_str(&format!("{byte:02x}"));
        }
        let name = format!("once/{key}");
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
        let mut lock = self.locks.lock(&*self.name).wait_at_most(self.wait);
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        let guard = lock.acquire().await.map_err(RunError::Acquire)?;
        let outcome = self.work_on(&noted, &guard, work).await;
        let _ = guard.release().await;
        outcome
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
        Note { payload: self.payload.clone(), state }
    }

    /// What a note says to this request; `None`: it is still to be done.
    fn settled<T: DeserializeOwned, E>(&self, note: Option<Note>) -> Result<Option<Once<T>>, OnceError<E>> {
        let Some(Note { payload, state }) = note else { return Ok(None) };
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

fn other_kind<E>(error: &serde_json::Error) -> RunError<E> {
    let message = format!("the result that is kept is of another type: {error}");
    let error = crate::StoreError::new(crate::StoreErrorKind::OtherKind, "read_record", message);
    RunError::Acquire(AcquireError::Store(error))
}
