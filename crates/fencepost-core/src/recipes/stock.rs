//! Inventory: reservations of a stock that is never oversold.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::WAIT;
use super::noted::Noted;
use crate::error::{AcquireError, Invalid, StoreError, StoreErrorKind};
use crate::fence::FenceError;
use crate::guard::Guard;
use crate::locks::Locks;

/// A stock is forgotten after so long without a sale.
const KEEP: Duration = Duration::from_secs(3650 * 24 * 3600);
/// How a reservation ended is remembered for so long.
const REMEMBER: Duration = Duration::from_secs(24 * 3600);
/// So many reservations a stock has at a time, those that ended lately among them: a record has no more room.
const RESERVATIONS_MAX: usize = 5_000;

/// So many of an item, of which never more are sold.
///
/// A reservation is data with an id, which outlives the process that made it: whoever has the id may confirm it, until it
/// expires and returns to stock. Every change is made under the stock's lock and written under its token, in one step:
/// whoever slept through its lease changes nothing. Time is told by the store's clock, or by the clients' where the store
/// tells none (etcd, ZooKeeper).
///
/// Not for thousands of sales a second: they come one after the other. A database's own rows do more, see
/// [`RowLock`](crate::fence::RowLock). The lock and the record are named `stock/ITEM`.
#[derive(Clone, Debug)]
pub struct Stock {
    locks: Locks,
    name: String,
    wait: Duration,
}

/// So many that nobody else can have until it expires.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[must_use = "confirm it, or it returns to stock when it expires"]
pub struct Reservation {
    /// What it is confirmed or cancelled by.
    pub id: String,
    /// How many.
    pub count: u32,
    /// When it returns to stock.
    pub expires_in: Duration,
}

/// How a reservation ended, whoever ended it first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// Sold.
    Confirmed,
    /// Back in stock.
    Cancelled,
    /// Back in stock: nobody confirmed it in time, or it was never made.
    Expired,
}

/// What is noted of a stock. Times count from when it was written.
#[derive(Default, Serialize, Deserialize)]
struct Note {
    left: u32,
    open: BTreeMap<String, Open>,
    ended: BTreeMap<String, Ended>,
}

#[derive(Serialize, Deserialize)]
struct Open {
    count: u32,
    ms: u64,
}

#[derive(Serialize, Deserialize)]
struct Ended {
    how: Settled,
    ms: u64,
}

impl Note {
    /// So much time has passed since it was written.
    fn advance(&mut self, passed: Duration) {
        let passed = millis(passed);
        let over = |ms: &mut u64| {
            *ms = ms.saturating_sub(passed);
            *ms == 0
        };
        self.ended.retain(|_, ended| !over(&mut ended.ms));
        let expired: Vec<String> =
            self.open.iter_mut().filter_map(|(id, open)| over(&mut open.ms).then(|| id.clone())).collect();
        for id in expired {
            self.end(&id, Settled::Expired);
        }
    }

    /// Ends a reservation; the first end counts.
    fn end(&mut self, id: &str, how: Settled) -> Settled {
        let Some(open) = self.open.remove(id) else {
            return self.ended.get(id).map_or(Settled::Expired, |ended| ended.how);
        };
        if how != Settled::Confirmed {
            self.left = self.left.saturating_add(open.count);
        }
        self.ended.insert(id.to_owned(), Ended { how, ms: millis(REMEMBER) });
        how
    }
}

impl Stock {
    pub(super) fn new(locks: Locks, item: String) -> Self {
        Self { locks, name: format!("stock/{item}"), wait: WAIT }
    }

    /// How long to wait for those who change it at the same time. Default 10 s.
    pub fn wait_at_most(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// There are so many now, beside what is reserved.
    pub async fn set(&self, count: u32) -> Result<(), StoreError> {
        self.change(|note| note.left = count).await
    }

    /// How many can be reserved now.
    pub async fn left(&self) -> Result<u32, StoreError> {
        let noted = Noted { locks: &self.locks, name: &self.name };
        let Some((mut note, record)) = noted.read::<Note>().await? else { return Ok(0) };
        note.advance(KEEP.saturating_sub(record.left));
        Ok(note.left)
    }

    /// Takes so many out of the stock, for so long. `Ok(None)`: there are not so many left.
    pub async fn reserve(&self, count: u32, hold_for: Duration) -> Result<Option<Reservation>, StoreError> {
        if count == 0 {
            return Err(refused(&Invalid::new("count", "0", "reserve at least one")));
        }
        if millis(hold_for) == 0 || hold_for > KEEP {
            let cure = "hold it for at least a millisecond and for ten years at most";
            return Err(refused(&Invalid::new("hold_for", format!("{hold_for:?}"), cure)));
        }
        let id = self.locks.new_id("reserve")?;
        let reserved = self.change(|note| {
            if note.open.len() + note.ended.len() >= RESERVATIONS_MAX {
                return Err(full());
            }
            let enough = note.left >= count;
            if enough {
                note.left -= count;
                note.open.insert(id.clone(), Open { count, ms: millis(hold_for) });
            }
            Ok(enough)
        });
        let reserved = reserved.await??;
        Ok(reserved.then_some(Reservation { id, count, expires_in: hold_for }))
    }

    /// Sells what was reserved. Answers how the reservation ended: only `Confirmed` is a sale.
    pub async fn confirm(&self, reservation: &str) -> Result<Settled, StoreError> {
        self.change(|note| note.end(reservation, Settled::Confirmed)).await
    }

    /// Puts it back. Answers how the reservation ended: `Confirmed` if it was sold before.
    pub async fn cancel(&self, reservation: &str) -> Result<Settled, StoreError> {
        self.change(|note| note.end(reservation, Settled::Cancelled)).await
    }

    /// Reads, changes and writes, as nobody else does at the same time.
    async fn change<T>(&self, change: impl FnOnce(&mut Note) -> T) -> Result<T, StoreError> {
        let lock = self.locks.lock(&*self.name).wait_at_most(self.wait);
        let guard = lock.acquire().await.map_err(not_locked)?;
        let changed = self.change_as(&guard, change).await;
        let _ = guard.release().await;
        changed.map_err(|error| match error {
            FenceError::Store(error) => error,
            stale => StoreError::new(StoreErrorKind::TooSlow, "write_record", format!("overtaken: {stale}; try again")),
        })
    }

    async fn change_as<T>(&self, guard: &Guard, change: impl FnOnce(&mut Note) -> T) -> Result<T, FenceError> {
        let noted = Noted { locks: &self.locks, name: &self.name };
        let mut note = match noted.seal::<Note>(guard.token()).await? {
            Some((mut note, record)) => {
                note.advance(KEEP.saturating_sub(record.left));
                note
            }
            None => Note::default(),
        };
        let changed = change(&mut note);
        noted.put(guard, &note, KEEP).await?;
        Ok(changed)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn full() -> StoreError {
    let message =
        format!("{RESERVATIONS_MAX} reservations of this item are open or ended lately; divide it into several");
    StoreError::new(StoreErrorKind::Unsupported, "reserve", message)
}

fn not_locked(error: AcquireError) -> StoreError {
    match error {
        AcquireError::Store(error) => error,
        other => StoreError::new(StoreErrorKind::TooSlow, "acquire", other.to_string()),
    }
}

fn refused(invalid: &Invalid) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, "reserve", invalid.to_string())
}
