//! Who acts: an identity over several locks, where an owner is the secret of one lease.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

/// One logical thread of work. Locks acquired [`by`](crate::Lock::by) the same actor can be entered again, and its waits
/// can be seen to close a cycle. Clones are the same actor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Actor {
    id: ActorId,
    fails_on_deadlock: bool,
}

impl Actor {
    /// A new one, like no other.
    pub fn new() -> Self {
        // Random keys, and not the same twice in a process. Public, so no secret is lost if they can be guessed.
        let id = ActorId(RandomState::new().hash_one(std::process::id()));
        Self { id, fails_on_deadlock: false }
    }

    /// A wait that would close a cycle of waiting actors fails instead
    /// of lasting as long as it was told to. Default: it waits.
    #[must_use]
    pub fn fail_on_deadlock(mut self) -> Self {
        self.fails_on_deadlock = true;
        self
    }

    /// Its public identity, as [`Holder`](crate::Holder) and [`Waiter`](crate::Waiter) show it.
    pub fn id(&self) -> ActorId {
        self.id
    }

    pub(crate) fn fails_on_deadlock(&self) -> bool {
        self.fails_on_deadlock
    }
}

impl Default for Actor {
    fn default() -> Self {
        Self::new()
    }
}

/// An actor's public identity, as stores keep it with claims. As text it is 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(pub u64);

impl ActorId {
    /// Reads what `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_differ_and_clones_do_not() {
        let one = Actor::new();
        assert_ne!(one.id(), Actor::new().id());
        assert_eq!(one.clone().fail_on_deadlock().id(), one.id());
    }

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for id in [ActorId(0), ActorId(7), ActorId(u64::MAX)] {
            assert_eq!(ActorId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(ActorId::parse("12"), None);
        assert_eq!(ActorId::parse("zzzzzzzzzzzzzzzz"), None);
    }
}
