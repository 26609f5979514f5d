//! What can be seen of locks, and what is said to their holders.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_core::store::{Answer, FencingToken, Holder, LockName, LockState, YieldRequest};
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::{Failure, Sense};
use crate::keys::{Asked, Card, Keys, holder, is_shared, token, waiter};
use crate::proto::{Compare, Comparison, KeyValue, Order, RangeRequest, RequestOp, TxnRequest};

/// So many holders are asked for the time they have left; nobody reads more.
const TIMED_MAX: usize = 16;
/// So many requests of a listing are under way at once.
const AT_ONCE: usize = 16;
/// What changes under our hands is read again, at most so often.
const ROUNDS_MAX: u32 = 16;
/// etcd takes 128 operations in one transaction.
const TOGETHER_MAX: usize = 32;

/// The keys of one lock.
struct Sight {
    holders: Vec<KeyValue>,
    waiters: Vec<KeyValue>,
    last: Option<FencingToken>,
}

impl Engine {
    /// All claims in order: the first holds, and so do the readers behind it if it is one.
    async fn see(&self, name: &LockName, limit: Instant) -> Result<Sight, Failure> {
        let all = self.keys.all(name).by_age(Order::Ascending, 0, 0);
        let reads = vec![RequestOp::range(all), RequestOp::get(&self.keys.last(name))];
        let txn = TxnRequest { success: reads, ..TxnRequest::default() };
        let mut answer = self.client.txn(txn, limit).await?.answer;
        let mut holders = answer.found(0);
        let readers = holders.iter().take_while(|kv| is_shared(kv)).count();
        let waiters = holders.split_off(readers.max(1).min(holders.len()));
        let newest = holders.last().and_then(|kv| token(kv.create_revision));
        let last = newest.max(answer.found(1).pop().and_then(|kv| remembered(&kv)));
        Ok(Sight { holders, waiters, last })
    }

    pub(crate) async fn state(&self, name: &LockName, limit: Instant) -> Result<LockState, Failure> {
        let Sight { holders, waiters, last } = self.see(name, limit).await?;
        let wall = self.clock.wall();
        let mut state = LockState::free(name.as_str());
        state.last_token = last;
        state.waiters = waiters.iter().map(|kv| waiter(kv, wall)).collect();
        let timed = stream::iter(holders.into_iter().enumerate());
        let timed = timed.map(|(number, kv)| self.timed(kv, number < TIMED_MAX, limit));
        let timed: Vec<Result<Holder, Failure>> = timed.buffered(AT_ONCE).collect().await;
        state.holders = timed.into_iter().collect::<Result<_, _>>()?;
        Ok(state)
    }

    /// A holder, with the time it has left.
    async fn timed(&self, kv: KeyValue, ask: bool, limit: Instant) -> Result<Holder, Failure> {
        let mut shown = holder(&kv, self.clock.wall());
        if ask && kv.lease != 0 {
            let left = self.client.time_left(kv.lease, limit).await?;
            shown.expires_in = u64::try_from(left).ok().map(Duration::from_secs);
        }
        Ok(shown)
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
        let mut names: BTreeMap<LockName, u32> = BTreeMap::new();
        let spans = self.keys.listing(start);
        for (number, span) in spans.into_iter().enumerate() {
            let range = RangeRequest { key: span.from, range_end: span.to, keys_only: true, ..RangeRequest::default() };
            let found = self.client.range(range, limit).await?.kvs;
            for name in found.iter().filter_map(|kv| self.keys.name_of(&kv.key)) {
                *names.entry(name).or_default() += u32::from(number == 0);
            }
        }
        // Whoever is alone does not wait.
        let wanted = names.into_iter().filter(|(_, claims)| !contended || *claims > 1).map(|(name, _)| name);
        let wanted = wanted.filter(|name| after.is_none_or(|after| name > after));
        let mut looks = stream::iter(wanted).map(|name| self.listed(name, limit)).buffered(AT_ONCE);
        let mut states = Vec::new();
        while states.len() < most as usize
            && let Some(state) = looks.next().await
        {
            // Readers that hold together do not wait either.
            states.extend(state.map(|state| (!contended || !state.waiters.is_empty()).then_some(state))?);
        }
        Ok(states)
    }

    /// Throws out whoever holds it.
    pub(crate) async fn evict(&self, name: &LockName, limit: Instant) -> Result<Answer, Failure> {
        let holding = self.see(name, limit).await?.holders;
        // Those who held it when we came, and nobody else, whatever an answer that was lost has done already.
        for some in holding.chunks(TOGETHER_MAX) {
            let mut left = some.to_vec();
            for _ in 0..ROUNDS_MAX {
                match self.throw_out(name, &left, limit).await {
                    Ok(true) => break,
                    Ok(false) => {
                        let now = self.see(name, limit).await?.holders;
                        left.retain(|kv| now.iter().any(|other| other.create_revision == kv.create_revision));
                    }
                    Err(failure) if failure.sense == Sense::LeaseGone => self.leases.doubt_memory().await,
                    Err(failure) => return Err(failure),
                }
            }
        }
        let wall = self.clock.wall();
        Ok(Answer::Evicted(holding.iter().map(|kv| holder(kv, wall)).collect()))
    }

    /// All of these, if all of them are there.
    async fn throw_out(&self, name: &LockName, holders: &[KeyValue], limit: Instant) -> Result<bool, Failure> {
        let memory = self.leases.memory(&self.client, limit).await?;
        let compare = holders.iter().map(|kv| Compare::create(&kv.key, Comparison::Equal, kv.create_revision));
        let mut success: Vec<RequestOp> = holders.iter().map(|kv| RequestOp::delete(&kv.key)).collect();
        let ours = holders.iter().filter_map(|kv| Keys::owner_of(&kv.key));
        success.extend(ours.map(|owner| RequestOp::put(&self.keys.revoked(name, &owner), Vec::new(), memory)));
        let txn = TxnRequest { compare: compare.collect(), success, failure: Vec::new() };
        Ok(self.client.txn(txn, limit).await?.answer.succeeded)
    }

    /// Leaves a word with whoever holds it; another program's lock has nobody who would read it.
    pub(crate) async fn ask(&self, name: &LockName, request: &YieldRequest, limit: Instant) -> Result<Answer, Failure> {
        let holders = self.see(name, limit).await?.holders;
        let mut asked = Vec::new();
        for mut kv in holders {
            for _ in 0..ROUNDS_MAX {
                let Some(card) = Card::read(&kv.value) else { break };
                let card = Card { asked: Some(Asked::of(request)), ..card };
                let txn = TxnRequest {
                    compare: vec![Compare::modified(&kv.key, kv.mod_revision)],
                    success: vec![RequestOp::put_on_same_lease(&kv.key, card.write())],
                    failure: vec![RequestOp::get(&kv.key)],
                };
                let mut answer = self.client.txn(txn, limit).await?.answer;
                if answer.succeeded {
                    asked.push(holder(&kv, self.clock.wall()));
                    break;
                }
                match answer.found(0).pop().filter(|now| now.create_revision == kv.create_revision) {
                    Some(now) => kv = now,
                    None => break,
                }
            }
        }
        Ok(Answer::Asked(asked))
    }
}

/// The last token: that of the revision in which it was written, unless it says another.
fn remembered(kv: &KeyValue) -> Option<FencingToken> {
    match kv.value.as_slice() {
        [] => token(kv.mod_revision),
        text => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}
