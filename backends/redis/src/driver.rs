//! The thread that reads from all servers of a connection, writes what has gathered, and connects again.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fencepost_core::foreign;
use fencepost_core::store::{Clock, Minting, Moment, Owner, StoreErrorKind, Trouble, table};
use mio::{Events, Poll, Token, Waker};

use crate::error;
use crate::fleet::Fleet;
use crate::greeting::{self, Server};
use crate::keys::Keys;
use crate::link::{Common, Link};
use crate::scripts::{Dialect, Trust};
use crate::sentinel;
use crate::sets;
use crate::settled::Settled;
use crate::socket::{self, Place, Socket};
use crate::standing::{Standing, Voice};
use crate::url::{Address, Config, Deployment, Node, Trusting};
use crate::wire::{self, Value};

/// Connecting and greeting may take so long, each.
pub(crate) const GREET_WITHIN: Duration = Duration::from_secs(1);
/// A server that owes an answer and says nothing for so long gets a new link: the old one may be half open.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// The pause before another try to connect grows from the first to the second.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(150);
/// A server that refuses us for what it is, is asked again after so long.
const REFUSED_PAUSE: Duration = Duration::from_secs(2);

/// Keeps the driver's thread going; it ends when this is dropped.
pub(crate) struct Handle {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    pub(crate) settled: Arc<Settled>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = self.waker.wake();
    }
}

/// What was started: the links in the order of the nodes, or the fleet that has them.
pub(crate) struct Started {
    pub(crate) links: Vec<Arc<Link>>,
    pub(crate) fleet: Option<Arc<Fleet>>,
    pub(crate) handle: Handle,
}

/// Starts the thread.
pub(crate) fn start(config: &Config, clock: &Clock) -> io::Result<Started> {
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), Token(usize::MAX))?);
    let random = Owner::random().map_err(|error| io::Error::other(error.to_string()))?;
    let clustered = config.deployment == Deployment::Cluster;
    let fingerprint = sets::fingerprint(config);
    let marker = sets::marker(config.quorum, &fingerprint);
    let judged = config.quorum || config.waits_after_failover;
    let minting = if config.quorum { Minting::Engine } else { Minting::Bounded };
    let keys = Keys { prefix: config.prefix.clone(), clustered, layout: config.layout, marker, judged, minting };
    let inbox = keys.inbox(&random);
    let common = Common {
        keys: Arc::new(keys),
        inbox,
        clock: clock.clone(),
        waker: waker.clone(),
        listeners: None,
        replicas: config.replicas,
        fleet: None,
    };
    let fleet = (config.deployment != Deployment::Servers).then(|| Fleet::new(config, &common));
    let now = clock.now();
    let peers: Vec<Peer> = match &fleet {
        None => {
            let standing =
                config.quorum.then(|| Arc::new(Standing::new(config.nodes.len(), &config.sets, SILENCE_MAX * 2)));
            let peer = |(server, node): (usize, &Node)| {
                let mut link = Link::new(node.address.to_string(), &common);
                link.voice = standing.clone().map(|standing| Voice { standing, server });
                Peer::new(Arc::new(link), node.clone(), Role::Server, now)
            };
            config.nodes.iter().enumerate().map(peer).collect()
        }
        Some(fleet) => finding::peers(fleet, config, now),
    };
    let links = peers.iter().map(|peer| peer.link.clone()).collect();
    let settled = Arc::new(match fleet.is_some() {
        true => Settled::new(1, &[]),
        false => Settled::new(peers.len(), &config.sets),
    });
    let stop = Arc::new(AtomicBool::new(false));
    let handle = Handle { stop: stop.clone(), waker, settled: settled.clone() };
    let mut driver = Driver {
        poll,
        peers,
        clock: clock.clone(),
        stop,
        settled,
        fingerprint,
        probation: probation(config),
        quorum: config.quorum,
        judges: config.quorum || config.waits_after_failover,
        trusting: config.trusting,
        greeted: false,
        search: Search::new(now),
        fleet: fleet.clone(),
    };
    std::thread::Builder::new().name("fencepost-redis".into()).spawn(move || driver.run())?;
    Ok(Started { links, fleet, handle })
}

/// How long a node that may have forgotten keeps still.
pub(crate) fn probation(config: &Config) -> Duration {
    config.max_ttl.max(table::WINDOW) + Duration::from_secs(1)
}

/// How servers are found that the URL does not name.
mod finding;
mod introductions;

use finding::Search;

struct Driver {
    poll: Poll,
    peers: Vec<Peer>,
    clock: Clock,
    stop: Arc<AtomicBool>,
    settled: Arc<Settled>,
    fingerprint: String,
    /// How long a node that may have forgotten keeps still.
    probation: Duration,
    quorum: bool,
    /// A server that may have forgotten something grants nothing for a while.
    judges: bool,
    trusting: Trusting,
    /// All nodes were heard or given up once: from here on a node without a marker has forgotten.
    greeted: bool,
    /// Who is looked for, where the URL does not name every server.
    fleet: Option<Arc<Fleet>>,
    search: Search,
}

struct Peer {
    link: Arc<Link>,
    node: Node,
    stage: Stage,
    input: Vec<u8>,
    pause: Duration,
    server: Option<Server>,
    tried: bool,
    role: Role,
}

/// What a peer is to us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Locks live there.
    Server,
    /// It knows where they do.
    Sentinel,
}

/// What a search for a server ends with.
type Found = Result<(Address, Place), Trouble>;

enum Stage {
    Resting {
        until: Moment,
    },
    LookingUp {
        found: mpsc::Receiver<Found>,
        until: Option<Moment>,
    },
    Connecting {
        socket: Socket,
        deadline: Moment,
    },
    Greeting(Greeting),
    /// Known, but whether it may vote depends on what the others say.
    Introduced {
        socket: Socket,
        deadline: Moment,
    },
    Up,
    /// Not of use any more.
    Retired,
}

struct Greeting {
    socket: Socket,
    deadline: Moment,
    unsent: Vec<u8>,
    replies: Vec<Value>,
    expected: usize,
    equipping: bool,
    /// What the scripts are written in that it is equipped with.
    dialect: Dialect,
}

impl Peer {
    fn new(link: Arc<Link>, node: Node, role: Role, now: Moment) -> Self {
        let stage = Stage::Resting { until: now };
        Self { link, node, stage, input: Vec::new(), pause: PAUSE_MIN, server: None, tried: false, role }
    }
}

impl Driver {
    fn run(&mut self) {
        let mut events = Events::with_capacity(64);
        while !self.stop.load(Ordering::SeqCst) {
            // What panics may be a logger that a TLS handshake calls. The thread outlives it, and so does every claim.
            if foreign::contain(|| self.turn(&mut events)).is_none() {
                self.fail_all(&Trouble::new(
                    StoreErrorKind::Unreachable,
                    "a panic ended the connection; it is made anew",
                ));
                std::thread::sleep(PAUSE_MAX);
            }
        }
        self.fail_all(&Trouble::new(StoreErrorKind::Unreachable, "the connection was closed"));
        if let Some(fleet) = &self.fleet {
            fleet.dismiss(&Trouble::new(StoreErrorKind::Unreachable, "the connection was closed"));
        }
    }

    fn turn(&mut self, events: &mut Events) {
        for number in 0..self.peers.len() {
            self.attend(number);
        }
        self.introduce_all();
        self.search();
        self.settled.tick(self.clock.now());
        let nap = self.nap();
        if let Err(error) = self.poll.poll(events, Some(nap))
            && error.kind() != io::ErrorKind::Interrupted
        {
            // Nothing to wait with: every link is taken down rather than left to look alive.
            self.fail_all(&Trouble::new(StoreErrorKind::Unreachable, format!("cannot wait for it: {error}")));
            std::thread::sleep(PAUSE_MAX);
        }
        let ready: Vec<usize> =
            events.iter().map(|event| event.token().0).filter(|token| *token != usize::MAX).collect();
        for number in ready {
            self.progress(number);
        }
        for number in 0..self.peers.len() {
            self.flush(number);
        }
    }

    fn fail_all(&mut self, trouble: &Trouble) {
        for number in 0..self.peers.len() {
            self.fail(number, trouble.clone());
        }
    }

    fn nap(&self) -> Duration {
        let now = self.clock.now();
        let each = self.peers.iter().map(|peer| match &peer.stage {
            Stage::Resting { until } => until.since(now),
            Stage::LookingUp { .. } => Duration::from_millis(5),
            Stage::Connecting { deadline, .. } | Stage::Introduced { deadline, .. } => deadline.since(now),
            Stage::Greeting(greeting) => greeting.deadline.since(now),
            Stage::Up | Stage::Retired => SILENCE_MAX / 4,
        });
        let enough = self.settled.enough_at().map(|at| at.since(now));
        let search = self.search.wake_at.map(|at| at.since(now));
        each.chain(enough).chain(search).min().unwrap_or(SILENCE_MAX).max(Duration::from_millis(1))
    }

    /// Does what is due by the clock.
    fn attend(&mut self, number: usize) {
        let now = self.clock.now();
        let slow = |what: &str| Trouble::new(StoreErrorKind::TooSlow, format!("{what} within {GREET_WITHIN:?}"));
        match &self.peers[number].stage {
            Stage::Resting { until } if *until <= now => self.connect(number),
            Stage::LookingUp { found, until } => match found.try_recv() {
                Ok(Ok((address, place))) => self.found(number, address, &place),
                Ok(Err(trouble)) => self.fail(number, trouble),
                Err(mpsc::TryRecvError::Empty) if until.is_some_and(|until| until <= now) => {
                    self.fail(number, Trouble::new(StoreErrorKind::TooSlow, "the sentinel does not answer"));
                }
                Err(mpsc::TryRecvError::Empty) => {}
                Err(mpsc::TryRecvError::Disconnected) => self.fail(number, slow("no address")),
            },
            Stage::Connecting { deadline, .. } if *deadline <= now => self.fail(number, slow("no connection")),
            Stage::Greeting(greeting) if greeting.deadline <= now && greeting.socket.is_handshaking() => {
                self.fail(number, slow("no TLS handshake (a port without TLS is redis:// or redlock://)"))
            }
            Stage::Greeting(greeting) if greeting.deadline <= now => self.fail(number, slow("no greeting")),
            Stage::Introduced { deadline, .. } if *deadline <= now => {
                self.fail(number, slow("the others did not answer"))
            }
            Stage::Up => {
                self.peers[number].link.leave_quiet_channels(now);
                if self.is_silent(number, now) {
                    // Perhaps it was this process that stood still, and the answers are there.
                    self.read(number);
                }
                if self.is_silent(number, now) {
                    let message = format!("it owes an answer and said nothing for {SILENCE_MAX:?}");
                    self.fail(number, Trouble::new(StoreErrorKind::TooSlow, message));
                }
            }
            _ => {}
        }
    }

    fn is_silent(&self, number: usize, now: Moment) -> bool {
        let state = self.peers[number].link.state();
        state.up.as_ref().is_some_and(|up| !up.waiting.is_empty() && now.since(up.heard_at) > SILENCE_MAX)
    }

    fn connect(&mut self, number: usize) {
        if self.asks_sentinels(number) {
            return self.ask_a_sentinel(number);
        }
        let address = self.peers[number].node.door().clone();
        if let Some(place) = socket::known(&address) {
            return self.open(number, &place);
        }
        let (tell, found) = mpsc::channel();
        look_up(address, tell);
        self.peers[number].stage = Stage::LookingUp { found, until: None };
    }

    fn open(&mut self, number: usize, place: &Place) {
        let deadline = self.clock.now().plus(GREET_WITHIN);
        let opened = Socket::connect(place, self.peers[number].node.tls.as_ref()).and_then(|mut socket| {
            socket.register(self.poll.registry(), Token(number), true)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => self.peers[number].stage = Stage::Connecting { socket, deadline },
            Err(error) => self.fail(number, unreachable(&error)),
        }
    }

    /// The socket has something for us, or room.
    fn progress(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        match std::mem::replace(&mut peer.stage, Stage::Resting { until: self.clock.now() }) {
            Stage::Connecting { socket, deadline } => match socket.connected() {
                Ok(false) => peer.stage = Stage::Connecting { socket, deadline },
                Err(error) => self.fail(number, unreachable(&error)),
                Ok(true) => {
                    let mut unsent = Vec::new();
                    let expected = match peer.role {
                        Role::Server => greeting::introduce(&mut unsent, &peer.node, &peer.link.inbox, &peer.link.keys),
                        Role::Sentinel => sentinel::introduce(&mut unsent, &peer.node),
                    };
                    let layout = peer.link.keys.layout;
                    let dialect = Dialect { major: 7, trust: Trust::Marker, layout, mints: false };
                    let replies = Vec::new();
                    let greeting = Greeting { socket, deadline, unsent, replies, expected, equipping: false, dialect };
                    self.greet(number, greeting);
                }
            },
            Stage::Greeting(greeting) => self.greet(number, greeting),
            Stage::Up => {
                peer.stage = Stage::Up;
                self.read(number);
            }
            other => peer.stage = other,
        }
    }

    fn read(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        let Some(socket) = peer.link.state().up.as_ref().map(|up| up.socket.clone()) else { return };
        let ended = fill(&socket, &mut peer.input);
        let mut used = 0;
        let broken = loop {
            match wire::parse(&peer.input[used..]) {
                Ok(None) => break None,
                Ok(Some((Value::Push(parts), length))) => {
                    used += length;
                    match peer.link.confirmed(&parts) {
                        Some(waiting) => peer.link.complete(waiting, Ok(Value::Push(parts))),
                        None => peer.link.pushed(&parts),
                    }
                }
                Ok(Some((value, length))) => {
                    used += length;
                    let now = self.clock.now();
                    peer.link.voice.iter().for_each(|voice| voice.answers(now));
                    let waiting = {
                        let mut state = peer.link.state();
                        state.up.as_mut().and_then(|up| up.answered(now, &peer.link.pace))
                    };
                    match waiting {
                        Some(waiting) => peer.link.complete(waiting, Ok(value)),
                        None => break Some("it replies to what nobody asked".to_owned()),
                    }
                }
                Err(why) => break Some(why),
            }
        };
        peer.input.drain(..used);
        if used > 0 {
            peer.link.catch_up();
        }
        match (broken, ended) {
            (Some(why), _) => self.fail(number, Trouble::new(StoreErrorKind::Unexpected, why)),
            (None, Err(error)) => self.fail(number, unreachable(&error)),
            (None, Ok(())) => {}
        }
    }

    fn flush(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        let flushed = {
            let mut state = peer.link.state();
            let Some(up) = state.up.as_mut() else { return };
            up.asked_driver = false;
            up.flush()
        };
        if let Err(error) = flushed {
            self.fail(number, unreachable(&error));
        }
    }

    /// The server will not do as it is: asked again after a while.
    fn refuse(&mut self, number: usize, trouble: Trouble) {
        // A master when it was found, a replica by now: that is nobody's mistake, and another is sought at once.
        if self.fleet.is_some() && trouble.message == error::IS_REPLICA {
            return self.fail(number, Trouble { kind: StoreErrorKind::Unreachable, ..trouble });
        }
        self.fail(number, trouble);
        self.peers[number].stage = Stage::Resting { until: self.clock.now().plus(REFUSED_PAUSE) };
    }

    /// The link is gone, or did not come about: everybody who waits is told, at once.
    fn fail(&mut self, number: usize, trouble: Trouble) {
        let peer = &mut self.peers[number];
        peer.link.voice.iter().for_each(Voice::falls_silent);
        // Who was refused is so again until somebody has mended it.
        let refused = matches!(trouble.kind, StoreErrorKind::Denied | StoreErrorKind::Misconfigured);
        let pause = if refused { REFUSED_PAUSE } else { peer.pause };
        let rest = Stage::Resting { until: self.clock.now().plus(pause) };
        match std::mem::replace(&mut peer.stage, rest) {
            Stage::Connecting { mut socket, .. } | Stage::Introduced { mut socket, .. } => {
                socket.deregister(self.poll.registry());
            }
            Stage::Greeting(mut greeting) => greeting.socket.deregister(self.poll.registry()),
            Stage::Resting { .. } | Stage::LookingUp { .. } | Stage::Up | Stage::Retired => {}
        }
        peer.pause = (peer.pause * 2).min(PAUSE_MAX);
        peer.input.clear();
        peer.tried = true;
        let (waiting, held_back) = {
            let mut state = peer.link.state();
            state.trouble = trouble.clone();
            peer.link.pace.is_down();
            state.up.take().map(|up| (up.waiting, up.held_back)).unwrap_or_default()
        };
        let link = peer.link.clone();
        waiting.into_iter().for_each(|waiting| link.complete(waiting, Err(trouble.clone())));
        held_back.into_replies().for_each(|reply| reply.answer(Err(trouble.clone())));
        match &self.fleet {
            None => self.settled.set(number, false, self.clock.now()),
            Some(_) => self.lost(number),
        }
    }
}

/// Looks a name up, on a thread of its own: that may take its time.
fn look_up(address: Address, tell: mpsc::Sender<Found>) {
    let refused = tell.clone();
    let looking = std::thread::Builder::new().name("fencepost-name".into()).spawn(move || {
        let place = socket::look_up(&address).map_err(|error| unreachable(&error));
        let _ = tell.send(place.map(|place| (address, place)));
    });
    if let Err(error) = looking {
        let _ = refused.send(Err(unreachable(&error)));
    }
}

/// Reads all there is. `Err`: the other side is gone.
fn fill(socket: &Socket, input: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::ConnectionReset, "it closed the connection")),
            Ok(count) => input.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn unreachable(error: &io::Error) -> Trouble {
    socket::trouble(error)
}
