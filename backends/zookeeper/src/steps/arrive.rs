//! How a claim comes: to a free lock, or to the end of the line.

use std::sync::Arc;

use fencepost_core::store::{Answer, Claim};
use tokio::time::Instant;

use super::{Mine, Place, View, created};
use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::nodes::Card;
use crate::session::Session;
use crate::wire::{Kind, Op};

impl Engine {
    /// The lock if it is free; nothing is left behind else. It looks first: a node that comes and goes would disturb those
    /// in line.
    pub(super) async fn try_once(
        &self,
        claim: &Arc<Claim>,
        attempt: u32,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        let session = self.sessions.lasting(claim.kept_for(), limit).await?;
        if let Some(view) = self.look_now(&session, &claim.name, limit).await?
            && view.line.iter().any(|node| node.keeps_out(claim.mode))
        {
            return self.busy(claim, &session, &view, limit).await;
        }
        let Some(view) = self.come(claim, attempt, mine, &session, Vec::new(), limit).await? else { return Ok(None) };
        let Some(place) = &mine.place else { return Ok(None) };
        if view.blocker(&place.node, claim.mode).is_none() {
            return self.take_turn(claim, mine, view, limit).await;
        }
        self.release(claim, mine, limit).await?;
        self.busy(claim, &session, &view, limit).await
    }

    /// Somebody is in the way. `None`: not any more.
    async fn busy(
        &self,
        claim: &Claim,
        session: &Session,
        view: &View,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        let Some(first) = view.line.first() else { return Ok(None) };
        let seen = self.read(self.get(session, &claim.name, first), first, limit).await?;
        Ok(seen.map(|seen| self.held(Some(&seen), None)))
    }

    /// The lock if it is free, else a place in line, and a watch on the one before it.
    pub(super) async fn line_up(
        &self,
        claim: &Arc<Claim>,
        attempt: u32,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        let session = self.sessions.lasting(claim.kept_for(), limit).await?;
        let Some(view) = self.come(claim, attempt, mine, &session, Vec::new(), limit).await? else { return Ok(None) };
        self.take_turn(claim, mine, view, limit).await
    }

    /// Makes the node of a claim and looks at the line, in one go. What goes before it happens with it, or not at all.
    /// `None`: once more.
    async fn come(
        &self,
        claim: &Arc<Claim>,
        attempt: u32,
        mine: &mut Mine,
        session: &Arc<Session>,
        before: Vec<Op>,
        limit: Instant,
    ) -> Result<Option<View>, Failure> {
        let create = Op::Create {
            path: self.paths.new_claim(&claim.name, &claim.owner, claim.mode),
            data: Card::of(claim, self.clock.wall()).write(),
            kind: Kind::Sequential,
        };
        let op = if before.is_empty() { create } else { Op::Multi(before.into_iter().chain([create]).collect()) };
        (mine.claim, mine.leaving) = (claim.clone(), false);
        let (creating, looking) = (session.send(op), self.look(session, &claim.name));
        let made = match creating.by(limit).await {
            Ok(said) => created(said),
            Err(failure) if failure.sense == Sense::NoNode => {
                self.make_parents(session, Some(&claim.name), limit).await?;
                return Ok(None);
            }
            Err(failure) => Err(failure),
        };
        let numbered = made.and_then(|(node, zxid)| {
            zxid.map(|zxid| (node, zxid)).ok_or_else(|| Failure::nonsense("a node was made by no transaction"))
        });
        let (node, token) = numbered.inspect_err(|failure| mine.doubt_if(failure, session))?;
        mine.place = Some(Place { node, token, session: session.clone(), memory: Default::default() });
        (mine.granted, mine.waited, mine.attempt) = (false, false, attempt);
        mine.lasts(claim.kept_for());
        let view = looking.by(limit).await?;
        let listed = mine.place.as_ref().is_some_and(|place| view.line.contains(&place.node));
        if !listed {
            // Somebody has deleted it at once.
            mine.start_anew();
            return Ok(None);
        }
        if let Some(place) = &mut mine.place {
            place.memory = view.memory.clone();
        }
        Ok(Some(view))
    }

    /// One claim leaves and another of the same process lines up, in one request. Whether the first was ours, and the
    /// answer to the second, if there is one.
    pub(crate) async fn relay(
        &self,
        (leaving, left): (&Arc<Claim>, &mut Mine),
        (coming, attempt, came): (&Arc<Claim>, u32, &mut Mine),
        limit: Instant,
    ) -> Result<(bool, Option<Answer>), Failure> {
        if coming.place().is_some()
            && came.is_over()
            && left.doubtful.is_empty()
            && let Some(parts) = self.leave_with(leaving, left).filter(|parts| parts.len() > 1)
            && let Ok(session) = self.sessions.lasting(coming.kept_for(), limit).await
        {
            match self.come(coming, attempt, came, &session, parts, limit).await {
                Ok(Some(view)) => {
                    let freed = left.granted;
                    left.start_anew();
                    let answer = match self.take_turn(coming, came, view, limit).await {
                        Ok(Some(answer)) => Some(answer),
                        _ => self.acquire(coming, attempt, came, limit).await.ok(),
                    };
                    return Ok((freed, answer));
                }
                Ok(None) => {}
                Err(failure) => {
                    left.doubt_if(&failure, &session);
                    left.leaving |= failure.sense == Sense::Passing;
                }
            }
        }
        let freed = self.release(leaving, left, limit).await?;
        Ok((freed, self.acquire(coming, attempt, came, limit).await.ok()))
    }
}
