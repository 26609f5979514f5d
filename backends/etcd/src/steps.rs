//! What each step of the contract is in etcd.
//!
//! A claim is a key, and the order of claims is that of their create revisions: whoever has no key before it that keeps
//! it out has the lock, by that alone, and its create revision is its token. So nobody hands over: a waiter watches the
//! one key that keeps it out, and looks again when that changes.
//!
//! Every request may run twice or late. Twice does no harm: the key of an owner is made once. What may still be late
//! when a claim ends is made harmless by ending the lease that it would put something under.

mod arrive;
mod keep;
mod leave;
mod record;

use fencepost_core::store::{Answer, Claim, Mode, StoreErrorKind};
use futures_util::future::join;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::keys::{Span, holder, is_shared, token};
use crate::leases::Lease;
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
        if let Some(own) = answer.found(2).pop().filter(|own| Some(own.lease) != lease.map(|lease| lease.id)) {
            // Another request of ours moved it.
            return Ok(self.find_own(mine, &own, lease.as_slice()));
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
                RequestOp::get(&mine.key),
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
                Ok(Some(self.held(first.as_ref(), mine.revision)))
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

    /// What a claim of this mode has to wait for.
    fn in_the_way(&self, claim: &Claim) -> Span {
        match claim.mode {
            Mode::Exclusive => self.keys.all(&claim.name),
            Mode::Shared => self.keys.writers(&claim.name),
        }
    }

    /// Not yet. Its place in line is known by the revision that made its key.
    fn held(&self, first: Option<&KeyValue>, revision: i64) -> Answer {
        let holder = first.map(|kv| holder(kv, self.clock.wall()));
        let last = holder.as_ref().and_then(|holder| holder.token);
        Answer::Held { holder, last, ticket: token(revision) }
    }
}

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

fn granted(revision: i64) -> Result<Answer, Failure> {
    let token = token(revision).ok_or_else(|| {
        let what = format!("the revision {revision} is no token");
        Failure::new(StoreErrorKind::Unexpected, what, "tokens end at 2^53")
    })?;
    Ok(Answer::Granted { token })
}

fn restless() -> Failure {
    let what = format!("the keys of this lock changed {ROUNDS_MAX} times in one step");
    Failure::new(StoreErrorKind::TooSlow, what, "try again")
}
