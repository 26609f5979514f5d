//! How a claim comes: to a free lock, or to the end of the line.

use std::time::Duration;

use fencepost_core::store::{Answer, Claim, Mode};
use futures_util::future::join;
use tokio::time::Instant;

use super::{Mine, Put, granted};
use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::keys::{Card, is_shared};
use crate::leases::Lease;
use crate::proto::{Compare, Comparison, KeyValue, Order, RequestOp, TxnRequest};

/// A claim that ends in the request with which another one comes.
pub(super) struct Leaving {
    key: Vec<u8>,
    revision: i64,
}

/// What became of both.
pub(super) struct Arrival {
    /// `None`: once more.
    pub(super) answer: Option<Answer>,
    deleted: i64,
    once: bool,
}

impl Engine {
    /// The lock if it is free; nothing is left behind else.
    pub(super) async fn try_once(
        &self,
        claim: &Claim,
        attempt: u32,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        let memory = self.leases.memory(&self.client, limit).await?;
        let taken = self.leases.take(&self.client, claim.kept_for(), limit).await?;
        let (lease, in_the_way) = (taken.lease, self.in_the_way(claim));
        let txn = TxnRequest {
            compare: vec![Compare::none_in(&in_the_way.from, &in_the_way.to), is_new(mine)],
            success: self.hold(claim, mine, lease, memory),
            failure: vec![
                RequestOp::get(&mine.key),
                RequestOp::range(self.keys.all(&claim.name).by_age(Order::Ascending, 1, 0)),
                RequestOp::range(in_the_way.by_age(Order::Descending, 1, 0)),
            ],
        };
        let Put { mut answer, alive, .. } = self.put_under(mine, &taken, txn, limit).await?;
        if answer.succeeded {
            return self.hold_if(alive, mine, answer.revision(), lease, attempt);
        }
        if let Some(own) = answer.found(0).pop() {
            return Ok(self.find_own(mine, &own, &[lease]));
        }
        self.retire(lease, mine.is_clean(lease));
        let (first, newest) = (answer.found(1).pop(), answer.found(2).pop());
        match newest {
            Some(writer) if claim.mode == Mode::Shared && is_shared(&writer) => {
                self.slip_in(claim, attempt, mine, &writer, limit).await
            }
            _ => Ok(Some(self.held(first.as_ref(), 0))),
        }
    }

    /// The lock if it is free, else a place in line: a key under a short lease, and a watch on the one before it. In the
    /// same request another claim may leave.
    pub(super) async fn line_up(
        &self,
        claim: &Claim,
        attempt: u32,
        mine: &mut Mine,
        span: Duration,
        leaving: Option<Leaving>,
        limit: Instant,
    ) -> Result<Arrival, Failure> {
        let memory = self.leases.memory(&self.client, limit).await?;
        let (long, short) =
            join(self.leases.take(&self.client, claim.kept_for(), limit), self.leases.take(&self.client, span, limit))
                .await;
        let (long, short) = match (long, short) {
            (Ok(long), Ok(short)) => (long, short),
            (Ok(one), Err(failure)) | (Err(failure), Ok(one)) => {
                self.retire(one.lease, true);
                return Err(failure);
            }
            (Err(failure), Err(_)) => return Err(failure),
        };
        let in_the_way = self.in_the_way(claim);
        // Of two that are the newest, one is its own.
        let count = if claim.mode == Mode::Exclusive { 2 } else { 1 };
        let free = match &leaving {
            Some(Leaving { key, revision }) if *key >= in_the_way.from && *key < in_the_way.to => Compare {
                range_end: in_the_way.to.clone(),
                ..Compare::create(&in_the_way.from, Comparison::Equal, *revision)
            },
            _ => Compare::none_in(&in_the_way.from, &in_the_way.to),
        };
        let leave: Vec<RequestOp> = leaving.iter().map(|leaving| RequestOp::delete(&leaving.key)).collect();
        let wait = [
            RequestOp::get(&mine.key),
            RequestOp::put_new(&mine.key, Card::of(claim, self.clock.wall()).write(), short.lease.id),
            RequestOp::range(in_the_way.by_age(Order::Descending, count, 0)),
            RequestOp::range(self.keys.all(&claim.name).by_age(Order::Ascending, 1, 0)),
        ];
        let before = leave.len();
        let txn = TxnRequest {
            compare: vec![free, is_new(mine)],
            success: leave.iter().cloned().chain(self.hold(claim, mine, long.lease, memory)).collect(),
            failure: leave.into_iter().chain(wait).collect(),
        };
        let Put { mut answer, alive, once } = match self.put_under(mine, &long, txn, limit).await {
            Ok(put) => put,
            Err(failure) => {
                match failure.sense {
                    Sense::Passing => mine.doubtful.push(short.lease.id),
                    _ => self.retire(short.lease, false),
                }
                return Err(failure);
            }
        };
        if !once {
            mine.doubtful.push(short.lease.id);
        }
        let (deleted, seen) = (answer.deleted(), answer.revision());
        let arrived = |answer| Arrival { answer, deleted, once };
        if answer.succeeded {
            self.retire(short.lease, mine.is_clean(short.lease));
            return Ok(arrived(self.hold_if(alive, mine, seen, long.lease, attempt)?));
        }
        if let Some(own) = answer.found(before).pop() {
            return Ok(arrived(self.find_own(mine, &own, &[long.lease, short.lease])));
        }
        self.retire(long.lease, mine.is_clean(long.lease));
        let short_lives = self.start_anew_if_old(&short, limit).await;
        let short_lives = short_lives.inspect_err(|_| mine.doubtful.push(short.lease.id))?;
        mine.settle(seen, short.lease, false, attempt);
        if !short_lives {
            return Ok(arrived(self.start_anew(mine)));
        }
        let blocking = answer.found(before + 2).into_iter().find(|kv| kv.key != mine.key);
        let first = answer.found(before + 3).pop();
        Ok(arrived(self.take_turn(claim, mine, blocking, first, seen, limit).await?))
    }

    /// One claim leaves and another of the same process lines up, in one request. Whether the first was ours, and the
    /// answer to the second, if there is one.
    pub(crate) async fn relay(
        &self,
        (leaving, left): (&Claim, &mut Mine),
        (coming, attempt, came): (&Claim, u32, &mut Mine),
        limit: Instant,
    ) -> Result<(bool, Option<Answer>), Failure> {
        if let (Some(place), true, 0) = (coming.place(), left.revision != 0, came.revision) {
            let gone = Leaving { key: left.key.clone(), revision: left.revision };
            match self.line_up(coming, attempt, came, place.lease, Some(gone), limit).await {
                Ok(Arrival { answer, deleted, once }) => {
                    let freed = self.leave_behind(leaving, left, deleted, once, limit).await?;
                    let answer = match answer {
                        Some(answer) => Some(answer),
                        None => self.acquire(coming, attempt, came, limit).await.ok(),
                    };
                    return Ok((freed, answer));
                }
                // Nothing has happened yet.
                Err(failure) if failure.sense == Sense::LeaseGone => self.leases.doubt_memory().await,
                // The delete may be late; nothing else is under that lease.
                Err(_) => {}
            }
        }
        let freed = self.release(leaving, left, limit).await?;
        Ok((freed, self.acquire(coming, attempt, came, limit).await.ok()))
    }

    /// A reader that does not wait, beside a writer that was downgraded: only if that is still so.
    async fn slip_in(
        &self,
        claim: &Claim,
        attempt: u32,
        mine: &mut Mine,
        writer: &KeyValue,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        let memory = self.leases.memory(&self.client, limit).await?;
        let taken = self.leases.take(&self.client, claim.kept_for(), limit).await?;
        let lease = taken.lease;
        let writers = self.keys.writers(&claim.name);
        let no_other = Compare {
            range_end: writers.to,
            ..Compare::create(&writers.from, Comparison::Less, writer.create_revision + 1)
        };
        let txn = TxnRequest {
            compare: vec![no_other, Compare::modified(&writer.key, writer.mod_revision), is_new(mine)],
            success: self.hold(claim, mine, lease, memory),
            failure: Vec::new(),
        };
        let Put { answer, alive, .. } = self.put_under(mine, &taken, txn, limit).await?;
        if !answer.succeeded {
            self.retire(lease, mine.is_clean(lease));
            return Ok(None);
        }
        self.hold_if(alive, mine, answer.revision(), lease, attempt)
    }

    /// An earlier request, or this one before it was repeated, has run after all: its key is there. What was to be its
    /// lease is not needed, unless it is the one.
    pub(super) fn find_own<T>(&self, mine: &mut Mine, own: &KeyValue, unused: &[Lease]) -> Option<T> {
        for lease in unused.iter().filter(|lease| lease.id != own.lease) {
            self.retire(*lease, mine.is_clean(*lease));
        }
        mine.revision = own.create_revision;
        // It may be of either kind: the key gets another.
        (mine.lease, mine.full) = (Some(Lease { id: own.lease, seconds: 0 }), false);
        None
    }

    /// The key under this lease, and that its revision is the last token.
    fn hold(&self, claim: &Claim, mine: &Mine, lease: Lease, memory: i64) -> Vec<RequestOp> {
        vec![
            RequestOp::put(&mine.key, Card::of(claim, self.clock.wall()).write(), lease.id),
            RequestOp::put(&self.keys.last(&claim.name), Vec::new(), memory),
        ]
    }

    fn hold_if(
        &self,
        alive: bool,
        mine: &mut Mine,
        revision: i64,
        lease: Lease,
        attempt: u32,
    ) -> Result<Option<Answer>, Failure> {
        mine.settle(revision, lease, true, attempt);
        mine.granted = alive;
        if alive { granted(revision).map(Some) } else { Ok(self.start_anew(mine)) }
    }
}

/// Its key is not there yet.
fn is_new(mine: &Mine) -> Compare {
    Compare::create(&mine.key, Comparison::Equal, 0)
}
