//! What a node remembers: the rows of the reference semantics, and a way to set them back.

use std::collections::BTreeMap;
use std::convert::Infallible;

use fencepost_core::FencingToken;
use fencepost_core::store::table::{Held, Kept, Notice, Queued, Shelf};
use fencepost_core::store::{LockName, Mode, Moment, Owner};

/// All locks of a node. A clone is a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) locks: BTreeMap<LockName, Entry>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) holders: Vec<Held>,
    pub(crate) last: Option<FencingToken>,
    spent: Option<FencingToken>,
    pub(crate) line: BTreeMap<(FencingToken, Owner), Queued>,
    tickets: BTreeMap<Owner, FencingToken>,
    revoked: BTreeMap<Owner, ()>,
    record: Option<Kept>,
}

impl Rows {
    /// Grants and places in line that are alive.
    pub(crate) fn in_use(&self, now: Moment) -> Vec<(LockName, String)> {
        let mut found = Vec::new();
        for (name, entry) in &self.locks {
            let held = entry.holders.iter().filter(|held| held.until > now);
            let held = held.map(|held| format!("{name} held by {} under {}", held.label, held.token));
            found.extend(held.map(|what| (name.clone(), what)));
            let line = entry.line.values().filter(|queued| queued.until > now);
            let line = line.map(|queued| format!("a place of {} in the line of {name}", queued.label));
            found.extend(line.map(|what| (name.clone(), what)));
        }
        found
    }
}

impl Entry {
    pub(crate) fn is_held(&self, by: &Owner, now: Moment) -> bool {
        self.holders.iter().any(|held| held.owner == *by && held.until > now)
    }

    pub(crate) fn remove_line(&mut self, owner: &Owner) -> bool {
        let Some(ticket) = self.tickets.remove(owner) else { return false };
        self.line.remove(&(ticket, *owner)).is_some()
    }
}

/// One lock while a step works on it.
pub(crate) struct Desk<'a> {
    pub(crate) entry: &'a mut Entry,
    /// Whether somebody listens for this owner.
    pub(crate) listens: &'a dyn Fn(&Owner) -> bool,
    pub(crate) notices: Vec<(Owner, u32, Notice)>,
    /// Readers that were let in: the library's events do not tell them from writers.
    pub(crate) readers: Vec<FencingToken>,
    /// A wrong node serves the last in line first.
    pub(crate) last_first: bool,
    /// A wrong node hides holders of this mode.
    pub(crate) hides: Option<Mode>,
}

impl Shelf for Desk<'_> {
    type Error = Infallible;

    fn holders(&mut self) -> Result<Vec<Held>, Infallible> {
        Ok(self.entry.holders.iter().filter(|held| self.hides != Some(held.mode)).cloned().collect())
    }

    fn put_holder(&mut self, held: &Held) -> Result<(), Infallible> {
        self.remove_holder(&held.owner)?;
        if held.mode == Mode::Shared {
            self.readers.push(held.token);
        }
        self.entry.holders.push(held.clone());
        Ok(())
    }

    fn remove_holder(&mut self, owner: &Owner) -> Result<(), Infallible> {
        self.entry.holders.retain(|held| held.owner != *owner);
        Ok(())
    }

    fn last(&mut self) -> Result<Option<FencingToken>, Infallible> {
        Ok(self.entry.last)
    }

    fn set_last(&mut self, last: FencingToken) -> Result<(), Infallible> {
        self.entry.last = Some(last);
        Ok(())
    }

    fn spent(&mut self) -> Result<Option<FencingToken>, Infallible> {
        Ok(self.entry.spent)
    }

    fn set_spent(&mut self, bound: FencingToken) -> Result<(), Infallible> {
        self.entry.spent = Some(bound);
        Ok(())
    }

    fn head(&mut self) -> Result<Option<Queued>, Infallible> {
        let line = &self.entry.line;
        Ok(if self.last_first { line.values().next_back() } else { line.values().next() }.cloned())
    }

    fn tail(&mut self) -> Result<Option<FencingToken>, Infallible> {
        Ok(self.entry.line.keys().next_back().map(|(ticket, _)| *ticket))
    }

    fn waiter(&mut self, owner: &Owner) -> Result<Option<Queued>, Infallible> {
        let ticket = self.entry.tickets.get(owner);
        Ok(ticket.and_then(|ticket| self.entry.line.get(&(*ticket, *owner))).cloned())
    }

    fn waiters(&mut self, limit: u32) -> Result<Vec<Queued>, Infallible> {
        Ok(self.entry.line.values().take(limit as usize).cloned().collect())
    }

    fn waiter_count(&mut self) -> Result<u32, Infallible> {
        Ok(u32::try_from(self.entry.line.len()).unwrap_or(u32::MAX))
    }

    fn put_waiter(&mut self, queued: &Queued) -> Result<(), Infallible> {
        self.entry.tickets.insert(queued.owner, queued.ticket);
        self.entry.line.insert((queued.ticket, queued.owner), queued.clone());
        Ok(())
    }

    fn remove_waiter(&mut self, owner: &Owner) -> Result<bool, Infallible> {
        Ok(self.entry.remove_line(owner))
    }

    fn revoked(&mut self, owner: &Owner) -> Result<bool, Infallible> {
        Ok(self.entry.revoked.contains_key(owner))
    }

    fn set_revoked(&mut self, owner: &Owner) -> Result<(), Infallible> {
        self.entry.revoked.insert(*owner, ());
        Ok(())
    }

    fn record(&mut self) -> Result<Option<Kept>, Infallible> {
        Ok(self.entry.record.clone())
    }

    fn put_record(&mut self, kept: &Kept) -> Result<(), Infallible> {
        self.entry.record = Some(kept.clone());
        Ok(())
    }

    fn tell(&mut self, to: &Queued, notice: Notice) -> Result<bool, Infallible> {
        if !(self.listens)(&to.owner) {
            return Ok(false);
        }
        self.notices.push((to.owner, to.attempt, notice));
        Ok(true)
    }
}
