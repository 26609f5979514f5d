//! How each kind of lock is acquired. All of them are built from claims on single names, above the contract.

mod semaphore;
mod several;
mod single;
mod term;
mod together;

use crate::error::AcquireError;
use crate::guard::Guard;
use crate::lock::{Lock, Wait};

pub(crate) use semaphore::Permits;
pub(crate) use several::Names;
pub(crate) use together::{Boxed, all};

/// A kind of lock. The compiler sees it as public; nobody outside can name it.
pub trait Kind: Sized {
    /// What its lock is told besides the settings that all kinds have.
    type Wanted: Clone + Send + Sync + 'static;

    /// Acquires all of it or nothing.
    fn acquire(lock: &Lock<Self>, wait: Wait) -> impl Future<Output = Result<Guard<Self>, AcquireError>> + Send
    where
        Self: crate::Grant;
}
