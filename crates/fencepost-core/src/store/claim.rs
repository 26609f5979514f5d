//! What is asked for.

use std::sync::Arc;
use std::time::Duration;

use crate::actor::ActorId;
use crate::name::{LockName, Owner};
use crate::token::FencingToken;

/// Exclusive or shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// One holder.
    Exclusive,
    /// Any number of holders, as long as all of them are shared.
    Shared,
}

/// How a claim behaves when others wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It waits in the store's line; where there is none, it listens.
    InLine(Place),
    /// It does not wait, and does not overtake those who do.
    AfterOthers,
    /// It may overtake those who wait.
    Overtake,
}

/// A place in the store's line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The order of the line, ties by owner. It never changes while a claim waits. `None`: the store gives the next
    /// one, behind all in line and not before its clock, and says which ([`Answer::Held`](super::Answer::Held)). Nodes
    /// that vote are always told, so that their lines agree: arrival on their clock.
    pub ticket: Option<FencingToken>,
    /// How long the store keeps the place without hearing from its owner; also how long it counts on a pushed grant.
    pub lease: Duration,
}

/// What stays the same over all attempts of one acquisition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The lock.
    pub name: LockName,
    /// The secret of this acquisition.
    pub owner: Owner,
    /// Who asks, for people to read.
    pub label: Arc<str>,
    /// Exclusive or shared.
    pub mode: Mode,
    /// How long its owner counts on a grant without renewal.
    pub ttl: Duration,
    /// What happens when others wait.
    pub turn: Turn,
    /// Nobody will see the token: a store that can lock for less without one may do so.
    pub fenced: bool,
    /// On whose behalf, for finding deadlocks.
    pub actor: Option<ActorId>,
    /// A grant that ends without a release keeps the lock for so long beyond its ttl.
    pub delay: Duration,
}

impl Claim {
    /// How long the store keeps a grant without renewal. Its owner counts on the ttl alone.
    pub fn kept_for(&self) -> Duration {
        self.ttl.saturating_add(self.delay)
    }

    /// The place in line, if the claim has one.
    pub fn place(&self) -> Option<Place> {
        match self.turn {
            Turn::InLine(place) => Some(place),
            Turn::AfterOthers | Turn::Overtake => None,
        }
    }
}
