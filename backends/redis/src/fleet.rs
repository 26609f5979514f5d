//! Servers that are one store together: the master behind sentinels, or the masters of a cluster.
//!
//! A step goes to the server that has its lock now. What a server did not do, and said so, is sent again: to the one it
//! named, or later; what was not sent yet waits for a link. Both end at the step's own deadline. What was sent and not
//! answered is never sent again: it may have been done.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use fencepost_core::store::{
    Abilities, Claim, FencingToken, Listening, Moment, Reply, Step, Store, StoreErrorKind, Trouble,
};

use crate::cluster::{self, Ranges};
use crate::driver::Handle;
use crate::keys::SLOTS;
use crate::link::{Again, Common, Link};
use crate::sentinel;
use crate::steps;
use crate::store::{Wanted, abilities, list};
use crate::url::{Address, Config, Deployment, Entry, Node};

/// After so many refusals a step is given up.
const BOUNCES_MAX: u32 = 100;
/// The pause before a server is asked again grows from the first to the second.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(80);
/// So long before its deadline a step is given up, so that its reason is heard.
const WORD_BEFORE_DEADLINE: Duration = Duration::from_millis(20);
/// How long a step waits whose deadline nobody named.
const PATIENCE: Duration = Duration::from_secs(5);
/// A link that has the scripts of a node on probation has to be made anew.
pub(crate) const PROBATION_IS_OVER: &str = "TRYAGAIN probation is over";

/// A slot that nobody has.
const NOBODY: u16 = u16::MAX;

pub(crate) struct Fleet {
    pub(crate) label: String,
    pub(crate) deployment: Deployment,
    entry: Entry,
    common: Common,
    inner: Mutex<Inner>,
}

struct Inner {
    members: Vec<Member>,
    /// The member that has each slot. Behind sentinels there is one member, and it has all.
    owners: Vec<u16>,
    /// Who has to be linked, for the driver to do it.
    newcomers: Vec<(Arc<Link>, Node)>,
    /// Links that have to be made anew, and why.
    outdated: Vec<(Arc<Link>, Trouble)>,
    parked: Vec<Parked>,
    /// Who has which slots has to be asked again.
    map_is_old: bool,
}

struct Member {
    address: Address,
    link: Arc<Link>,
    /// A master by the newest map, or nobody knows yet.
    wanted: bool,
}

/// A step that waits for a link, or for a better moment.
struct Parked {
    step: Step,
    reply: Reply,
    again: Again,
    /// Who has to do it, if not the owner of its slot.
    at: Option<Arc<Link>>,
    not_before: Moment,
    reason: Trouble,
}

impl Fleet {
    pub(crate) fn new(config: &Config, common: &Common) -> Arc<Self> {
        let label = match &config.deployment {
            Deployment::Sentinels { master } => format!("{master} of {}", addresses(&config.nodes)),
            _ => addresses(&config.nodes),
        };
        Arc::new_cyclic(|me: &Weak<Self>| {
            let common = Common { fleet: Some(me.clone()), listeners: Some(Arc::default()), ..common.clone() };
            let inner = Inner {
                members: Vec::new(),
                owners: vec![NOBODY; usize::from(SLOTS)],
                newcomers: Vec::new(),
                outdated: Vec::new(),
                parked: Vec::new(),
                map_is_old: false,
            };
            let (deployment, entry) = (config.deployment.clone(), config.entry.clone());
            let fleet = Self { label, deployment, entry, common, inner: Mutex::new(inner) };
            match &fleet.deployment {
                // Its address is asked for before every connection.
                Deployment::Sentinels { master } => {
                    let address = Address::Unix(master.clone());
                    let link = Arc::new(Link::new(master.clone(), &fleet.common));
                    fleet.inner().members.push(Member { address, link, wanted: true });
                }
                _ => config.nodes.iter().for_each(|node| drop(fleet.member(&mut fleet.inner(), &node.address))),
            }
            fleet
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.deployment == Deployment::Cluster
    }

    /// What a link to a sentinel has in common with the others.
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    /// How to enter the server at this address.
    pub(crate) fn node(&self, address: Address) -> Result<Node, Trouble> {
        let wrong = |invalid: fencepost_core::Invalid| Trouble::new(StoreErrorKind::Misconfigured, invalid.to_string());
        self.entry.node(address).map_err(wrong)
    }

    /// The links to masters.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.inner().members.iter().filter(|member| member.wanted).map(|member| member.link.clone()).collect()
    }

    /// Whether this link is still of use.
    pub(crate) fn wants(&self, link: &Arc<Link>) -> bool {
        self.inner().members.iter().any(|member| member.wanted && Arc::ptr_eq(&member.link, link))
    }

    /// The number of the member at an address, new or known. Whoever was not wanted before has to be linked.
    fn member(&self, inner: &mut Inner, address: &Address) -> Result<usize, Trouble> {
        let known = inner.members.iter().position(|member| member.address == *address);
        let number = known.unwrap_or(inner.members.len());
        if known.is_some_and(|number| inner.members[number].wanted) {
            return Ok(number);
        }
        let node = self.node(address.clone())?;
        if known.is_none() {
            let link = Arc::new(Link::new(address.to_string(), &self.common));
            inner.members.push(Member { address: address.clone(), link, wanted: true });
        }
        inner.members[number].wanted = true;
        inner.newcomers.push((inner.members[number].link.clone(), node));
        let _ = self.common.waker.wake();
        Ok(number)
    }

    /// Takes in who has which slots.
    pub(crate) fn learn(&self, ranges: &Ranges) {
        let mut inner = self.inner();
        // A node that knows of nobody has just been started: what is known from others is better.
        if ranges.is_empty() {
            return;
        }
        inner.map_is_old = false;
        inner.owners.fill(NOBODY);
        let mut masters = Vec::new();
        for (first, last, address) in ranges {
            let Ok(number) = self.member(&mut inner, address) else { continue };
            masters.push(number);
            let owner = u16::try_from(number).unwrap_or(NOBODY);
            inner.owners[usize::from(*first)..=usize::from(*last)].fill(owner);
        }
        inner.members.iter_mut().enumerate().for_each(|(number, member)| member.wanted = masters.contains(&number));
    }

    /// The same from a reply of a member.
    pub(crate) fn learn_from(&self, link: &Arc<Link>, value: &crate::wire::Value) {
        let address = self.address_of(link);
        if let Some(ranges) = address.and_then(|address| cluster::ranges(value, &address)) {
            self.learn(&ranges);
        }
    }

    fn address_of(&self, link: &Arc<Link>) -> Option<Address> {
        let inner = self.inner();
        inner.members.iter().find(|member| Arc::ptr_eq(&member.link, link)).map(|member| member.address.clone())
    }

    /// The lowest slot of a member: where its own marker is.
    pub(crate) fn lowest_slot(&self, link: &Arc<Link>) -> Option<u16> {
        let inner = self.inner();
        let number = inner.members.iter().position(|member| Arc::ptr_eq(&member.link, link))?;
        let slot = inner.owners.iter().position(|owner| usize::from(*owner) == number)?;
        u16::try_from(slot).ok()
    }

    /// Every slot has a master.
    pub(crate) fn knows_all_slots(&self) -> bool {
        !self.is_cluster() || self.inner().owners.iter().all(|owner| *owner != NOBODY)
    }

    pub(crate) fn suspect_map(&self) {
        self.inner().map_is_old = true;
    }

    pub(crate) fn map_is_old(&self) -> bool {
        self.inner().map_is_old
    }

    /// Who has to be linked.
    pub(crate) fn newcomers(&self) -> Vec<(Arc<Link>, Node)> {
        std::mem::take(&mut self.inner().newcomers)
    }

    /// Which links have to be made anew, and why.
    pub(crate) fn outdated(&self) -> Vec<(Arc<Link>, Trouble)> {
        std::mem::take(&mut self.inner().outdated)
    }

    /// A sentinel says that there is a new master.
    pub(crate) fn switched(&self, word: &str) {
        let Deployment::Sentinels { master } = &self.deployment else { return };
        if let Some(address) = sentinel::news(master, word) {
            let trouble = Trouble::new(StoreErrorKind::Unreachable, format!("{address} is the master now"));
            let mut inner = self.inner();
            let link = inner.members[0].link.clone();
            inner.outdated.push((link, trouble));
        }
    }

    /// Who has this lock now.
    fn owner(&self, step: &Step) -> Option<Arc<Link>> {
        let inner = self.inner();
        let number = match (&self.deployment, step.name()) {
            (Deployment::Cluster, Some(name)) => inner.owners[usize::from(self.common.keys.slot(name.as_str()))],
            _ => 0,
        };
        inner.members.get(usize::from(number)).map(|member| member.link.clone())
    }

    /// Sends a step to whoever has its lock; or keeps it until there is a link.
    fn submit(&self, step: Step, reply: Reply, again: Again) {
        match self.owner(&step) {
            Some(link) if link.is_up() => link.step(step, reply, again),
            Some(link) => {
                let reason = link.state().trouble.clone();
                self.park(step, reply, again, None, Duration::ZERO, reason);
            }
            None => {
                let reason =
                    Trouble::new(StoreErrorKind::Unreachable, "no node of the cluster has the slot of this lock");
                self.suspect_map();
                self.park(step, reply, again, None, Duration::ZERO, reason);
            }
        }
    }

    fn park(
        &self,
        step: Step,
        reply: Reply,
        mut again: Again,
        at: Option<Arc<Link>>,
        pause: Duration,
        reason: Trouble,
    ) {
        let now = self.common.clock.now();
        again.deadline.get_or_insert(now.plus(PATIENCE));
        let parked = Parked { step, reply, again, at, not_before: now.plus(pause), reason };
        self.inner().parked.push(parked);
        let _ = self.common.waker.wake();
    }

    /// Whether an error says that a step was not done, but may be: elsewhere, or later.
    pub(crate) fn sends_away(text: &str) -> bool {
        let code = text.split(' ').next().unwrap_or_default();
        matches!(code, "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY")
            || text.contains("READONLY")
    }

    /// A server did not do a step, and said why.
    pub(crate) fn bounced(&self, link: &Arc<Link>, step: Step, reply: Reply, mut again: Again, text: &str) {
        again.bounces += 1;
        again.asking = false;
        let reason = Trouble::new(StoreErrorKind::Unreachable, text);
        if again.bounces > BOUNCES_MAX {
            let message = format!("it was sent away {BOUNCES_MAX} times, the last time with: {text}");
            return reply.answer(Err(Trouble::new(StoreErrorKind::Unreachable, message)));
        }
        let asked = self.address_of(link);
        let target = asked.filter(|_| self.is_cluster()).and_then(|asked| cluster::redirection(text, &asked));
        let pause = (PAUSE_MIN * 2_u32.pow(again.bounces.min(8))).min(PAUSE_MAX);
        match (text.split(' ').next(), target) {
            (Some("MOVED"), Some((slot, address))) => {
                let mut inner = self.inner();
                inner.map_is_old = true;
                if let Ok(number) = self.member(&mut inner, &address) {
                    inner.owners[usize::from(slot)] = u16::try_from(number).unwrap_or(NOBODY);
                }
                drop(inner);
                // Two that send to each other do not agree yet: that takes a moment.
                match again.bounces {
                    0..=3 => self.submit(step, reply, again),
                    _ => self.park(step, reply, again, None, pause, reason),
                }
            }
            (Some("ASK"), Some((_, address))) => {
                let mut inner = self.inner();
                let link = self.member(&mut inner, &address).map(|number| inner.members[number].link.clone());
                drop(inner);
                again.asking = true;
                match link {
                    Ok(link) if link.is_up() => link.step(step, reply, again),
                    Ok(link) => self.park(step, reply, again, Some(link), Duration::ZERO, reason),
                    Err(trouble) => reply.answer(Err(trouble)),
                }
            }
            _ => {
                if text == PROBATION_IS_OVER || text.contains("READONLY") {
                    self.inner().outdated.push((link.clone(), Trouble::new(StoreErrorKind::Unreachable, text)));
                }
                self.suspect_map();
                self.park(step, reply, again, None, pause, reason);
            }
        }
    }

    /// Sends what waited long enough, and gives up what waited too long. Answers when to look again.
    pub(crate) fn tend(&self, now: Moment) -> Option<Moment> {
        let mut parked = std::mem::take(&mut self.inner().parked);
        if parked.is_empty() {
            return None;
        }
        let mut rest = Vec::new();
        for Parked { step, reply, again, at, not_before, reason } in parked.drain(..) {
            let give_up = again.deadline.map(|deadline| deadline.minus(WORD_BEFORE_DEADLINE));
            if give_up.is_some_and(|at| at <= now) {
                let Trouble { kind, message } = reason;
                reply.answer(Err(Trouble::new(kind, format!("{message}; it was tried until its time was over"))));
                continue;
            }
            let link = at.clone().or_else(|| self.owner(&step)).filter(|link| link.is_up());
            match link {
                Some(link) if not_before <= now => link.step(step, reply, again),
                _ => rest.push(Parked { step, reply, again, at, not_before, reason }),
            }
        }
        let due = |parked: &Parked| {
            let give_up = parked.again.deadline.map(|deadline| deadline.minus(WORD_BEFORE_DEADLINE));
            let pause = Some(parked.not_before).filter(|at| *at > now);
            [give_up, pause].into_iter().flatten().min()
        };
        let mut inner = self.inner();
        inner.parked.append(&mut rest);
        inner.parked.iter().filter_map(due).min()
    }

    /// Ends all waiting.
    pub(crate) fn dismiss(&self, trouble: &Trouble) {
        let parked = std::mem::take(&mut self.inner().parked);
        parked.into_iter().for_each(|parked| parked.reply.answer(Err(trouble.clone())));
    }

    /// Why it cannot be used.
    pub(crate) fn trouble(&self) -> Trouble {
        let links: Vec<Arc<Link>> = self.inner().members.iter().map(|member| member.link.clone()).collect();
        let troubles =
            links.iter().filter(|link| !link.is_up()).map(|link| (link.label.clone(), link.state().trouble.clone()));
        let mut troubles: Vec<(String, Trouble)> = troubles.collect();
        // What somebody has to mend comes first.
        troubles.sort_by_key(|(_, trouble)| trouble.kind.outcome_unknown());
        match (&self.deployment, troubles.into_iter().next()) {
            (_, None) => Trouble::new(StoreErrorKind::Unreachable, steps::NOT_COVERED),
            (Deployment::Cluster, Some((label, trouble))) => {
                Trouble::new(trouble.kind, format!("{label}: {}", trouble.message))
            }
            (_, Some((_, trouble))) => trouble,
        }
    }
}

fn addresses(nodes: &[Node]) -> String {
    nodes.iter().map(|node| node.address.to_string()).collect::<Vec<_>>().join(",")
}

/// A fleet as one store.
pub(crate) struct FleetNode {
    fleet: Arc<Fleet>,
    largest_ttl: Option<Duration>,
    /// Ends the driver's thread with the store.
    _driver: Handle,
}

impl FleetNode {
    pub(crate) fn new(fleet: Arc<Fleet>, largest_ttl: Option<Duration>, driver: Handle) -> Self {
        Self { fleet, largest_ttl, _driver: driver }
    }
}

impl Store for FleetNode {
    fn abilities(&self) -> Abilities {
        let one = abilities(&self.fleet.common.keys, self.largest_ttl);
        // The locks of a cluster are at different servers.
        Abilities { together: one.together && !self.fleet.is_cluster(), ..one }
    }

    fn label(&self) -> String {
        self.fleet.label.clone()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        match step {
            Step::List { prefix, after, limit, contended } => {
                let fleet = self.fleet.clone();
                let ask = Arc::new(move |step, reply| fleet.submit(step, reply, Again::until(deadline)));
                list(self.fleet.links(), ask, Wanted { prefix: &prefix, after, limit, contended }, reply);
            }
            step => self.fleet.submit(step, reply, Again::until(deadline)),
        }
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        let Common { keys, listeners, .. } = &self.fleet.common;
        listeners.as_ref().expect("BUG: a fleet has listeners").listen(claim, keys.channel_of(claim), reply)
    }

    /// The middle one of the masters' clocks: all clients see the same.
    fn clock(&self) -> Option<FencingToken> {
        let mut clocks: Vec<FencingToken> = self.fleet.links().iter().filter_map(|link| link.server_clock()).collect();
        clocks.sort_unstable();
        clocks.get(clocks.len() / 2).copied()
    }

    fn is_live(&self) -> Option<bool> {
        Some(self.fleet.links().iter().any(|link| link.is_live()))
    }
}

impl fmt::Debug for FleetNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetNode({})", self.fleet.label)
    }
}
