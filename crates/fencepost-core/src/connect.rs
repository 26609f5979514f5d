//! Connecting: what a connection needs to know, and the door for stores.

use std::fmt;
use std::future::{Future, IntoFuture, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{Invalid, StoreError, StoreErrorKind};
use crate::event::{Herald, Observer};
use crate::handle::{DRAIN_WITHIN, Handle};
use crate::locks::{Defaults, Locks};
use crate::name::checked_label;
use crate::quorum::{Chance, Quorum};
use crate::store::Store;

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;
type Opener = Box<dyn FnOnce(Opening) -> Boxed<Members> + Send>;

/// What a store is told when it is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Opening {
    /// The clock that leases and tokens follow.
    pub clock: Clock,
}

/// The stores of a connection, and who of them has to agree.
#[allow(missing_debug_implementations, reason = "stores are opaque")]
pub struct Members {
    pub(crate) nodes: Vec<Arc<dyn Store>>,
    /// The nodes of each set by their numbers; nothing: all are one set.
    pub(crate) sets: Vec<Vec<usize>>,
}

impl Members {
    /// Of each of these sets of nodes a majority has to agree: one set takes the place of another, and until nobody
    /// goes by the old one alone any more, both count. Nodes are named by their place in `nodes`.
    pub fn in_sets(nodes: Vec<Arc<dyn Store>>, sets: Vec<Vec<usize>>) -> Self {
        Self { nodes, sets }
    }
}

/// One store, or several of which a majority has to agree.
impl From<Vec<Arc<dyn Store>>> for Members {
    fn from(nodes: Vec<Arc<dyn Store>>) -> Self {
        Self { nodes, sets: Vec::new() }
    }
}

/// Connects through a store, or through several that vote.
pub fn connect<S: Store>(open: impl FnOnce(Opening) -> Result<Vec<S>, StoreError> + Send + 'static) -> Connect {
    Connect::new(Box::new(|opening| {
        let shared = |stores: Vec<S>| stores.into_iter().map(|store| Arc::new(store) as Arc<dyn Store>).collect();
        let stores: Result<Vec<Arc<dyn Store>>, _> = open(opening).map(shared);
        Box::pin(ready(stores.map(Members::from)))
    }))
}

/// The same, for stores that take their time to open.
pub fn connect_async<M: Into<Members> + 'static>(
    open: impl FnOnce(Opening) -> Pin<Box<dyn Future<Output = Result<M, StoreError>> + Send>> + Send + 'static,
) -> Connect {
    Connect::new(Box::new(|opening| {
        let opened = open(opening);
        Box::pin(async move { opened.await.map(Into::into) })
    }))
}

/// A connection to be: set what you like, then `.await` it (or `.block()`).
///
/// # Default
/// - label: `host:pid`
/// - ttl: 30 s
/// - wait: none, a library waits only as long as told
/// - drain within: 100 ms
/// - answer within: for one server the smaller of 5 s and half the ttl; in a quorum the smaller of 50 ms and 5 % of it
#[must_use = "await it to connect"]
pub struct Connect {
    open: Opener,
    clock: Option<Clock>,
    label: Option<String>,
    ttl: Duration,
    wait: Option<Duration>,
    answer_within: Option<Duration>,
    observers: Vec<Arc<dyn Observer>>,
    records: Option<Box<Connect>>,
    chance: Option<Chance>,
    drain_within: Duration,
}

impl Connect {
    fn new(open: Opener) -> Self {
        let (ttl, clock, observers, records) = (Duration::from_secs(30), None, Vec::new(), None);
        let (label, wait, answer_within, chance) = (None, None, None, None);
        Self { open, clock, label, ttl, wait, answer_within, observers, records, chance, drain_within: DRAIN_WITHIN }
    }

    /// Fails when awaited: bad input that was found before there was a store to ask.
    pub fn invalid(invalid: Invalid) -> Self {
        let error = StoreError::new(StoreErrorKind::Misconfigured, "connect", invalid.to_string());
        Self::new(Box::new(|_| Box::pin(ready(Err(error)))))
    }

    /// Who we are, for `show` and for errors; never a secret. Default `host:pid`.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The ttl of every lock of this connection that says nothing else. Default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long every lock of this connection waits that says nothing else. Default: not at all.
    pub fn wait_at_most(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Deadline of one request to one node. Default: see [`Connect`].
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.answer_within = Some(limit);
        self
    }

    /// How long the drop of the last handle waits: of the last [`Locks`], [`Lock`](crate::Lock),
    /// [`Guard`](crate::Guard) or future of this connection. It waits until live nodes have answered the releases that
    /// are under way, so that a program may drop its guard and return from `main`. It does not wait where nothing is
    /// under way, nor for a node that is down or silent. Zero: it never waits. Default 100 ms.
    ///
    /// This is the one place where a drop blocks its thread, also inside an async runtime.
    /// [`Locks::shutdown`] before it leaves nothing to wait for.
    pub fn drain_within(mut self, limit: Duration) -> Self {
        self.drain_within = limit;
        self
    }

    /// Is told of every event. May be called several times.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Records are kept there and not where the locks are; see [`Locks::keep_records_in`]. Both are connected to.
    pub fn keep_records_in(mut self, other: Connect) -> Self {
        self.records = Some(Box::new(other));
        self
    }

    /// Time for tests.
    #[cfg(feature = "test-util")]
    pub fn clock(mut self, clock: &crate::clock::VirtualClock) -> Self {
        self.clock = Some(clock.clock());
        self
    }

    /// Chance for tests: owners and delays follow from the seed.
    #[cfg(feature = "test-util")]
    pub fn seed(mut self, seed: u64) -> Self {
        self.chance = Some(Chance::seed(seed));
        self
    }

    async fn open(self) -> Result<Locks, StoreError> {
        let wrong = |message: String| StoreError::new(StoreErrorKind::Misconfigured, "connect", message);
        let clock = match self.clock {
            Some(clock) => clock,
            None => Clock::system().map_err(|error| {
                let message = format!("cannot start the clock's thread: {error}");
                StoreError::new(StoreErrorKind::Unexpected, "connect", message)
            })?,
        };
        let label = checked_label(&self.label.unwrap_or_else(default_label));
        let label = label.map_err(|invalid| wrong(invalid.to_string()))?;
        let herald = Herald::new(clock.clone(), self.observers);
        let members = (self.open)(Opening { clock: clock.clone() }).await?;
        let chance = match self.chance {
            Some(chance) => chance,
            None => Chance::system().map_err(|error| {
                let message = format!("the operating system gave no random bytes: {error}");
                StoreError::new(StoreErrorKind::Unexpected, "connect", message)
            })?,
        };
        let quorum = Quorum::new(members, clock, herald, self.answer_within, chance)?;
        let defaults = Defaults { label, ttl: self.ttl, wait: self.wait };
        let locks = Locks::new(Handle::new(quorum, self.drain_within), defaults);
        match self.records {
            Some(records) => Ok(locks.keep_records_in(&records.into_future().await?)),
            None => Ok(locks),
        }
    }
}

impl IntoFuture for Connect {
    type Output = Result<Locks, StoreError>;
    type IntoFuture = Boxed<Locks>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect").field("label", &self.label).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

fn default_label() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}:{}", std::process::id())
}
