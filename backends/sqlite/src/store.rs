//! The store as the engine sees it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fencepost_core::store::{
    Abilities, Claim, Clock, FencingToken, Listening, Minting, Moment, Owner, Reply, Step, Store, StoreError,
    StoreErrorKind,
};

use crate::database::Database;
use crate::error::Failure;
use crate::path;
use crate::queue::{Job, Queue};
use crate::worker::Worker;

/// How long an answer may take: in one round, fifty processes with a commit of 100 ms each take half of that. The gate knows no
/// order, so some wait for several rounds.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Below this a slow commit alone would eat most of the lease.
const TTL_MIN: Duration = Duration::from_millis(100);

/// Locks in a file, for all processes of one machine.
///
/// Cheap to clone; clones share one thread, which ends with the last of them.
#[derive(Clone)]
pub struct Sqlite {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<Queue>,
    clock: Clock,
    label: String,
}

impl Sqlite {
    /// Opens the file, or makes it; an empty path means the default one (see [`connect`](crate::connect)).
    ///
    /// # Errors
    /// In one line with the file and the cure: a path that is no file, a file system that machines share, missing
    /// rights, a full disk, a spoilt file, the database of another program, a newer schema.
    pub fn open(path: &str, clock: Clock) -> Result<Self, StoreError> {
        let opened = path::resolve(path).and_then(|file| Database::open(&file, &clock, None));
        let database = opened.map_err(Failure::into_store_error)?;
        let queue = Arc::new(Queue::default());
        let label = format!("sqlite:{}", database.file.display());
        let shared = Shared { queue: queue.clone(), clock: clock.clone(), label };
        start(&database.file.clone(), move || Worker::new(database, queue, clock).run())?;
        Ok(Self { shared: Arc::new(shared) })
    }
}

fn start(file: &Path, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let started = thread::Builder::new().name("fencepost-sqlite".into()).spawn(work);
    started.map(drop).map_err(|error| {
        let cure = "let this user start more threads";
        Failure::new(StoreErrorKind::Unexpected, file, format!("no thread for it: {error}"), cure).into_store_error()
    })
}

impl Store for Sqlite {
    fn abilities(&self) -> Abilities {
        Abilities {
            minting: Minting::InOrder,
            queues: true,
            tells: false,
            relays: true,
            together: true,
            records: true,
            survives_restart: true,
            smallest_ttl: TTL_MIN,
            largest_ttl: None,
            answer_within: Some(ANSWER_WITHIN),
        }
    }

    fn label(&self) -> String {
        self.shared.label.clone()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        self.shared.queue.put(Job { step, deadline, reply });
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.shared.queue.listen(claim, reply);
        Listening::new(Ear { queue: self.shared.queue.clone(), owner: claim.owner })
    }

    fn clock(&self) -> Option<FencingToken> {
        Some(FencingToken::at(self.shared.clock.wall()))
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sqlite({})", self.shared.label)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.close();
    }
}

struct Ear {
    queue: Arc<Queue>,
    owner: Owner,
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.queue.unlisten(&self.owner);
    }
}
