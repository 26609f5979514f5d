//! A bounded number of connections, each used by one step at a time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::database::{Database, Failure};

/// A connection that nobody used for so long is closed: servers and firewalls forget such ones.
const IDLE_MAX: Duration = Duration::from_secs(20);

pub(crate) struct Pool<D: Database> {
    idle: Mutex<Vec<(D::Link, Instant)>>,
    permits: Semaphore,
}

/// A connection in use. Dropped without [`Lent::keep`], it is closed: nobody knows what is under way on it.
pub(crate) struct Lent<'a, D: Database> {
    pub(crate) link: D::Link,
    pool: &'a Pool<D>,
    _permit: SemaphorePermit<'a>,
}

impl<D: Database> Pool<D> {
    pub(crate) fn new(links_max: usize) -> Self {
        Self { idle: Mutex::default(), permits: Semaphore::new(links_max) }
    }

    /// Waits for a turn, and takes a connection or opens one. Cancel-safe.
    pub(crate) async fn take(&self, database: &D) -> Result<Lent<'_, D>, Failure> {
        let permit = self.permits.acquire().await.expect("BUG: the semaphore is never closed");
        let idle = self.idle().pop();
        let link = match idle {
            Some((link, since)) if since.elapsed() < IDLE_MAX => link,
            // The last one that was put back is the newest: the others are older still.
            Some(_) => {
                self.forget();
                database.open().await?
            }
            None => database.open().await?,
        };
        Ok(Lent { link, pool: self, _permit: permit })
    }

    /// Closes all that nobody uses: one of them was found broken.
    pub(crate) fn forget(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(D::Link, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Database> Lent<'_, D> {
    /// Nothing is under way on it: the next one may have it.
    pub(crate) fn keep(self) {
        let Self { link, pool, _permit } = self;
        pool.idle().push((link, Instant::now()));
    }
}
