//! Connecting: what a connection needs to know, and the door for stores.

use std::fmt;
use std::future::{Future, IntoFuture, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::bell::Bell;
use crate::clock::{Clock, Moment};
use crate::error::{Invalid, StoreError, StoreErrorKind};
use crate::event::{EventKind, Herald, Observer};
use crate::foreign;
use crate::handle::{DRAIN_WITHIN, Handle};
use crate::locks::{Defaults, Locks};
use crate::name::checked_label;
use crate::quorum::{Chance, Quorum};
use crate::store::Store;

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;
type Attempt = Boxed<Members>;

/// How the stores are opened.
enum Opener {
    /// They are there already, or cannot be opened twice.
    Once(Box<dyn FnOnce(Opening) -> Attempt + Send>),
    /// Tried anew after a failure that passes, if the caller waits for the store.
    Again(Box<dyn FnMut(Opening) -> Attempt + Send>),
}

/// Between two attempts to open a store that is away.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// The first attempt has at least this time, however short the wait: a store that is up but far away must not seem down.
const FIRST_ATTEMPT_MIN: Duration = Duration::from_secs(1);

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
    Connect::new(Opener::Once(Box::new(|opening| {
        let shared = |stores: Vec<S>| stores.into_iter().map(|store| Arc::new(store) as Arc<dyn Store>).collect();
        let stores: Result<Vec<Arc<dyn Store>>, _> = open(opening).map(shared);
        Box::pin(ready(stores.map(Members::from)))
    })))
}

/// The same, for stores that take their time to open.
pub fn connect_async<M: Into<Members> + 'static>(
    open: impl FnOnce(Opening) -> Pin<Box<dyn Future<Output = Result<M, StoreError>> + Send>> + Send + 'static,
) -> Connect {
    Connect::new(Opener::Once(Box::new(|opening| {
        let opened = open(opening);
        Box::pin(async move { opened.await.map(Into::into) })
    })))
}

/// The same, for stores that may be away: opened anew until the wait is over, see [`Connect::wait_for_store`].
pub fn connect_again<M: Into<Members> + 'static>(
    mut open: impl FnMut(Opening) -> Pin<Box<dyn Future<Output = Result<M, StoreError>> + Send>> + Send + 'static,
) -> Connect {
    Connect::new(Opener::Again(Box::new(move |opening| {
        let opened = open(opening);
        Box::pin(async move { opened.await.map(Into::into) })
    })))
}

/// A connection to be: set what you like, then `.await` it (or `.block()`).
///
/// # Default
/// - label: `host:pid`
/// - ttl: 30 s
/// - wait: none, a library waits only as long as told
/// - wait for the store: none, a store that is away fails the connection at once
/// - drain within: 100 ms
/// - answer within: for one server the smaller of 5 s and half the ttl; in a quorum the smaller of 50 ms and 5 % of it,
///   and longer while a server is seen to work on a queue
#[must_use = "await it to connect"]
pub struct Connect {
    open: Opener,
    clock: Option<Clock>,
    label: Option<String>,
    ttl: Duration,
    wait: Option<Duration>,
    wait_for_store: Duration,
    answer_within: Option<Duration>,
    observers: Vec<Arc<dyn Observer>>,
    records: Option<Box<Connect>>,
    chance: Option<Chance>,
    drain_within: Duration,
}

impl Connect {
    fn new(open: Opener) -> Self {
        Self {
            open,
            clock: None,
            label: None,
            ttl: Duration::from_secs(30),
            wait: None,
            wait_for_store: Duration::ZERO,
            answer_within: None,
            observers: Vec::new(),
            records: None,
            chance: None,
            drain_within: DRAIN_WITHIN,
        }
    }

    /// Fails when awaited: bad input that was found before there was a store to ask.
    pub fn invalid(invalid: Invalid) -> Self {
        let error = StoreError::new(StoreErrorKind::Misconfigured, "connect", invalid.to_string());
        Self::new(Opener::Once(Box::new(|_| Box::pin(ready(Err(error))))))
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

    /// How long to wait for a store that is away: down, silent, or by a name that does not resolve. What waiting cannot
    /// cure, such as a refused password, fails at once all the same. Default: not at all.
    ///
    /// The wait does not shorten how long a lock then waits ([`wait_at_most`](Self::wait_at_most)); subtract it where both
    /// share a budget. The first attempt is given a second even if the wait is shorter.
    pub fn wait_for_store(mut self, wait: Duration) -> Self {
        self.wait_for_store = wait;
        self
    }

    /// Deadline of one request to one node, a hard limit: without it a server that works on a queue is given more time.
    /// Default: see [`Connect`].
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
        let began = clock.now();
        let members = match self.open {
            Opener::Again(open) if !self.wait_for_store.is_zero() => {
                open_within(open, &clock, self.wait_for_store, &herald).await?
            }
            Opener::Again(mut open) => open(Opening { clock: clock.clone() }).await?,
            Opener::Once(open) => open(Opening { clock: clock.clone() }).await?,
        };
        let chance = match self.chance {
            Some(chance) => chance,
            None => Chance::system().map_err(|error| {
                let message = format!("the operating system gave no random bytes: {error}");
                StoreError::new(StoreErrorKind::Unexpected, "connect", message)
            })?,
        };
        let left = self.wait_for_store.saturating_sub(clock.now().since(began));
        let quorum = Quorum::new(members, clock, herald, self.answer_within, chance)?;
        let defaults = Defaults { label, ttl: self.ttl, wait: self.wait };
        let locks = Locks::new(Handle::new(quorum, self.drain_within), defaults);
        match self.records {
            Some(records) => Ok(locks.keep_records_in(&records.wait_for_store(left).into_future().await?)),
            None => Ok(locks),
        }
    }
}

/// Attempts until one succeeds, or fails with what waiting cannot cure, or the wait is over.
async fn open_within(
    mut open: Box<dyn FnMut(Opening) -> Attempt + Send>,
    clock: &Clock,
    wait: Duration,
    herald: &Herald,
) -> Result<Members, StoreError> {
    let end = clock.now().plus(wait);
    let mut limit = clock.now().plus(wait.max(FIRST_ATTEMPT_MIN));
    let mut told: Option<StoreError> = None;
    loop {
        let error = match within(clock, limit, open(Opening { clock: clock.clone() })).await {
            Some(Ok(members)) => return Ok(members),
            Some(Err(error)) if !error.kind.passes() => return Err(error),
            Some(Err(error)) => error,
            // What an earlier attempt said is worth more.
            None => {
                let silent =
                    || StoreError::new(StoreErrorKind::TooSlow, "connect", format!("no connection within {wait:?}"));
                return Err(told.unwrap_or_else(silent));
            }
        };
        if clock.now().plus(RETRY_PAUSE) >= end {
            return Err(error);
        }
        if told.as_ref().is_none_or(|told| !told.has_cause_of(&error) || told.message != error.message) {
            foreign::wake(herald.note("", 0, EventKind::WaitingForStore(Box::new(error.clone()))));
            herald.deliver();
        }
        told = Some(error);
        limit = end;
        Bell::rest(clock, RETRY_PAUSE).await;
    }
}

/// `None`: not ready by that moment.
async fn within<T>(clock: &Clock, end: Moment, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, bell) = (pin!(future), Bell::at(clock, end));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if bell.has_rung(context) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
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
