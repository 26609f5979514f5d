//! Which keys a lock has, and what is written in them.
//!
//! A claim is `PREFIX NAME / OWNER`, and a reader's `PREFIX NAME / ~OWNER`: all of a lock are below `NAME/`, as
//! `etcdctl lock NAME` has it, and what keeps readers out is the range before the `~`. What is only remembered is below
//! `PREFIX ~`, where no name can be.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencepost_core::store::{
    ActorId, Claim, FencingToken, Holder, LockName, Mode, Owner, Waiter, YieldRequest, percent_decoded,
};
use serde::{Deserialize, Serialize};

use crate::proto::{KeyValue, Order, RangeRequest, SortBy};

/// The name of a holder that left no card: another program's.
const FOREIGN: &str = "another program's lock";
/// Before the owner of a reader, and before what is only remembered. Greater than all that stands in its place else.
const APART: char = '~';

/// How keys are made.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

/// A first key, and the one after the last.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
}

impl Span {
    /// By age: `limit` keys, none younger than `not_after` (0: whatever its age).
    pub(crate) fn by_age(self, order: Order, limit: i64, not_after: i64) -> RangeRequest {
        RangeRequest {
            key: self.from,
            range_end: self.to,
            limit,
            sort_order: order as i32,
            sort_target: SortBy::Create as i32,
            keys_only: false,
            max_create_revision: not_after,
        }
    }
}

impl Keys {
    pub(crate) fn new(prefix: String) -> Self {
        Self { prefix }
    }

    /// What all of them start with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of a claim.
    pub(crate) fn claim(&self, name: &LockName, owner: &Owner, mode: Mode) -> Vec<u8> {
        let apart = if mode == Mode::Shared { String::from(APART) } else { String::new() };
        format!("{}{}/{apart}{}", self.prefix, encoded(name.as_str()), owner.expose()).into_bytes()
    }

    /// All claims of a lock.
    pub(crate) fn all(&self, name: &LockName) -> Span {
        let folder = format!("{}{}", self.prefix, encoded(name.as_str()));
        // What comes after the slash is a zero.
        Span { from: format!("{folder}/").into_bytes(), to: format!("{folder}0").into_bytes() }
    }

    /// All claims of a lock that were not made by readers.
    pub(crate) fn writers(&self, name: &LockName) -> Span {
        let folder = format!("{}{}/", self.prefix, encoded(name.as_str()));
        Span { to: format!("{folder}{APART}").into_bytes(), from: folder.into_bytes() }
    }

    /// Where the last token is remembered.
    pub(crate) fn last(&self, name: &LockName) -> Vec<u8> {
        format!("{}{APART}last/{}", self.prefix, encoded(name.as_str())).into_bytes()
    }

    /// Where it is remembered that an owner was thrown out.
    pub(crate) fn revoked(&self, name: &LockName, owner: &Owner) -> Vec<u8> {
        format!("{}{APART}revoked/{}/{}", self.prefix, encoded(name.as_str()), owner.expose()).into_bytes()
    }

    /// Where the record is.
    pub(crate) fn record(&self, name: &LockName) -> Vec<u8> {
        format!("{}{APART}record/{}", self.prefix, encoded(name.as_str())).into_bytes()
    }

    /// Keys of all claims on locks whose names start so, and of all that are remembered.
    pub(crate) fn listing(&self, start: &str) -> [Span; 2] {
        let (claims, last) = (format!("{}{}", self.prefix, encoded(start)), format!("{}{APART}last/", self.prefix));
        let claims = match start {
            "" => Span { to: format!("{claims}{APART}").into_bytes(), from: at_least_one(claims) },
            _ => prefixed(claims.into_bytes()),
        };
        [claims, prefixed(format!("{last}{}", encoded(start)).into_bytes())]
    }

    /// Whose claim or memory this key is.
    pub(crate) fn name_of(&self, key: &[u8]) -> Option<LockName> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        let name = match rest.strip_prefix(APART) {
            Some(remembered) => remembered.strip_prefix("last/")?,
            None => rest.rsplit_once('/')?.0,
        };
        LockName::new(percent_decoded(name)?).ok()
    }

    /// Whose claim this key is, if it is one of ours.
    pub(crate) fn owner_of(key: &[u8]) -> Option<Owner> {
        let text = std::str::from_utf8(key).ok()?.rsplit_once('/')?.1;
        Owner::from_exposed(text.strip_prefix(APART).unwrap_or(text))
    }
}

/// All keys that start so.
fn prefixed(from: Vec<u8>) -> Span {
    let mut to = from.clone();
    // Our keys are plain text: the last byte is never the greatest.
    if let Some(last) = to.last_mut() {
        *last += 1;
    }
    Span { from, to }
}

/// An empty key is no key.
fn at_least_one(from: String) -> Vec<u8> {
    if from.is_empty() { vec![0] } else { from.into_bytes() }
}

/// A name without what means something in a key.
fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' | b'@' | b'#' | b'+' | b'=' | b',' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// What a claim says of itself, in the value of its key.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Card {
    pub(crate) label: String,
    pub(crate) shared: bool,
    /// Since when it waits or holds, by its own clock: for people to read.
    pub(crate) since_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asked: Option<Asked>,
}

/// Somebody asks the holder to let go.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    number: u64,
    by: String,
    note: String,
}

impl Asked {
    pub(crate) fn of(request: &YieldRequest) -> Self {
        Self { number: request.number(), by: request.by.clone(), note: request.note.clone() }
    }

    pub(crate) fn request(self) -> YieldRequest {
        YieldRequest::new(self.number, self.by, self.note)
    }
}

impl Card {
    pub(crate) fn of(claim: &Claim, wall: SystemTime) -> Self {
        Self {
            label: claim.label.to_string(),
            shared: claim.mode == Mode::Shared,
            since_ms: millis(wall),
            actor: claim.actor.map(|actor| actor.0),
            asked: None,
        }
    }

    /// What another program has written is a writer's claim.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("BUG: text and numbers can be written")
    }
}

/// Whether others may hold beside this one.
pub(crate) fn is_shared(kv: &KeyValue) -> bool {
    Card::read(&kv.value).is_some_and(|card| card.shared)
}

/// A claim as a holder.
pub(crate) fn holder(kv: &KeyValue, wall: SystemTime) -> Holder {
    let card = Card::read(&kv.value);
    let mut holder = Holder::new(card.as_ref().map_or(FOREIGN, |card| &card.label));
    holder.token = token(kv.create_revision);
    if let Some(card) = card {
        holder.held_for = Some(age(&card, wall));
        (holder.shared, holder.actor) = (card.shared, card.actor.map(ActorId));
    }
    holder
}

/// A claim as a waiter.
pub(crate) fn waiter(kv: &KeyValue, wall: SystemTime) -> Waiter {
    let Some(card) = Card::read(&kv.value) else { return Waiter::new(FOREIGN, false, Duration::ZERO) };
    let waited = age(&card, wall);
    let mut waiter = Waiter::new(card.label, card.shared, waited);
    waiter.actor = card.actor.map(ActorId);
    waiter
}

/// A revision as a token.
pub(crate) fn token(revision: i64) -> Option<FencingToken> {
    u64::try_from(revision).ok().and_then(FencingToken::from_number)
}

fn age(card: &Card, wall: SystemTime) -> Duration {
    Duration::from_millis(millis(wall).saturating_sub(card.since_ms))
}

fn millis(wall: SystemTime) -> u64 {
    u64::try_from(wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> LockName {
        LockName::new(text).expect("a name")
    }

    #[test]
    fn no_lock_is_below_another() {
        let keys = Keys::new("fp/".to_owned());
        let owner = Owner::random().expect("random bytes");
        for (one, other) in [("a", "a/b"), ("a", "a0"), ("a", "a~"), ("a/b", "a%2Fb"), ("ä", "a")] {
            let (one, other) = (name(one), name(other));
            for mode in [Mode::Exclusive, Mode::Shared] {
                let (span, key) = (keys.all(&one), keys.claim(&other, &owner, mode));
                assert!(key < span.from || key >= span.to, "{one:?} has {other:?}");
                assert_eq!(keys.name_of(&key), Some(other.clone()));
                assert_eq!(Keys::owner_of(&key), Some(owner));
            }
        }
    }

    #[test]
    fn readers_are_among_all_and_not_among_writers() {
        let keys = Keys::new(String::new());
        let (lock, owner) = (name("x"), Owner::random().expect("random bytes"));
        let (all, writers) = (keys.all(&lock), keys.writers(&lock));
        for (mode, writes) in [(Mode::Exclusive, true), (Mode::Shared, false)] {
            let key = keys.claim(&lock, &owner, mode);
            assert!(key >= all.from && key < all.to);
            assert_eq!(key >= writers.from && key < writers.to, writes);
        }
        let foreign = b"x/694d8c1f0a2b3c4d".to_vec();
        assert!(foreign >= writers.from && foreign < writers.to, "etcdctl writes");
    }

    #[test]
    fn what_is_remembered_is_no_claim() {
        let keys = Keys::new("fp/".to_owned());
        let [claims, last] = keys.listing("");
        let key = keys.last(&name("x"));
        assert!(!(key >= claims.from && key < claims.to) && key >= last.from && key < last.to);
        assert_eq!(keys.name_of(&key), Some(name("x")));
    }

    #[test]
    fn a_card_of_another_program_is_none() {
        assert_eq!(Card::read(b""), None);
        let card = Card { label: "me".to_owned(), shared: true, ..Card::default() };
        assert_eq!(Card::read(&card.write()), Some(card));
    }
}
