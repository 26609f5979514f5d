//! Who acts: an identity over several locks, where an owner is the secret of one lease.

use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One logical thread of work. Locks acquired [`by`](crate::Lock::by) the same actor can be entered again, and its waits
/// can be seen to close a cycle. Clones are the same actor.
#[derive(Clone, Debug)]
pub struct Actor {
    id: ActorId,
    fails_on_deadlock: bool,
    /// Of another process, which may hold locks for it.
    elsewhere: bool,
    holds: Arc<AtomicUsize>,
}

impl Actor {
    /// A new one, like no other.
    pub fn new() -> Self {
        // Random keys, and not the same twice in a process. Public, so no secret is lost if they can be guessed.
        let id = ActorId(RandomState::new().hash_one(std::process::id()));
        Self { id, fails_on_deadlock: false, elsewhere: false, holds: Arc::default() }
    }

    /// The actor of another process on whose behalf this one goes on, such as a program that was started under a lock.
    pub fn of_another_process(id: ActorId) -> Self {
        Self { id, elsewhere: true, ..Self::new() }
    }

    /// A wait that closes a cycle of waiting actors fails with [`Deadlock`](crate::AcquireError::Deadlock), instead of
    /// lasting as long as it was told to. Default: it waits.
    ///
    /// While such an actor waits and holds something, it looks at all contended locks of the store when it is put in
    /// line, and then every second ([`Locks::deadlocks`](crate::Locks::deadlocks) says what that costs). Of those in a
    /// cycle, the one that began to wait last fails; if that one did not ask for it, the next one that did, 2 s later.
    /// It looks as long as the future of `acquire` is polled.
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

    /// Somebody may wait for it.
    pub(crate) fn may_hold(&self) -> bool {
        self.elsewhere || self.holds.load(Ordering::SeqCst) > 0
    }

    /// It holds one lock more, as long as the answer lives.
    pub(crate) fn holding(&self) -> Holding {
        self.holds.fetch_add(1, Ordering::SeqCst);
        Holding(self.holds.clone())
    }
}

/// One lock that an actor holds.
pub(crate) struct Holding(Arc<AtomicUsize>);

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PartialEq for Actor {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Actor {}

impl Hash for Actor {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
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
    fn an_actor_knows_whether_somebody_may_wait_for_it() {
        let actor = Actor::new();
        let (one, other) = (actor.holding(), actor.clone().holding());
        drop(one);
        assert!(actor.may_hold());
        drop(other);
        assert!(!actor.may_hold());
        let child = Actor::of_another_process(actor.id());
        assert!(child.may_hold() && child == actor);
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
