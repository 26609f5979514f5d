//! Which servers there are: the sentinels and the cluster are asked.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use fencepost_core::store::{Moment, StoreErrorKind, Trouble};

use super::{Driver, Greeting, Peer, Role, Stage, look_up};
use crate::fleet::Fleet;
use crate::greeting::Server;
use crate::keys;
use crate::link::{Link, Up};
use crate::sentinel;
use crate::socket::{self, Place};
use crate::url::{Address, Config, Deployment};

/// A sentinel that is slower than this is passed over.
const ANSWER_WITHIN: Duration = Duration::from_millis(300);
/// How often the cluster is asked who has which slots, while somebody is missing.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A failover may be under way while we connect: so long it is waited for.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Where the search for servers stands.
pub(super) struct Search {
    /// Which sentinel, or which node of the cluster, is asked next.
    turn: usize,
    looked_at: Option<Moment>,
    give_up_at: Moment,
    settled: bool,
    /// When there is something to do.
    pub(super) wake_at: Option<Moment>,
}

impl Search {
    pub(super) fn new(now: Moment) -> Self {
        Self { turn: 0, looked_at: None, give_up_at: now.plus(CONNECT_WITHIN), settled: false, wake_at: None }
    }
}

/// Whom to connect to at the start: the master that is not known yet, and the sentinels; or the nodes that were named.
pub(super) fn peers(fleet: &Arc<Fleet>, config: &Config, now: Moment) -> Vec<Peer> {
    let mut peers = Vec::new();
    if let Deployment::Sentinels { .. } = &config.deployment {
        let master = fleet.links().remove(0);
        peers.push(Peer::new(master, config.nodes[0].clone(), Role::Server, now));
        for node in &config.nodes {
            let link = Link::new(node.address.to_string(), fleet.common());
            peers.push(Peer::new(Arc::new(link), node.clone(), Role::Sentinel, now));
        }
    }
    let newcomers = fleet.newcomers().into_iter();
    peers.extend(newcomers.map(|(link, node)| Peer::new(link, node, Role::Server, now)));
    peers
}

/// What follows on the names of a master's marker, so that it is in a slot of its own.
pub(super) fn marker_place(fleet: &Fleet, link: &Arc<Link>) -> String {
    fleet.lowest_slot(link).map(|slot| format!(":{{{}}}", keys::word_in(slot))).unwrap_or_default()
}

impl Driver {
    pub(super) fn asks_sentinels(&self, number: usize) -> bool {
        let has_sentinels = self.fleet.as_ref().is_some_and(|fleet| !fleet.is_cluster());
        has_sentinels && self.peers[number].role == Role::Server
    }

    /// Asks the next sentinel that can be reached where the master is.
    pub(super) fn ask_a_sentinel(&mut self, number: usize) {
        let now = self.clock.now();
        let count = self.peers.len() - 1;
        let turns = (0..count).map(|step| 1 + (self.search.turn + step) % count);
        let Some(next) = turns.into_iter().find(|peer| matches!(self.peers[*peer].stage, Stage::Up)) else {
            return self.await_sentinels(number, now);
        };
        self.search.turn = next;
        let Some(Deployment::Sentinels { master }) = self.fleet.as_ref().map(|fleet| fleet.deployment.clone()) else {
            return;
        };
        let (tell, found) = mpsc::channel();
        self.peers[number].stage = Stage::LookingUp { found, until: Some(now.plus(ANSWER_WITHIN)) };
        let link = self.peers[next].link.clone();
        link.command(&sentinel::question(&master.clone()), move |link, outcome| {
            let told = |trouble: Trouble| Trouble::new(trouble.kind, format!("{}: {}", link.label, trouble.message));
            match outcome.and_then(|value| sentinel::answer(&master, &value)).map_err(told) {
                Ok(address) => match socket::known(&address) {
                    Some(place) => drop(tell.send(Ok((address, place)))),
                    None => look_up(address, tell),
                },
                Err(trouble) => drop(tell.send(Err(trouble))),
            }
        });
    }

    /// No sentinel is linked: says so, once all were tried.
    fn await_sentinels(&mut self, number: usize, now: Moment) {
        let sentinels = || self.peers.iter().filter(|peer| peer.role == Role::Sentinel);
        if !sentinels().all(|peer| peer.tried) {
            self.peers[number].stage = Stage::Resting { until: now.plus(Duration::from_millis(2)) };
            return;
        }
        let mut troubles: Vec<(String, Trouble)> =
            sentinels().map(|peer| (peer.link.label.clone(), peer.link.state().trouble.clone())).collect();
        troubles.sort_by_key(|(_, trouble)| trouble.kind.outcome_unknown());
        let kind = troubles[0].1.kind.clone();
        let each: Vec<String> =
            troubles.into_iter().map(|(label, trouble)| format!("{label}: {}", trouble.message)).collect();
        self.fail(number, Trouble::new(kind, format!("no sentinel can be asked; {}", each.join("; "))));
    }

    /// The address of a server was found.
    pub(super) fn found(&mut self, number: usize, address: Address, place: &Place) {
        if let Some(fleet) = &self.fleet
            && self.peers[number].role == Role::Server
        {
            match fleet.node(address) {
                Ok(node) => self.peers[number].node = node,
                Err(trouble) => return self.fail(number, trouble),
            }
        }
        self.open(number, place);
    }

    /// A sentinel has greeted us: it can be asked, and will tell of a new master.
    pub(super) fn meet_sentinel(&mut self, number: usize, greeting: Greeting) {
        if let Err(trouble) = sentinel::introduced(&greeting.replies) {
            return self.fail(number, trouble);
        }
        let peer = &mut self.peers[number];
        let up = Up::new(greeting.socket, Vec::new(), greeting.dialect, self.clock.now());
        peer.link.state().up = Some(up);
        (peer.stage, peer.pause, peer.tried) = (Stage::Up, super::PAUSE_MIN, true);
    }

    /// Whether a server that was found is one to use. If not, it is dealt with.
    pub(super) fn suits(&mut self, number: usize, server: &Server) -> bool {
        let Some(fleet) = self.fleet.clone() else { return true };
        if !fleet.is_cluster() {
            if server.is_replica {
                let address = &self.peers[number].node.address;
                let message = format!("a sentinel named {address} as the master, but it is a replica by now");
                self.fail(number, Trouble::new(StoreErrorKind::Unreachable, message));
            }
            return !server.is_replica;
        }
        let link = self.peers[number].link.clone();
        if let Some(slots) = &server.slots {
            fleet.learn_from(&link, slots);
        }
        let suits = !server.is_replica && fleet.wants(&link);
        if !suits {
            let message = "it is no master of the cluster";
            self.fail(number, Trouble::new(StoreErrorKind::Unreachable, message));
        }
        suits
    }

    /// A server of the fleet is lost, or was not reached.
    pub(super) fn lost(&mut self, number: usize) {
        let Some(fleet) = &self.fleet else { return };
        let peer = &mut self.peers[number];
        if !fleet.is_cluster() {
            return;
        }
        fleet.suspect_map();
        if !fleet.wants(&peer.link) {
            peer.stage = Stage::Retired;
        }
    }

    /// Does what is due for servers that have to be found.
    pub(super) fn search(&mut self) {
        let Some(fleet) = self.fleet.clone() else { return };
        let now = self.clock.now();
        for (link, trouble) in fleet.outdated() {
            self.make_anew(&link, trouble, now);
        }
        if fleet.is_cluster() {
            self.search_cluster(&fleet, now);
        }
        self.settle(&fleet, now);
        let tend_at = fleet.tend(now);
        let missing = fleet.is_cluster() && (fleet.map_is_old() || !fleet.knows_all_slots());
        let look_at = missing.then(|| self.search.looked_at.map_or(now, |at| at.plus(LOOK_EVERY)));
        let settle_at = (!self.search.settled).then_some(self.search.give_up_at);
        self.search.wake_at = [tend_at, look_at, settle_at].into_iter().flatten().min();
    }

    /// Takes a link down that is not what it was, and makes a new one at once.
    fn make_anew(&mut self, link: &Arc<Link>, trouble: Trouble, now: Moment) {
        let found = self.peers.iter().position(|peer| Arc::ptr_eq(&peer.link, link));
        let Some(number) = found.filter(|number| matches!(self.peers[*number].stage, Stage::Up)) else { return };
        // News that are older than the link.
        if trouble.message == format!("{} is the master now", self.peers[number].node.address) {
            return;
        }
        self.fail(number, trouble);
        if matches!(self.peers[number].stage, Stage::Resting { .. }) {
            self.peers[number].stage = Stage::Resting { until: now };
        }
    }

    fn search_cluster(&mut self, fleet: &Arc<Fleet>, now: Moment) {
        for (link, node) in fleet.newcomers() {
            match self.peers.iter_mut().find(|peer| Arc::ptr_eq(&peer.link, &link)) {
                Some(peer) if matches!(peer.stage, Stage::Retired) => peer.stage = Stage::Resting { until: now },
                Some(_) => {}
                None => self.peers.push(Peer::new(link, node, Role::Server, now)),
            }
        }
        for number in 0..self.peers.len() {
            let peer = &self.peers[number];
            let idle = |link: &Link| link.state().up.as_ref().is_some_and(|up| up.waiting.is_empty());
            if matches!(peer.stage, Stage::Up) && !fleet.wants(&peer.link) && idle(&peer.link) {
                self.fail(number, Trouble::new(StoreErrorKind::Unreachable, "it is no master of the cluster any more"));
            }
        }
        // Nobody is left: whoever was ever known may know more.
        if self.peers.iter().all(|peer| matches!(peer.stage, Stage::Retired | Stage::Resting { .. })) {
            let retired = self.peers.iter_mut().filter(|peer| matches!(peer.stage, Stage::Retired));
            retired.for_each(|peer| peer.stage = Stage::Resting { until: now.plus(LOOK_EVERY) });
        }
        let missing = fleet.map_is_old() || !fleet.knows_all_slots() || fleet.links().iter().any(|link| !link.is_up());
        let due = self.search.looked_at.is_none_or(|at| at.plus(LOOK_EVERY) <= now);
        if missing && due {
            self.look_around(fleet, now);
        }
    }

    /// Asks one node after the other who has which slots.
    fn look_around(&mut self, fleet: &Arc<Fleet>, now: Moment) {
        let up: Vec<&Peer> = self.peers.iter().filter(|peer| matches!(peer.stage, Stage::Up)).collect();
        if up.is_empty() {
            return;
        }
        self.search.turn += 1;
        self.search.looked_at = Some(now);
        let fleet = Arc::downgrade(fleet);
        up[self.search.turn % up.len()].link.command(&[b"CLUSTER", b"SLOTS"], move |link, outcome| {
            if let (Some(fleet), Ok(value)) = (fleet.upgrade(), outcome) {
                fleet.learn_from(link, &value);
            }
        });
    }

    /// Tells whoever waits for the connection how the search went.
    fn settle(&mut self, fleet: &Arc<Fleet>, now: Moment) {
        if self.search.settled {
            return;
        }
        let links = fleet.links();
        let all_up = !links.is_empty() && links.iter().all(|link| link.server_clock().is_some() && link.is_up());
        let some_up = links.iter().any(|link| link.is_up());
        let refused = links.iter().any(|link| {
            let state = link.state();
            state.up.is_none() && !state.trouble.kind.outcome_unknown()
        });
        let nobody = self.peers.iter().all(|peer| peer.tried && !matches!(peer.stage, Stage::Up)) && !self.is_busy();
        let outcome = match () {
            () if all_up && fleet.knows_all_slots() => Some(true),
            () if refused || nobody => Some(false),
            () if now >= self.search.give_up_at => Some(some_up && fleet.knows_all_slots()),
            () => None,
        };
        if let Some(up) = outcome {
            self.search.settled = true;
            self.settled.set(0, up, now);
        }
    }

    /// A connection is being made.
    fn is_busy(&self) -> bool {
        let busy = |stage: &Stage| !matches!(stage, Stage::Up | Stage::Retired | Stage::Resting { .. });
        self.peers.iter().any(|peer| busy(&peer.stage))
    }
}
