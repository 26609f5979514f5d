//! The store as the engine of the core sees it, and the thread behind it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fencepost_core::Connect;
use fencepost_core::store::{
    self, Abilities, Claim, Clock, Closing, FencingToken, Listening, Minting, Moment, Owner, Reply, Step, Store,
    StoreError, StoreErrorKind,
};
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::engine::{Engine, Job, Work};
use crate::error::Failure;
use crate::session::News;
use crate::sessions::Sessions;
use crate::upkeep;
use crate::url::Settings;

/// Shorter ones would be lost to a garbage collection of the server's.
const TTL_MIN: Duration = Duration::from_secs(1);
/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Locks in an ensemble. Its thread ends with it, once everything that was asked for is done.
pub(crate) struct ZooKeeper {
    pub(crate) engine: Arc<Engine>,
    pub(crate) runtime: Handle,
    longest_ttl: Duration,
    closed: Arc<AtomicBool>,
}

impl ZooKeeper {
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
        let started = thread::Builder::new().name("fencepost-zk".to_owned()).spawn(move || {
            run(settings, clock, &ending, ready);
        });
        let unexpected = |what: String| StoreError::new(StoreErrorKind::Unexpected, "connect", what);
        started.map_err(|error| unexpected(format!("no thread for ZooKeeper: {error}; let this user start more")))?;
        let gone = |_| unexpected("the thread of the store ended".to_owned());
        let Opened { engine, runtime, longest_ttl } =
            opened.await.map_err(gone)?.map_err(|failure: Failure| failure.into_store_error("connect"))?;
        Ok(Self { engine, runtime, longest_ttl, closed })
    }
}

/// What the thread has when the servers have answered.
struct Opened {
    engine: Arc<Engine>,
    runtime: Handle,
    longest_ttl: Duration,
}

/// The thread: everything that waits for the servers waits here.
fn run(settings: Settings, clock: Clock, closed: &AtomicBool, ready: oneshot::Sender<Result<Opened, Failure>>) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::new(StoreErrorKind::Unexpected, error, "let this user open more files");
            drop(ready.send(Err(failure)));
            return;
        }
    };
    runtime.block_on(async {
        let settings = Arc::new(settings);
        let (news, mut heard) = unbounded_channel();
        let sessions = Sessions::new(settings.clone(), news);
        let engine = Arc::new(Engine::new(settings, sessions, clock));
        let longest_ttl = match engine.check(Instant::now() + CONNECT_WITHIN).await {
            Ok(longest_ttl) => longest_ttl,
            Err(failure) => {
                drop(ready.send(Err(failure)));
                engine.sessions.close_unused(Duration::ZERO).await;
                return;
            }
        };
        if ready.send(Ok(Opened { engine: engine.clone(), runtime: Handle::current(), longest_ttl })).is_err() {
            return;
        }
        let calling = engine.clone();
        tokio::spawn(async move {
            while let Some(news) = heard.recv().await {
                calling.watches.hear(&news).into_iter().for_each(|call| calling.call(call));
                if let News::Ended { session } = news {
                    calling.tell_holders_of(session);
                }
            }
        });
        tokio::spawn(upkeep::end_what_is_over(engine.clone()));
        tokio::spawn(upkeep::clean(engine.clone()));
        while !(closed.load(Ordering::SeqCst) && engine.is_idle()) {
            engine.done.notified().await;
        }
        engine.sessions.close_unused(Duration::ZERO).await;
    });
}

impl Store for ZooKeeper {
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
            largest_ttl: Some(self.longest_ttl),
            answer_within: None,
        }
    }

    fn label(&self) -> String {
        self.engine.settings.label()
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
            engine.sessions.close_unused(Duration::ZERO).await;
            drop(closing);
        });
    }
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZooKeeper({})", self.label())
    }
}

impl Drop for ZooKeeper {
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
