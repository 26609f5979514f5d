//! What has to be done without being asked: claims whose time is over end, sessions that nobody uses are closed, locks
//! that nobody has used for long are forgotten.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_core::store::table::Kept;
use fencepost_core::store::{FencingToken, LockName, Owner};
use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::engine::{Engine, Work};
use crate::error::{Failure, Sense};
use crate::nodes::{Memory, millis};
use crate::wire::{Op, Said, Stat};

/// A session that no claim uses is kept for so long.
const SESSION_UNUSED: Duration = Duration::from_secs(60);
/// How soon after connecting, and how often then, what is old is looked for. Commands in scripts do not live that long.
const CLEAN_EVERY: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// Never more often than that.
const CLEAN_MIN: Duration = Duration::from_secs(1);
/// So many nodes are looked at together.
const TOGETHER: usize = 64;
/// How long one look may take.
const LOOK_WITHIN: Duration = Duration::from_secs(10);

/// When claims end, unless they are renewed until then.
#[derive(Default)]
pub(crate) struct Ends {
    all: Mutex<BTreeSet<(Instant, LockName, Owner)>>,
    added: Notify,
}

impl Ends {
    pub(crate) fn add(&self, at: Instant, name: LockName, owner: Owner) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let is_next = all.first().is_none_or(|(first, ..)| at < *first);
        all.insert((at, name, owner));
        if is_next {
            self.added.notify_one();
        }
    }

    /// The next one that is due, or when one will be.
    fn next(&self) -> Result<(LockName, Owner), Option<Instant>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        match all.first() {
            Some((at, ..)) if *at > Instant::now() => Err(Some(*at)),
            Some(_) => all.pop_first().map(|(_, name, owner)| (name, owner)).ok_or(None),
            None => Err(None),
        }
    }
}

/// Ends each claim at its time.
pub(crate) async fn end_what_is_over(engine: Arc<Engine>) {
    loop {
        match engine.ends.next() {
            Ok((name, owner)) => engine.put_now(name, Work::End(owner)),
            Err(Some(at)) => tokio::select! {
                () = sleep_until(at) => {}
                () = engine.ends.added.notified() => {}
            },
            Err(None) => engine.ends.added.notified().await,
        }
    }
}

/// Cleans up now and then.
pub(crate) async fn clean(engine: Arc<Engine>) {
    let every = CLEAN_EVERY.1.min(engine.settings.remember.max(CLEAN_MIN));
    let mut due = Instant::now() + every.min(CLEAN_EVERY.0);
    loop {
        sleep(every.min(SESSION_UNUSED)).await;
        engine.sessions.close_unused(SESSION_UNUSED).await;
        if Instant::now() >= due {
            due = Instant::now() + every;
            if let Err(failure) = engine.forget_old(Instant::now() + LOOK_WITHIN).await {
                fencepost_core::notice!(
                    DEBUG,
                    failure = format!("{failure:?}"),
                    "old locks were not cleaned up; they will be"
                );
            }
        }
    }
}

impl Engine {
    /// Deletes the nodes of locks that nobody has used for long, and of records that are over. One that is used at this
    /// moment is made again by whoever uses it.
    pub(crate) async fn forget_old(&self, limit: Instant) -> Result<(), Failure> {
        let session = self.sessions.any(limit).await?;
        let wall = self.server_clock(&session, limit).await?;
        let remember = u64::try_from(self.settings.remember.as_millis()).unwrap_or(u64::MAX);
        let old = millis(wall).saturating_sub(remember);
        // What is not ours is not ours to delete.
        let is_old_lock = |data: &[u8], stat: &Stat| {
            Memory::is_ours(data) && u64::try_from(stat.mtime).is_ok_and(|changed| changed <= old)
        };
        self.delete_below(self.paths.root(), is_old_lock, limit).await?;
        let clock = FencingToken::at(wall);
        let is_over = |data: &[u8], _: &Stat| Kept::from_bytes(data).is_some_and(|kept| kept.until <= clock);
        self.delete_below(&self.paths.records(), is_over, limit).await
    }

    /// Deletes what has no children and is as this says, below a node.
    async fn delete_below(
        &self,
        folder: &str,
        goes: impl Fn(&[u8], &Stat) -> bool,
        limit: Instant,
    ) -> Result<(), Failure> {
        let session = self.sessions.any(limit).await?;
        let names = match session.ask(Op::Children { path: folder.to_owned() }, limit).await {
            Ok(Said::Children(names)) => names,
            Ok(_) => return Err(Failure::nonsense("no children were named")),
            Err(failure) if failure.sense == Sense::NoNode => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let path = |name: &String| format!("{folder}/{name}");
        for some in names.chunks(TOGETHER) {
            if Instant::now() >= limit {
                break;
            }
            let looks = some.iter().map(|name| session.send(Op::Get { path: path(name), watch: false }).by(limit));
            let seen: Vec<Result<Said, Failure>> = join_all(looks).await;
            let deletes = some.iter().zip(seen).filter_map(|(name, seen)| match seen {
                Ok(Said::Node { data, stat }) if stat.children == 0 && stat.owner == 0 && goes(&data, &stat) => {
                    Some(session.send(Op::Delete { path: path(name), version: stat.version }).by(limit))
                }
                _ => None,
            });
            // Those that somebody uses again are refused, and stay.
            join_all(deletes).await;
        }
        Ok(())
    }
}
