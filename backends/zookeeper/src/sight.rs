//! What can be seen of locks, and what is said to their holders.

use std::collections::BTreeSet;

use fencepost_core::store::{Answer, LockName, LockState, YieldRequest};
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::nodes::{Asked, Card, Memory, Seen, token};
use crate::session::Session;
use crate::steps::restless;
use crate::wire::{Op, Said};

/// So many requests of a listing are under way at once.
const AT_ONCE: usize = 16;
/// What changes under our hands is read again, at most so often.
const ROUNDS_MAX: u32 = 16;

/// All claims of one lock.
struct Sight {
    holders: Vec<Seen>,
    waiters: Vec<Seen>,
    /// What is remembered, and its version; `None`: there is no such lock.
    memory: Option<(Memory, i32)>,
}

impl Engine {
    /// All claims in order: the first holds, and so do the readers behind it if it is one.
    async fn see(&self, session: &Session, name: &LockName, limit: Instant) -> Result<Sight, Failure> {
        let Some(view) = self.look_now(session, name, limit).await? else {
            return Ok(Sight { holders: Vec::new(), waiters: Vec::new(), memory: None });
        };
        let mut holders = self.read_all(session, name, &view.line, limit).await?;
        let readers = holders.iter().take_while(|seen| seen.node.shared).count();
        let waiters = holders.split_off(readers.max(1).min(holders.len()));
        Ok(Sight { holders, waiters, memory: Some(view.memory) })
    }

    pub(crate) async fn state(&self, name: &LockName, limit: Instant) -> Result<LockState, Failure> {
        let session = self.sessions.any(limit).await?;
        let Sight { holders, waiters, memory } = self.see(&session, name, limit).await?;
        let wall = self.clock.wall();
        let mut state = LockState::free(name.as_str());
        let newest = holders.iter().map(Seen::token).max();
        state.last_token = newest.max(memory.and_then(|(memory, _)| memory.last)).and_then(token);
        state.waiters = waiters.iter().map(|seen| seen.waiter(wall)).collect();
        state.holders = holders.iter().map(|seen| seen.holder(wall)).collect();
        Ok(state)
    }

    /// A lock, whose name nobody else needs.
    async fn listed(&self, name: LockName, limit: Instant) -> Result<LockState, Failure> {
        self.state(&name, limit).await
    }

    /// Locks in order of their names.
    pub(crate) async fn list(
        &self,
        start: &str,
        after: Option<&LockName>,
        most: u32,
        contended: bool,
        limit: Instant,
    ) -> Result<Vec<LockState>, Failure> {
        let session = self.sessions.any(limit).await?;
        let root = self.paths.root().to_owned();
        let (sync, children) =
            (session.send(Op::Sync { path: root.clone() }), session.send(Op::Children { path: root }));
        let (synced, children) = (sync.by(limit).await, children.by(limit).await);
        synced?;
        let Said::Children(nodes) = children? else { return Err(Failure::nonsense("no children were named")) };
        let names: BTreeSet<LockName> = nodes.iter().filter_map(|node| self.paths.name_of(node)).collect();
        let wanted = names.into_iter().filter(|name| name.as_str().starts_with(start));
        let wanted = wanted.filter(|name| after.is_none_or(|after| name > after));
        let mut looks = stream::iter(wanted).map(|name| self.listed(name, limit)).buffered(AT_ONCE);
        let mut states = Vec::new();
        while states.len() < most as usize
            && let Some(state) = looks.next().await
        {
            let state = state?;
            // A node that nobody has used yet is nothing to show.
            let is_known = state.last_token.is_some() || !state.holders.is_empty();
            if is_known && (!contended || !state.waiters.is_empty()) {
                states.push(state);
            }
        }
        Ok(states)
    }

    /// Throws out whoever holds it.
    pub(crate) async fn evict(&self, name: &LockName, limit: Instant) -> Result<Answer, Failure> {
        let session = self.sessions.any(limit).await?;
        let Sight { holders: found, memory, .. } = self.see(&session, name, limit).await?;
        let (mut left, mut memory) = (found.clone(), memory);
        // Those who held it when we came, and nobody else, whatever an answer that was lost has done already.
        for _ in 0..ROUNDS_MAX {
            let Some((known, version)) = memory.as_ref().filter(|_| !left.is_empty()) else {
                let wall = self.clock.wall();
                return Ok(Answer::Evicted(found.iter().map(|seen| seen.holder(wall)).collect()));
            };
            let path = |seen: &Seen| self.paths.claim(name, &seen.node.name);
            let mut parts: Vec<Op> = left.iter().map(|seen| Op::Delete { path: path(seen), version: -1 }).collect();
            let next = left.iter().fold(known.clone(), |memory, seen| memory.with(seen.token()).without(&seen.node));
            parts.push(Op::Set { path: self.paths.lock(name), data: next.write(), version: *version });
            match session.ask(Op::Multi(parts), limit).await {
                Ok(_) => left.clear(),
                Err(failure) if matches!(failure.sense, Sense::NoNode | Sense::BadVersion) => {
                    let now = self.see(&session, name, limit).await?;
                    memory = now.memory;
                    left = now.holders;
                    left.retain(|now| found.iter().any(|old| old.token() == now.token()));
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(restless())
    }

    /// Leaves a word with whoever holds it; another program's lock has nobody who would read it.
    pub(crate) async fn ask(&self, name: &LockName, request: &YieldRequest, limit: Instant) -> Result<Answer, Failure> {
        let session = self.sessions.any(limit).await?;
        let holders = self.see(&session, name, limit).await?.holders;
        let mut asked = Vec::new();
        for mut seen in holders {
            for _ in 0..ROUNDS_MAX {
                let Some(card) = seen.card.clone() else { break };
                let card = Card { asked: Some(Asked::of(request)), ..card };
                let path = self.paths.claim(name, &seen.node.name);
                let set = Op::Set { path, data: card.write(), version: seen.stat.version };
                match session.ask(set, limit).await {
                    Ok(_) => {
                        asked.push(seen.holder(self.clock.wall()));
                        break;
                    }
                    Err(failure) if matches!(failure.sense, Sense::NoNode | Sense::BadVersion) => {}
                    Err(failure) => return Err(failure),
                }
                let now = self.see(&session, name, limit).await?.holders;
                match now.into_iter().find(|now| now.token() == seen.token()) {
                    Some(now) => seen = now,
                    None => break,
                }
            }
        }
        Ok(Answer::Asked(asked))
    }
}
