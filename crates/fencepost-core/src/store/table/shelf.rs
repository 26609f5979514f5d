//! The rows of a lock, and where they are kept while a step works on them.

use std::time::Duration;

use super::record::Kept;
use crate::actor::ActorId;
use crate::clock::Moment;
use crate::name::Owner;
use crate::state::YieldRequest;
use crate::store::Mode;
use crate::token::FencingToken;

/// What the store's clocks say during one step, and whether it may be trusted.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For leases.
    pub moment: Moment,
    /// The calendar, as a token.
    pub clock: FencingToken,
    /// The store lost its memory and may not grant yet; for so long.
    pub quarantined: Option<Duration>,
}

/// A grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// Whose.
    pub owner: Owner,
    /// Under which token.
    pub token: FencingToken,
    /// Exclusive or shared.
    pub mode: Mode,
    /// Who they say they are.
    pub label: String,
    /// Since when.
    pub since: Moment,
    /// Until when, unless renewed.
    pub until: Moment,
    /// For a grant that was handed over: the attempt it answers.
    pub attempt: u32,
    /// On whose behalf.
    pub actor: Option<ActorId>,
    /// Who asked them to let go.
    pub asked: Option<YieldRequest>,
}

/// A place in line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queued {
    /// Whose.
    pub owner: Owner,
    /// The order of the line; ties by owner.
    pub ticket: FencingToken,
    /// What they want.
    pub mode: Mode,
    /// Who they say they are.
    pub label: String,
    /// Since when.
    pub since: Moment,
    /// Until when the place is kept.
    pub until: Moment,
    /// How long a pushed grant is kept: the place's lease, and the claim's delay after it.
    pub kept_for: Duration,
    /// The highest attempt seen.
    pub attempt: u32,
    /// On whose behalf.
    pub actor: Option<ActorId>,
}

impl Queued {
    pub(super) fn rank(&self) -> (FencingToken, Owner) {
        (self.ticket, self.owner)
    }
}

/// What the head of the line is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The lock is yours.
    HandedOver {
        /// The token of the grant.
        token: FencingToken,
    },
    /// Ask again.
    MayPay,
}

/// Where the rows of one lock are kept while a step works on them. Each method is one row or one answer, no logic.
pub trait Shelf {
    /// Why the rows could not be read or written.
    type Error;
    /// All grants, also those whose time is over.
    fn holders(&mut self) -> Result<Vec<Held>, Self::Error>;
    /// Writes a grant; there is at most one per owner.
    fn put_holder(&mut self, held: &Held) -> Result<(), Self::Error>;
    /// Removes a grant.
    fn remove_holder(&mut self, owner: &Owner) -> Result<(), Self::Error>;
    /// The last token, if one is remembered.
    fn last(&mut self) -> Result<Option<FencingToken>, Self::Error>;
    /// Remembers the last token.
    fn set_last(&mut self, last: FencingToken) -> Result<(), Self::Error>;
    /// The highest bound that is spent. Only a store that [mints by bounds](crate::store::Minting::Bounded) has one.
    fn spent(&mut self) -> Result<Option<FencingToken>, Self::Error> {
        Ok(None)
    }
    /// Remembers it.
    fn set_spent(&mut self, bound: FencingToken) -> Result<(), Self::Error> {
        let _ = bound;
        Ok(())
    }
    /// The lowest ticket, also if its time is over.
    fn head(&mut self) -> Result<Option<Queued>, Self::Error>;
    /// The highest ticket, also if its time is over.
    fn tail(&mut self) -> Result<Option<FencingToken>, Self::Error>;
    /// One owner's place.
    fn waiter(&mut self, owner: &Owner) -> Result<Option<Queued>, Self::Error>;
    /// The first so many places, in order.
    fn waiters(&mut self, limit: u32) -> Result<Vec<Queued>, Self::Error>;
    /// How many places there are.
    fn waiter_count(&mut self) -> Result<u32, Self::Error>;
    /// Writes a place; there is at most one per owner.
    fn put_waiter(&mut self, queued: &Queued) -> Result<(), Self::Error>;
    /// Removes a place. Answers whether there was one.
    fn remove_waiter(&mut self, owner: &Owner) -> Result<bool, Self::Error>;
    /// Whether this owner was thrown out.
    fn revoked(&mut self, owner: &Owner) -> Result<bool, Self::Error>;
    /// Remembers that this owner was thrown out; at least as long as it may renew.
    fn set_revoked(&mut self, owner: &Owner) -> Result<(), Self::Error>;
    /// The record, also if its time is over.
    fn record(&mut self) -> Result<Option<Kept>, Self::Error>;
    /// Writes the record.
    fn put_record(&mut self, kept: &Kept) -> Result<(), Self::Error>;
    /// Tells one in line, once the step is done. `false`: it is known that nobody listens there any more.
    fn tell(&mut self, to: &Queued, notice: Notice) -> Result<bool, Self::Error>;
}
