//! Records with meaning: JSON in, JSON out, and writing that is tried again while the lock is held.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::Moment;
use crate::error::{AcquireError, Invalid, RunError, StoreError, StoreErrorKind};
use crate::fence::FenceError;
use crate::guard::Guard;
use crate::locks::Locks;
use crate::name::{LockName, NAME_BYTES_MAX};
use crate::records::Record;
use crate::token::FencingToken;

/// Between two tries to write while the lock is held.
const PAUSE: Duration = Duration::from_millis(100);

/// Whoever has the lock, and writes.
pub(super) trait Holds {
    fn token(&self) -> FencingToken;
    fn is_held(&self) -> bool;
}

impl Holds for Guard {
    fn token(&self) -> FencingToken {
        Guard::<FencingToken>::token(self)
    }

    fn is_held(&self) -> bool {
        Guard::is_held(self)
    }
}

/// Somebody who is no part of this process, and has the lock until then.
pub(super) struct Elsewhere<'a> {
    pub(super) locks: &'a Locks,
    pub(super) token: FencingToken,
    pub(super) until: Moment,
}

impl Holds for Elsewhere<'_> {
    fn token(&self) -> FencingToken {
        self.token
    }

    fn is_held(&self) -> bool {
        self.locks.now() < self.until
    }
}

/// A lock, and the record of the same name.
pub(super) struct Noted<'a> {
    locks: &'a Locks,
    name: &'a str,
}

impl<'a> Noted<'a> {
    /// Those of this name: the kind of recipe, a slash, and what the user calls it by this field.
    pub(super) fn new(locks: &'a Locks, name: &'a str, field: &'static str) -> Result<Self, Invalid> {
        let (kind, given) = name.split_once('/').unwrap_or_default();
        let most = NAME_BYTES_MAX - kind.len() - 1;
        if given.is_empty() || given.len() > most {
            let cure = format!("it has {} bytes: give it 1 to {most}, such as a digest of it", given.len());
            return Err(Invalid::new(field, given, cure));
        }
        LockName::of_user(name).map_err(|invalid| Invalid::new(field, given, invalid.cure))?;
        Ok(Self { locks, name })
    }

    /// What is noted.
    pub(super) async fn read<T: DeserializeOwned>(&self) -> Result<Option<(T, Record)>, StoreError> {
        self.locks.records().read(self.name).await?.map(parsed).transpose()
    }

    /// What is noted; from now on nobody with an older token notes anything.
    pub(super) async fn seal<T: DeserializeOwned>(
        &self,
        token: FencingToken,
    ) -> Result<Option<(T, Record)>, FenceError> {
        Ok(self.locks.records().seal(self.name, token).await?.map(parsed).transpose()?)
    }

    /// Notes this, and tries only once. For what is not the last word: a request that seems lost may arrive late, and then
    /// it must not take the place of a later one of the same token.
    pub(super) async fn put_once<T: Serialize>(
        &self,
        holder: &impl Holds,
        value: &T,
        keep: Duration,
    ) -> Result<(), FenceError> {
        self.locks.records().put(self.name, holder.token(), bytes_of(value)?, keep).await
    }

    /// Notes this as the last word under the token of whoever is elsewhere, and under the next one: what was sent to begin the
    /// work, and comes late, undoes nothing. Whoever is next has a higher token, and is not kept from writing.
    pub(super) async fn conclude<T: Serialize>(
        &self,
        holder: &Elsewhere<'_>,
        value: &T,
        keep: Duration,
    ) -> Result<(), FenceError> {
        self.put(&Elsewhere { token: holder.token.next(), ..*holder }, value, keep).await
    }

    /// Notes this as the last word of the holder. Trouble that may pass is tried again for as long as it is held.
    pub(super) async fn put<T: Serialize>(
        &self,
        holder: &impl Holds,
        value: &T,
        keep: Duration,
    ) -> Result<(), FenceError> {
        let bytes = bytes_of(value)?;
        loop {
            match self.locks.records().put(self.name, holder.token(), bytes.clone(), keep).await {
                Err(FenceError::Store(error)) if error.is_retryable() && holder.is_held() => {
                    self.locks.rest(PAUSE).await
                }
                done => return done,
            }
        }
    }

    /// Forgets what is noted.
    pub(super) async fn forget(&self, holder: &impl Holds) -> Result<(), FenceError> {
        self.put(holder, &(), Duration::ZERO).await
    }
}

pub(super) fn bytes_of<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| unwritable(&error))
}

pub(super) fn unwritable(error: &serde_json::Error) -> StoreError {
    unreadable("write_record", &format!("the outcome cannot be written as JSON: {error}"))
}

pub(super) fn value_of<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let what =
            format!("the record is not what this program would write: {error}; is its name used for something else?");
        unreadable("read_record", &what)
    })
}

fn parsed<T: DeserializeOwned>(record: Record) -> Result<(T, Record), StoreError> {
    Ok((value_of(&record.value)?, record))
}

fn unreadable(operation: &'static str, what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::OtherKind, operation, what)
}

/// A store that does not do its part before the work has begun.
pub(super) fn not_begun<E>(error: StoreError) -> RunError<E> {
    RunError::Acquire(AcquireError::Store(error))
}

/// The same for a record.
pub(super) fn not_sealed<E>(error: FenceError) -> RunError<E> {
    match error {
        FenceError::Store(error) => not_begun(error),
        stale => unrecorded(stale),
    }
}

/// The same once the work was done.
pub(super) fn unrecorded<E>(error: FenceError) -> RunError<E> {
    RunError::Unrecorded(Arc::new(error))
}

/// Input that makes no sense.
pub(super) fn invalid<E>(invalid: Invalid) -> RunError<E> {
    RunError::Acquire(AcquireError::Invalid(invalid))
}

/// The same where a store's errors are expected.
pub(super) fn refused(invalid: &Invalid, operation: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, operation, invalid.to_string())
}

/// A time span that makes no sense.
pub(super) fn checked_span(field: &'static str, span: Duration) -> Result<(), Invalid> {
    if span.is_zero() { Err(Invalid::new(field, "0s", "give it some time")) } else { Ok(()) }
}
