//! The record beside a lock: one node, read and written back unless it changed meanwhile.

use std::time::{Duration, SystemTime};

use fencepost_core::store::table::Kept;
use fencepost_core::store::{Answer, Deed, FencingToken, LockName};
use tokio::time::Instant;

use super::{ROUNDS_MAX, restless};
use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::nodes::millis;
use crate::session::Session;
use crate::wire::{Kind, Op, Said};

impl Engine {
    /// Reads or writes a record. What is over is decided by the servers' clock; its node goes when what is old is cleaned up.
    pub(crate) async fn record(&self, name: &LockName, deed: &Deed, limit: Instant) -> Result<Answer, Failure> {
        let (session, path) = (self.sessions.any(limit).await?, self.paths.record(name));
        for _ in 0..ROUNDS_MAX {
            let found = self.node_now(&session, &path, limit).await?;
            let clock = FencingToken::at(self.server_clock(&session, limit).await?);
            let kept = found.as_ref().and_then(|(data, _)| Kept::from_bytes(data));
            let (answer, written) = Kept::decide(kept, deed, clock);
            let Some(kept) = written else { return Ok(answer) };
            let (path, data) = (path.clone(), kept.to_bytes());
            let put = match found {
                Some((_, version)) => Op::Set { path, data, version },
                None => Op::Create { path, data, kind: Kind::Persistent },
            };
            let is_new = matches!(put, Op::Create { .. });
            match session.ask(put, limit).await {
                Ok(_) => return Ok(answer),
                Err(failure) if failure.sense == Sense::NoNode && is_new => {
                    self.make(&session, self.paths.records(), limit).await?;
                }
                Err(failure) if matches!(failure.sense, Sense::NoNode | Sense::BadVersion | Sense::NodeExists) => {}
                Err(failure) => return Err(failure),
            }
        }
        Err(restless())
    }

    /// What the servers take for the time: as a node tells that was made just now, once per connection.
    pub(crate) async fn server_clock(&self, session: &Session, limit: Instant) -> Result<SystemTime, Failure> {
        if self.ahead_ms.get().is_none() {
            let create = Op::Create { path: self.paths.clock(), data: Vec::new(), kind: Kind::Sequential };
            let Said::Created { path, stat } = session.ask(create, limit).await? else {
                return Err(Failure::nonsense("a node was not made as one"));
            };
            // If that fails, it goes with the session.
            let _ = session.ask(Op::Delete { path, version: -1 }, limit).await;
            let own = i64::try_from(millis(self.clock.wall())).unwrap_or(i64::MAX);
            // The first who asked has measured it at the same time.
            let _ = self.ahead_ms.set(stat.mtime.saturating_sub(own));
        }
        let (ahead, wall) = (self.ahead_ms.get().copied().unwrap_or_default(), self.clock.wall());
        let span = Duration::from_millis(ahead.unsigned_abs());
        let there = if ahead < 0 { wall.checked_sub(span) } else { wall.checked_add(span) };
        Ok(there.unwrap_or(wall))
    }

    /// What is in a node now, and its version.
    pub(crate) async fn node_now(
        &self,
        session: &Session,
        path: &str,
        limit: Instant,
    ) -> Result<Option<(Vec<u8>, i32)>, Failure> {
        let get = Op::Get { path: path.to_owned(), watch: false };
        let (sync, get) = (session.send(Op::Sync { path: path.to_owned() }), session.send(get));
        let (synced, got) = (sync.by(limit).await, get.by(limit).await);
        synced?;
        match got {
            Ok(Said::Node { data, stat }) => Ok(Some((data, stat.version))),
            Ok(_) => Err(Failure::nonsense("a node was not read as one")),
            Err(failure) if failure.sense == Sense::NoNode => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Makes a node, unless it is there.
    pub(crate) async fn make(&self, session: &Session, path: String, limit: Instant) -> Result<(), Failure> {
        match session.ask(Op::Create { path, data: Vec::new(), kind: Kind::Persistent }, limit).await {
            Err(failure) if failure.sense != Sense::NodeExists => Err(failure),
            _ => Ok(()),
        }
    }
}
