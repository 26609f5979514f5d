//! The store as the engine of the core sees it, and the thread behind it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fencepost_core::Connect;
use fencepost_core::store::{
    self, Abilities, Claim, Clock, FencingToken, Listening, Minting, Moment, Owner, Reply, Step, Store, StoreError,
    StoreErrorKind,
};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::begin::begin;
use crate::database::{Database, Failure};
use crate::engine::{Engine, Job};
use crate::watch;

/// Below this a slow commit alone would eat most of the lease.
const TTL_MIN: Duration = Duration::from_millis(100);
/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Locks in a database.
///
/// Cheap to clone; clones share one thread, which ends with the last of them.
pub struct SqlStore<D: Database> {
    shared: Arc<Shared<D>>,
}

struct Shared<D: Database> {
    engine: Arc<Engine<D>>,
    runtime: Handle,
    closed: Arc<AtomicBool>,
}

impl<D: Database> SqlStore<D> {
    /// Connects: `open` says to what, once per attempt.
    pub fn connect(open: impl Fn() -> Result<D, StoreError> + Send + 'static) -> Connect {
        store::connect_again(move |opening| {
            let database = open();
            Box::pin(async move {
                let store = Self::open(database?, opening.clock).await?;
                Ok(vec![Arc::new(store) as Arc<dyn Store>])
            })
        })
    }

    /// Opens the first connection and checks the tables.
    ///
    /// # Errors
    /// A database that cannot be reached or does not let us in; tables that are missing or of another version.
    pub async fn open(database: D, clock: Clock) -> Result<Self, StoreError> {
        let engine = Arc::new(Engine::new(database, clock).map_err(Failure::into_store_error)?);
        let closed = Arc::new(AtomicBool::new(false));
        let (ready, opened) = oneshot::channel();
        let (working, ending) = (engine.clone(), closed.clone());
        let started = thread::Builder::new().name(format!("fencepost-{}", D::KIND)).spawn(move || {
            run(&working, &ending, ready);
        });
        let no_thread = |error: std::io::Error| {
            let what = format!("no thread for {}: {error}", D::KIND);
            Failure::new(StoreErrorKind::Unexpected, what, "let this user start more threads").into_store_error()
        };
        started.map_err(no_thread)?;
        let gone = || StoreError::new(StoreErrorKind::Unexpected, "connect", "the thread of the store ended");
        let runtime = opened.await.map_err(|_| gone())?.map_err(Failure::into_store_error)?;
        Ok(Self { shared: Arc::new(Shared { engine, runtime, closed }) })
    }
}

/// The thread: everything that waits for the database waits here.
fn run<D: Database>(engine: &Arc<Engine<D>>, closed: &AtomicBool, ready: oneshot::Sender<Result<Handle, Failure>>) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::new(StoreErrorKind::Unexpected, error, "let this user open more files");
            drop(ready.send(Err(failure)));
            return;
        }
    };
    runtime.block_on(async {
        let checked = tokio::time::timeout(CONNECT_WITHIN, engine.check()).await.unwrap_or_else(|_| {
            let what = format!("{} did not answer within {CONNECT_WITHIN:?}", engine.database.label());
            Err(Failure::new(StoreErrorKind::TooSlow, what, "check the address, and that the server is up"))
        });
        if let Err(failure) = checked {
            drop(ready.send(Err(failure)));
            return;
        }
        if ready.send(Ok(Handle::current())).is_err() {
            return;
        }
        let (watching, hearing) = (engine.clone(), engine.clone());
        tokio::spawn(watch::watch(watching));
        tokio::spawn(async move { hearing.database.hear(&hearing.hub).await });
        while !(closed.load(Ordering::SeqCst) && engine.is_idle()) {
            engine.done.notified().await;
        }
    });
}

/// Runs something that needs the driver's runtime, for callers that may have none.
///
/// # Errors
/// Its own, or that there is no thread for it.
pub async fn on_a_thread<T: Send + 'static>(
    kind: &str,
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, StoreError> {
    let (tell, told) = oneshot::channel();
    let started = thread::Builder::new().name(format!("fencepost-{kind}")).spawn(move || {
        let done = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(work),
            Err(error) => Err(Failure::new(StoreErrorKind::Unexpected, error, "let this user open more files")),
        };
        drop(tell.send(done));
    });
    let unexpected = |what: String| StoreError::new(StoreErrorKind::Unexpected, "connect", what);
    started.map_err(|error| unexpected(format!("no thread for {kind}: {error}")))?;
    let done = told.await.map_err(|_| unexpected(format!("the thread of {kind} ended")))?;
    done.map_err(Failure::into_store_error)
}

/// What comes of it within this time, on the runtime of a store.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, work).await.ok()
}

impl<D: Database> Store for SqlStore<D> {
    fn abilities(&self) -> Abilities {
        Abilities {
            minting: Minting::InOrder,
            queues: true,
            tells: false,
            relays: true,
            // One transaction has one lock's row: no step waits for several.
            together: false,
            records: true,
            survives_restart: true,
            smallest_ttl: TTL_MIN,
            largest_ttl: None,
            answer_within: None,
        }
    }

    fn label(&self) -> String {
        self.shared.engine.database.label()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        let engine = &self.shared.engine;
        let lane = engine.lane(&step);
        if engine.put(&lane, Job { step, deadline, reply }) {
            begin(&self.shared.runtime, engine.clone().work(lane));
        }
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.shared.engine.hub.listen(claim, reply);
        Listening::new(Ear { engine: self.shared.engine.clone(), owner: claim.owner })
    }

    fn clock(&self) -> Option<FencingToken> {
        Some(self.shared.engine.store_clock())
    }
}

impl<D: Database> Clone for SqlStore<D> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<D: Database> fmt::Debug for SqlStore<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlStore({})", self.label())
    }
}

impl<D: Database> Drop for Shared<D> {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        self.engine.done.notify_one();
    }
}

struct Ear<D: Database> {
    engine: Arc<Engine<D>>,
    owner: Owner,
}

impl<D: Database> Drop for Ear<D> {
    fn drop(&mut self) {
        self.engine.hub.unlisten(&self.owner);
    }
}
