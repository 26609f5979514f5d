//! The store as the engine of the core sees it, and the thread behind it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fencepost_core::store::{
    self, Abilities, Answer, Claim, Clock, FencingToken, Listening, Minting, Moment, Owner, Reply, Step, Store,
    StoreError, StoreErrorKind, Then, Trouble,
};
use fencepost_core::{Connect, foreign};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::client::{Call, Client};
use crate::lanes::Lanes;
use crate::lines::Lines;
use crate::steps::Desk;
use crate::trouble;
use crate::url::Settings;
use crate::wire::Nodes;

/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Locks behind a service. Its thread ends with it, once everything that was asked for is done.
pub(crate) struct Service {
    desk: Arc<Desk>,
    lanes: Arc<Lanes>,
    nodes: Nodes,
    runtime: Handle,
    closed: Arc<AtomicBool>,
}

type Opened = (Arc<Desk>, Arc<Lanes>, Nodes, Handle);

impl Service {
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
        let started = thread::Builder::new().name("fencepost-service".to_owned()).spawn(move || {
            run(settings, clock, &ending, ready);
        });
        let unexpected = |what: String| StoreError::new(StoreErrorKind::Unexpected, "connect", what);
        started.map_err(|error| unexpected(format!("no thread for the service: {error}; let this user start more")))?;
        let failed = |trouble: Trouble| StoreError::new(trouble.kind, "connect", trouble.message);
        let opened = opened.await.map_err(|_| unexpected("the thread of the store ended".to_owned()))?;
        let (desk, lanes, nodes, runtime) = opened.map_err(failed)?;
        Ok(Self { desk, lanes, nodes, runtime, closed })
    }

    /// A release, and then another claim: told together.
    fn relay(&self, claim: &Arc<Claim>, raise: Option<FencingToken>, then: Then, deadline: Moment, reply: Reply) {
        let (released, after) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let desk = self.desk.clone();
        // In the line of steps of that claim from now on: whatever it asks for next comes after this.
        self.lanes.put(&self.runtime, Some(then.claim.owner), async move {
            let _ = after.await;
            let answer = desk.acquire(&then.claim, then.attempt, desk.by(deadline)).await;
            let _ = tell.send(answer);
        });
        let (desk, claim) = (self.desk.clone(), claim.clone());
        self.lanes.put(&self.runtime, Some(claim.owner), async move {
            let freed = desk.release(&claim, raise, desk.by(deadline)).await;
            drop(released);
            let then = told.await;
            reply.answer(match (freed, then) {
                (Ok(freed), Ok(Ok(then))) => {
                    let freed = freed == Answer::Freed;
                    Ok(Answer::Relayed { freed, then: Box::new(then) })
                }
                // The other claim asks again by itself.
                (freed, _) => freed,
            });
        });
    }
}

/// The thread: everything that waits for the service waits here.
fn run(settings: Settings, clock: Clock, closed: &AtomicBool, ready: oneshot::Sender<Result<Opened, Trouble>>) {
    // What the HTTP client traces would wait here for the program's subscriber.
    foreign::hush();
    let runtime = match Builder::new_current_thread().enable_all().on_thread_start(foreign::hush).build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let what = format!("{error}; let this user open more files");
            drop(ready.send(Err(Trouble::new(StoreErrorKind::Unexpected, what))));
            return;
        }
    };
    runtime.block_on(async {
        let (client, nodes) = match greet(settings).await {
            Ok(opened) => opened,
            Err(trouble) => return drop(ready.send(Err(trouble))),
        };
        let wait = Duration::from_millis(nodes.longest_wait_ms);
        let desk = Arc::new(Desk { client: Arc::new(client), lines: Arc::default(), clock, wait });
        let lanes = Arc::new(Lanes::default());
        if ready.send(Ok((desk, lanes.clone(), nodes, Handle::current()))).is_err() {
            return;
        }
        while !(closed.load(Ordering::SeqCst) && lanes.is_idle()) {
            lanes.done.notified().await;
        }
    });
}

/// Asks the service what its store can do.
async fn greet(settings: Settings) -> Result<(Client, Nodes), Trouble> {
    let wrong = |invalid: fencepost_core::Invalid| Trouble::new(StoreErrorKind::Misconfigured, invalid.to_string());
    let client = Client::new(settings).map_err(wrong)?;
    let nodes = client.ask::<Nodes>(Call::get("/v1/nodes".to_owned()), Instant::now() + CONNECT_WITHIN).await?;
    let nodes = nodes.map_err(|(status, problem)| trouble::of(status, &problem))?;
    spoken(nodes.interface.as_deref())?;
    Ok((client, nodes))
}

/// Whether we speak that version of the interface. A later minor one says more, in fields that are left alone; a request
/// of ours has no field that 1.0 did not have.
fn spoken(interface: Option<&str>) -> Result<(), Trouble> {
    let major = interface.map_or("1", |interface| interface.split('.').next().unwrap_or_default());
    if major == "1" {
        return Ok(());
    }
    let what = format!("it speaks version {major} of the interface, and this client 1: use a newer client");
    Err(Trouble::new(StoreErrorKind::Misconfigured, what))
}

impl Store for Service {
    fn abilities(&self) -> Abilities {
        Abilities {
            minting: Minting::InOrder,
            queues: self.nodes.fifo,
            tells: false,
            relays: false,
            together: false,
            records: self.nodes.records,
            survives_restart: self.nodes.survives_restart,
            smallest_ttl: Duration::from_millis(self.nodes.smallest_ttl_ms),
            largest_ttl: Some(Duration::from_millis(self.nodes.largest_ttl_ms)),
            answer_within: None,
        }
    }

    fn label(&self) -> String {
        self.desk.client.label()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        let step = match step {
            Step::Release { claim, raise, then: Some(then), .. } => {
                return self.relay(&claim, raise, then, deadline, reply);
            }
            other => other,
        };
        let owner = step.claim().map(|claim| claim.owner);
        let desk = self.desk.clone();
        self.lanes.put(&self.runtime, owner, async move {
            let answer = desk.run(&step, deadline).await;
            reply.answer(answer);
        });
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.desk.lines.listen(claim.owner, reply);
        Listening::new(Hearing { lines: self.desk.lines.clone(), owner: claim.owner })
    }

    fn clock(&self) -> Option<FencingToken> {
        None
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Service({})", self.label())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        self.lanes.done.notify_one();
    }
}

struct Hearing {
    lines: Arc<Lines>,
    owner: Owner,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.lines.unlisten(&self.owner);
    }
}
