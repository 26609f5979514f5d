//! What each step of the contract is in ZooKeeper.
//!
//! A claim is an ephemeral node, and the order of claims is that of the numbers that servers gave them: whoever has no node
//! before it that keeps it out has the lock, by that alone, and the transaction that made its node is its token. So nobody
//! hands over: a waiter watches the one node that keeps it out, and looks again when that is gone.
//!
//! A node is ours if it ends with our session, whatever its name. A request that was lost is looked for on the same session
//! before anything else is done: from then on it cannot run any more.

mod arrive;
mod keep;
mod leave;
mod record;

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::store::{Answer, Claim, Holder, LockName, Mode, StoreErrorKind, WeakReply};
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::nodes::{Memory, Node, Seen, in_line, millis, token};
use crate::session::{Pending, Session};
use crate::wire::{Kind, Op, Said};

/// A node that goes, or a session that ends, while a step is at work: it starts anew, at most so often.
const ROUNDS_MAX: u32 = 8;
/// What could not be given up is tried again after so long.
const AGAIN: Duration = Duration::from_millis(500);

/// What this process knows of one of its claims.
pub(crate) struct Mine {
    pub(crate) claim: Arc<Claim>,
    /// Its node, as far as we know.
    pub(crate) place: Option<Place>,
    /// Sessions in which a request of this claim may have run, or may still run.
    doubtful: Vec<Arc<Session>>,
    /// It holds, as far as we know.
    granted: bool,
    /// It was not the first when it came: its card says since when it waits.
    waited: bool,
    /// When it got what it had waited for, in milliseconds of the wall clock, until its card says so.
    granted_ms: Option<u64>,
    /// Where to say that its session has ended, once it holds.
    pub(crate) hints: Option<WeakReply>,
    /// A delete was sent, and what became of it is not known.
    leaving: bool,
    /// The attempt that last found its session alive.
    pub(crate) attempt: u32,
    /// Unless somebody asks for it until then, it is over.
    pub(crate) ends: Instant,
    /// That moment is waited for.
    pub(crate) scheduled: bool,
}

/// A place in line.
pub(crate) struct Place {
    node: Node,
    pub(crate) token: i64,
    session: Arc<Session>,
    /// What is remembered of the lock, as last seen, and its version.
    memory: (Memory, i32),
}

impl Mine {
    pub(crate) fn new(claim: &Arc<Claim>) -> Self {
        Self {
            claim: claim.clone(),
            place: None,
            doubtful: Vec::new(),
            granted: false,
            waited: false,
            granted_ms: None,
            hints: None,
            leaving: false,
            attempt: 0,
            ends: Instant::now() + AGAIN,
            scheduled: false,
        }
    }

    /// There is nothing of it, and there will be nothing.
    pub(crate) fn is_over(&self) -> bool {
        self.place.is_none() && self.doubtful.is_empty()
    }

    /// It has a place in line, and not the lock.
    pub(crate) fn is_waiting(&self) -> bool {
        self.place.is_some() && !self.granted && !self.leaving
    }

    /// It holds by a node of this session.
    pub(crate) fn holds_by(&self, session: i64) -> bool {
        self.granted && self.place.as_ref().is_some_and(|place| place.session.id == session)
    }

    /// It holds by a node of a session that has ended.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.granted && self.place.as_ref().is_some_and(|place| place.session.is_expired())
    }

    fn doubt(&mut self, session: &Arc<Session>) {
        if !self.doubtful.iter().any(|other| other.id == session.id) {
            self.doubtful.push(session.clone());
        }
        self.ends = self.ends.max(Instant::now() + AGAIN);
    }

    /// What failed may have run all the same.
    fn doubt_if(&mut self, failure: &Failure, session: &Arc<Session>) {
        if failure.sense == Sense::Passing {
            self.doubt(session);
        }
    }

    /// It was heard of: its time starts anew.
    fn lasts(&mut self, span: Duration) {
        self.ends = Instant::now() + span;
    }

    fn start_anew(&mut self) {
        (self.place, self.granted, self.waited, self.granted_ms) = (None, false, false, None);
    }
}

/// What is seen of a lock.
pub(crate) struct View {
    pub(crate) line: Vec<Node>,
    pub(crate) memory: (Memory, i32),
}

impl View {
    /// The one that keeps a claim out, of those before it: the last of them.
    fn blocker(&self, node: &Node, mode: Mode) -> Option<&Node> {
        self.line.iter().rev().find(|other| other.is_before(node) && other.keeps_out(mode))
    }
}

/// Requests that read a lock, under way.
struct Looking {
    children: Pending,
    lock: Pending,
}

impl Looking {
    async fn by(self, limit: Instant) -> Result<View, Failure> {
        // Both are waited for: an answer that nobody hears is called lost.
        let (children, lock) = (self.children.by(limit).await, self.lock.by(limit).await);
        let (Said::Children(names), Said::Node { data, stat }) = (children?, lock?) else {
            return Err(Failure::nonsense("a lock was not read as one"));
        };
        Ok(View { line: in_line(&names), memory: (Memory::read(&data), stat.version) })
    }
}

impl Engine {
    /// The first requests: somebody answers, and lets us in. Answers the longest ttl.
    pub(crate) async fn check(&self, limit: Instant) -> Result<Duration, Failure> {
        let longest_ttl = self.sessions.longest(limit).await?;
        let session = self.sessions.any(limit).await?;
        let read = || session.ask(Op::Children { path: self.paths.root().to_owned() }, limit);
        match read().await {
            Err(failure) if failure.sense == Sense::NoNode => {
                self.make_parents(&session, None, limit).await?;
                read().await?;
            }
            other => drop(other?),
        }
        Ok(longest_ttl)
    }

    /// Makes the root, what is above it, and the node of a lock, as far as they are not there.
    async fn make_parents(&self, session: &Session, name: Option<&LockName>, limit: Instant) -> Result<(), Failure> {
        let make = |(path, data)| session.send(Op::Create { path, data, kind: Kind::Persistent });
        let above = self.paths.root_and_above().into_iter().map(|path| (path, Vec::new()));
        let lock = name.map(|name| (self.paths.lock(name), Memory::default().write()));
        let made: Vec<Pending> = above.chain(lock).map(make).collect();
        let mut last = Ok(());
        for pending in made {
            last = pending.by(limit).await.map(drop);
            match &last {
                // Above our root we may have no rights, and need none.
                Err(failure) if matches!(failure.sense, Sense::NodeExists | Sense::Refused) => {}
                Err(failure) if failure.sense == Sense::NoNode => {}
                Err(_) => return last,
                Ok(()) => {}
            }
        }
        match last {
            Err(failure) if failure.sense == Sense::NodeExists => Ok(()),
            last => last,
        }
    }

    /// Reads who is in line, and what is remembered.
    fn look(&self, session: &Session, name: &LockName) -> Looking {
        let path = self.paths.lock(name);
        Looking {
            children: session.send(Op::Children { path: path.clone() }),
            lock: session.send(Op::Get { path, watch: false }),
        }
    }

    /// What is read after this is not older than it.
    fn sync(&self, session: &Session, name: &LockName) -> Pending {
        session.send(Op::Sync { path: self.paths.lock(name) })
    }

    /// As things are now. `None`: there is no such lock.
    pub(crate) async fn look_now(
        &self,
        session: &Session,
        name: &LockName,
        limit: Instant,
    ) -> Result<Option<View>, Failure> {
        let (sync, looking) = (self.sync(session, name), self.look(session, name));
        let (synced, view) = (sync.by(limit).await, looking.by(limit).await);
        synced?;
        match view {
            Err(failure) if failure.sense == Sense::NoNode => Ok(None),
            view => view.map(Some),
        }
    }

    fn get(&self, session: &Session, name: &LockName, node: &Node) -> Pending {
        session.send(Op::Get { path: self.paths.claim(name, &node.name), watch: false })
    }

    /// A node with what is in it. `None`: it is gone.
    async fn read(&self, pending: Pending, node: &Node, limit: Instant) -> Result<Option<Seen>, Failure> {
        match pending.by(limit).await {
            Ok(Said::Node { data, stat }) => Ok(Some(Seen::new(node.clone(), &data, stat))),
            Ok(_) => Err(Failure::nonsense("a node was not read as one")),
            Err(failure) if failure.sense == Sense::NoNode => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// All of these that are still there.
    pub(crate) async fn read_all(
        &self,
        session: &Session,
        name: &LockName,
        nodes: &[Node],
        limit: Instant,
    ) -> Result<Vec<Seen>, Failure> {
        let pending: Vec<Pending> = nodes.iter().map(|node| self.get(session, name, node)).collect();
        let mut all = Vec::with_capacity(nodes.len());
        for (pending, node) in pending.into_iter().zip(nodes) {
            all.push(self.read(pending, node, limit).await);
        }
        all.into_iter().filter_map(Result::transpose).collect()
    }

    /// Takes the lock, or a place in line.
    pub(crate) async fn acquire(
        &self,
        claim: &Arc<Claim>,
        attempt: u32,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Answer, Failure> {
        for _ in 0..ROUNDS_MAX {
            let done = match self.settle(claim, mine, limit).await {
                Err(failure) => Err(failure),
                Ok(()) => match (&mine.place, claim.place()) {
                    (None, Some(_)) => self.line_up(claim, attempt, mine, limit).await,
                    (None, None) => self.try_once(claim, attempt, mine, limit).await,
                    (Some(_), _) => self.come_again(claim, attempt, mine, limit).await,
                },
            };
            match done {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(failure) if failure.sense == Sense::Expired => mine.start_anew(),
                Err(failure) => return Err(failure),
            }
        }
        Err(restless())
    }

    /// Asked again: is its session alive, and what is in the way?
    async fn come_again(
        &self,
        claim: &Claim,
        attempt: u32,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        let Some(place) = &mut mine.place else { return Ok(None) };
        let session = place.session.clone();
        let sync = self.sync(&session, &claim.name);
        let (own, looking) = (self.get(&session, &claim.name, &place.node), self.look(&session, &claim.name));
        let (synced, own, view) =
            (sync.by(limit).await, self.read(own, &place.node, limit).await, looking.by(limit).await);
        synced?;
        if own?.is_none_or(|own| own.stat.owner != session.id) {
            mine.start_anew();
            return Ok(None);
        }
        mine.attempt = attempt;
        self.take_turn(claim, mine, view?, limit).await
    }

    /// Nothing before it: the lock. Else it watches what is.
    async fn take_turn(
        &self,
        claim: &Claim,
        mine: &mut Mine,
        view: View,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        let Some(place) = &mut mine.place else { return Ok(None) };
        let span = claim.place().map_or(claim.kept_for(), |place| place.lease + claim.delay);
        let mode = if place.node.shared { Mode::Shared } else { claim.mode };
        let Some(before) = view.blocker(&place.node, mode).cloned() else {
            place.memory = view.memory;
            let zxid = place.token;
            if mine.waited && !mine.granted {
                mine.granted_ms = Some(millis(self.clock.wall()));
            }
            mine.granted = true;
            mine.lasts(claim.kept_for());
            return granted(zxid).map(Some);
        };
        let (zxid, session) = (place.token, place.session.clone());
        (mine.granted, mine.waited) = (false, true);
        mine.lasts(span);
        let first = view.line.first().filter(|first| **first != before).cloned();
        let first = first.map(|first| (self.get(&session, &claim.name, &first), first));
        let Some(seen) = self.watch(claim, &session, &before, limit).await? else { return Ok(None) };
        let holder = match first {
            Some((pending, first)) => self.read(pending, &first, limit).await?,
            None => Some(seen),
        };
        Ok(Some(self.held(holder.as_ref(), Some(zxid))))
    }

    /// Tells this claim when that node goes. `None`: it is gone already.
    async fn watch(
        &self,
        claim: &Claim,
        session: &Session,
        node: &Node,
        limit: Instant,
    ) -> Result<Option<Seen>, Failure> {
        let path = self.paths.claim(&claim.name, &node.name);
        self.watches.expect(claim, session.id, &path);
        let pending = session.send(Op::Get { path, watch: true });
        let seen = self.read(pending, node, limit).await;
        if !matches!(seen, Ok(Some(_))) {
            self.watches.forget(&claim.owner);
        }
        seen
    }

    /// A waiter's watch has told: is it its turn?
    ///
    /// Its own server is asked, which may be behind the others: that its session was alive a while ago was seen by its
    /// last attempt, and a grant is dated from there.
    pub(crate) async fn wake(&self, claim: &Claim, mine: &mut Mine, limit: Instant) -> Result<Woken, Failure> {
        for _ in 0..ROUNDS_MAX {
            let Some(place) = mine.place.as_mut().filter(|_| !mine.granted && mine.doubtful.is_empty()) else {
                return Ok(Woken::No);
            };
            let session = place.session.clone();
            let (own, looking) = (self.get(&session, &claim.name, &place.node), self.look(&session, &claim.name));
            let (own, view) = (self.read(own, &place.node, limit).await, looking.by(limit).await);
            let own = match own {
                Err(failure) if failure.sense == Sense::Expired => None,
                own => own?,
            };
            if own.is_none_or(|own| own.stat.owner != session.id) {
                // It ended while it waited: never the lock. It may come again, as the last in line.
                mine.start_anew();
                return Ok(Woken::Gone);
            }
            let view = view?;
            let mode = if place.node.shared { Mode::Shared } else { claim.mode };
            let Some(before) = view.blocker(&place.node, mode) else {
                place.memory = view.memory;
                mine.granted = true;
                mine.granted_ms = Some(millis(self.clock.wall()));
                mine.lasts(claim.kept_for());
                return Ok(Woken::Yes);
            };
            if self.watch(claim, &session, before, limit).await?.is_some() {
                return Ok(Woken::No);
            }
        }
        Err(restless())
    }

    /// Makes sure that nothing of a claim is under way any more, and that we know its node.
    async fn settle(&self, claim: &Claim, mine: &mut Mine, limit: Instant) -> Result<(), Failure> {
        mine.doubtful.retain(|session| !session.is_expired());
        if mine.place.as_ref().is_some_and(|place| place.session.is_expired()) {
            mine.start_anew();
        }
        while let Some(session) = mine.doubtful.last().cloned() {
            let view = match self.look_now(&session, &claim.name, limit).await {
                Err(failure) if failure.sense == Sense::Expired => None,
                view => view?,
            };
            if let Some(view) = view {
                let named: Vec<Node> =
                    view.line.into_iter().filter(|node| node.is_called_after(&claim.owner)).collect();
                let seen = self.read_all(&session, &claim.name, &named, limit).await?;
                // An ephemeral of another session, be it an older one of our own, is not ours.
                let own: Vec<Seen> = seen.into_iter().filter(|own| own.stat.owner == session.id).collect();
                self.recognize(claim, mine, &session, own, view.memory, limit).await?;
            } else if mine.place.as_ref().is_some_and(|place| place.session.id == session.id) {
                mine.start_anew();
            }
            mine.doubtful.pop();
        }
        Ok(())
    }

    /// Of these nodes of one session, which a request of this claim has made, one is its place, and the others go.
    async fn recognize(
        &self,
        claim: &Claim,
        mine: &mut Mine,
        session: &Arc<Session>,
        own: Vec<Seen>,
        memory: (Memory, i32),
        limit: Instant,
    ) -> Result<(), Failure> {
        let before = mine.place.as_ref().map(|place| (place.session.id, place.node.clone(), place.token));
        let stays = |(id, node, _): &(i64, Node, i64)| match *id == session.id {
            true => own.iter().any(|own| own.node == *node),
            // It may have been moved from there.
            false => own.is_empty(),
        };
        if !before.as_ref().is_some_and(stays) {
            let granted = mine.granted;
            mine.start_anew();
            if let Some(first) = own.first() {
                let (node, token) = (first.node.clone(), first.token());
                mine.granted = granted && before.is_some_and(|(.., old)| old == token);
                mine.place = Some(Place { node, token, session: session.clone(), memory });
            }
        }
        let kept = mine.place.as_ref().map(|place| place.node.clone());
        for more in own.iter().filter(|own| Some(&own.node) != kept.as_ref()) {
            let path = self.paths.claim(&claim.name, &more.node.name);
            gone(session.ask(Op::Delete { path, version: -1 }, limit).await)?;
        }
        Ok(())
    }

    /// Not yet. Its place in line is known by the transaction that made its node.
    fn held(&self, first: Option<&Seen>, zxid: Option<i64>) -> Answer {
        let holder: Option<Holder> = first.map(|seen| seen.holder(self.clock.wall()));
        let last = holder.as_ref().and_then(|holder| holder.token);
        Answer::Held { holder, last, ticket: zxid.and_then(token) }
    }
}

/// What a waiter's look brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    /// The lock is its own.
    Yes,
    /// Something is still in the way.
    No,
    /// Its node is gone.
    Gone,
}

/// Deleted, now or before.
fn gone(deleted: Result<Said, Failure>) -> Result<bool, Failure> {
    match deleted {
        Ok(_) => Ok(true),
        Err(failure) if matches!(failure.sense, Sense::NoNode | Sense::Expired) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// What was made, of the answer to a create, and by which transaction. One that was part of several is known by what was
/// written with it, if something was.
fn created(said: Said) -> Result<(Node, Option<i64>), Failure> {
    let node = |path: &str| path.rsplit_once('/').and_then(|(_, name)| Node::read(name));
    let made = match said {
        Said::Created { path, stat } => node(&path).zip(Some(Some(stat.czxid))),
        Said::All(all) => {
            let written =
                all.iter().find_map(|said| if let Said::Changed(stat) = said { Some(stat.mzxid) } else { None });
            all.iter().find_map(|said| match said {
                Said::CreatedWith(path) => node(path).zip(Some(written)),
                Said::Created { path, stat } => node(path).zip(Some(Some(stat.czxid))),
                _ => None,
            })
        }
        _ => None,
    };
    made.ok_or_else(|| Failure::nonsense("a node was not made as one"))
}

fn granted(zxid: i64) -> Result<Answer, Failure> {
    let token = token(zxid).ok_or_else(|| {
        let what = format!("the transaction {zxid} is no token");
        Failure::new(StoreErrorKind::Unexpected, what, "tokens end at 2^53")
    })?;
    Ok(Answer::Granted { token })
}

pub(crate) fn restless() -> Failure {
    let what = "the nodes of this lock changed again and again in one step";
    Failure::new(StoreErrorKind::TooSlow, what, "try again")
}
