//! Redisson's layout: steps to calls of its scripts, names to its keys and channel.
//!
//! A lock is a hash at its own name, with one field: who holds it, as `client-id:number`. What only we know (token,
//! label, who asks for it) is in keys of ours beside it. There is no line: whoever waits listens to the channel that
//! every release is published on, ours and theirs, and asks again. The replies are those of the other layout.

use fencepost_core::store::{Claim, FencingToken, Mode, Owner, Step, StoreErrorKind, Trouble};

use crate::call::{Call, word};
use crate::keys::{Keys, Layout, slot};
use crate::scripts::Script;
use crate::steps::{ASKED, Meaning, REVOKED, actor, millis, number, since};

/// Before a key that stands in the names of its companions as it is.
pub(crate) const VERBATIM: char = '=';
const FENCE: &str = "fp:fence:";
/// What we know of our own hold.
const RECORD: &str = "fp:held:";

impl Keys {
    /// Where a process listens for itself. Redisson's rights are for channels of its own kind.
    pub(crate) fn inbox(&self, random: &Owner) -> String {
        let inbox = format!("fp:inbox:{}", random.expose());
        match self.layout {
            Layout::Fencepost => inbox,
            Layout::Redisson => channel(&self.lock(&inbox)),
        }
    }

    /// Where a claim is told that its lock was freed, if there is such a place.
    pub(crate) fn channel_of(&self, claim: &Claim) -> Option<String> {
        (self.layout == Layout::Redisson).then(|| channel(&self.lock(claim.name.as_str())))
    }
}

/// The channel of a key. Braces choose the slot in a cluster; a key that has some brings its own.
fn channel(key: &str) -> String {
    if key.contains('{') {
        format!("redisson_lock__channel:{key}")
    } else {
        format!("redisson_lock__channel:{{{key}}}")
    }
}

/// A key that belongs to another, in its slot.
fn companion(start: &str, key: &str) -> String {
    if key.contains('{') { format!("{start}{VERBATIM}{key}") } else { format!("{start}{{{key}}}") }
}

/// What such a lock cannot be.
pub(crate) fn refused(keys: &Keys, step: &Step) -> Option<Trouble> {
    let unsupported = |message: &str| Some(Trouble::new(StoreErrorKind::Unsupported, message));
    if step.claim().is_some_and(|claim| claim.mode == Mode::Shared) {
        return unsupported(
            "with layout=redisson a lock has one holder: shared locks are those of a URL without it \
             (Redisson's own RReadWriteLock is another kind)",
        );
    }
    let key = keys.lock(step.name()?.as_str());
    if keys.clustered && slot(&companion(FENCE, &key)) != slot(&key) {
        return unsupported(
            "with layout=redisson the braces of a name choose its slot, and those of this one leave its keys in \
             several: close what is opened, or use none",
        );
    }
    None
}

/// Puts a step about one lock into words. `clock` is what the node's clock says by now, as far as we know.
pub(crate) fn call(keys: &Keys, clock: FencingToken, step: &Step) -> (Call, Meaning) {
    let name = step.name().expect("BUG: a listing is not one call");
    let key = keys.lock(name.as_str());
    let channel = channel(&key);
    let owned = |start: &str| format!("{}:", companion(start, &key));
    let call = |script: Script| {
        let mut call = Call::empty(Some(script));
        call.key(word![&*key]);
        call.key(word![&*companion(FENCE, &key)]);
        // In a cluster the marker is in another slot; the record is named because of slots that move.
        let third = if keys.clustered { companion(RECORD, &key) } else { keys.marker.clone() };
        call.key(word![&*third]);
        call
    };
    match step {
        Step::Acquire { claim, attempt, token, .. } => {
            let number = number(*token);
            let (owner, actor, since) = (claim.owner.expose(), actor(claim), since(claim, clock));
            let words = [
                word![&*owner, "|", number, "|", *attempt, &*actor, "|", since, "|", &*claim.label],
                word![number],
                word![millis(claim.kept_for())],
            ];
            (call(Script::RedissonAcquire).words(words), Meaning::Acquire(number))
        }
        Step::Renew { claim, token, .. } => {
            let (mut call, owner) = (call(Script::RedissonRenew), claim.owner.expose());
            call.key(word![&*owned(REVOKED), &*owner]);
            call.key(word![&*owned(ASKED), &*owner]);
            let words = [word![&*owner], word![millis(claim.kept_for())], word![*token]];
            (call.words(words), Meaning::Renew)
        }
        Step::Release { claim, raise, pass, then, only } => {
            let raise = raise.map(|raise| raise.to_string()).unwrap_or_default();
            let (owner, then) = (claim.owner.expose(), u32::from(then.is_some()));
            let only = only.map(|only| only.to_string()).unwrap_or_default();
            let words = [word![&*owner], word![&*raise], word![&*channel], word![then], word![""], word![&*only]];
            (call(Script::RedissonRelease).words(words), Meaning::Release(number(*pass)))
        }
        Step::GiveBack { claim, token, .. } => {
            let owner = claim.owner.expose();
            let words = [word![&*owner], word![""], word![&*channel], word![0_u32], word![*token]];
            (call(Script::RedissonRelease).words(words), Meaning::GiveBack)
        }
        Step::Evict { above, .. } => {
            let revoked = owned(REVOKED);
            let words = [word![number(*above)], word![&*channel], word![&*revoked]];
            (call(Script::RedissonEvict).words(words), Meaning::Evict)
        }
        Step::Ask { request, .. } => {
            let (by, note) = (&*request.by, &*request.note);
            let request = word![request.number(), "|", by.len() as u64, "|", by, note];
            (call(Script::RedissonAsk).words([word![&*owned(ASKED)], request]), Meaning::Ask)
        }
        Step::Inspect { .. } => (call(Script::RedissonInspect), Meaning::Inspect),
        Step::AcquireAll { .. } => unreachable!("BUG: this layout takes its locks one by one"),
        Step::Record { .. } => unreachable!("BUG: this layout keeps no records"),
        Step::List { .. } => unreachable!("BUG: a listing is not one call"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_core::store::{LockName, Minting};

    fn keys() -> Keys {
        Keys {
            prefix: String::new(),
            clustered: true,
            layout: Layout::Redisson,
            marker: String::new(),
            judged: false,
            minting: Minting::Bounded,
        }
    }

    fn inspect(name: &str) -> Step {
        Step::Inspect { name: LockName::new(name).expect("valid") }
    }

    #[test]
    fn names_are_redissons_keys_and_channels() {
        for (name, expected) in [("x", "redisson_lock__channel:{x}"), ("a{b}c", "redisson_lock__channel:a{b}c")] {
            assert_eq!(keys().lock(name), name);
            assert_eq!(channel(&keys().lock(name)), expected);
        }
    }

    #[test]
    fn in_a_cluster_all_keys_of_a_lock_are_in_one_slot_or_it_is_refused() {
        for (name, fits) in [("x", true), ("{x}", true), ("a{b}c", true), ("%7B", true), ("{a}{b}", true)]
            .into_iter()
            .chain([("a{b", false), ("a}b", false), ("}{", false), ("{}x", false)])
        {
            let key = keys().lock(name);
            let others = [companion(FENCE, &key), companion(RECORD, &key), format!("{}:1", companion(ASKED, &key))];
            let same = others.iter().all(|other| slot(other) == slot(&key)) && slot(&channel(&key)) == slot(&key);
            assert_eq!((same, refused(&keys(), &inspect(name)).is_none()), (fits, fits), "{name}");
        }
        let alone = Keys { clustered: false, ..keys() };
        assert!(refused(&alone, &inspect("a{b")).is_none(), "one server has no slots");
    }

    #[test]
    fn two_names_are_two_companions_and_each_tells_its_name() {
        let mut seen = Vec::new();
        for name in ["x", "{x}", "={x}", "=x", "a{b}c"] {
            let fence = companion(FENCE, &keys().lock(name));
            assert_eq!(keys().name_in(FENCE, &fence).as_deref(), Some(name));
            assert!(!seen.contains(&fence), "{fence}");
            seen.push(fence);
        }
    }
}
