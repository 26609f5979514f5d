//! What each actor has: the leases that it can enter again without asking a store.
//!
//! One lease, counted here and nowhere else: a request that is repeated or that timed out never counts twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Course, Quorum, Terms};
use crate::actor::ActorId;
use crate::error::{AcquireError, Invalid};
use crate::name::LockName;
use crate::store::{Claim, Mode};

/// The leases of all actors of one connection.
#[derive(Default)]
pub(crate) struct Stays {
    stays: Mutex<HashMap<(ActorId, LockName), Arc<Stay>>>,
}

/// One lease of an actor, and how many holds rest on it.
pub(crate) struct Stay {
    key: (ActorId, LockName),
    pub(crate) course: Arc<Course>,
    /// Changed only while the map is locked, as are the two below.
    count: AtomicU32,
    /// How many of them write.
    writers: AtomicU32,
    /// One of them was downgraded: the lease is to follow when nobody writes any more.
    downgrades: AtomicBool,
    stays: Arc<Stays>,
}

/// How an actor came in.
pub(crate) enum Entry {
    /// It has to ask the store; the course is to be begun.
    First(Arc<Stay>),
    /// It has the lock, or is asking already: one more hold. The claim was not needed.
    Again(Arc<Stay>, Box<(Claim, Terms)>),
}

impl Stays {
    /// Counts one more hold of the claim's actor. A lease that was lost is not entered again.
    pub(crate) fn enter(
        self: &Arc<Self>,
        quorum: &Arc<Quorum>,
        actor: ActorId,
        claim: Claim,
        terms: Terms,
    ) -> Result<Entry, AcquireError> {
        let key = (actor, claim.name.clone());
        let mut stays = self.lock();
        if let Some(stay) = stays.get(&key).filter(|stay| stay.course.can_be_joined()) {
            check(&stay.course.claim, stay.mode(), &claim)?;
            stay.count.fetch_add(1, Ordering::Relaxed);
            stay.writers.fetch_add(u32::from(claim.mode == Mode::Exclusive), Ordering::Relaxed);
            return Ok(Entry::Again(stay.clone(), Box::new((claim, terms))));
        }
        let course = Course::enrol(quorum, claim, terms).ok_or(AcquireError::ShuttingDown)?;
        let writers = AtomicU32::new(u32::from(course.claim.mode == Mode::Exclusive));
        let (count, downgrades) = (AtomicU32::new(1), AtomicBool::new(false));
        let stay = Stay { key: key.clone(), course, count, writers, downgrades, stays: self.clone() };
        let stay = Arc::new(stay);
        stays.insert(key, stay.clone());
        Ok(Entry::First(stay))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(ActorId, LockName), Arc<Stay>>> {
        self.stays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stay {
    /// How many holds rest on it.
    pub(crate) fn holds(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Ends one hold, which was to read or to write. Answers how many are left; with the last the lease can be entered
    /// no more.
    pub(crate) fn leave(self: &Arc<Self>, mode: Mode) -> u32 {
        let mut stays = self.stays.lock();
        let left = self.count.load(Ordering::Relaxed).saturating_sub(1);
        self.count.store(left, Ordering::Relaxed);
        let follows = mode == Mode::Exclusive && self.one_writes_no_more() && self.downgrades.load(Ordering::Relaxed);
        if left == 0 {
            self.forget(&mut stays);
        }
        drop(stays);
        if follows && left > 0 {
            self.course.downgrade();
        }
        left
    }

    /// Makes a writing hold a reading one. Answers whether the lease follows at once: nobody else writes.
    pub(crate) fn downgrade(self: &Arc<Self>) -> bool {
        let _stays = self.stays.lock();
        self.downgrades.store(true, Ordering::Relaxed);
        self.one_writes_no_more()
    }

    /// Answers whether that was the last one.
    fn one_writes_no_more(&self) -> bool {
        self.writers.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// What the lease is, or is about to be.
    fn mode(&self) -> Mode {
        let reads = self.downgrades.load(Ordering::Relaxed) && self.writers.load(Ordering::Relaxed) == 0;
        if reads { Mode::Shared } else { self.course.claim.mode }
    }

    /// The lease goes on elsewhere: nobody enters it here any more.
    pub(crate) fn close(self: &Arc<Self>) {
        self.forget(&mut self.stays.lock());
    }

    fn forget(self: &Arc<Self>, stays: &mut HashMap<(ActorId, LockName), Arc<Stay>>) {
        if stays.get(&self.key).is_some_and(|stay| Arc::ptr_eq(stay, self)) {
            stays.remove(&self.key);
        }
    }
}

/// Whether a hold of this kind can rest on that lease, which is of this mode by now.
fn check(has: &Claim, mode: Mode, wants: &Claim) -> Result<(), Invalid> {
    let cure = match (mode, wants.mode) {
        (Mode::Shared, Mode::Exclusive) => {
            "its actor reads it and would wait for itself; release the reader first, or acquire without `shared` at once"
        }
        _ if wants.fenced && !has.fenced => {
            "its actor holds it unfenced: there is no token; acquire without `unfenced` at once"
        }
        _ => return Ok(()),
    };
    Err(Invalid::new("by", wants.name.as_str(), cure))
}
