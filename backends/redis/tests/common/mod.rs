//! Servers for one test, and what tests of faults say again and again.

#![allow(dead_code, reason = "each test program uses its part")]

use std::time::{Duration, Instant};

use fencepost_core::{
    AcquireError, Blocking, Connect, Grant, Guard, Locks, NodeVote, StoreError, StoreErrorKind, Vote,
};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::contract::edges::Reachable;
use fencepost_testkit::proxy::Proxy;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
pub(crate) use fencepost_testkit::wait::{PATIENCE, a_moment, until};

/// What the keys start with that stay when nobody holds or waits.
const STAY: [&str; 3] = ["fp:fence:", "fp:marker", "fp:probation"];

/// Every write is on disk before it is answered.
pub(crate) const KEEPS_EVERYTHING: &str = "--appendonly yes --appendfsync always";

/// Some servers, alone or as a quorum.
pub(crate) struct Place {
    pub(crate) servers: Vec<Server<Redis>>,
    /// One before each server, or none at all.
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) quorum: bool,
    /// What stands behind the `?` of the URL.
    pub(crate) settings: &'static str,
    /// The first so many were killed or stopped.
    pub(crate) down: usize,
}

impl Place {
    /// One server.
    pub(crate) fn one() -> Self {
        Self::alone(Redis::new())
    }

    /// One server like this.
    pub(crate) fn alone(recipe: Redis) -> Self {
        Self { servers: vec![recipe.start()], proxies: Vec::new(), quorum: false, settings: "", down: 0 }
    }

    /// So many that vote, trusted from the start.
    pub(crate) fn quorum(count: usize) -> Self {
        Self::voting(vec![Redis::new(); count], "")
    }

    /// These vote, trusted from the start.
    pub(crate) fn voting(recipes: Vec<Redis>, settings: &'static str) -> Self {
        let place = Self::untrusted(recipes, settings);
        place.trust();
        place
    }

    /// These vote once they are trusted.
    pub(crate) fn untrusted(recipes: Vec<Redis>, settings: &'static str) -> Self {
        let servers = recipes.into_iter().map(Redis::start).collect();
        Self { servers, proxies: Vec::new(), quorum: true, settings, down: 0 }
    }

    /// With this behind the `?` of the URL.
    pub(crate) fn settings(mut self, settings: &'static str) -> Self {
        self.settings = settings;
        self
    }

    /// With a proxy before each server. Clients know only the proxies.
    pub(crate) fn behind_proxies(mut self) -> Self {
        self.proxies = self.servers.iter().map(|server| Proxy::before(server.address())).collect();
        if self.quorum {
            self.trust();
        }
        self
    }

    /// Marks a new cluster as trusted, as `fencepost init` does.
    pub(crate) fn trust(&self) {
        fencepost_redis::init("redlock", &self.rest()).block().expect("all are there");
    }

    /// Kills some servers.
    pub(crate) fn with_dead(mut self, count: usize) -> Self {
        self.down = count;
        self.servers.iter_mut().take(count).for_each(Server::kill);
        self
    }

    /// Stops some servers in their tracks.
    pub(crate) fn with_stopped(mut self, count: usize) -> Self {
        self.down = count;
        self.servers.iter().take(count).for_each(Server::pause);
        self
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.quorum { "redlock" } else { "redis" }
    }

    /// What comes after the scheme.
    pub(crate) fn rest(&self) -> String {
        let addresses: Vec<String> = match self.proxies.is_empty() {
            true => self.servers.iter().map(Server::address).collect(),
            false => self.proxies.iter().map(Proxy::address).collect(),
        };
        format!("//{}?{}", addresses.join(","), self.settings)
    }

    /// An open connection that has reached every server: connecting itself waits for a majority only.
    pub(crate) fn linked(&self, label: &str) -> Locks {
        let locks = self.locks(label);
        self.reach_all(&locks, label);
        locks
    }

    /// Waits until a connection has reached every server.
    pub(crate) fn reach_all(&self, locks: &Locks, label: &str) {
        let name = format!("linked {label}");
        until("every server has answered", || {
            let lock = locks.lock(&name).ttl(Duration::from_secs(1)).wait_at_most(PATIENCE);
            let guard = once_reachable(|| lock.acquire().block()).expect("free");
            guard.renew().block().is_ok() && self.servers.iter().all(|server| value(server, &name).is_some())
        });
    }

    /// Waits until every server has granted this lock: acquiring and renewing wait for a majority only.
    pub(crate) fn until_all_have(&self, name: &str) {
        until("every server has granted it", || self.servers.iter().all(|server| value(server, name).is_some()));
    }

    pub(crate) fn pause_all(&self) {
        self.servers.iter().for_each(Server::pause);
    }

    pub(crate) fn resume_all(&self) {
        self.servers.iter().for_each(Server::resume);
    }
}

impl Subject for Place {
    /// Answers may take longer than by default, for a machine that is busy with other tests.
    fn connect(&self) -> Connect {
        connect(self.scheme(), &self.rest())
    }

    /// A server has a second to greet us, which on a busy machine is not always enough: then it is tried again.
    fn locks(&self, label: &str) -> Locks {
        let started = Instant::now();
        loop {
            match self.connect().label(label).block() {
                Ok(locks) => return locks,
                Err(error) if error.kind == StoreErrorKind::TooSlow && started.elapsed() < PATIENCE => {}
                Err(error) => panic!("the store can be reached: {error:?}"),
            }
        }
    }
}

impl Reachable for Place {
    fn address(&self) -> String {
        format!("{} {}", self.scheme(), self.rest())
    }

    fn reach(address: &str) -> Connect {
        let (scheme, rest) = address.split_once(' ').expect("a scheme and the rest");
        connect(scheme, rest)
    }

    /// At any server, also at one that the others outvote.
    fn left_behind(&self) -> Vec<String> {
        let each = self.servers[self.down..].iter().map(|server| (server.address(), server.keys()));
        let held = each.flat_map(|(server, keys)| {
            let stays = |key: &String| STAY.iter().any(|start| key.starts_with(start));
            keys.into_iter().filter(move |key| !stays(key)).map(move |key| format!("{key} at {server}"))
        });
        held.collect()
    }
}

fn connect(scheme: &str, rest: &str) -> Connect {
    let connect = fencepost_redis::connect(scheme, rest);
    if scheme == "redlock" { connect.answer_within(Duration::from_secs(1)) } else { connect }
}

/// Acquires as soon as enough nodes can be reached: a client takes a moment to connect again. Any other trouble is one.
pub(crate) fn once_reachable(mut acquire: impl FnMut() -> Result<Guard, AcquireError>) -> Result<Guard, AcquireError> {
    let started = Instant::now();
    loop {
        match acquire() {
            Err(AcquireError::Store(StoreError {
                kind: StoreErrorKind::Unreachable | StoreErrorKind::TooSlow,
                ..
            })) if started.elapsed() < PATIENCE => a_moment(),
            other => return other,
        }
    }
}

/// The lock's key on a server.
pub(crate) fn value(server: &Server<Redis>, name: &str) -> Option<String> {
    server.word(&["GET", &format!("lock:{name}")])
}

/// The last token that a server has seen for a lock; 0 if none.
pub(crate) fn fence(server: &Server<Redis>, name: &str) -> u64 {
    let word = server.word(&["GET", &format!("fp:fence:{{lock:{name}}}")]);
    // Behind it is a `+` once somebody waited, and the highest bound that is spent.
    let digits = |word: String| word.split(['+', '|']).next().map(str::to_owned);
    word.and_then(digits).map_or(0, |digits| digits.parse().expect("a token"))
}

/// How many scripts a server has run.
pub(crate) fn scripts_run(server: &Server<Redis>) -> u64 {
    let stats = server.ask(&["INFO", "commandstats"]);
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.map_or(0, |calls| calls.split(',').next().expect("a number").parse().expect("a number"))
}

/// Whether the keys of a lock are all gone, but for its fence.
pub(crate) fn is_clean(server: &Server<Redis>, name: &str) -> bool {
    let fence = format!("fp:fence:{{lock:{name}}}");
    !server.keys().iter().any(|key| key.contains(&format!("lock:{name}")) && *key != fence)
}

/// Waits until so many clients are linked.
pub(crate) fn until_heard(server: &Server<Redis>, clients: usize) {
    until("the clients have connected", || server.words(&["PUBSUB", "CHANNELS"]).len() >= clients);
}

/// Waits until a client is linked and the server is trusted.
pub(crate) fn until_linked(server: &Server<Redis>) {
    let run = server.ask(&["INFO", "server"]);
    let run = run.lines().find_map(|line| line.strip_prefix("run_id:")).expect("a run id").trim().to_owned();
    until("the client has connected again", || {
        let marker = server.word(&["GET", "fp:marker"]);
        marker.is_some_and(|marker| marker.ends_with(&run)) && !server.words(&["PUBSUB", "CHANNELS"]).is_empty()
    });
}

/// The trouble of an acquisition that should fail.
pub(crate) fn trouble<G: Grant>(result: Result<Guard<G>, AcquireError>) -> StoreError {
    match result {
        Err(AcquireError::Store(error)) => error,
        Err(other) => panic!("expected trouble: {other:?}"),
        Ok(guard) => panic!("expected trouble: granted {guard:?} by {:?}", guard.votes()),
    }
}

/// How many nodes granted.
pub(crate) fn grants(votes: &[NodeVote]) -> usize {
    votes.iter().filter(|vote| vote.vote == Vote::Granted).count()
}

/// The commands among these bytes that call a script.
pub(crate) fn commands(bytes: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8(bytes.to_vec()).expect("commands are text");
    let starts: Vec<usize> = text.match_indices("*").map(|(at, _)| at).filter(|at| is_start(&text, *at)).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let each = starts.iter().zip(ends).map(|(from, to)| &text[*from..to]);
    each.filter(|command| command.contains("EVALSHA")).map(|command| command.as_bytes().to_vec()).collect()
}

fn is_start(text: &str, at: usize) -> bool {
    let digits = text[at + 1..].split("\r\n").next().unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
