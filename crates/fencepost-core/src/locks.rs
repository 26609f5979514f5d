//! A connection to where locks live.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::bell::Bell;
use crate::election::{Candidacy, Election};
use crate::error::{Invalid, RenewError, StoreError, StoreErrorKind};
use crate::event::{Event, Feed};
use crate::fence::FenceError;
use crate::grant::{Permit, Single};
use crate::guard::Guard;
use crate::handle::Handle;
use crate::kinds::{Names, Permits};
use crate::lease::Lease;
use crate::lock::{Lock, Wait};
use crate::name::{LockName, checked_label, checked_note};
use crate::records::Records;
use crate::state::{ForcedRelease, Holder, LockState, YieldRequest};
use crate::token::FencingToken;

/// How many locks a listing fetches at a time.
const PAGE: u32 = 500;

/// A connection to where locks live. Cheap to clone; clones share links, watchdog, releaser and local line.
///
/// It lasts as long as anything made from it: a clone, a [`Lock`], a [`Guard`], a future. The drop of the last of them
/// waits until the releases that are under way have been answered, for at most 100 ms
/// ([`drain_within`](crate::Connect::drain_within)): so a program may drop its guard and return from `main`.
#[derive(Clone)]
pub struct Locks {
    quorum: Handle,
    defaults: Arc<Defaults>,
    /// Where records are kept, if elsewhere.
    records: Option<Handle>,
    #[cfg(feature = "recipes")]
    pub(crate) rebuilding: Arc<crate::recipes::Rebuilding>,
}

/// What a lock takes from its connection.
pub(crate) struct Defaults {
    pub(crate) label: Arc<str>,
    pub(crate) ttl: Duration,
    pub(crate) wait: Option<Duration>,
}

/// What this store can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Guarantees {
    /// Waiting claims are served in order of arrival.
    pub fifo: bool,
    /// Locks outlive a restart of the store.
    pub survives_restart: bool,
    /// Locks outlive the loss of one node.
    pub survives_a_node: bool,
    /// The shortest ttl that makes sense here.
    pub smallest_ttl: Duration,
    /// The longest ttl that the store takes.
    pub largest_ttl: Option<Duration>,
    /// It keeps [records](Locks::records), or another store does so for it.
    pub records: bool,
}

impl Locks {
    pub(crate) fn new(quorum: Handle, defaults: Defaults) -> Self {
        Self {
            quorum,
            defaults: Arc::new(defaults),
            records: None,
            #[cfg(feature = "recipes")]
            rebuilding: Arc::default(),
        }
    }

    pub(crate) fn quorum(&self) -> &Handle {
        &self.quorum
    }

    pub(crate) fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// The lock with this name. It holds nothing until acquired.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock::new(self.quorum.clone(), &self.defaults, name.into(), ())
    }

    /// Several locks at once, all or nothing, in one time budget: no order to remember, and no deadlock with others who
    /// take theirs so. 1 to 256 names, each once.
    ///
    /// All are tried at once, with one request where one server has them all. If one is held, the others of a higher name are given back, and the rest is taken in the
    /// order of names. With an [actor](Lock::by), names that it holds already are entered again.
    ///
    /// ```
    /// # use fencepost_core::{Blocking, store};
    /// # let locks = store::connect(|at| Ok(vec![store::Memory::new(at.clock)])).block()?;
    /// let both = locks.all_of(["account/7", "account/3"]).acquire().block()?;
    /// let (from, to) = (both.tokens()["account/7"], both.tokens()["account/3"]);
    /// both.release().block()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all_of<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) -> Lock<BTreeMap<String, FencingToken>> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        Lock::new(self.quorum.clone(), &self.defaults, Names::title(&names), Names(names))
    }

    /// So many permits in all, 1 to 256, of which a guard has one, or as many as [`take`](Lock::take) says. Each is a
    /// lock of its own, with a slot number, a token and an expiry; never more than so many are held at once, on any
    /// back end. Who waits is served in order of arrival.
    ///
    /// Callers that disagree about the number share the lower slots: then never more than the largest number are held.
    /// In a store the permits are locks named `NAME/permit#0`, `NAME/permit#1`, …, and whoever waits does so at
    /// `NAME/permit#line`; a user's own lock cannot have such a name. `NAME` has at most 240 bytes.
    ///
    /// ```
    /// # use fencepost_core::{Blocking, store};
    /// # let locks = store::connect(|at| Ok(vec![store::Memory::new(at.clock)])).block()?;
    /// let exports = locks.semaphore("exports", 2);
    /// let (one, other) = (exports.acquire().block()?, exports.acquire().block()?);
    /// assert_ne!(one.permit().slot, other.permit().slot);
    /// assert!(exports.try_acquire().block()?.is_none(), "both permits are taken");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn semaphore(&self, name: impl Into<String>, permits: u32) -> Lock<Vec<Permit>> {
        Lock::new(self.quorum.clone(), &self.defaults, name.into(), Permits { all: permits, take: 1 })
    }

    /// The election with this name: whoever holds the lock of that name leads. [`Election`] has what differs from a lock.
    ///
    /// ```
    /// # use fencepost_core::{Blocking, store};
    /// # let locks = store::connect(|at| Ok(vec![store::Memory::new(at.clock)])).block()?;
    /// let election = locks.election("scheduler").payload("10.0.0.7:8080");
    /// let leadership = election.campaign().block()?;
    /// let leader = election.leader().block()?.expect("we lead");
    /// assert_eq!((leader.token, leader.payload.as_deref()), (Some(leadership.term()), Some("10.0.0.7:8080")));
    /// leadership.resign().block()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn election(&self, name: impl Into<String>) -> Election {
        let wait = self.defaults.wait.map_or(Wait::Forever, Wait::AtMost);
        Lock::new(self.quorum.clone(), &self.defaults, name.into(), Candidacy::default()).candidate(wait)
    }

    /// Takes over a leaked lease by renewing it. It is borrowed, so that after `Unknown` you can try again.
    pub async fn adopt<G: Single>(&self, lease: &Lease<G>) -> Result<Guard<G>, RenewError> {
        Guard::adopt(&self.quorum, &self.defaults, lease).await
    }

    /// What the store knows of a lock. A lock nobody ever used is a free lock.
    pub async fn inspect(&self, name: &str) -> Result<LockState, StoreError> {
        self.quorum.inspect(checked(name, "inspect")?).await
    }

    /// Locks whose names start so, in name order, fetched page by page.
    pub fn list(&self, prefix: &str) -> Feed<LockState> {
        let (quorum, prefix): (_, Arc<str>) = (self.quorum.clone(), prefix.into());
        Feed::pages(move |after: Option<&LockState>| {
            let after = after.and_then(|state| LockName::new(&state.name).ok());
            Box::pin((*quorum).clone().list(prefix.clone(), after, PAGE, false))
        })
    }

    /// Ends somebody's hold, at a majority of nodes at least. Answers who was thrown out (their guard says `Lost(Revoked)` at
    /// its next renewal) and which nodes could not be reached.
    pub async fn force_release(&self, name: &str, reason: &str) -> Result<ForcedRelease, StoreError> {
        let name = checked(name, "force_release")?;
        let forced = self.quorum.evict(name.clone()).await?;
        let ForcedRelease { holder, unreached } = &forced;
        let by_whom = holder.as_ref().map(|holder| holder.label.clone()).unwrap_or_default();
        let unreached: Vec<&str> = unreached.iter().map(|node| node.node.as_str()).collect();
        let unreached = unreached.join(", ");
        crate::notice!(
            WARN,
            lock = name,
            reason = reason,
            holder = by_whom,
            unreached = unreached,
            "released by force"
        );
        Ok(forced)
    }

    /// Asks whoever holds it to let go. They see it as [`yield_requested`](Guard::yield_requested) with their next
    /// renewal, at a third of their ttl, and decide. Answers who was asked; `None`: it was free. The request ends with
    /// the hold it was meant for.
    pub async fn ask_to_yield(&self, name: &str, note: &str) -> Result<Option<Holder>, StoreError> {
        self.ask_in_the_name_of(name, &self.defaults.label, note).await
    }

    pub(crate) async fn ask_in_the_name_of(
        &self,
        name: &str,
        by: &str,
        note: &str,
    ) -> Result<Option<Holder>, StoreError> {
        let refuse = |invalid| refused(&invalid, "ask_to_yield");
        let name = checked(name, "ask_to_yield")?;
        let (by, note) = (checked_label(by).map_err(refuse)?, checked_note(note).map_err(refuse)?);
        self.quorum.ask_to_yield(name, YieldRequest::new(self.quorum.any_number(), &*by, &*note)).await
    }

    /// "Is this the newest token granted?", for a resource that keeps no mark of its own. Where nodes vote and one of them
    /// is silent, a token that only a minority accepted may count: then a holder's is called stale, never an older one new.
    pub async fn check(&self, name: &str, token: FencingToken) -> Result<(), FenceError> {
        let seen = self.inspect(name).await?.last_token;
        Ok(seen.map_or(Ok(()), |seen| token.check(seen.as_i64()))?)
    }

    /// Each deadlock in order: the holder of a lock waits for the next lock, and that of the last for the first. Only
    /// locks acquired [`by`](Lock::by) an actor can be seen in one.
    ///
    /// What is told has lasted over two looks, so it is no coincidence of two pictures. Of other processes the first
    /// waiter of each lock is seen, and none without a place in line ([`unfair`](Lock::unfair),
    /// [`unfenced`](Lock::unfenced)); of this connection all are. Whoever waits for a permit is in a deadlock only if
    /// all who have one are; of one that wants several, not every deadlock is seen.
    ///
    /// It asks for every lock that somebody waits for. On Redis that is a `SCAN` over all keys of the database on every
    /// node, in steps of 1000 keys: about a second for a million keys, and other commands run in between.
    pub async fn deadlocks(&self) -> Result<Vec<Vec<LockState>>, StoreError> {
        self.quorum.deadlocks().await
    }

    /// What is remembered beside locks: small records that whoever was overtaken cannot write.
    pub fn records(&self) -> Records {
        Records::new(self.records.clone().unwrap_or_else(|| self.quorum.clone()))
    }

    /// The same locks with their [records](Self::records) in another store. Nodes that vote may forget, so `redlock://`
    /// needs that.
    pub fn keep_records_in(mut self, other: &Self) -> Self {
        self.records = Some(other.records.clone().unwrap_or_else(|| other.quorum.clone()));
        self
    }

    /// What happens on this connection, from now on.
    pub fn events(&self) -> Feed<Event> {
        self.quorum.herald.feed()
    }

    /// What this store can do.
    pub fn guarantees(&self) -> Guarantees {
        let abilities = &self.quorum.abilities;
        Guarantees {
            fifo: abilities.queues,
            survives_restart: abilities.survives_restart,
            survives_a_node: self.quorum.nodes.len() > 2,
            smallest_ttl: abilities.smallest_ttl,
            largest_ttl: abilities.largest_ttl,
            records: self.records.as_ref().unwrap_or(&self.quorum).keeps_records(),
        }
    }

    /// For all clones: ends waiting (`ShuttingDown`), refuses new claims, sends outstanding releases. Held guards stay
    /// held, and are renewed until they are dropped.
    ///
    /// Answers the names whose release nobody confirmed in time (left to their ttl); empty is a clean end. Nodes that vote
    /// confirm by a majority. The other live nodes are waited for until `timeout` too, and at least as long as the drop of
    /// the last handle waits ([`drain_within`](crate::Connect::drain_within)). Call it before `std::process::exit`, and
    /// where a handle is in a `static`, whose drop never runs.
    ///
    /// # Cancel safety
    /// Dropped, the connection stays shut; only the answer is lost.
    #[must_use = "names in the answer stay locked until their ttl ends"]
    pub async fn shutdown(&self, timeout: Duration) -> Vec<String> {
        let clock = &self.quorum.clock;
        let end = clock.now().plus(timeout);
        let bell = Bell::at(clock, end);
        self.quorum.close();
        poll_fn(|context| {
            let rung = bell.has_rung(context);
            let left = self.quorum.leaving(context.waker());
            if left.is_empty() || rung { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let drained = || clock.now().plus(self.quorum.drain_within());
        until(&Bell::at(clock, end.max(drained())), self.quorum.settled()).await;
        until(&Bell::at(clock, drained()), self.quorum.herald.told()).await;
        self.quorum.leaving(Waker::noop())
    }
}

/// Waits for the work until the bell rings.
async fn until(bell: &Bell, work: impl Future<Output = ()>) {
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Pending if bell.has_rung(context) => Poll::Ready(()),
        answer => answer,
    })
    .await;
}

#[cfg(feature = "recipes")]
impl Locks {
    /// The calendar of this connection.
    pub(crate) fn wall(&self) -> std::time::SystemTime {
        self.quorum.clock.wall()
    }

    /// The clock of deadlines.
    pub(crate) fn now(&self) -> crate::clock::Moment {
        self.quorum.clock.now()
    }

    /// Waits for a moment.
    pub(crate) async fn rest(&self, pause: Duration) {
        Bell::rest(&self.quorum.clock, pause).await;
    }

    /// An id that nobody else has, nor guesses.
    pub(crate) fn new_id(&self, operation: &'static str) -> Result<String, StoreError> {
        let owner = self.quorum.new_owner().map_err(|error| StoreError { operation, ..error })?;
        Ok(owner.expose().to_string())
    }
}

pub(crate) fn checked(name: &str, operation: &'static str) -> Result<LockName, StoreError> {
    LockName::new(name).map_err(|invalid| refused(&invalid, operation))
}

fn refused(invalid: &Invalid, operation: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, operation, invalid.to_string())
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<String> = self.quorum.nodes.iter().map(|node| node.label()).collect();
        f.debug_struct("Locks").field("nodes", &nodes).field("label", &self.defaults.label).finish_non_exhaustive()
    }
}
