//! One Redis server as a store.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_core::store::{
    Abilities, Answer, Claim, FencingToken, Listening, LockName, LockState, Mailbox, Moment, Post, Reply, Step, Store,
    StoreErrorKind, Trouble,
};

use crate::driver::Handle;
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
        abilities(self.largest_ttl)
    }

    fn label(&self) -> String {
        self.link.label.clone()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        match step {
            Step::List { prefix, after, limit, contended } => {
                let link = self.link.clone();
                let ask = Box::new(move |step, reply| link.step(step, reply, Again::until(deadline)));
                list(vec![self.link.clone()], ask, Wanted { prefix: &prefix, after, limit, contended }, reply);
            }
            step => self.link.step(step, reply, Again::until(deadline)),
        }
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.link.listeners.listen(claim, reply)
    }

    fn clock(&self) -> Option<FencingToken> {
        self.link.server_clock()
    }
}

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisNode({})", self.link.label)
    }
}

/// What every Redis store can do.
pub(crate) fn abilities(largest_ttl: Option<Duration>) -> Abilities {
    Abilities {
        mints: false,
        queues: true,
        together: true,
        survives_restart: false,
        smallest_ttl: Duration::from_millis(50),
        largest_ttl,
        answer_within: None,
    }
}

/// How a listing looks at one lock.
type Ask = Box<dyn Fn(Step, Reply) + Send>;

/// A listing: finds the names with SCAN, server by server, then looks at each.
struct Listing {
    /// The servers that are still to be searched.
    rest: Vec<Arc<Link>>,
    ask: Ask,
    first: Kind,
    prefix: String,
    after: Option<LockName>,
    limit: usize,
    names: BTreeSet<String>,
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
    let (prefix, limit) = (prefix.to_owned(), limit as usize);
    search_next(Listing { rest: links, ask, first, prefix, after, limit, names: BTreeSet::new(), reply });
}

fn search_next(mut listing: Listing) {
    let Some(link) = listing.rest.pop() else { return look_at_each(listing) };
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

/// Takes away the meaning that characters have in a pattern.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| if "*?[]\\".contains(c) { vec!['\\', c] } else { vec![c] }).collect()
}

fn scan(link: &Arc<Link>, mut listing: Listing, kind: Kind, cursor: String) {
    let pattern = kind.pattern(link, &listing.prefix);
    let parts: [&[u8]; 6] = [b"SCAN", cursor.as_bytes(), b"MATCH", pattern.as_bytes(), b"COUNT", b"1000"];
    link.command(&parts, move |link, outcome| {
        let (cursor, keys) = match page(outcome) {
            Ok(page) => page,
            Err(trouble) => return listing.reply.answer(Err(trouble)),
        };
        for key in keys {
            let name = kind.name(link, &key);
            listing.names.extend(name.filter(|name| name.starts_with(&listing.prefix)));
        }
        match (cursor.as_str(), kind) {
            ("0", Kind::Fence) => scan(link, listing, Kind::Lock, "0".into()),
            ("0", Kind::Lock | Kind::Line) => search_next(listing),
            _ => scan(link, listing, kind, cursor),
        }
    });
}

fn page(outcome: Result<Value, Trouble>) -> Result<(String, Vec<String>), Trouble> {
    let value = outcome?;
    if let Value::Error(text) = &value {
        return Err(steps::trouble(text));
    }
    let odd = || Trouble::new(StoreErrorKind::Unexpected, "an odd reply to SCAN");
    let [cursor, keys] = value.array().ok_or_else(odd)? else { return Err(odd()) };
    let keys = keys.array().ok_or_else(odd)?.iter().filter_map(Value::text).collect();
    Ok((cursor.text().ok_or_else(odd)?, keys))
}

fn look_at_each(listing: Listing) {
    let after = listing.after.as_ref().map(|after| after.as_str().to_owned());
    let wanted = listing.names.into_iter().filter(|name| after.as_ref().is_none_or(|after| name > after));
    // A name that is none of ours may be anything; what is no valid name cannot be a lock of ours.
    let names: Vec<LockName> = wanted.filter_map(|name| LockName::new(name).ok()).take(listing.limit).collect();
    if names.is_empty() {
        return listing.reply.answer(Ok(Answer::States(Vec::new())));
    }
    let ask = listing.ask;
    let states = Mutex::new((vec![None; names.len()], Some(listing.reply)));
    let album = Arc::new(Album { states });
    for (number, name) in names.into_iter().enumerate() {
        let reply = Reply::new(album.clone(), number, 0);
        ask(Step::Inspect { name }, reply);
    }
}

/// Collects the pictures of a listing; the request's number is the picture's.
struct Album {
    states: Mutex<(Vec<Option<LockState>>, Option<Reply>)>,
}

impl Mailbox for Album {
    fn post(self: Arc<Self>, post: Post) {
        let fencepost_core::store::Event::Answer(answer) = post.event else { return };
        let mut states = self.states.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match answer {
            Ok(Answer::State(state)) => states.0[post.node] = Some(state),
            Ok(_) => {}
            Err(trouble) => {
                let reply = states.1.take();
                drop(states);
                return reply.into_iter().for_each(|reply| reply.answer(Err(trouble.clone())));
            }
        }
        if states.0.iter().all(Option::is_some) {
            let (all, reply) = (states.0.drain(..).flatten().collect::<Vec<_>>(), states.1.take());
            drop(states);
            reply.into_iter().for_each(|reply| reply.answer(Ok(Answer::States(all.clone()))));
        }
    }
}
