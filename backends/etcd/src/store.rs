//! The store as the engine of the core sees it, and the thread behind it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fencepost_core::store::{
    self, Abilities, Claim, Clock, Closing, FencingToken, Listening, Minting, Moment, Owner, Reply, Step, Store,
    StoreError, StoreErrorKind,
};
use fencepost_core::{Connect, foreign};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::client::Client;
use crate::engine::{Engine, Job, Work};
use crate::error::Failure;
use crate::keys::Keys;
use crate::url::Settings;
use crate::watches::{self, Watches};

/// The grain of etcd's leases.
const TTL_MIN: Duration = Duration::from_secs(1);
/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Locks in a cluster. Its thread ends with it, once everything that was asked for is done.
pub(crate) struct Etcd {
    engine: Arc<Engine>,
    runtime: Handle,
    closed: Arc<AtomicBool>,
}

impl Etcd {
    pub(crate) fn connect(scheme: &str, rest: &str) -> Connect {
        let settings = match Settings::parse(scheme, rest) {
            Ok(settings) => settings,
            Err(invalid) => return Connect::invalid(invalid),
        };
        store::connect_again(move |opening| {
            let settings = settings.clone();
            Box::pin(async move {
                let store = Self::open(settings, opening.clock).await?;
                Ok(vec![Arc::new(store) as Arc<dyn Store>])
            })
        })
    }

    pub(crate) async fn open(settings: Settings, clock: Clock) -> Result<Self, StoreError> {
        let (ready, opened) = oneshot::channel();
        let closed = Arc::new(AtomicBool::new(false));
        let ending = closed.clone();
        foreign::prepare_to_hush();
        let started = thread::Builder::new().name("fencepost-etcd".to_owned()).spawn(move || {
            run(settings, clock, &ending, ready);
        });
        let unexpected = |what: String| StoreError::new(StoreErrorKind::Unexpected, "connect", what);
        started.map_err(|error| unexpected(format!("no thread for etcd: {error}; let this user start more")))?;
        let gone = |_| unexpected("the thread of the store ended".to_owned());
        let (engine, runtime) =
            opened.await.map_err(gone)?.map_err(|failure: Failure| failure.into_store_error("connect"))?;
        Ok(Self { engine, runtime, closed })
    }
}

/// The thread: everything that waits for the cluster waits here.
fn run(
    settings: Settings,
    clock: Clock,
    closed: &AtomicBool,
    ready: oneshot::Sender<Result<(Arc<Engine>, Handle), Failure>>,
) {
    // What tonic and h2 trace would wait here for the program's subscriber.
    foreign::hush();
    let runtime = match Builder::new_current_thread().enable_all().on_thread_start(foreign::hush).build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::new(StoreErrorKind::Unexpected, error, "let this user open more files");
            drop(ready.send(Err(failure)));
            return;
        }
    };
    runtime.block_on(async {
        let keys = Keys::new(settings.prefix.clone());
        let client = match Client::new(settings) {
            Ok(client) => Arc::new(client),
            Err(invalid) => {
                let failure = Failure::new(StoreErrorKind::Misconfigured, invalid, "correct the URL");
                drop(ready.send(Err(failure)));
                return;
            }
        };
        let (watches, ear) = Watches::new();
        let engine = Arc::new(Engine::new(client.clone(), keys, watches, clock));
        if let Err(failure) = engine.check(Instant::now() + CONNECT_WITHIN).await {
            drop(ready.send(Err(failure)));
            return;
        }
        if ready.send(Ok((engine.clone(), Handle::current()))).is_err() {
            return;
        }
        let calling = engine.clone();
        tokio::spawn(watches::run(client, ear, move |call| calling.call(call)));
        while !(closed.load(Ordering::SeqCst) && engine.is_idle()) {
            engine.done.notified().await;
        }
        engine.end_leases().await;
    });
}

impl Store for Etcd {
    fn abilities(&self) -> Abilities {
        Abilities {
            minting: Minting::InOrder,
            queues: true,
            tells: false,
            relays: false,
            together: false,
            records: true,
            survives_restart: true,
            smallest_ttl: TTL_MIN,
            largest_ttl: None,
            answer_within: None,
        }
    }

    fn label(&self) -> String {
        self.engine.client.label()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        let lane = self.engine.lane(&step);
        if self.engine.put(&lane, Work::Step(Job { step, deadline, reply })) {
            self.runtime.spawn(self.engine.clone().work(lane));
        }
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.engine.listen(claim, reply);
        Listening::new(Hearing { engine: self.engine.clone(), owner: claim.owner })
    }

    fn clock(&self) -> Option<FencingToken> {
        None
    }

    fn close(&self, closing: Closing) {
        let engine = self.engine.clone();
        self.runtime.spawn(async move {
            engine.end_leases().await;
            drop(closing);
        });
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Etcd({})", self.label())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        self.engine.done.notify_one();
    }
}

struct Hearing {
    engine: Arc<Engine>,
    owner: Owner,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.engine.unlisten(&self.owner);
    }
}
