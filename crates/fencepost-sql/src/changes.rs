//! What a step has changed of the rows of its lock.

use std::collections::BTreeMap;

use fencepost_core::store::table::{Held, Notice, Queued};
use fencepost_core::store::{FencingToken, Owner};

/// The row of a lock as it shall be, but for its last token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockRow {
    /// The only grant.
    pub seat: Option<Held>,
    /// There may be rows of this lock in the other tables: no step of one statement may pass them by.
    pub busy: bool,
    /// Until then a request may come that was given up: no step of one statement takes the lock.
    pub late_until_us: i64,
}

/// What a step changed, to be written in one go.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The database's clock, for columns that say when.
    pub now_us: i64,
    /// The row of the lock, if it changes.
    pub row: Option<LockRow>,
    /// Grants to write to the table of holders.
    pub put_holders: Vec<Held>,
    /// Grants to remove from it.
    pub drop_holders: Vec<Owner>,
    /// Grants: put, or removed, wherever they are kept.
    pub(crate) holders: BTreeMap<Owner, Option<Held>>,
    /// Places in line: written, with where their owner hears, or removed.
    pub waiters: BTreeMap<Owner, Option<(Queued, Option<String>)>>,
    /// The last token.
    pub last: Option<FencingToken>,
    /// Who was thrown out.
    pub revoked: Vec<Owner>,
    /// What to write to those who wait elsewhere: inbox and text.
    pub letters: Vec<(String, String)>,
    /// Whom to tell here, once it is committed.
    pub(crate) told: Vec<(Owner, u32, Notice)>,
}

impl Changes {
    /// Nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.row.is_none()
            && self.holders.is_empty()
            && self.waiters.is_empty()
            && self.last.is_none()
            && self.revoked.is_empty()
    }

    /// Places that were removed.
    pub fn dropped_waiters(&self) -> Vec<Owner> {
        self.waiters.iter().filter(|(_, place)| place.is_none()).map(|(owner, _)| *owner).collect()
    }

    /// The lock itself was used: its row says so.
    pub(crate) fn touches_lock(&self) -> bool {
        self.last.is_some() || !self.holders.is_empty() || !self.revoked.is_empty()
    }
}
