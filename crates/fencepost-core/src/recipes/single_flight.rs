//! Single flight: many read a value, one rebuilds it.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::WAIT;
use super::noted::{Noted, bytes_of, checked_span, invalid, not_begun, not_sealed, unrecorded, value_of};
use crate::clock::Moment;
use crate::error::{AcquireError, RunError, StoreError, StoreErrorKind};
use crate::guard::Guard;
use crate::lock::{Lock, working};
use crate::locks::Locks;

/// How long a value is fresh unless told.
const FRESH_FOR: Duration = Duration::from_secs(60);

/// Whoever was told that somebody rebuilds a value believes it for so long, and serves the old one without asking for the
/// lock again: a stampede costs the store one read per reader. If the rebuilder died it is found out so much later.
const BELIEVED_FOR: Duration = Duration::from_millis(100);

/// A future that a [`Values`] answers with.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Where cached values live, if not in the record store.
pub trait Values: Send + Sync + 'static {
    /// What is there.
    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Option<Vec<u8>>>;
    /// Puts it there, for so long.
    fn put<'a>(&'a self, key: &'a str, value: &'a [u8], ttl: Duration) -> Boxed<'a, ()>;
}

/// One rebuilds; the others get the fresh value, the stale one, or wait.
///
/// Guaranteed: while the rebuilder lives, nobody else rebuilds. One that dies is taken over when its lease is over. In the
/// record store a rebuilder that was overtaken cannot put its old value in the place of a newer one.
///
/// Not guaranteed: that a value is rebuilt once. One whose rebuilder died or was lost is rebuilt again. [`Values`] of your
/// own are not fenced, and their ages are told by the clocks of those who read them.
///
/// Of those who wait, all are let in together: they hold the lock as readers. The lock and the record are named `cache/KEY`,
/// so a key has 249 bytes at most.
#[derive(Clone)]
#[must_use = "nothing happens until it is asked for"]
pub struct SingleFlight {
    locks: Locks,
    name: String,
    ttl: Option<Duration>,
    wait: Duration,
    fresh: Duration,
    stale: Duration,
    values: Option<Arc<dyn Values>>,
}

/// What is being rebuilt by others, as this connection was told, and until when that is believed.
#[derive(Debug, Default)]
pub(crate) struct Rebuilding(Mutex<HashMap<String, Moment>>);

impl Rebuilding {
    fn note(&self, name: &str, now: Moment) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|_, until| *until > now);
        noted.insert(name.to_owned(), now.plus(BELIEVED_FOR));
    }

    fn is_noted(&self, name: &str, now: Moment) -> bool {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.get(name).is_some_and(|until| *until > now)
    }
}

/// A value, and how fresh it is.
enum Found<T> {
    Fresh(T),
    Stale(T),
    None,
}

impl SingleFlight {
    pub(super) fn new(locks: Locks, key: String) -> Self {
        let name = format!("cache/{key}");
        Self { locks, name, ttl: None, wait: WAIT, fresh: FRESH_FOR, stale: Duration::ZERO, values: None }
    }

    /// The lease of whoever rebuilds: so long after its death another may. Default: that of the connection.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait for somebody who rebuilds; then it is `Busy`. Default 10 s.
    pub fn wait_at_most(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// A value of that age is served without a question. Default 60 s.
    pub fn fresh_for(mut self, fresh: Duration) -> Self {
        self.fresh = fresh;
        self
    }

    /// After that, while one rebuilds, the old value is served for so long. Default: none; the others wait.
    pub fn stale_for(mut self, stale: Duration) -> Self {
        self.stale = stale;
        self
    }

    /// Keeps the values there.
    pub fn values(mut self, values: impl Values) -> Self {
        self.values = Some(Arc::new(values));
        self
    }

    /// The value: fresh, or stale while somebody rebuilds it, or rebuilt by this very call.
    ///
    /// # Errors
    /// [`RunError::Work`] is the rebuilder's own error, which only its own caller gets.
    ///
    /// # Cancel safety
    /// Dropped, it drops the rebuilding and schedules the release.
    pub async fn get<T: Serialize + DeserializeOwned, E>(
        &self,
        rebuild: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<T, RunError<E>> {
        checked_span("fresh_for", self.fresh).map_err(invalid)?;
        let noted = Noted::new(&self.locks, &self.name, "key").map_err(invalid)?;
        let mut lock = self.locks.lock(&*self.name);
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        let asked = self.locks.now();
        let mut waited = false;
        loop {
            let old = match self.read(&noted).await.map_err(not_begun)? {
                Found::Fresh(value) => return Ok(value),
                Found::Stale(value) if self.locks.rebuilding.is_noted(&self.name, self.locks.now()) => {
                    return Ok(value);
                }
                Found::Stale(value) => Some(value),
                Found::None => None,
            };
            let left = self.wait.saturating_sub(self.locks.now().since(asked));
            // Whoever has waited and found nothing stands in line: all others who waited are here too, and a try finds
            // the lock free only when none of them happens to read.
            let guard = match old.is_none() && waited {
                true => Some(lock.clone().wait_at_most(left).acquire().await.map_err(RunError::Acquire)?),
                false => lock.try_acquire().await.map_err(RunError::Acquire)?,
            };
            if let Some(guard) = guard {
                let rebuilt = self.rebuild(&noted, &guard, rebuild).await;
                let _ = guard.release().await;
                return rebuilt;
            }
            match old {
                Some(stale) => {
                    self.locks.rebuilding.note(&self.name, self.locks.now());
                    return Ok(stale);
                }
                None => Self::await_rebuilder(&lock, left).await?,
            }
            waited = true;
        }
    }

    /// Waits as a reader: when the rebuilder is done, or gone, all who wait are let in at once. Where a lock has no readers
    /// the caller stands in line at once, and they come in one after the other.
    async fn await_rebuilder<E>(lock: &Lock, left: Duration) -> Result<(), RunError<E>> {
        let reading = lock.clone().shared().wait_at_most(left);
        match reading.acquire().await {
            Ok(guard) => drop(guard.release().await),
            Err(AcquireError::Store(error)) if error.kind == StoreErrorKind::Unsupported => {}
            Err(error) => return Err(RunError::Acquire(error)),
        }
        Ok(())
    }

    async fn rebuild<T: Serialize + DeserializeOwned, E>(
        &self,
        noted: &Noted<'_>,
        guard: &Guard,
        rebuild: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<T, RunError<E>> {
        if self.values.is_none() {
            let sealed = noted.seal::<serde_json::Value>(guard.token()).await.map_err(not_sealed)?;
            drop(sealed);
        }
        // Somebody may have rebuilt it between our look and our turn.
        if let Found::Fresh(value) = self.read(noted).await.map_err(not_begun)? {
            return Ok(value);
        }
        let value = working(guard, rebuild()).await?;
        let keep = self.fresh.saturating_add(self.stale);
        match &self.values {
            None => noted.put(guard, &value, keep).await.map_err(unrecorded)?,
            Some(values) => {
                let mut bytes = format!("{} ", millis(self.locks.wall())).into_bytes();
                bytes.extend(bytes_of(&value).map_err(not_begun)?);
                values.put(&self.name, &bytes, keep).await.map_err(not_begun)?;
            }
        }
        Ok(value)
    }

    async fn read<T: DeserializeOwned>(&self, noted: &Noted<'_>) -> Result<Found<T>, StoreError> {
        let (value, left) = match &self.values {
            None => {
                let Some((value, record)) = noted.read().await? else { return Ok(Found::None) };
                (value, record.left)
            }
            Some(values) => {
                let Some(bytes) = values.get(&self.name).await? else { return Ok(Found::None) };
                let Some((built, value)) = dated(&bytes) else { return Ok(Found::None) };
                let age = Duration::from_millis(millis(self.locks.wall()).saturating_sub(built));
                (value_of(value)?, self.fresh.saturating_add(self.stale).saturating_sub(age))
            }
        };
        Ok(match left {
            Duration::ZERO => Found::None,
            left if left > self.stale => Found::Fresh(value),
            _ => Found::Stale(value),
        })
    }
}

/// When it was built, and what.
fn dated(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let space = bytes.iter().position(|byte| *byte == b' ')?;
    Some((std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?, &bytes[space + 1..]))
}

fn millis(wall: SystemTime) -> u64 {
    u64::try_from(wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for SingleFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight").field("name", &self.name).finish_non_exhaustive()
    }
}
