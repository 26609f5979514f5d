//! One Redis server as a store.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_core::store::{
    Abilities, Answer, Claim, FencingToken, Listening, LockName, LockState, Mailbox, Moment, Owed, Post, Reply, Step,
    Store, StoreErrorKind, Trouble,
};

use crate::driver::Handle;
use crate::error;
use crate::keys::{Keys, Layout};
use crate::link::{Again, Link};
use crate::steps;
use crate::wire::Value;

/// One server.
#[derive(Clone)]
pub struct RedisNode {
    link: Arc<Link>,
    largest_ttl: Option<Duration>,
    /// Ends the driver's thread with the last node.
    _driver: Arc<Handle>,
}

impl RedisNode {
    pub(crate) fn new(link: Arc<Link>, largest_ttl: Option<Duration>, driver: Arc<Handle>) -> Self {
        Self { link, largest_ttl, _driver: driver }
    }

    /// Why the server cannot be used now; `None`: it can.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let state = self.link.state();
        state.up.is_none().then(|| state.trouble.clone())
    }
}

impl Store for RedisNode {
    fn abilities(&self) -> Abilities {
        abilities(&self.link.keys, self.largest_ttl)
    }

    fn label(&self) -> String {
        self.link.label.clone()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        match step {
            Step::List { prefix, after, limit, contended } => {
                let link = self.link.clone();
                let ask = Arc::new(move |step, reply| link.step(step, reply, Again::until(deadline)));
                list(vec![self.link.clone()], ask, Wanted { prefix: &prefix, after, limit, contended }, reply);
            }
            step => self.link.step(step, reply, Again::until(deadline)),
        }
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.link.listeners.listen(claim, self.link.keys.channel_of(claim), reply)
    }

    fn clock(&self) -> Option<FencingToken> {
        self.link.server_clock()
    }

    fn owed(&self, submitted: Moment) -> Owed {
        self.link.owed(submitted)
    }

    fn is_live(&self) -> Option<bool> {
        Some(self.link.is_live())
    }
}

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisNode({})", self.link.label)
    }
}

/// What every Redis store can do.
pub(crate) fn abilities(keys: &Keys, largest_ttl: Option<Duration>) -> Abilities {
    Abilities {
        minting: keys.minting,
        queues: keys.layout == Layout::Fencepost,
        tells: keys.layout == Layout::Redisson,
        relays: keys.layout == Layout::Fencepost,
        together: keys.layout == Layout::Fencepost,
        records: keys.layout == Layout::Fencepost,
        survives_restart: false,
        smallest_ttl: Duration::from_millis(50),
        largest_ttl,
        answer_within: None,
    }
}

/// How a listing looks at one lock.
type Ask = Arc<dyn Fn(Step, Reply) + Send + Sync>;

/// A listing: finds the names with SCAN, server by server, then looks at each.
struct Listing {
    /// The servers that are still to be searched.
    rest: Vec<Arc<Link>>,
    ask: Ask,
    first: Kind,
    prefix: String,
    after: Option<LockName>,
    limit: usize,
    names: BTreeSet<LockName>,
    found: Vec<LockState>,
    /// Also what is no lock: what has the prefix of ours is taken for one.
    shows_all: bool,
    reply: Reply,
}

/// What is to be listed.
pub(crate) struct Wanted<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) after: Option<LockName>,
    pub(crate) limit: u32,
    pub(crate) contended: bool,
}

/// Lists what these servers have.
pub(crate) fn list(links: Vec<Arc<Link>>, ask: Ask, wanted: Wanted<'_>, reply: Reply) {
    let Wanted { prefix, after, limit, contended } = wanted;
    let first = if contended { Kind::Line } else { Kind::Fence };
    let keeps_lines = links.first().is_none_or(|link| link.keys.layout == Layout::Fencepost);
    if contended && !keeps_lines {
        return reply.answer(Ok(Answer::States(Vec::new())));
    }
    let (prefix, limit) = (prefix.to_owned(), limit as usize);
    let (names, found) = (BTreeSet::new(), Vec::new());
    search_next(Listing { rest: links, ask, first, prefix, after, limit, names, found, shows_all: keeps_lines, reply });
}

fn search_next(mut listing: Listing) {
    let Some(link) = listing.rest.pop() else { return look_at_some(listing) };
    let first = listing.first;
    scan(&link, listing, first, "0".into());
}

/// The keys that tell of locks. Locks of ours have a fence; those of other libraries only their key.
#[derive(Clone, Copy)]
enum Kind {
    Fence,
    Lock,
    /// Of those that somebody waits for.
    Line,
}

impl Kind {
    /// All such keys of locks whose names start so.
    fn pattern(self, link: &Link, prefix: &str) -> String {
        let lock = escaped(&link.keys.lock(prefix));
        match self {
            Self::Fence if link.keys.layout == Layout::Redisson => "fp:fence:*".to_owned(),
            Self::Fence => format!("fp:fence:{{{lock}*"),
            Self::Lock => format!("{lock}*"),
            Self::Line => format!("fp:line:{{{lock}*"),
        }
    }

    fn name(self, link: &Link, key: &str) -> Option<String> {
        match self {
            Self::Fence => link.keys.name_in("fp:fence:", key),
            Self::Line => link.keys.name_in("fp:line:", key),
            Self::Lock if key.starts_with(steps::OWN_KEYS) => None,
            Self::Lock => link.keys.name_of_lock(key),
        }
    }
}

/// All keys that may be locks whose names start so.
pub(crate) fn keys_of_locks(link: &Link, prefix: &str) -> String {
    Kind::Lock.pattern(link, prefix)
}

/// Takes away the meaning that characters have in a pattern.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| if "*?[]\\".contains(c) { vec!['\\', c] } else { vec![c] }).collect()
}

fn scan(link: &Arc<Link>, mut listing: Listing, kind: Kind, cursor: String) {
    let pattern = kind.pattern(link, &listing.prefix);
    let mut parts: Vec<&[u8]> = vec![b"SCAN", cursor.as_bytes(), b"MATCH", pattern.as_bytes(), b"COUNT", b"1000"];
    if let (Layout::Redisson, Kind::Lock) = (link.keys.layout, kind) {
        parts.extend([b"TYPE".as_slice(), b"hash"]);
    }
    link.command(&parts, move |link, outcome| {
        let (cursor, keys) = match page(outcome) {
            Ok(page) => page,
            Err(trouble) => return listing.reply.answer(Err(trouble)),
        };
        for key in keys {
            let name = kind.name(link, &key).filter(|name| name.starts_with(&listing.prefix));
            // A name that is none of ours may be anything; what is no valid name cannot be a lock of ours.
            let name = name.and_then(|name| LockName::new(name).ok());
            let may_be = |name: &LockName| steps::refused(&link.keys, &Step::Inspect { name: name.clone() }).is_none();
            listing.names.extend(name.filter(may_be));
        }
        match (cursor.as_str(), kind) {
            ("0", Kind::Fence) => scan(link, listing, Kind::Lock, "0".into()),
            ("0", Kind::Lock | Kind::Line) => search_next(listing),
            _ => scan(link, listing, kind, cursor),
        }
    });
}

/// A reply to SCAN: the next cursor, and the keys.
pub(crate) fn page(outcome: Result<Value, Trouble>) -> Result<(String, Vec<String>), Trouble> {
    let value = outcome?;
    if let Value::Error(text) = &value {
        return Err(error::trouble(text));
    }
    let odd = || Trouble::new(StoreErrorKind::Unexpected, "an odd reply to SCAN");
    let [cursor, keys] = value.array().ok_or_else(odd)? else { return Err(odd()) };
    let keys = keys.array().ok_or_else(odd)?.iter().filter_map(Value::text).collect();
    Ok((cursor.text().ok_or_else(odd)?, keys))
}

/// Looks at as many as there is room for; again, if some of them were no locks.
fn look_at_some(mut listing: Listing) {
    let mut names = Vec::new();
    while names.len() < listing.limit - listing.found.len() {
        let Some(name) = listing.names.pop_first() else { break };
        if listing.after.as_ref().is_none_or(|after| name > *after) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return listing.reply.answer(Ok(Answer::States(listing.found)));
    }
    let ask = listing.ask.clone();
    let album = Arc::new(Album { inner: Mutex::new((vec![None; names.len()], Some(listing))) });
    for (number, name) in names.into_iter().enumerate() {
        ask(Step::Inspect { name }, Reply::new(album.clone(), number, 0));
    }
}

/// Collects the pictures of a listing; the request's number is the picture's.
struct Album {
    inner: Mutex<(Vec<Option<LockState>>, Option<Listing>)>,
}

impl Mailbox for Album {
    fn post(self: Arc<Self>, post: Post) {
        let fencepost_core::store::Event::Answer(answer) = post.event else { return };
        let mut inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match answer {
            Ok(Answer::State(state)) => inner.0[post.node] = Some(state),
            Ok(_) => {}
            Err(trouble) => {
                let listing = inner.1.take();
                drop(inner);
                return listing.into_iter().for_each(|listing| listing.reply.answer(Err(trouble.clone())));
            }
        }
        if inner.0.iter().all(Option::is_some) {
            let states: Vec<LockState> = inner.0.drain(..).flatten().collect();
            let listing = inner.1.take();
            drop(inner);
            if let Some(mut listing) = listing {
                let shown = |state: &LockState| listing.shows_all || !steps::is_no_lock(state);
                listing.found.extend(states.into_iter().filter(shown));
                look_at_some(listing);
            }
        }
    }
}
