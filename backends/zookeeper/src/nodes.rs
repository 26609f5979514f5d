//! Which nodes a lock has, and what is written in them.
//!
//! A lock is a node below the root, and a claim a node below that: `_c_UUID-lock-NUMBER`, as Curator's mutex has it, and
//! `_c_UUID-read-lock-NUMBER` for readers. Servers count the number, and the line is in its order. All names end in
//! `-lock-NUMBER`, so that everybody who locks by that sees them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencepost_core::store::{
    ActorId, Claim, FencingToken, Holder, LockName, Mode, Owner, Waiter, YieldRequest, percent_decoded,
};
use serde::{Deserialize, Serialize};

use crate::wire::Stat;

/// The name of a holder that left no card: another program's.
const FOREIGN: &str = "another program's lock";
/// In the names of readers.
const READ: &str = "-read-";
/// At the end of all names, before the number.
const LOCK: &str = "lock-";
/// Where records are. A name of a lock has no such sign in it.
const RECORDS: &str = "~records";
/// The digits of a number.
const DIGITS: usize = 10;
/// So many who were thrown out are remembered.
const REVOKED_MAX: usize = 16;

/// How paths are made.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    root: String,
}

impl Paths {
    pub(crate) fn new(root: String) -> Self {
        Self { root }
    }

    /// The node below which locks are.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// The node of a lock.
    pub(crate) fn lock(&self, name: &LockName) -> String {
        format!("{}/{}", self.root, encoded(name.as_str()))
    }

    /// The node of a claim by its name.
    pub(crate) fn claim(&self, name: &LockName, node: &str) -> String {
        format!("{}/{node}", self.lock(name))
    }

    /// What a claim's node shall be called, but for the number.
    pub(crate) fn new_claim(&self, name: &LockName, owner: &Owner, mode: Mode) -> String {
        format!("{}/_c_{}{}{LOCK}", self.lock(name), uuid(owner), between(mode))
    }

    /// The root and what is above it, the highest first.
    pub(crate) fn root_and_above(&self) -> Vec<String> {
        let ends = self.root.match_indices('/').skip(1).map(|(at, _)| at).chain([self.root.len()]);
        ends.filter(|end| *end > 0).map(|end| self.root[..end].to_owned()).collect()
    }

    /// A node that is made to learn the time, before its number. No lock has such a name.
    pub(crate) fn clock(&self) -> String {
        format!("{}/~clock-", self.root)
    }

    /// The node below which records are. No lock has such a name.
    pub(crate) fn records(&self) -> String {
        format!("{}/{RECORDS}", self.root)
    }

    /// The record beside a lock.
    pub(crate) fn record(&self, name: &LockName) -> String {
        format!("{}/{}", self.records(), encoded(name.as_str()))
    }

    /// Whose node this is; `None`: of no lock.
    pub(crate) fn name_of(&self, node: &str) -> Option<LockName> {
        if node == RECORDS {
            return None;
        }
        LockName::new(percent_decoded(node)?).ok()
    }
}

fn between(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "-",
        Mode::Shared => READ,
    }
}

/// What the names of an owner's nodes have in them. The last four bytes stay secret: who reads a name cannot make a
/// lease of it.
fn uuid(owner: &Owner) -> String {
    let digits = owner.expose();
    let part = |from: usize, to: usize| &digits[from..to];
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// A child of a lock's node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Its place in line.
    number: i32,
    pub(crate) shared: bool,
}

impl Node {
    /// `None`: it is in nobody's way.
    pub(crate) fn read(name: &str) -> Option<Self> {
        let from = name.len().checked_sub(DIGITS)?;
        let from = if name.as_bytes().get(from.wrapping_sub(1)) == Some(&b'-')
            && name.get(..from - 1).is_some_and(|head| head.ends_with(['-', '_']))
        {
            // Servers count from 2147483647 to -2147483648.
            from - 1
        } else {
            from
        };
        let number = name.get(from..)?.parse().ok()?;
        let shared = name[..from].strip_suffix(LOCK).is_some_and(|head| head.ends_with(READ));
        Some(Self { name: name.to_owned(), number, shared })
    }

    /// By the number alone, which starts anew below zero when it is used up.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        self.number.wrapping_sub(other.number) < 0
    }

    /// It keeps a claim of this mode out, if it stands before it.
    pub(crate) fn keeps_out(&self, mode: Mode) -> bool {
        mode == Mode::Exclusive || !self.shared
    }

    /// It has the name of one of this owner's. Whether it is its own, the session says that it ends with.
    pub(crate) fn is_called_after(&self, owner: &Owner) -> bool {
        self.name.strip_prefix("_c_").is_some_and(|rest| rest.starts_with(&uuid(owner)))
    }

    /// Whose it is called after, if it is like ours.
    pub(crate) fn uuid(&self) -> Option<&str> {
        self.name.strip_prefix("_c_")?.get(..36)
    }

    /// The same place in line under another session, or as a reader's.
    pub(crate) fn moved(&self, owner: &Owner, mode: Mode, session: i64) -> String {
        format!("_c_{}-at-{session:x}{}{LOCK}{:010}", uuid(owner), between(mode), self.number)
    }
}

/// The children of a lock, in line.
pub(crate) fn in_line(names: &[String]) -> Vec<Node> {
    let mut line: Vec<Node> = names.iter().filter_map(|name| Node::read(name)).collect();
    let any = line.first().map_or(0, |node| node.number);
    line.sort_by(|one, other| {
        let key = |node: &Node| node.number.wrapping_sub(any);
        key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
    });
    line
}

/// A name without what means something in a path.
pub(crate) fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b':' | b'@' | b'#' | b'+' | b'=' | b',' => {
                text.push(char::from(byte));
            }
            // A path of dots alone means another node.
            b'.' if name.bytes().any(|byte| byte != b'.') => text.push('.'),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// What a claim says of itself, in its node.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Card {
    pub(crate) label: String,
    pub(crate) ttl_ms: u64,
    /// Since when it waits or holds, by its own clock: for people to read.
    pub(crate) since_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<u64>,
    /// Its token, if that is not the transaction that made this very node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<i64>,
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
            ttl_ms: u64::try_from(claim.ttl.as_millis()).unwrap_or(u64::MAX),
            since_ms: millis(wall),
            actor: claim.actor.map(|actor| actor.0),
            token: None,
            asked: None,
        }
    }

    /// What another program has written is none.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        serde_json::from_slice(data).ok()
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        written(self)
    }
}

/// What is remembered of a lock, in its node. One that was made by us has at least an empty one: what has another text, or
/// none, is somebody else's.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Memory {
    /// The last token that was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<i64>,
    /// Who was thrown out, the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    revoked: Vec<String>,
    /// Somebody else has written there: it is not written over.
    #[serde(skip)]
    pub(crate) is_foreign: bool,
}

impl Memory {
    pub(crate) fn read(data: &[u8]) -> Self {
        match serde_json::from_slice(data) {
            Ok(memory) => memory,
            Err(_) => Self { is_foreign: !data.is_empty(), ..Self::default() },
        }
    }

    /// Whether the node of a lock was made by us, and may go.
    pub(crate) fn is_ours(data: &[u8]) -> bool {
        serde_json::from_slice::<Self>(data).is_ok()
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        written(self)
    }

    /// The same, and that this token was given.
    pub(crate) fn with(&self, token: i64) -> Self {
        Self { last: self.last.max(Some(token)), ..self.clone() }
    }

    /// The same, and that whoever has this node was thrown out.
    pub(crate) fn without(&self, node: &Node) -> Self {
        let mut next = self.clone();
        next.revoked.extend(node.uuid().map(str::to_owned));
        let too_many = next.revoked.len().saturating_sub(REVOKED_MAX);
        next.revoked.drain(..too_many);
        next
    }

    pub(crate) fn has_thrown_out(&self, owner: &Owner) -> bool {
        self.revoked.contains(&uuid(owner))
    }
}

fn written(what: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(what).expect("BUG: text and numbers can be written")
}

/// A claim's node, with what is in it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) node: Node,
    pub(crate) card: Option<Card>,
    pub(crate) stat: Stat,
}

impl Seen {
    pub(crate) fn new(node: Node, data: &[u8], stat: Stat) -> Self {
        Self { node, card: Card::read(data), stat }
    }

    /// Its token: the transaction that gave it its place in line.
    pub(crate) fn token(&self) -> i64 {
        self.card.as_ref().and_then(|card| card.token).unwrap_or(self.stat.czxid)
    }

    /// As a holder.
    pub(crate) fn holder(&self, wall: SystemTime) -> Holder {
        let mut holder = Holder::new(self.card.as_ref().map_or(FOREIGN, |card| &card.label));
        (holder.token, holder.shared) = (token(self.token()), self.node.shared);
        if let Some(card) = &self.card {
            holder.held_for = Some(age(card, wall));
            holder.expires_in = Some(Duration::from_millis(card.ttl_ms));
            holder.actor = card.actor.map(ActorId);
        }
        holder
    }

    /// As a waiter.
    pub(crate) fn waiter(&self, wall: SystemTime) -> Waiter {
        let Some(card) = &self.card else { return Waiter::new(FOREIGN, self.node.shared, Duration::ZERO) };
        let mut waiter = Waiter::new(card.label.clone(), self.node.shared, age(card, wall));
        waiter.actor = card.actor.map(ActorId);
        waiter
    }
}

/// A transaction as a token.
pub(crate) fn token(zxid: i64) -> Option<FencingToken> {
    u64::try_from(zxid).ok().and_then(FencingToken::from_number)
}

fn age(card: &Card, wall: SystemTime) -> Duration {
    Duration::from_millis(millis(wall).saturating_sub(card.since_ms))
}

pub(crate) fn millis(wall: SystemTime) -> u64 {
    u64::try_from(wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> LockName {
        LockName::new(text).expect("a name")
    }

    #[test]
    fn every_name_is_one_node_and_can_be_read_back() {
        let paths = Paths::new("/fp".to_owned());
        for text in ["a", "a/b", "a%2Fb", ".", "..", "...", "a.b", "ä ✓", "zookeeper", "~", "~records"] {
            let path = paths.lock(&name(text));
            let node = path.strip_prefix("/fp/").expect("below the root");
            assert!(!node.contains('/') && node != "." && node != "..", "{path}");
            assert_eq!(paths.name_of(node), Some(name(text)));
            assert_ne!(path, paths.records());
        }
        assert_eq!(Paths::new("/a/b".to_owned()).root_and_above(), ["/a", "/a/b"]);
    }

    #[test]
    fn the_line_is_in_order_of_the_numbers_whoever_made_the_nodes() {
        let names = [
            "_c_11111111-2222-3333-4444-555555555555-lock-0000000012",
            "a5b__lock__0000000003",
            "_c_01111111-2222-3333-4444-555555555555-read-lock-0000000007",
            "something else",
            "_c_91111111-2222-3333-4444-555555555555-lock-0000000001",
        ];
        let line = in_line(&names.map(str::to_owned));
        assert_eq!(line.iter().map(|node| node.number).collect::<Vec<_>>(), [1, 3, 7, 12]);
        assert_eq!(line.iter().map(|node| node.shared).collect::<Vec<_>>(), [false, false, true, false]);
    }

    #[test]
    fn a_number_that_starts_anew_below_zero_is_behind_the_others() {
        let read = |text: &str| Node::read(text).expect("a number");
        let (last, first) = (read("x-lock-2147483647"), read("x-lock--2147483648"));
        assert_eq!((last.number, first.number), (i32::MAX, i32::MIN));
        assert!(last.is_before(&first) && !first.is_before(&last));
        assert_eq!(read("x-lock-0000000001").number, 1);
    }

    #[test]
    fn a_moved_node_keeps_its_place_and_its_owner() {
        let owner = Owner::random().expect("random bytes");
        let first = Node::read(&format!("_c_{}-lock-0000000042", uuid(&owner))).expect("ours");
        let moved = Node::read(&first.moved(&owner, Mode::Shared, -2)).expect("ours");
        assert_eq!((moved.number, moved.shared, moved.is_called_after(&owner)), (42, true, true));
        assert!(!first.is_called_after(&Owner::random().expect("random bytes")));
        assert!(!first.name.contains(&owner.expose()[32..]), "the whole secret can be read");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let owner = Owner::random().expect("random bytes");
        let thrown_out = Node::read(&format!("_c_{}-lock-0000000042", uuid(&owner))).expect("ours");
        let mut memory = Memory::default().with(7).with(5).without(&thrown_out);
        assert_eq!((memory.last, memory.has_thrown_out(&owner)), (Some(7), true));
        assert_eq!(Memory::read(&memory.write()), memory);
        for _ in 0..REVOKED_MAX {
            let other = Owner::random().expect("random bytes");
            memory = memory.without(&Node::read(&format!("_c_{}-lock-0000000001", uuid(&other))).expect("ours"));
        }
        assert!(!memory.has_thrown_out(&owner));
        assert!(Memory::read(b"not ours").is_foreign && Memory::read(br#"{"a":1}"#).is_foreign);
        assert_eq!(Memory::read(b""), Memory::default());
        assert!(Memory::is_ours(b"{}") && !Memory::is_ours(b"") && !Memory::is_ours(br#"{"a":1}"#));
    }
}
