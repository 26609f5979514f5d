//! Inventory: reservations of a stock that is never oversold.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::WAIT;
use super::noted::{Noted, refused};
use crate::error::{AcquireError, Invalid, StoreError, StoreErrorKind};
use crate::fence::{FenceError, Settled};
use crate::guard::Guard;
use crate::locks::Locks;

/// A stock is forgotten after so long without a sale.
const KEEP: Duration = Duration::from_secs(3650 * 24 * 3600);
/// How a reservation ended is remembered for so long.
const REMEMBER: Duration = Duration::from_secs(24 * 3600);
/// And for so long at least, however many there are: whoever did not hear how it ended asks again by then.
const REMEMBER_AT_LEAST: Duration = Duration::from_secs(300);
/// So many reservations a stock has at a time, those that ended lately among them: a record has no more room.
const RESERVATIONS_MAX: usize = 5_000;

/// So many of an item, of which never more are sold.
///
/// A reservation is data with an id, which outlives the process that made it: whoever has the id may confirm it, until it
/// expires and returns to stock. Every change is made under the stock's lock and written under its token, in one step:
/// whoever slept through its lease changes nothing. Time is told by the store's clock, or by the clients' where the store
/// tells none (etcd).
///
/// Not for thousands of sales a second: they come one after the other. A database's own rows do more, see
/// [`StockRows`](crate::fence::StockRows). The lock and the record are named
/// `stock/ITEM`, so an item has 249 bytes at most.
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
    /// Until it expires. Whole milliseconds would lose a part of one with every change.
    ns: u64,
}

#[derive(Serialize, Deserialize)]
struct Ended {
    how: Settled,
    /// Until it is forgotten.
    ns: u64,
}

impl Note {
    /// So much time has passed since it was written.
    fn advance(&mut self, passed: Duration) {
        let passed = nanos(passed);
        let over = |ns: &mut u64| {
            *ns = ns.saturating_sub(passed);
            *ns == 0
        };
        self.ended.retain(|_, ended| !over(&mut ended.ns));
        let expired: Vec<String> =
            self.open.iter_mut().filter_map(|(id, open)| over(&mut open.ns).then(|| id.clone())).collect();
        for id in expired {
            self.end(&id, Settled::Expired);
        }
    }

    /// There is room for one more; if need be those that ended longest ago are forgotten.
    fn has_room(&mut self) -> bool {
        if self.open.len() + self.ended.len() >= RESERVATIONS_MAX {
            let forgettable = nanos(REMEMBER - REMEMBER_AT_LEAST);
            self.ended.retain(|_, ended| ended.ns > forgettable);
        }
        self.open.len() + self.ended.len() < RESERVATIONS_MAX
    }

    /// Ends a reservation; the first end counts.
    fn end(&mut self, id: &str, how: Settled) -> Settled {
        let Some(open) = self.open.remove(id) else {
            return self.ended.get(id).map_or(Settled::Expired, |ended| ended.how);
        };
        if how != Settled::Confirmed {
            self.left = self.left.saturating_add(open.count);
        }
        self.ended.insert(id.to_owned(), Ended { how, ns: nanos(REMEMBER) });
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
        let noted = self.noted()?;
        let Some((mut note, record)) = noted.read::<Note>().await? else { return Ok(0) };
        note.advance(KEEP.saturating_sub(record.left));
        Ok(note.left)
    }

    /// Takes so many out of the stock, for so long. `Ok(None)`: there are not so many left.
    pub async fn reserve(&self, count: u32, hold_for: Duration) -> Result<Option<Reservation>, StoreError> {
        if count == 0 {
            return Err(refused(&Invalid::new("count", "0", "reserve at least one"), "reserve"));
        }
        if hold_for < Duration::from_millis(1) || hold_for > KEEP {
            let cure = "hold it for at least a millisecond and for ten years at most";
            return Err(refused(&Invalid::new("hold_for", crate::span::spoken(hold_for), cure), "reserve"));
        }
        let id = self.locks.new_id("reserve")?;
        let reserved = self.change(|note| {
            if !note.has_room() {
                return Err(full());
            }
            let enough = note.left >= count;
            if enough {
                note.left -= count;
                note.open.insert(id.clone(), Open { count, ns: nanos(hold_for) });
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

    fn noted(&self) -> Result<Noted<'_>, StoreError> {
        Noted::new(&self.locks, &self.name, "item").map_err(|bad| refused(&bad, "stock"))
    }

    /// Reads, changes and writes, as nobody else does at the same time.
    async fn change<T>(&self, change: impl FnOnce(&mut Note) -> T) -> Result<T, StoreError> {
        self.noted()?;
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
        let noted = self.noted()?;
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

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn full() -> StoreError {
    let message =
        format!("{RESERVATIONS_MAX} reservations of this item are open or ended just now; divide it into several");
    StoreError::new(StoreErrorKind::Unsupported, "reserve", message)
}

fn not_locked(error: AcquireError) -> StoreError {
    match error {
        AcquireError::Store(error) => error,
        AcquireError::Invalid(invalid) => refused(&invalid, "stock"),
        other => StoreError::new(StoreErrorKind::TooSlow, "acquire", other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(many: usize, ago: Duration) -> Note {
        let ended = |number| (format!("{number:0>40}"), Ended { how: Settled::Confirmed, ns: nanos(REMEMBER - ago) });
        Note { ended: (0..many).map(ended).collect(), ..Note::default() }
    }

    #[test]
    fn a_full_stock_forgets_what_ended_a_while_ago_and_nothing_else() {
        assert!(ended(RESERVATIONS_MAX - 1, Duration::ZERO).has_room());
        let mut lately = ended(RESERVATIONS_MAX, REMEMBER_AT_LEAST - Duration::from_nanos(1));
        assert!(!lately.has_room() && lately.ended.len() == RESERVATIONS_MAX);
        let mut long_ago = ended(RESERVATIONS_MAX, REMEMBER_AT_LEAST);
        assert!(long_ago.has_room() && long_ago.ended.is_empty());
    }

    #[test]
    fn a_full_stock_fits_into_a_record() {
        let open = |number| (format!("{number:0>40}"), Open { count: u32::MAX, ns: nanos(KEEP) });
        let note = Note { left: u32::MAX, open: (0..RESERVATIONS_MAX).map(open).collect(), ..Note::default() };
        let bytes = serde_json::to_vec(&note).expect("JSON");
        assert!(bytes.len() <= 512 * 1024, "{} bytes", bytes.len());
    }
}
