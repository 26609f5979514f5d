//! Leases: each claim has one of its own, so that ending it ends everything that may still be on its way for that claim.
//! One that is clean is kept for the next claim of the same length, which spares the cluster a commit.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fencepost_core::store::{Clock, StoreErrorKind};
use tokio::time::Instant;

use crate::client::Client;
use crate::error::Failure;

/// So many of each length are kept for later.
const IDLE_MAX: usize = 64;
/// What is only remembered is put under one lease by all connections that begin on the same day, so that a thousand short
/// ones do not leave a thousand leases behind.
const DAY_S: u64 = 24 * 3600;
/// It lasts for so long: two days beyond its own, and beyond the last connection that used it.
const REMEMBER_S: i64 = 3 * 24 * 3600;
/// And is renewed after so long.
const REMEMBER_ANEW: Duration = Duration::from_secs(12 * 3600);

/// A lease of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    /// How long it lasts unless it is kept alive.
    pub(crate) seconds: i64,
}

/// A lease to put something under.
pub(crate) struct Taken {
    pub(crate) lease: Lease,
    /// It was granted for this step; else it has to be kept alive in the same step.
    pub(crate) fresh: bool,
}

/// The leases of one connection that no claim has now, and the one of what it remembers.
pub(crate) struct Leases {
    idle: Mutex<HashMap<i64, Vec<(i64, Instant)>>>,
    memory: tokio::sync::Mutex<Option<(i64, Instant)>>,
    prefix: String,
    clock: Clock,
}

impl Leases {
    /// For the keys with this prefix.
    pub(crate) fn new(prefix: &str, clock: Clock) -> Self {
        Self { idle: Mutex::default(), memory: tokio::sync::Mutex::default(), prefix: prefix.to_owned(), clock }
    }

    /// A lease for at least so long. The grain is a second.
    pub(crate) async fn take(&self, client: &Client, span: Duration, limit: Instant) -> Result<Taken, Failure> {
        let seconds = seconds(span);
        if let Some(id) = self.take_idle(seconds) {
            return Ok(Taken { lease: Lease { id, seconds }, fresh: false });
        }
        Ok(Taken { lease: Self::fresh(client, span, limit).await?, fresh: true })
    }

    /// A lease that nobody had before, for at least so long.
    pub(crate) async fn fresh(client: &Client, span: Duration, limit: Instant) -> Result<Lease, Failure> {
        let lease = Lease { id: number()?, seconds: seconds(span) };
        client.grant(lease.id, lease.seconds, limit).await?;
        Ok(lease)
    }

    /// One that started anew not long ago, as one that is in use does. A leader that was stalled ends those that it takes
    /// for old, whatever another leader has kept alive meanwhile (etcd#15247).
    fn take_idle(&self, seconds: i64) -> Option<i64> {
        let fresh = Duration::from_secs(seconds.unsigned_abs()) / 3;
        let mut idle = self.idle();
        let same = idle.get_mut(&seconds)?;
        let (id, since) = same.pop()?;
        if since.elapsed() < fresh {
            return Some(id);
        }
        // The others are older, and end by themselves.
        same.clear();
        None
    }

    /// Nobody has put anything under it, or will. `false`: there are enough, it may end.
    pub(crate) fn put_back(&self, lease: Lease) -> bool {
        let mut idle = self.idle();
        let same = idle.entry(lease.seconds).or_default();
        let room = same.len() < IDLE_MAX;
        if room {
            same.push((lease.id, Instant::now()));
        }
        room
    }

    /// All that nobody has put anything under, for whoever ends them.
    pub(crate) fn take_all_idle(&self) -> Vec<i64> {
        let all = std::mem::take(&mut *self.idle());
        all.into_values().flatten().map(|(id, _)| id).collect()
    }

    /// The lease of what this connection remembers.
    pub(crate) async fn memory(&self, client: &Client, limit: Instant) -> Result<i64, Failure> {
        let mut memory = self.memory.lock().await;
        let now = Instant::now();
        if let Some((id, since)) = *memory {
            let is_recent = now.duration_since(since) < REMEMBER_ANEW;
            if is_recent || client.keep_alive(id, limit).await? {
                *memory = Some((id, if is_recent { since } else { now }));
                return Ok(id);
            }
        }
        let today = self.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / DAY_S;
        let id = number_of(&self.prefix, today);
        client.grant(id, REMEMBER_S, limit).await?;
        *memory = Some((id, now));
        Ok(id)
    }

    /// A lease was not there: it may have been that of the memory.
    pub(crate) async fn doubt_memory(&self) {
        *self.memory.lock().await = None;
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Vec<(i64, Instant)>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seconds(span: Duration) -> i64 {
    let whole = i64::try_from(span.as_secs()).unwrap_or(i64::MAX / 2);
    whole + i64::from(span.subsec_nanos() > 0)
}

/// The number of a day's lease, the same for all who use these keys (FNV-1a).
fn number_of(prefix: &str, day: u64) -> i64 {
    let bytes = prefix.bytes().chain(day.to_le_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash.cast_signed() & i64::MAX).max(1)
}

/// A number that no other lease has.
fn number() -> Result<i64, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| {
        let what = format!("the operating system gave no random bytes: {error}");
        Failure::new(StoreErrorKind::Unexpected, what, "check the system")
    })?;
    Ok((i64::from_le_bytes(bytes) & i64::MAX).max(1))
}
