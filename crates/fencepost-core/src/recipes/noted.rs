//! Records with meaning: JSON in, JSON out, and writing that is tried again while the lock is held.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{AcquireError, Invalid, RunError, StoreError, StoreErrorKind};
use crate::fence::FenceError;
use crate::guard::Guard;
use crate::locks::Locks;
use crate::records::Record;
use crate::token::FencingToken;

/// Between two tries to write while the lock is held.
const PAUSE: Duration = Duration::from_millis(100);

/// A lock, and the record of the same name.
pub(super) struct Noted<'a> {
    pub(super) locks: &'a Locks,
    pub(super) name: &'a str,
}

impl Noted<'_> {
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

    /// Notes this. Trouble that may pass is tried again for as long as the guard is held.
    pub(super) async fn put<T: Serialize>(&self, guard: &Guard, value: &T, keep: Duration) -> Result<(), FenceError> {
        let bytes = bytes_of(value)?;
        loop {
            match self.locks.records().put(self.name, guard.token(), bytes.clone(), keep).await {
                Err(FenceError::Store(error)) if error.is_retryable() && guard.is_held() => {
                    self.locks.rest(PAUSE).await
                }
                done => return done,
            }
        }
    }

    /// Forgets what is noted.
    pub(super) async fn forget(&self, guard: &Guard) -> Result<(), FenceError> {
        self.put(guard, &(), Duration::ZERO).await
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

/// A time span that makes no sense.
pub(super) fn checked_span<E>(field: &'static str, span: Duration) -> Result<(), RunError<E>> {
    if span.is_zero() {
        let invalid = Invalid::new(field, "0s", "give it some time");
        return Err(RunError::Acquire(AcquireError::Invalid(invalid)));
    }
    Ok(())
}
