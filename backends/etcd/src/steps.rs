//! What each step of the contract is in etcd.
//!
//! A claim is a key, and the order of claims is that of their create revisions: whoever has no key before it that keeps
//! it out has the lock, by that alone, and its create revision is its token. So nobody hands over: a waiter watches the
//! one key that keeps it out, and looks again when that changes.
//!
//! Every request may run twice or late. Twice does no harm: the key of an owner is made once. What may still be late
//! when a claim ends is made harmless by ending the lease that it would put something under.

use std::time::Duration;

use fencepost_core::store::{Answer, Claim, Loss, Mode, StoreErrorKind};
use futures_util::future::join;
use tokio::time::Instant;

use crate::client::Said;
use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::keys::{Asked, Card, Span, holder, is_shared, token};
use crate::leases::{Lease, Taken};
use crate::proto::{Compare, Comparison, KeyValue, Order, RequestOp, TxnRequest, TxnResponse};

/// A lease that ends, or a key that changes, while a step is at work: it starts anew, at most so often.
const ROUNDS_MAX: u32 = 8;

/// What this process knows of one of its claims.
#[derive(Debug)]
pub(crate) struct Mine {
    pub(crate) key: Vec<u8>,
    /// The key's create revision; 0: there is none that we know of.
    pub(crate) revision: i64,
    /// What the key is bound to.
    pub(crate) lease: Option<Lease>,
    /// That lease lasts for the whole ttl and delay, not only for a place in line.
    pub(crate) full: bool,
    /// The card says reader.
    pub(crate) shared: bool,
    /// It holds, as far as we know.
    pub(crate) granted: bool,
    /// The attempt that last kept the lease alive.
    pub(crate) attempt: u32,
    /// Leases that a late request may still put something under.
    pub(crate) doubtful: Vec<i64>,
    pub(crate) touched: Instant,
}

impl Mine {
    pub(crate) fn new(key: Vec<u8>, claim: &Claim) -> Self {
        Self {
            key,
            revision: 0,
            lease: None,
            full: false,
            shared: claim.mode == Mode::Shared,
            granted: false,
            attempt: 0,
            doubtful: Vec::new(),
            touched: Instant::now(),
        }
    }

    fn is_clean(&self, lease: Lease) -> bool {
        !self.doubtful.contains(&lease.id)
    }

    fn settle(&mut self, revision: i64, lease: Lease, full: bool, attempt: u32) {
        (self.revision, self.lease, self.full, self.attempt) = (revision, Some(lease), full, attempt);
    }
}

/// What a request under a lease brought.
struct Put {
    answer: TxnResponse,
    /// The lease is there, and started anew within this step.
    alive: bool,
    once: bool,
}

/// A claim that ends in the request with which another one comes.
struct Leaving {
    key: Vec<u8>,
    revision: i64,
}

/// What became of both.
struct Arrival {
    /// `None`: once more.
    answer: Option<Answer>,
    deleted: i64,
    once: bool,
}

impl Engine {
    /// Takes the lock, or a place in line.
    pub(crate) async fn acquire(
        &self,
        claim: &Claim,
        attempt: u32,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Answer, Failure> {
        for _ in 0..ROUNDS_MAX {
            let done = match mine.revision {
                0 => self.come(claim, attempt, mine, limit).await,
                _ => self.come_again(claim, attempt, mine, limit).await,
            };
            match done {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(failure) if failure.sense == Sense::LeaseGone => self.leases.doubt_memory().await,
                Err(failure) => return Err(failure),
            }
        }
        Err(restless())
    }

    /// The first request of a claim. `None`: once more.
    async fn come(
        &self,
        claim: &Claim,
        attempt: u32,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        match claim.place() {
            Some(place) => Ok(self.line_up(claim, attempt, mine, place.lease, None, limit).await?.answer),
            None => self.try_once(claim, attempt, mine, limit).await,
        }
    }

    /// The lock if it is free; nothing is left behind else.
    async fn try_once(
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
            compare: vec![Compare::none_in(&in_the_way.from, &in_the_way.to)],
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
        self.retire(lease, mine.is_clean(lease));
        if let Some(own) = answer.found(0).pop() {
            return Ok(find_own(mine, &own));
        }
        let (first, newest) = (answer.found(1).pop(), answer.found(2).pop());
        match newest {
            Some(writer) if claim.mode == Mode::Shared && is_shared(&writer) => {
                self.slip_in(claim, attempt, mine, &writer, limit).await
            }
            _ => Ok(Some(self.held(first.as_ref()))),
        }
    }

    /// The lock if it is free, else a place in line: a key under a short lease, and a watch on the one before it. In the
    /// same request another claim may leave.
    async fn line_up(
        &self,
        claim: &Claim,
        attempt: u32,
        mine: &mut Mine,
        span: Duration,
        leaving: Option<Leaving>,
        limit: Instant,
    ) -> Result<Arrival, Failure> {
        let memory = self.leases.memory(&self.client, limit).await?;
        let (long, short) = join(
            self.leases.take(&self.client, claim.kept_for(), limit),
            self.leases.take(&self.client, span, limit),
        )
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
            RequestOp::put(&mine.key, Card::of(claim, self.clock.wall()).write(), short.lease.id),
            RequestOp::range(in_the_way.by_age(Order::Descending, count, 0)),
            RequestOp::range(self.keys.all(&claim.name).by_age(Order::Ascending, 1, 0)),
        ];
        let before = leave.len();
        let txn = TxnRequest {
            compare: vec![free],
            success: leave.iter().cloned().chain(self.hold(claim, mine, long.lease, memory)).collect(),
            failure: leave.into_iter().chain(wait).collect(),
        };
        let put = join(self.put_under(mine, &long, txn, limit), self.start_anew_if_old(&short, limit)).await;
        let (Put { mut answer, alive, once }, short_lives) = match put {
            (Ok(put), short_lives) => (put, short_lives),
            (Err(failure), _) => {
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
        self.retire(long.lease, mine.is_clean(long.lease));
        if let Some(own) = answer.found(before).pop() {
            // It is under the short lease now.
            find_own::<()>(mine, &KeyValue { lease: short.lease.id, ..own });
            mine.lease = Some(short.lease);
            return Ok(arrived(None));
        }
        mine.settle(seen, short.lease, false, attempt);
        if !short_lives? {
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

    /// What a claim of this mode has to wait for.
    fn in_the_way(&self, claim: &Claim) -> Span {
        match claim.mode {
            Mode::Exclusive => self.keys.all(&claim.name),
            Mode::Shared => self.keys.writers(&claim.name),
        }
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

    /// Whether a lease is there, and lasts from now on.
    async fn start_anew_if_old(&self, taken: &Taken, limit: Instant) -> Result<bool, Failure> {
        if taken.fresh { Ok(true) } else { self.client.keep_alive(taken.lease.id, limit).await }
    }

    /// Asked again: the lease starts anew, and so does the look at what is in the way.
    async fn come_again(
        &self,
        claim: &Claim,
        attempt: u32,
        mine: &mut Mine,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        let (txn, lease) = (self.look(claim, mine), mine.lease);
        let (said, alive) = join(self.client.txn(txn, limit), self.keep_alive(lease, limit)).await;
        let (mut answer, alive) = (said?.answer, alive?);
        if !answer.succeeded {
            return Ok(self.start_anew(mine));
        }
        mine.attempt = attempt;
        if !alive {
            mine.full = false;
        }
        let (before, first, seen) = (answer.found(0).pop(), answer.found(1).pop(), answer.revision());
        if !alive && before.is_some() {
            // Its key outlived its lease by a moment: it is gone, or will be.
            return Ok(self.start_anew(mine));
        }
        self.take_turn(claim, mine, before, first, seen, limit).await
    }

    /// What is in the way of a claim that has its key.
    fn look(&self, claim: &Claim, mine: &Mine) -> TxnRequest {
        let in_the_way = if mine.shared { self.keys.writers(&claim.name) } else { self.keys.all(&claim.name) };
        TxnRequest {
            compare: vec![Compare::create(&mine.key, Comparison::Equal, mine.revision)],
            success: vec![
                RequestOp::range(in_the_way.by_age(Order::Descending, 1, mine.revision - 1)),
                RequestOp::range(self.keys.all(&claim.name).by_age(Order::Ascending, 1, 0)),
            ],
            failure: Vec::new(),
        }
    }

    /// Nothing before it: the lock. Else it watches what is.
    async fn take_turn(
        &self,
        claim: &Claim,
        mine: &mut Mine,
        before: Option<KeyValue>,
        first: Option<KeyValue>,
        seen: i64,
        limit: Instant,
    ) -> Result<Option<Answer>, Failure> {
        match blocker(mine, before) {
            Some(before) => {
                self.watches.watch(claim, before.key, seen);
                Ok(Some(self.held(first.as_ref())))
            }
            None if mine.full || self.bind(claim, mine, limit).await? => {
                mine.granted = true;
                self.watches.forget(&claim.owner);
                granted(mine.revision).map(Some)
            }
            None => Ok(None),
        }
    }

    /// A waiter's watch has told: is it its turn?
    pub(crate) async fn wake(&self, claim: &Claim, mine: &mut Mine, limit: Instant) -> Result<Woken, Failure> {
        if mine.revision == 0 || mine.granted {
            return Ok(Woken::No);
        }
        let mut answer = self.client.txn(self.look(claim, mine), limit).await?.answer;
        if !answer.succeeded {
            // Its lease ended while it waited: never the lock. It may come again, as the last in line.
            self.watches.forget(&claim.owner);
            self.start_anew::<()>(mine);
            return Ok(Woken::Gone);
        }
        match blocker(mine, answer.found(0).pop()) {
            Some(before) => {
                self.watches.watch(claim, before.key, answer.revision());
                Ok(Woken::No)
            }
            None => {
                mine.granted = true;
                self.watches.forget(&claim.owner);
                Ok(Woken::Yes)
            }
        }
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
            compare: vec![no_other, Compare::modified(&writer.key, writer.mod_revision)],
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
            if alive {
                let card = answer.found(0).pop().and_then(|own| Card::read(&own.value));
                return Ok(kept(card.and_then(|card| card.asked)));
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
        let asked = Card::read(&own.value).and_then(|card| card.asked);
        let card = Card { asked: asked.clone(), ..Card::of(claim, self.clock.wall()) };
        let txn = TxnRequest {
            compare: vec![Compare::modified(&own.key, own.mod_revision)],
            success: vec![
                RequestOp::put(&own.key, card.write(), lease.id),
                RequestOp::put(&self.keys.last(&claim.name), revision.to_string().into_bytes(), memory),
            ],
            failure: Vec::new(),
        };
        let Put { answer, alive, .. } = self.put_under(mine, &taken, txn, limit).await?;
        if !answer.succeeded || !alive {
            self.retire(lease, answer.succeeded && mine.is_clean(lease));
            return Ok(None);
        }
        (mine.key, mine.granted) = (own.key, true);
        self.exchange(mine, revision, lease, card.shared);
        Ok(Some(kept(asked)))
    }

    /// From a place in line to a hold: under a lease for the whole ttl. `false`: the key is gone.
    async fn bind(&self, claim: &Claim, mine: &mut Mine, limit: Instant) -> Result<bool, Failure> {
        let memory = self.leases.memory(&self.client, limit).await?;
        let taken = self.leases.take(&self.client, claim.kept_for(), limit).await?;
        let lease = taken.lease;
        let (revision, shared) = (mine.revision, mine.shared);
        let txn = TxnRequest {
            compare: vec![Compare::create(&mine.key, Comparison::Equal, revision)],
            success: vec![
                RequestOp::put(&mine.key, Card::of(claim, self.clock.wall()).write(), lease.id),
                RequestOp::put(&self.keys.last(&claim.name), revision.to_string().into_bytes(), memory),
            ],
            failure: Vec::new(),
        };
        let Put { answer, alive, .. } = self.put_under(mine, &taken, txn, limit).await?;
        if !answer.succeeded || !alive {
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

    /// What is left to do once the key of a claim is deleted. Whether the lock was its own.
    async fn leave_behind(
        &self,
        claim: &Claim,
        mine: &mut Mine,
        deleted: i64,
        once: bool,
        limit: Instant,
    ) -> Result<bool, Failure> {
        self.watches.forget(&claim.owner);
        for id in std::mem::take(&mut mine.doubtful) {
            mine.lease = mine.lease.filter(|lease| lease.id != id);
            self.client.revoke(id, limit).await?;
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

    /// Sends what puts something under a lease, and keeps that lease alive in the same step.
    async fn put_under(
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

    async fn keep_alive(&self, lease: Option<Lease>, limit: Instant) -> Result<bool, Failure> {
        match lease {
            Some(lease) => self.client.keep_alive(lease.id, limit).await,
            None => Ok(false),
        }
    }

    /// The key is gone, or as good as that: the next request makes another.
    fn start_anew<T>(&self, mine: &mut Mine) -> Option<T> {
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
        let client = self.client.clone();
        // If that fails, it ends by itself.
        tokio::spawn(async move { client.revoke(lease.id, Instant::now() + REVOKE_WITHIN).await });
    }

    fn held(&self, first: Option<&KeyValue>) -> Answer {
        let holder = first.map(|kv| holder(kv, self.clock.wall()));
        let last = holder.as_ref().and_then(|holder| holder.token);
        Answer::Held { holder, last }
    }
}

/// How long an end of a lease is tried that nobody waits for.
const REVOKE_WITHIN: Duration = Duration::from_secs(5);

/// What a waiter's look brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    /// The lock is its own.
    Yes,
    /// Something is still in the way.
    No,
    /// Its key is gone.
    Gone,
}

/// What keeps a claim out, of what stands before it: a reader is not kept out by a writer that became a reader.
fn blocker(mine: &Mine, before: Option<KeyValue>) -> Option<KeyValue> {
    before.filter(|before| !(mine.shared && is_shared(before)))
}

/// An earlier request has run after all: its key is there. Its lease may be of either kind, so it gets another.
fn find_own<T>(mine: &mut Mine, own: &KeyValue) -> Option<T> {
    mine.revision = own.create_revision;
    (mine.lease, mine.full) = (Some(Lease { id: own.lease, seconds: 0 }), false);
    None
}

fn granted(revision: i64) -> Result<Answer, Failure> {
    let token = token(revision).ok_or_else(|| {
        let what = format!("the revision {revision} is no token");
        Failure::new(StoreErrorKind::Unexpected, what, "tokens end at 2^53")
    })?;
    Ok(Answer::Granted { token })
}

fn kept(asked: Option<Asked>) -> Answer {
    asked.map_or(Answer::Kept, |asked| Answer::KeptAndAsked(asked.request()))
}

fn lost(answer: &mut TxnResponse) -> Answer {
    Answer::Lost(if answer.found(0).is_empty() { Loss::TakenOver } else { Loss::Revoked })
}

fn restless() -> Failure {
    let what = format!("the keys of this lock changed {ROUNDS_MAX} times in one step");
    Failure::new(StoreErrorKind::TooSlow, what, "it is tried again")
}
