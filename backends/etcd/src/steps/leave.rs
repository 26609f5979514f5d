//! How a claim ends, and what becomes of leases.

use fencepost_core::store::{Claim, Mode};
use futures_util::future::join;
use tokio::time::Instant;

use super::{Mine, Put};
use crate::client::Said;
use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::leases::{Lease, Taken};
use crate::proto::{Compare, Comparison, RequestOp, TxnRequest};

impl Engine {
    /// Gives everything up. Whether it was ours.
    pub(crate) async fn release(&self, claim: &Claim, mine: &mut Mine, limit: Instant) -> Result<bool, Failure> {
        let mut keys = vec![mine.key.clone()];
        if claim.mode == Mode::Shared && mine.revision == 0 {
            keys.push(self.keys.claim(&claim.name, &claim.owner, Mode::Exclusive));
        }
        let deletes = keys.iter().map(|key| RequestOp::delete(key)).collect();
        let txn = TxnRequest { success: deletes, ..TxnRequest::default() };
        let deleting = self.client.txn(txn, limit).await;
        if deleting.is_err()
            && let Some(lease) = mine.lease
        {
            mine.doubtful.push(lease.id);
        }
        let Said { answer, once } = deleting?;
        self.leave_behind(claim, mine, answer.deleted(), once, limit).await
    }

    /// Gives up the grant under this token and nothing newer: the owner's value may serve another claim by now. Whether it was
    /// there.
    pub(crate) async fn release_grant(
        &self,
        claim: &Claim,
        revision: i64,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<bool, Failure> {
        if mine.revision == revision {
            return self.release(claim, mine, limit).await;
        }
        // A reader that was a writer has a writer's key.
        for mode in [claim.mode, Mode::Exclusive] {
            let key = self.keys.claim(&claim.name, &claim.owner, mode);
            let txn = TxnRequest {
                compare: vec![Compare::create(&key, Comparison::Equal, revision)],
                success: vec![RequestOp::delete(&key)],
                ..TxnRequest::default()
            };
            if self.client.txn(txn, limit).await?.answer.deleted() > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What is left to do once the key of a claim is deleted. Whether the lock was its own.
    pub(super) async fn leave_behind(
        &self,
        claim: &Claim,
        mine: &mut Mine,
        deleted: i64,
        once: bool,
        limit: Instant,
    ) -> Result<bool, Failure> {
        self.watches.forget(&claim.owner);
        while let Some(id) = mine.doubtful.last().copied() {
            mine.lease = mine.lease.filter(|lease| lease.id != id);
            // One that fails is tried again with the next release: it stays on the list.
            self.client.revoke(id, limit).await?;
            mine.doubtful.pop();
        }
        if let Some(lease) = mine.lease.take() {
            self.retire(lease, true);
        }
        let known = mine.revision != 0;
        let freed = match deleted {
            0 => !once && mine.granted,
            _ => mine.granted || !known,
        };
        (mine.revision, mine.granted) = (0, false);
        Ok(freed)
    }

    /// Whether a lease is there, and lasts from now on.
    pub(super) async fn start_anew_if_old(&self, taken: &Taken, limit: Instant) -> Result<bool, Failure> {
        if taken.fresh { Ok(true) } else { self.client.keep_alive(taken.lease.id, limit).await }
    }

    /// Sends what puts something under a lease, and keeps that lease alive in the same step.
    pub(super) async fn put_under(
        &self,
        mine: &mut Mine,
        taken: &Taken,
        txn: TxnRequest,
        limit: Instant,
    ) -> Result<Put, Failure> {
        let id = taken.lease.id;
        let (said, alive) = join(self.client.txn(txn, limit), self.start_anew_if_old(taken, limit)).await;
        match said {
            Ok(Said { answer, once }) => {
                if !once || alive.is_err() {
                    mine.doubtful.push(id);
                }
                // Without knowing how long it lasts it is worth nothing.
                Ok(Put { alive: alive?, answer, once })
            }
            Err(failure) => {
                if failure.sense == Sense::Passing {
                    mine.doubtful.push(id);
                }
                Err(failure)
            }
        }
    }

    pub(super) async fn keep_alive(&self, lease: Option<Lease>, limit: Instant) -> Result<bool, Failure> {
        match lease {
            Some(lease) => self.client.keep_alive(lease.id, limit).await,
            None => Ok(false),
        }
    }

    /// The key is gone, or as good as that: the next request makes another.
    pub(super) fn start_anew<T>(&self, mine: &mut Mine) -> Option<T> {
        (mine.revision, mine.granted, mine.full) = (0, false, false);
        if let Some(lease) = mine.lease.take() {
            self.retire(lease, false);
        }
        None
    }

    /// Nothing of ours is under this lease any more.
    pub(crate) fn retire(&self, lease: Lease, clean: bool) {
        if clean && lease.seconds > 0 && self.leases.put_back(lease) {
            return;
        }
        self.end_lease(lease.id);
    }
}
