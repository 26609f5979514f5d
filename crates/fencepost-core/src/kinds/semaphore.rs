//! A semaphore: so many permits, each a lock of its own.
//!
//! Not a counter. On a quorum, nodes that count members let more in than there are permits: of three holders each can
//! have a majority of five nodes while no node has counted more than two. A slot is held by one at a time, whatever the
//! nodes see of the others.
//!
//! Who finds no free slot waits at the *gate*, a lock in line; its holder alone stands in the lines of all slots,
//! takes the first that come free, and opens the gate to the next. So permits go out in order of arrival, nobody polls,
//! a free slot wakes one, and two that want several each cannot hold what the other needs.

use std::future::poll_fn;
use std::task::Poll;

use super::Kind;
use super::together::{Boxed, all, both};
use crate::error::{AcquireError, Invalid, StoreError};
use crate::grant::Permit;
use crate::guard::Guard;
use crate::lock::{Lock, Manner, Wait};
use crate::name::LockName;
use crate::quorum::Patience;
use crate::share::Share;
use crate::state::{Holder, LockState};

/// The most permits of one semaphore.
const PERMITS_MAX: u32 = 256;

type Permitted = Vec<Permit>;
type Slots = Vec<(u32, Share)>;
type Claiming<'a> = Boxed<'a, (u32, Result<Share, AcquireError>)>;

/// How many there are, and how many are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Permits {
    pub(crate) all: u32,
    pub(crate) take: u32,
}

impl Permits {
    fn check(self) -> Result<(), Invalid> {
        if !(1..=PERMITS_MAX).contains(&self.all) {
            let cure = format!("a semaphore has 1 to {PERMITS_MAX} permits");
            return Err(Invalid::new("permits", self.all.to_string(), cure));
        }
        if !(1..=self.all).contains(&self.take) {
            let cure = format!("take 1 to {}, as many as there are", self.all);
            return Err(Invalid::new("take", self.take.to_string(), cure));
        }
        Ok(())
    }
}

impl Kind for Permitted {
    type Wanted = Permits;

    async fn acquire(lock: &Lock<Self>, wait: Wait) -> Result<Guard<Self>, AcquireError> {
        lock.check(wait)?;
        lock.wanted.check()?;
        // Before anything is asked: the longest of its names must be one.
        LockName::permit(&lock.name, lock.wanted.all)?;
        let patience = lock.patience_for_several(wait);
        let mut slots = Seeker { lock, patience }.seek().await?;
        slots.sort_unstable_by_key(|(slot, _)| *slot);
        let permits = slots.iter().map(|(slot, share)| Permit { slot: *slot, token: share.token() }).collect();
        let shares: Vec<Share> = slots.into_iter().map(|(_, share)| share).collect();
        lock.hand_renewal_over(&shares);
        Ok(Guard::several(&lock.name, shares, permits))
    }
}

/// One acquisition.
struct Seeker<'a> {
    lock: &'a Lock<Permitted>,
    patience: Patience,
}

/// What a look without waiting brought.
enum Found {
    Slots(Slots),
    Busy(Option<Box<Holder>>),
}

impl Seeker<'_> {
    async fn seek(&self) -> Result<Slots, AcquireError> {
        let clock = &self.lock.quorum.clock;
        loop {
            match self.look().await {
                Ok(Found::Slots(slots)) => return Ok(slots),
                Ok(Found::Busy(holder)) if !self.patience.waits() || self.patience.is_over(clock.now()) => {
                    return Err(AcquireError::Busy { waited: self.patience.waited(clock.now()), holder });
                }
                // Whoever waits at the gate rides that out.
                Err(error) if !self.lock.rides_out(self.patience, &error) => return Err(error),
                Ok(Found::Busy(_)) | Err(_) => {}
            }
            let gate = Box::pin(self.ask(LockName::gate(&self.lock.name)?, self.patience)).await?;
            if let Some(slots) = Box::pin(self.wait_for_slots(&gate)).await? {
                return Ok(slots);
            }
        }
    }

    /// Takes what is free, after those who wait.
    async fn look(&self) -> Result<Found, AcquireError> {
        let (all, take) = (self.lock.wanted.all, self.lock.wanted.take);
        let first = self.lock.quorum.some_number(all);
        // The common case takes one round: one of several permits, and nobody waits.
        let one = async { if take == 1 { Some(self.slot(first, self.patience.trying()).await) } else { None } };
        let (line, answer) = both(Box::pin(self.somebody_waits()), Box::pin(one)).await;
        if let Some(holder) = line? {
            return Ok(Found::Busy(holder));
        }
        match answer {
            Some(Ok(share)) => return Ok(Found::Slots(vec![(first, share)])),
            Some(Err(AcquireError::Busy { holder, .. })) if self.patience.waits() => return Ok(Found::Busy(holder)),
            Some(Err(AcquireError::Busy { .. })) | None => {}
            Some(Err(error)) => return Err(error),
        }
        self.look_at_all(first).await
    }

    /// Looks before it takes: a try for more than there are must not keep a slot from another try.
    async fn look_at_all(&self, first: u32) -> Result<Found, AcquireError> {
        let (all_slots, take) = (self.lock.wanted.all, self.lock.wanted.take as usize);
        let mut looks: Vec<Boxed<'_, (u32, Result<LockState, StoreError>)>> = Vec::new();
        for slot in (0..all_slots).map(|offset| (first + offset) % all_slots) {
            let name = LockName::permit(&self.lock.name, slot)?;
            looks.push(Box::pin(async move { (slot, self.see(name).await) }));
        }
        let (mut free, mut holder) = (Vec::new(), None);
        for (slot, state) in all(looks).await {
            match state?.holders.into_iter().next() {
                None => free.push(slot),
                Some(found) => holder = holder.or(Some(Box::new(found))),
            }
        }
        let mut slots = Slots::new();
        while slots.len() < take && slots.len() + free.len() >= take {
            let tries = free.drain(..take - slots.len()).map(|slot| {
                let claim = async move { (slot, self.slot(slot, self.patience.trying()).await) };
                Box::pin(claim) as Claiming<'_>
            });
            for (slot, answer) in all(tries.collect()).await {
                match answer {
                    Ok(share) => slots.push((slot, share)),
                    Err(AcquireError::Busy { holder: found, .. }) => holder = holder.or(found),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(if slots.len() == take { Found::Slots(slots) } else { Found::Busy(holder) })
    }

    /// For as long as a vote may take: a node that is silent must not keep us longer than we wait.
    async fn see(&self, name: LockName) -> Result<LockState, StoreError> {
        let quorum = &self.lock.quorum;
        let vote = quorum.majority_answers_within(self.lock.ttl);
        let within = self.patience.until().map_or(vote, |end| end.since(quorum.clock.now()).min(vote));
        let seen = quorum.inspect_within(name, within).await;
        seen.map_err(|error| StoreError { operation: "acquire", ..error })
    }

    /// `Some`: somebody is at the gate.
    async fn somebody_waits(&self) -> Result<Option<Option<Box<Holder>>>, AcquireError> {
        if self.lock.is_unfair() {
            return Ok(None);
        }
        let gate = self.see(LockName::gate(&self.lock.name)?).await?;
        let busy = !gate.holders.is_empty() || !gate.waiters.is_empty();
        Ok(busy.then(|| gate.holders.into_iter().next().map(Box::new)))
    }

    /// In the lines of all slots at once, as the only one. `None`: the gate or a slot was lost meanwhile.
    async fn wait_for_slots(&self, gate: &Share) -> Result<Option<Slots>, AcquireError> {
        let take = self.lock.wanted.take as usize;
        let claims = (0..self.lock.wanted.all).map(|slot| {
            let claim = async move { (slot, self.slot(slot, self.patience).await) };
            Some(Box::pin(claim) as Boxed<'_, _>)
        });
        let mut claims: Vec<Option<Claiming<'_>>> = claims.collect();
        let mut slots = Slots::new();
        poll_fn(|context| {
            if gate.course.poll_lost(context).is_ready() || !slots.iter().all(|(_, share)| share.is_held()) {
                return Poll::Ready(Ok(None));
            }
            let mut trouble = None;
            for claim in &mut claims {
                if slots.len() == take {
                    break;
                }
                let Some(Poll::Ready((slot, answer))) = claim.as_mut().map(|claim| claim.as_mut().poll(context)) else {
                    continue;
                };
                *claim = None;
                match answer {
                    Ok(share) => slots.push((slot, share)),
                    Err(error) => trouble = Some(error),
                }
            }
            let open = claims.iter().flatten().count();
            match trouble {
                _ if slots.len() == take => Poll::Ready(Ok(Some(std::mem::take(&mut slots)))),
                Some(AcquireError::Busy { waited, holder, .. }) => {
                    Poll::Ready(Err(AcquireError::Busy { waited, holder }))
                }
                Some(error) if slots.len() + open < take => Poll::Ready(Err(error)),
                _ => Poll::Pending,
            }
        })
        .await
    }

    async fn slot(&self, slot: u32, patience: Patience) -> Result<Share, AcquireError> {
        self.ask(LockName::permit(&self.lock.name, slot)?, patience).await
    }

    /// Not entered again by an actor: each acquisition has permits of its own.
    async fn ask(&self, name: LockName, patience: Patience) -> Result<Share, AcquireError> {
        let manner = Manner { in_order: true, ..Manner::EXCLUSIVE };
        let (claim, mut terms) = self.lock.claim(name, manner, patience)?;
        // Until all are there nobody else can renew them.
        terms.automatic = true;
        Share::ask(&self.lock.quorum, claim, terms).await
    }
}
