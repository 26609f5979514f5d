//! How a hold is kept: renewed, moved to a lease of its whole length, made a reader's.

use fencepost_core::store::{Answer, Claim, Loss, Mode};
use futures_util::future::join;
use tokio::time::Instant;

use super::{Mine, Put, ROUNDS_MAX, restless};
use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::keys::{Asked, Card};
use crate::leases::Lease;
use crate::proto::{Compare, Comparison, RequestOp, TxnRequest, TxnResponse};

impl Engine {
    /// Keeps the lock for one more ttl.
    pub(crate) async fn renew(
        &self,
        claim: &Claim,
        revision: i64,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Answer, Failure> {
        if mine.full && mine.revision == revision && mine.shared == (claim.mode == Mode::Shared) {
            let txn = TxnRequest {
                compare: vec![Compare::create(&mine.key, Comparison::Equal, revision)],
                success: vec![RequestOp::get(&mine.key)],
                failure: vec![RequestOp::get(&self.keys.revoked(&claim.name, &claim.owner))],
            };
            let (said, alive) = join(self.client.txn(txn, limit), self.keep_alive(mine.lease, limit)).await;
            let (mut answer, alive) = (said?.answer, alive?);
            if !answer.succeeded {
                return Ok(lost(&mut answer));
            }
            let own = answer.found(0).pop();
            // Somebody may have had the lease in between, and put the key under another.
            if alive && own.as_ref().map(|own| own.lease) == mine.lease.map(|lease| lease.id) {
                // What is remembered must not end while a lock is held for days; that is asked again with the next one.
                let _ = self.leases.memory(&self.client, limit).await;
                return Ok(kept(own.and_then(|own| Card::read(&own.value)).and_then(|card| card.asked)));
            }
        }
        for _ in 0..ROUNDS_MAX {
            match self.rebind(claim, revision, mine, limit).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(failure) if failure.sense == Sense::LeaseGone => self.leases.doubt_memory().await,
                Err(failure) => return Err(failure),
            }
        }
        Err(restless())
    }

    /// Reads a hold and puts it under a lease of ours for its whole ttl, as a reader's if it is one now.
    async fn rebind(
        &self,
        claim: &Claim,
        revision: i64,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        // A reader that was a writer has a writer's key.
        let keys = [claim.mode, Mode::Exclusive].map(|mode| self.keys.claim(&claim.name, &claim.owner, mode));
        let mut reads: Vec<RequestOp> = keys.iter().map(|key| RequestOp::get(key)).collect();
        reads.push(RequestOp::get(&self.keys.revoked(&claim.name, &claim.owner)));
        let txn = TxnRequest { success: reads, ..TxnRequest::default() };
        let mut answer = self.client.txn(txn, limit).await?.answer;
        let own = answer.found(0).into_iter().chain(answer.found(1)).find(|own| own.create_revision == revision);
        let Some(own) = own else {
            let revoked = !answer.found(2).is_empty();
            return Ok(Some(Answer::Lost(if revoked { Loss::Revoked } else { Loss::TakenOver })));
        };
        let memory = self.leases.memory(&self.client, limit).await?;
        let taken = self.leases.take(&self.client, claim.kept_for(), limit).await?;
        let lease = taken.lease;
        let old = Card::read(&own.value);
        let held_since = old.as_ref().map(|old| old.since_ms);
        let comes_from_line = mine.revision == revision && !mine.full;
        let (asked, was_shared) = old.map_or((None, false), |old| (old.asked, old.shared));
        let card = Card::of(claim, self.clock.wall());
        // The same hold, whoever has it now. One that comes from the line, without a lease of its whole length, begins here.
        let since_ms = held_since.filter(|_| !comes_from_line).unwrap_or(card.since_ms);
        // Once a reader's, always a reader's.
        let card = Card { asked: asked.clone(), shared: card.shared || was_shared, since_ms, ..card };
        let txn = TxnRequest {
            compare: vec![Compare::modified(&own.key, own.mod_revision)],
            success: vec![
                RequestOp::put(&own.key, card.write(), lease.id),
                RequestOp::put(&self.keys.last(&claim.name), revision.to_string().into_bytes(), memory),
            ],
            failure: vec![RequestOp::get(&own.key)],
        };
        let Put { mut answer, alive, .. } = self.put_under(mine, &taken, txn, limit).await?;
        if !is_under(&mut answer, revision, lease) {
            self.retire(lease, alive && mine.is_clean(lease));
            return Ok(None);
        }
        if !alive {
            return Ok(None);
        }
        (mine.key, mine.granted) = (own.key, true);
        self.exchange(mine, revision, lease, card.shared);
        Ok(Some(kept(asked)))
    }

    /// From a place in line to a hold: under a lease for the whole ttl. `false`: the key is gone.
    pub(super) async fn bind(&self, claim: &Claim, mine: &mut Mine, limit: Instant) -> Result<bool, Failure> {
        let memory = self.leases.memory(&self.client, limit).await?;
        let taken = self.leases.take(&self.client, claim.kept_for(), limit).await?;
        let lease = taken.lease;
        let (revision, shared) = (mine.revision, mine.shared);
        let txn = TxnRequest {
            compare: vec![
                Compare::create(&mine.key, Comparison::Equal, revision),
                // One that is late finds the key under another lease than it knew.
                Compare::bound_to(&mine.key, mine.lease.map_or(0, |lease| lease.id)),
            ],
            success: vec![
                RequestOp::put(&mine.key, Card::of(claim, self.clock.wall()).write(), lease.id),
                RequestOp::put(&self.keys.last(&claim.name), revision.to_string().into_bytes(), memory),
            ],
            failure: vec![RequestOp::get(&mine.key)],
        };
        let Put { mut answer, alive, .. } = self.put_under(mine, &taken, txn, limit).await?;
        if !is_under(&mut answer, revision, lease) || !alive {
            self.retire(lease, false);
            self.start_anew::<()>(mine);
            return Ok(false);
        }
        self.exchange(mine, revision, lease, shared);
        Ok(true)
    }

    /// The key is under this lease now; the one before is free again.
    fn exchange(&self, mine: &mut Mine, revision: i64, lease: Lease, shared: bool) {
        let old = mine.lease.filter(|old| old.id != lease.id);
        mine.settle(revision, lease, true, mine.attempt);
        mine.shared = shared;
        if let Some(old) = old {
            self.retire(old, mine.is_clean(old));
        }
    }
}

/// The key is under this lease now; also if the request ran, went unanswered and was repeated.
fn is_under(answer: &mut TxnResponse, revision: i64, lease: Lease) -> bool {
    let own = answer.found(0).pop();
    answer.succeeded || own.is_some_and(|own| own.create_revision == revision && own.lease == lease.id)
}

fn kept(asked: Option<Asked>) -> Answer {
    asked.map_or(Answer::Kept, |asked| Answer::KeptAndAsked(asked.request()))
}

fn lost(answer: &mut TxnResponse) -> Answer {
    Answer::Lost(if answer.found(0).is_empty() { Loss::TakenOver } else { Loss::Revoked })
}
