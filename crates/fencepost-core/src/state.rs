//! What can be seen of a lock.

use std::fmt;
use std::time::Duration;

use crate::actor::ActorId;
use crate::error::{NodeVote, round};
use crate::name::without_payload;
use crate::token::FencingToken;

/// A lock as its store sees it. No holder: it is free. Several holders: readers. Waiters in line order.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LockState {
    /// The lock.
    pub name: String,
    /// Who has it.
    pub holders: Vec<Holder>,
    /// Who is in line. Of one process only the first is here; the others wait behind it, inside the process.
    pub waiters: Vec<Waiter>,
    /// The newest token granted for this lock. Of nodes that vote: the newest that a majority may have granted.
    pub last_token: Option<FencingToken>,
}

impl LockState {
    /// A lock that nobody has.
    pub fn free(name: impl Into<String>) -> Self {
        Self { name: name.into(), holders: Vec::new(), waiters: Vec::new(), last_token: None }
    }
}

/// Who has a lock. No token: another library's lock on the same key.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// Who they say they are.
    pub label: String,
    /// Their token; for a reader the number behind the `r`.
    pub token: Option<FencingToken>,
    /// They only read.
    pub shared: bool,
    /// Since when.
    pub held_for: Option<Duration>,
    /// When the store will forget them, unless they renew; a lock delay is part of it.
    pub expires_in: Option<Duration>,
    /// On whose behalf, if they said so.
    pub actor: Option<ActorId>,
    /// What a leader [publishes](crate::Election::payload).
    pub payload: Option<String>,
}

impl Holder {
    /// A holder of whom only the label is known, as a store keeps it.
    pub fn new(label: impl AsRef<str>) -> Self {
        let (label, payload) = without_payload(label.as_ref());
        let (label, payload) = (label.to_owned(), payload.map(ToOwned::to_owned));
        Self { label, token: None, shared: false, held_for: None, expires_in: None, actor: None, payload }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.label.is_empty() { "somebody without a label" } else { &self.label })?;
        if let Some(token) = self.token {
            write!(f, " (token {}{token})", if self.shared { "r" } else { "" })?;
        }
        if let Some(held_for) = self.held_for {
            write!(f, " for {:?}", round(held_for))?;
        }
        Ok(())
    }
}

/// What [`Locks::force_release`](crate::Locks::force_release) did.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ForcedRelease {
    /// Who was thrown out; `None`: it was free.
    pub holder: Option<Holder>,
    /// The nodes that did not confirm it, and why. A grant may be left there until its lease ends; it is none of a majority.
    pub unreached: Vec<NodeVote>,
}

/// Somebody asks a holder to let go. The holder decides.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct YieldRequest {
    /// Who asks.
    pub by: String,
    /// What they have to say.
    pub note: String,
    /// Tells two requests apart.
    number: u64,
}

impl YieldRequest {
    /// A request with a number below 2^53 that tells it from others.
    pub fn new(number: u64, by: impl Into<String>, note: impl Into<String>) -> Self {
        Self { by: by.into(), note: note.into(), number }
    }

    /// What tells it from others.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl fmt::Display for YieldRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.by.is_empty() { "somebody without a label" } else { &self.by })?;
        f.write_str(" asks to yield")?;
        if self.note.is_empty() { Ok(()) } else { write!(f, ": {}", self.note) }
    }
}

/// Who is in line.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Waiter {
    /// Who they say they are.
    pub label: String,
    /// They only want to read.
    pub shared: bool,
    /// For how long.
    pub waited: Duration,
    /// On whose behalf, if they said so.
    pub actor: Option<ActorId>,
}

impl Waiter {
    /// One in line, with its label as a store keeps it.
    pub fn new(label: impl AsRef<str>, shared: bool, waited: Duration) -> Self {
        let (label, _) = without_payload(label.as_ref());
        Self { label: label.to_owned(), shared, waited, actor: None }
    }
}
