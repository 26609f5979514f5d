//! How a claim ends.

use std::sync::Arc;

use fencepost_core::store::Claim;
use tokio::time::Instant;

use super::{AGAIN, Mine, ROUNDS_MAX, gone, restless};
use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::nodes::Node;
use crate::wire::{Op, Said};

impl Engine {
    /// Gives everything up. Whether it was ours. What fails is tried again at its time, also if nobody asks.
    pub(crate) async fn release(&self, claim: &Arc<Claim>, mine: &mut Mine, limit: Instant) -> Result<bool, Failure> {
        let freed = self.give_up(claim, mine, limit).await;
        if freed.is_err() {
            mine.ends = Instant::now() + AGAIN;
        }
        freed
    }

    async fn give_up(&self, claim: &Arc<Claim>, mine: &mut Mine, limit: Instant) -> Result<bool, Failure> {
        let (known, granted) = (!mine.is_over(), mine.granted);
        self.settle(claim, mine, limit).await?;
        if !known {
            return self.delete_all_of(claim, limit).await;
        }
        let Some(place) = &mine.place else {
            // It is gone: by our own delete, or by the end of its session.
            return Ok(granted && std::mem::take(&mut mine.leaving));
        };
        let session = place.session.clone();
        let parts = self.leave_with(claim, mine).unwrap_or_default();
        let alone = parts.first().cloned().ok_or_else(|| Failure::nonsense("nothing is to be deleted"))?;
        let together = if parts.len() > 1 { Op::Multi(parts) } else { alone.clone() };
        let mut deleted = session.ask(together, limit).await;
        if matches!(&deleted, Err(failure) if failure.sense == Sense::BadVersion) {
            // Somebody else has written what is remembered: then that comes second.
            deleted = session.ask(alone, limit).await;
            if deleted.is_ok() {
                self.remember(claim, mine, limit).await;
            }
        }
        if let Err(failure) = &deleted {
            mine.doubt_if(failure, &session);
            mine.leaving |= failure.sense == Sense::Passing;
        }
        let was_there = gone(deleted)? || std::mem::take(&mut mine.leaving);
        let freed = was_there && mine.granted;
        mine.start_anew();
        self.forget_at_once(claim, &session);
        Ok(freed)
    }

    /// What ends a claim whose node we know: the delete, and that its token was the last.
    pub(super) fn leave_with(&self, claim: &Claim, mine: &Mine) -> Option<Vec<Op>> {
        let place = mine.place.as_ref()?;
        let mut parts = vec![Op::Delete { path: self.paths.claim(&claim.name, &place.node.name), version: -1 }];
        let (memory, version) = &place.memory;
        if mine.granted && memory.last < Some(place.token) && !memory.is_foreign {
            let data = memory.with(place.token).write();
            parts.push(Op::Set { path: self.paths.lock(&claim.name), data, version: *version });
        }
        Some(parts)
    }

    /// Writes down the last token, unless a later one is there. Nobody waits for it, and nobody is hurt if it fails.
    async fn remember(&self, claim: &Claim, mine: &Mine, limit: Instant) {
        let Some(place) = mine.place.as_ref().filter(|_| mine.granted) else { return };
        for _ in 0..ROUNDS_MAX {
            let Ok(Some(view)) = self.look_now(&place.session, &claim.name, limit).await else { return };
            let (memory, version) = view.memory;
            if memory.last >= Some(place.token) || memory.is_foreign {
                return;
            }
            let data = memory.with(place.token).write();
            let set = Op::Set { path: self.paths.lock(&claim.name), data, version };
            match place.session.ask(set, limit).await {
                Err(failure) if failure.sense == Sense::BadVersion => {}
                _ => return,
            }
        }
    }

    /// Gives up the grant under this token and nothing newer: the owner's value may serve another claim by now. Whether it was
    /// there.
    pub(crate) async fn release_grant(
        &self,
        claim: &Arc<Claim>,
        zxid: i64,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<bool, Failure> {
        if mine.place.as_ref().is_some_and(|place| place.token == zxid) {
            return self.release(claim, mine, limit).await;
        }
        let session = self.sessions.any(limit).await?;
        for _ in 0..ROUNDS_MAX {
            let Some(view) = self.look_now(&session, &claim.name, limit).await? else { return Ok(false) };
            let own: Vec<Node> = view.line.into_iter().filter(|node| node.is_called_after(&claim.owner)).collect();
            let seen = self.read_all(&session, &claim.name, &own, limit).await?;
            let Some(own) = seen.into_iter().find(|own| own.token() == zxid) else { return Ok(false) };
            let path = self.paths.claim(&claim.name, &own.node.name);
            match gone(session.ask(Op::Delete { path, version: own.stat.version }, limit).await) {
                // It was asked to let go, or moved, in between.
                Err(failure) if failure.sense == Sense::BadVersion => {}
                Ok(false) => {}
                done => return done,
            }
        }
        Err(restless())
    }

    /// A claim that this connection knows nothing of: whatever has its secret name is its own, and goes.
    async fn delete_all_of(&self, claim: &Claim, limit: Instant) -> Result<bool, Failure> {
        let session = self.sessions.any(limit).await?;
        let Some(view) = self.look_now(&session, &claim.name, limit).await? else { return Ok(false) };
        let own: Vec<&Node> = view.line.iter().filter(|node| node.is_called_after(&claim.owner)).collect();
        let mut freed = false;
        for node in own {
            let path = self.paths.claim(&claim.name, &node.name);
            let deleted: Result<Said, Failure> = session.ask(Op::Delete { path, version: -1 }, limit).await;
            freed |= gone(deleted)? && view.blocker(node, claim.mode).is_none();
        }
        Ok(freed)
    }

    /// Where nothing is to be remembered, an empty lock goes with its last claim.
    fn forget_at_once(&self, claim: &Claim, session: &crate::session::Session) {
        if self.settings.remember.is_zero() {
            // Refused if others are in line; they make it again if they come this moment.
            let path = self.paths.lock(&claim.name);
            tokio::spawn(session.send(Op::Delete { path, version: -1 }).by(Instant::now() + AGAIN));
        }
    }
}
