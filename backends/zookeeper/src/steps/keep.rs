//! How a hold is kept: renewed, made a reader's, taken over from another session.

use std::sync::Arc;

use fencepost_core::store::{Answer, Claim, Loss, Mode};
use tokio::time::Instant;

use super::{Mine, Place, ROUNDS_MAX, created, restless};
use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::nodes::{Asked, Card, Memory, Node, Seen};
use crate::session::Session;
use crate::wire::{Kind, Op};

impl Engine {
    /// Keeps the lock for one more ttl.
    pub(crate) async fn renew(
        &self,
        claim: &Arc<Claim>,
        zxid: i64,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Answer, Failure> {
        for _ in 0..ROUNDS_MAX {
            // A session that has expired took everything with it: nothing is made anew for it.
            let knew = mine.place.is_some();
            self.settle(claim, mine, limit).await?;
            let done = match &mine.place {
                Some(place) => {
                    let (session, node) = (place.session.clone(), place.node.clone());
                    self.renew_in_place(claim, zxid, mine, &session, &node, limit).await
                }
                None if knew => self.lost(claim, limit).await.map(Some),
                None => self.adopt(claim, zxid, mine, limit).await,
            };
            match done {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(failure) if failure.sense == Sense::Expired => {}
                Err(failure) => return Err(failure),
            }
        }
        Err(restless())
    }

    /// A hold whose node we know. That the servers answer shows that its session is alive, and the leader was asked.
    async fn renew_in_place(
        &self,
        claim: &Arc<Claim>,
        zxid: i64,
        mine: &mut Mine,
        session: &Arc<Session>,
        node: &Node,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        let (sync, own) = (self.sync(session, &claim.name), self.get(session, &claim.name, node));
        let (synced, own) = (sync.by(limit).await, self.read(own, node, limit).await);
        synced?;
        let Some(own) = own?.filter(|own| own.stat.owner == session.id && own.token() == zxid) else {
            // Gone; unless somebody who was given the lease has moved it.
            mine.start_anew();
            return self.adopt(claim, zxid, mine, limit).await;
        };
        if claim.mode == Mode::Shared && !node.shared {
            return self.transfer(claim, mine, session, &own, limit).await;
        }
        if session.timeout < claim.kept_for() {
            // It was acquired for less.
            let longer = self.sessions.lasting(claim.kept_for(), limit).await?;
            return self.transfer(claim, mine, &longer, &own, limit).await;
        }
        (mine.claim, mine.granted) = (claim.clone(), true);
        mine.lasts(claim.kept_for());
        if let Some((since_ms, card)) = mine.granted_ms.take().zip(own.card.clone()) {
            // For people to read: nobody waits for it, and nobody is hurt if it fails.
            let path = self.paths.claim(&claim.name, &node.name);
            let data = Card { since_ms, ..card }.write();
            tokio::spawn(session.send(Op::Set { path, data, version: own.stat.version }).by(limit));
        }
        Ok(Some(kept(own.card.and_then(|card| card.asked))))
    }

    /// A hold that another connection has acquired.
    async fn adopt(
        &self,
        claim: &Arc<Claim>,
        zxid: i64,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        let session = self.sessions.lasting(claim.kept_for(), limit).await?;
        let Some(view) = self.look_now(&session, &claim.name, limit).await? else {
            return Ok(Some(Answer::Lost(Loss::TakenOver)));
        };
        let named: Vec<Node> = view.line.into_iter().filter(|node| node.is_called_after(&claim.owner)).collect();
        let seen = self.read_all(&session, &claim.name, &named, limit).await?;
        match seen.into_iter().find(|own| own.token() == zxid) {
            Some(own) => self.transfer(claim, mine, &session, &own, limit).await,
            None => Ok(Some(lost(&view.memory.0, claim))),
        }
    }

    /// Puts another node of the same place in line where this one was, in one step: under our session, and as a reader's
    /// if it is one now. Nobody comes in between.
    async fn transfer(
        &self,
        claim: &Arc<Claim>,
        mine: &mut Mine,
        session: &Arc<Session>,
        own: &Seen,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        // Once a reader's, always a reader's.
        let mode = if own.node.shared { Mode::Shared } else { claim.mode };
        let (token, name) = (own.token(), own.node.moved(&claim.owner, mode, session.id));
        let asked = own.card.as_ref().and_then(|card| card.asked.clone());
        let card = Card::of(claim, self.clock.wall());
        // It is the same hold, whoever has it now.
        let held_since = mine.granted_ms.take().or(own.card.as_ref().map(|card| card.since_ms));
        let since_ms = held_since.unwrap_or(card.since_ms);
        let card = Card { token: Some(token), asked: asked.clone(), since_ms, ..card };
        let (from, to) = (self.paths.claim(&claim.name, &own.node.name), self.paths.claim(&claim.name, &name));
        let multi = Op::Multi(vec![
            Op::Delete { path: from, version: own.stat.version },
            Op::Create { path: to, data: card.write(), kind: Kind::Ephemeral },
        ]);
        let (moving, looking) = (session.send(multi), self.look(session, &claim.name));
        let moved = match moving.by(limit).await {
            Ok(said) => created(said),
            // It was asked to let go, moved by somebody else, or it is gone: that is seen next.
            Err(failure) if matches!(failure.sense, Sense::NoNode | Sense::BadVersion) => return Ok(None),
            Err(failure) => Err(failure),
        };
        let (node, _) = moved.inspect_err(|failure| mine.doubt_if(failure, session))?;
        // Without it, what is remembered is written later.
        let memory = looking.by(limit).await.map(|view| view.memory).unwrap_or_default();
        mine.place = Some(Place { node, token, session: session.clone(), memory });
        (mine.claim, mine.granted) = (claim.clone(), true);
        mine.lasts(claim.kept_for());
        Ok(Some(kept(asked)))
    }

    /// Its node is gone. Was it thrown out?
    async fn lost(&self, claim: &Claim, limit: Instant) -> Result<Answer, Failure> {
        let session = self.sessions.any(limit).await?;
        let view = self.look_now(&session, &claim.name, limit).await?;
        Ok(view.map_or(Answer::Lost(Loss::TakenOver), |view| lost(&view.memory.0, claim)))
    }
}

fn lost(memory: &Memory, claim: &Claim) -> Answer {
    Answer::Lost(if memory.has_thrown_out(&claim.owner) { Loss::Revoked } else { Loss::TakenOver })
}

fn kept(asked: Option<Asked>) -> Answer {
    asked.map_or(Answer::Kept, |asked| Answer::KeptAndAsked(asked.request()))
}
