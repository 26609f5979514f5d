//! The thread that reads from all servers of a connection, writes what has gathered, and connects again.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fencepost_core::store::{Clock, Moment, Owner, StoreErrorKind, Trouble, table};
use mio::{Events, Poll, Token, Waker};

use crate::greeting::{self, Server};
use crate::link::{Link, Up, trusted};
use crate::settled::Settled;
use crate::socket::{self, Place, Socket};
use crate::url::{Config, Node};
use crate::wire::{self, Value};

/// Connecting and greeting may take so long, each.
const GREET_WITHIN: Duration = Duration::from_secs(1);
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

/// Starts the thread. Answers the links in the order of the nodes.
pub(crate) fn start(config: &Config, clock: &Clock) -> io::Result<(Vec<Arc<Link>>, Handle)> {
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), Token(usize::MAX))?);
    let random = Owner::random().map_err(|error| io::Error::other(error.to_string()))?;
    let inbox = format!("fp:inbox:{}", random.expose());
    let fingerprint = fingerprint(config);
    let peers: Vec<Peer> = config
        .nodes
        .iter()
        .map(|node| {
            let (label, prefix) = (node.address.to_string(), config.prefix.clone());
            let link = Link::new(label, prefix, inbox.clone(), clock.clone(), waker.clone());
            Peer::new(Arc::new(link), node.clone(), clock.now())
        })
        .collect();
    let links = peers.iter().map(|peer| peer.link.clone()).collect();
    let settled = Arc::new(Settled::new(peers.len()));
    let stop = Arc::new(AtomicBool::new(false));
    let handle = Handle { stop: stop.clone(), waker, settled: settled.clone() };
    let probation = config.max_ttl.max(table::WINDOW) + Duration::from_secs(1);
    let (quorum, trust_all) = (config.quorum, config.trust_all);
    let mut driver = Driver {
        poll,
        peers,
        clock: clock.clone(),
        stop,
        settled,
        fingerprint,
        probation,
        quorum,
        trust_all,
        greeted: false,
    };
    std::thread::Builder::new().name("fencepost-redis".into()).spawn(move || driver.run())?;
    Ok((links, handle))
}

/// What makes a set of nodes one cluster: all clients must mean the same.
fn fingerprint(config: &Config) -> String {
    let mut nodes: Vec<String> = config.nodes.iter().map(|node| node.address.to_string()).collect();
    nodes.sort_unstable();
    match config.quorum {
        true => format!("{} max_ttl_ms={}", nodes.join(","), config.max_ttl.as_millis()),
        false => "alone".to_owned(),
    }
}

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
    trust_all: bool,
    /// All nodes were heard or given up once: from here on a node without a marker has forgotten.
    greeted: bool,
}

struct Peer {
    link: Arc<Link>,
    node: Node,
    stage: Stage,
    input: Vec<u8>,
    pause: Duration,
    server: Option<Server>,
    tried: bool,
}

enum Stage {
    Resting {
        until: Moment,
    },
    LookingUp {
        found: mpsc::Receiver<io::Result<Place>>,
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
}

struct Greeting {
    socket: Socket,
    deadline: Moment,
    unsent: Vec<u8>,
    replies: Vec<Value>,
    expected: usize,
    equipping: bool,
}

impl Peer {
    fn new(link: Arc<Link>, node: Node, now: Moment) -> Self {
        let stage = Stage::Resting { until: now };
        Self { link, node, stage, input: Vec::new(), pause: PAUSE_MIN, server: None, tried: false }
    }
}

impl Driver {
    fn run(&mut self) {
        let mut events = Events::with_capacity(64);
        while !self.stop.load(Ordering::SeqCst) {
            for number in 0..self.peers.len() {
                self.attend(number);
            }
            self.introduce_all();
            self.settled.tick(self.clock.now());
            let nap = self.nap();
            if let Err(error) = self.poll.poll(&mut events, Some(nap))
                && error.kind() != io::ErrorKind::Interrupted
            {
                // Nothing to wait with: every link is taken down rather than left to look alive.
                for number in 0..self.peers.len() {
                    self.fail(
                        number,
                        Trouble::new(StoreErrorKind::Unreachable, format!("cannot wait for it: {error}")),
                    );
                }
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
        for number in 0..self.peers.len() {
            self.fail(number, Trouble::new(StoreErrorKind::Unreachable, "the connection was closed"));
        }
    }

    fn nap(&self) -> Duration {
        let now = self.clock.now();
        let each = self.peers.iter().map(|peer| match &peer.stage {
            Stage::Resting { until } => until.since(now),
            Stage::LookingUp { .. } => Duration::from_millis(5),
            Stage::Connecting { deadline, .. } | Stage::Introduced { deadline, .. } => deadline.since(now),
            Stage::Greeting(greeting) => greeting.deadline.since(now),
            Stage::Up => SILENCE_MAX / 4,
        });
        let enough = self.settled.enough_at().map(|at| at.since(now));
        each.chain(enough).min().unwrap_or(SILENCE_MAX).max(Duration::from_millis(1))
    }

    /// Does what is due by the clock.
    fn attend(&mut self, number: usize) {
        let now = self.clock.now();
        let slow = |what: &str| Trouble::new(StoreErrorKind::TooSlow, format!("{what} within {GREET_WITHIN:?}"));
        match &self.peers[number].stage {
            Stage::Resting { until } if *until <= now => self.connect(number),
            Stage::LookingUp { found } => match found.try_recv() {
                Ok(Ok(place)) => self.open(number, &place),
                Ok(Err(error)) => self.fail(number, unreachable(&error)),
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
                let silent = {
                    let state = self.peers[number].link.state();
                    let owes = |up: &Up| !up.waiting.is_empty() && now.since(up.heard_at) > SILENCE_MAX;
                    state.up.as_ref().is_some_and(owes)
                };
                if silent {
                    let message = format!("it owes an answer and said nothing for {SILENCE_MAX:?}");
                    self.fail(number, Trouble::new(StoreErrorKind::TooSlow, message));
                }
            }
            _ => {}
        }
    }

    fn connect(&mut self, number: usize) {
        let address = self.peers[number].node.address.clone();
        if let Some(place) = socket::known(&address) {
            return self.open(number, &place);
        }
        let (tell, found) = mpsc::channel();
        let looking = std::thread::Builder::new().name("fencepost-name".into()).spawn(move || {
            let _ = tell.send(socket::look_up(&address));
        });
        match looking {
            Ok(_) => self.peers[number].stage = Stage::LookingUp { found },
            Err(error) => self.fail(number, unreachable(&error)),
        }
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
                    let expected = greeting::introduce(&mut unsent, &peer.node, &peer.link.inbox);
                    let greeting =
                        Greeting { socket, deadline, unsent, replies: Vec::new(), expected, equipping: false };
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

    fn greet(&mut self, number: usize, mut greeting: Greeting) {
        let peer = &mut self.peers[number];
        match exchange(&mut greeting, &mut peer.input) {
            Err(error) if greeting.equipping || !greeting.replies.is_empty() => {
                self.fail(number, unreachable(&error));
            }
            Err(error) => {
                let trouble = greeting.socket.broken_off(&error, &peer.input);
                self.fail(number, trouble);
            }
            Ok(()) if greeting.replies.len() < greeting.expected => peer.stage = Stage::Greeting(greeting),
            Ok(()) if greeting.equipping => self.come_up(number, greeting),
            Ok(()) => match Server::read(&greeting.replies, self.quorum) {
                Err(trouble) => self.fail(number, trouble),
                Ok(server) => {
                    peer.server = Some(server);
                    // Longer than the others may take to be given up.
                    let deadline = self.clock.now().plus(GREET_WITHIN * 2);
                    peer.stage = Stage::Introduced { socket: greeting.socket, deadline };
                }
            },
        }
    }

    /// When every node was heard or given up: judges who may vote, and sends the scripts.
    fn introduce_all(&mut self) {
        let heard = |peer: &Peer| peer.tried || matches!(peer.stage, Stage::Introduced { .. } | Stage::Up);
        let in_use = |peer: &Peer| peer.server.as_ref().is_some_and(|server| server.is_known);
        // Once one node knows of the cluster this is no first use, and nobody has to wait for a silent one.
        if !self.greeted && !self.peers.iter().all(heard) && !self.peers.iter().any(in_use) {
            return;
        }
        let first_use = !self.greeted && self.is_first_use();
        self.greeted = true;
        for number in 0..self.peers.len() {
            if !matches!(self.peers[number].stage, Stage::Introduced { .. }) {
                continue;
            }
            if let Some(trouble) = self.duplicate(number) {
                self.refuse(number, trouble);
                continue;
            }
            let peer = &mut self.peers[number];
            let Stage::Introduced { socket, deadline } =
                std::mem::replace(&mut peer.stage, Stage::Resting { until: self.clock.now() })
            else {
                unreachable!("BUG: just looked at")
            };
            let server = peer.server.clone().expect("BUG: who was introduced is known");
            let judge = |how: &str| {
                vec![
                    self.fingerprint.clone(),
                    server.run.clone(),
                    self.probation.as_millis().to_string(),
                    how.to_owned(),
                ]
            };
            let later = match (self.quorum, server.keeps_everything) {
                (false, _) => "welcome",
                (true, true) => "keep",
                (true, false) => "judge",
            };
            peer.link.state().trust = judge(later);
            let words = judge(match (self.trust_all, first_use) {
                (true, _) => "accept",
                (false, true) => "welcome",
                (false, false) => later,
            });
            let mut unsent = Vec::new();
            let expected = greeting::equip(&mut unsent, server.major, &words);
            let greeting = Greeting { socket, deadline, unsent, replies: Vec::new(), expected, equipping: true };
            self.greet(number, greeting);
        }
    }

    /// No node knows of a cluster, and all have been up for so long that they cannot have forgotten one.
    fn is_first_use(&self) -> bool {
        let known: Vec<&Server> = self.peers.iter().filter_map(|peer| peer.server.as_ref()).collect();
        known.len() == self.peers.len() && known.iter().all(|server| !server.is_known && server.up_for > self.probation)
    }

    fn duplicate(&self, number: usize) -> Option<Trouble> {
        let run = |number: usize| self.peers[number].server.as_ref().map(|server| server.run.as_str());
        let twin = (0..self.peers.len()).find(|other| *other != number && run(*other) == run(number))?;
        let message =
            format!("it is the same server as {}: each node must be a server of its own", self.peers[twin].link.label);
        Some(Trouble::new(StoreErrorKind::Misconfigured, message))
    }

    fn come_up(&mut self, number: usize, greeting: Greeting) {
        let peer = &mut self.peers[number];
        let (hashes, verdict) = match greeting::equipped(&greeting.replies) {
            Ok((hashes, verdict)) => (hashes, trusted(verdict)),
            Err(trouble) => return self.refuse(number, trouble),
        };
        match verdict {
            // On probation the link is of use all the same: releases work, and the scripts refuse to grant.
            Ok(()) | Err(Trouble { kind: StoreErrorKind::Quarantined { .. }, .. }) => {}
            Err(trouble) => return self.refuse(number, trouble),
        }
        let major = peer.server.as_ref().map_or(7, |server| server.major);
        let up = Up {
            socket: Arc::new(greeting.socket),
            hashes,
            major,
            unsent: Vec::new(),
            waiting: VecDeque::new(),
            asked_driver: false,
            heard_at: self.clock.now(),
        };
        peer.link.state().up = Some(up);
        peer.stage = Stage::Up;
        peer.pause = PAUSE_MIN;
        peer.tried = true;
        let settled = self.settled.clone();
        peer.link.clone().compare_clocks({
            let clock = self.clock.clone();
            move |up| settled.set(number, up, clock.now())
        });
        peer.link.clone().hint_all();
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
                    peer.link.pushed(&parts);
                }
                Ok(Some((value, length))) => {
                    used += length;
                    let waiting = {
                        let mut state = peer.link.state();
                        let up = state.up.as_mut();
                        up.and_then(|up| {
                            up.heard_at = self.clock.now();
                            up.waiting.pop_front()
                        })
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
        self.fail(number, trouble);
        self.peers[number].stage = Stage::Resting { until: self.clock.now().plus(REFUSED_PAUSE) };
    }

    /// The link is gone, or did not come about: everybody who waits is told, at once.
    fn fail(&mut self, number: usize, trouble: Trouble) {
        let peer = &mut self.peers[number];
        // Who was refused is so again until somebody has mended it.
        let refused = matches!(trouble.kind, StoreErrorKind::Denied | StoreErrorKind::Misconfigured);
        let pause = if refused { REFUSED_PAUSE } else { peer.pause };
        let rest = Stage::Resting { until: self.clock.now().plus(pause) };
        match std::mem::replace(&mut peer.stage, rest) {
            Stage::Connecting { mut socket, .. } | Stage::Introduced { mut socket, .. } => {
                socket.deregister(self.poll.registry());
            }
            Stage::Greeting(mut greeting) => greeting.socket.deregister(self.poll.registry()),
            Stage::Resting { .. } | Stage::LookingUp { .. } | Stage::Up => {}
        }
        peer.pause = (peer.pause * 2).min(PAUSE_MAX);
        peer.input.clear();
        peer.tried = true;
        let waiting = {
            let mut state = peer.link.state();
            state.trouble = trouble.clone();
            state.up.take().map(|up| up.waiting).unwrap_or_default()
        };
        let link = peer.link.clone();
        waiting.into_iter().for_each(|waiting| link.complete(waiting, Err(trouble.clone())));
        self.settled.set(number, false, self.clock.now());
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

/// One turn of a greeting: writes what is left, reads what came.
fn exchange(greeting: &mut Greeting, input: &mut Vec<u8>) -> io::Result<()> {
    while !greeting.unsent.is_empty() {
        match greeting.socket.write(&greeting.unsent) {
            Ok(count) => drop(greeting.unsent.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    let ended = fill(&greeting.socket, input);
    let mut used = 0;
    while let Some((value, length)) = wire::parse(&input[used..]).map_err(io::Error::other)? {
        used += length;
        // A subscription is confirmed by a push, and refused by a reply.
        let confirms = |parts: &[Value]| parts.first().and_then(Value::text).as_deref() == Some("subscribe");
        if !matches!(&value, Value::Push(parts) if !confirms(parts)) {
            greeting.replies.push(value);
        }
    }
    input.drain(..used);
    if greeting.replies.len() >= greeting.expected { Ok(()) } else { ended }
}

fn unreachable(error: &io::Error) -> Trouble {
    socket::trouble(error)
}
