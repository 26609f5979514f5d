//! The check at the resource, for what is kept in ZooKeeper: what to put into a `multi` of yours.
//!
//! [`Client::held`] has the check that lets a write through only while a lock is held, as data for any client; and
//! ready-made, a [`Transaction`] that a [`Client`] commits, which can turn an older token away, too.
//!
//! ```no_run
//! # use fencepost_core::{Blocking, Guard};
//! use fencepost_zookeeper::fence::{Client, Transaction};
//!
//! # fn write(guard: &Guard) -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("zk://a,b,c").block()?;
//! let write = Transaction::new().set("/accounts/7", "paid").checked("account 7", guard.token());
//! client.commit(&write).block()?; // Err(FenceError::Stale { .. }): a newer holder was here
//!
//! let held = client.held(guard).block()?.ok_or("it is not ours any more")?;
//! let write = Transaction::new().set("/accounts/7", "paid").only_if(held);
//! assert!(client.commit(&write).block()?, "it is not ours any more");
//! # Ok(()) }
//! ```

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::fence::FenceError;
use fencepost_core::store::{Clock, LockName, Owner, StoreError, StoreErrorKind};
use fencepost_core::{FencingToken, Guard, Invalid};
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::nodes::{Node, encoded};
use crate::store::ZooKeeper;
use crate::url::Settings;
use crate::wire::{Kind, Op};

/// Below this the newest token of each resource is remembered.
const MARKS: &str = "/fencepost-fence";
/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Others write the same mark meanwhile: it is read again, at most so often.
const ROUNDS_MAX: u32 = 16;

/// What must be so, for a `multi` to do what it is for: a `check` of this node at this version.
///
/// It does not hold any more once somebody has asked the holder to let go, the hold was downgraded or went to another
/// process: then ask [`Client::held`] again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// The node.
    pub path: String,
    /// Its version.
    pub version: i32,
}

/// Writes that happen together, or not at all.
#[derive(Clone, Default, Debug)]
pub struct Transaction {
    parts: Vec<Op>,
    token: Option<(String, FencingToken)>,
}

impl Transaction {
    /// One that does nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a node.
    pub fn create(self, path: impl Into<String>, data: impl Into<Vec<u8>>) -> Self {
        self.and(Op::Create { path: path.into(), data: data.into(), kind: Kind::Persistent })
    }

    /// Writes a node that is there.
    pub fn set(self, path: impl Into<String>, data: impl Into<Vec<u8>>) -> Self {
        self.and(Op::Set { path: path.into(), data: data.into(), version: -1 })
    }

    /// Deletes a node.
    pub fn delete(self, path: impl Into<String>) -> Self {
        self.and(Op::Delete { path: path.into(), version: -1 })
    }

    /// Only if this holds.
    pub fn only_if(self, check: Check) -> Self {
        self.and(Op::Check { path: check.path, version: check.version })
    }

    /// Turns an older token away, and accepts an equal one. The newest is remembered at `/fencepost-fence/RESOURCE`.
    pub fn checked(mut self, resource: &str, token: FencingToken) -> Self {
        self.token = Some((format!("{MARKS}/{}", encoded(resource)), token));
        self
    }

    fn and(mut self, part: Op) -> Self {
        self.parts.push(part);
        self
    }
}

/// What is remembered of a resource: the newest token and its version.
type Mark = Option<(i64, i32)>;

/// A connection for transactions, on a thread of its own.
pub struct Client(ZooKeeper);

impl Client {
    /// Connects to an ensemble, by the URL of a store; its locks are those that [`Client::held`] knows of.
    ///
    /// # Errors
    /// A bad URL, or servers that cannot be reached.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let wrong = |invalid: Invalid| StoreError::new(StoreErrorKind::Misconfigured, "connect", invalid.to_string());
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        if !crate::SCHEMES.contains(&scheme) {
            return Err(wrong(Invalid::new("store", scheme, "write zk://HOST:PORT")));
        }
        let settings = Settings::parse(scheme, rest).map_err(wrong)?;
        let no_clock = |error| StoreError::new(StoreErrorKind::Unexpected, "connect", format!("no clock: {error}"));
        ZooKeeper::open(settings, Clock::system().map_err(no_clock)?).await.map(Self)
    }

    /// What holds as long as this lock is held under its own node: what is written on this condition is written by its
    /// holder, whatever the clocks say. `None`: it is not held any more.
    ///
    /// # Errors
    /// A guard that is not of one lock; what the servers said.
    pub async fn held(&self, guard: &Guard) -> Result<Option<Check>, StoreError> {
        let wrong = |invalid: Invalid| StoreError::new(StoreErrorKind::Misconfigured, "check", invalid.to_string());
        let cure = "use the guard of one exclusive lock that was acquired on ZooKeeper";
        let owner = Owner::from_exposed(&guard.expose_owner());
        let owner = owner.ok_or_else(|| wrong(Invalid::new("guard", guard.name(), cure)))?;
        let (name, token) = (LockName::new(guard.name()).map_err(wrong)?, guard.token().as_i64());
        let look = |engine: Arc<Engine>, limit| async move {
            let session = engine.sessions.any(limit).await?;
            let Some(view) = engine.look_now(&session, &name, limit).await? else { return Ok(None) };
            let named: Vec<Node> = view.line.into_iter().filter(|node| node.is_called_after(&owner)).collect();
            let seen = engine.read_all(&session, &name, &named, limit).await?;
            let own = seen.into_iter().find(|own| own.token() == token);
            Ok(own.map(|own| Check { path: engine.paths.claim(&name, &own.node.name), version: own.stat.version }))
        };
        self.run(look, "check").await
    }

    /// Commits a transaction. `false`: a condition did not hold, or a node was not as it should be, and nothing was
    /// written.
    ///
    /// # Errors
    /// [`FenceError::Stale`]: a newer holder was here, nothing was written; stop working. Else what the servers said; if
    /// there was no answer, it may have been committed.
    pub async fn commit(&self, transaction: &Transaction) -> Result<bool, FenceError> {
        let Some((path, token)) = transaction.token.clone() else {
            let parts = transaction.parts.clone();
            return Ok(self.run(|engine, limit| commit(engine, parts, limit), "check").await?);
        };
        let mut seen = self.mark(&path).await?;
        for _ in 0..ROUNDS_MAX {
            token.check(seen.map_or(0, |(newest, _)| newest))?;
            let data = token.to_string().into_bytes();
            let mark = match seen {
                Some((_, version)) => Op::Set { path: path.clone(), data, version },
                None => Op::Create { path: path.clone(), data, kind: Kind::Persistent },
            };
            let parts = [mark].into_iter().chain(transaction.parts.iter().cloned()).collect();
            if self.run(|engine, limit| commit(engine, parts, limit), "check").await? {
                return Ok(true);
            }
            let now = self.mark(&path).await?;
            if now == seen {
                return Ok(false);
            }
            seen = now;
        }
        let what = format!("the mark of this resource changed {ROUNDS_MAX} times; try again");
        Err(FenceError::Store(StoreError::new(StoreErrorKind::TooSlow, "check", what)))
    }

    /// Reads a node.
    ///
    /// # Errors
    /// What the servers said.
    pub async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = path.to_owned();
        let look = |engine: Arc<Engine>, limit| async move {
            let session = engine.sessions.any(limit).await?;
            engine.node_now(&session, &path, limit).await
        };
        Ok(self.run(look, "get").await?.map(|(data, _)| data))
    }

    async fn mark(&self, path: &str) -> Result<Mark, StoreError> {
        let path = path.to_owned();
        let look = |engine: Arc<Engine>, limit| async move {
            let session = engine.sessions.any(limit).await?;
            let Some((data, version)) = engine.node_now(&session, &path, limit).await? else {
                // So that it can be made.
                return engine.make(&session, MARKS.to_owned(), limit).await.map(|()| None);
            };
            let newest = std::str::from_utf8(&data).ok().and_then(|digits| digits.parse().ok());
            Ok(Some((newest.ok_or_else(|| Failure::nonsense("a mark is no token"))?, version)))
        };
        self.run(look, "check").await
    }

    async fn run<T, F>(
        &self,
        work: impl FnOnce(Arc<Engine>, Instant) -> F,
        operation: &'static str,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let done = self.0.runtime.spawn(work(self.0.engine.clone(), Instant::now() + ANSWER_WITHIN)).await;
        let gone = |_| StoreError::new(StoreErrorKind::Unexpected, operation, "the thread of the client ended");
        done.map_err(gone)?.map_err(|failure| failure.into_store_error(operation))
    }
}

/// All of these, or none. `false`: one was not as it should be.
async fn commit(engine: Arc<Engine>, parts: Vec<Op>, limit: Instant) -> Result<bool, Failure> {
    match engine.sessions.any(limit).await?.ask(Op::Multi(parts), limit).await {
        Ok(_) => Ok(true),
        Err(failure) if matches!(failure.sense, Sense::NoNode | Sense::BadVersion | Sense::NodeExists) => Ok(false),
        Err(failure) => Err(failure),
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.0.engine.settings.label())
    }
}
