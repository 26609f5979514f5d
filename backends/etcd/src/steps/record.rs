//! The record beside a lock: one key, read and written back unless it changed meanwhile.

use fencepost_core::store::table::Kept;
use fencepost_core::store::{Answer, Deed, FencingToken, LockName};
use tokio::time::Instant;

use super::{ROUNDS_MAX, restless};
use crate::engine::Engine;
use crate::error::Failure;
use crate::leases::{Lease, Leases};
use crate::proto::{Compare, Comparison, Order, RangeRequest, RequestOp, SortBy, TxnRequest};

impl Engine {
    /// Reads or writes a record. The cluster tells no time: what is over is decided by our own clock, and what is
    /// forgotten ends with a lease of its own.
    pub(crate) async fn record(&self, name: &LockName, deed: &Deed, limit: Instant) -> Result<Answer, Failure> {
        let key = self.keys.record(name);
        for _ in 0..ROUNDS_MAX {
            let clock = FencingToken::at(self.clock.wall());
            let found = self.client.range(only(&key), limit).await?.kvs.pop();
            let (answer, written) =
                Kept::decide(found.as_ref().and_then(|kv| Kept::from_bytes(&kv.value)), deed, clock);
            let Some(kept) = written else { return Ok(answer) };
            let lease = Leases::fresh(&self.client, kept.until.ahead_of(clock), limit).await?;
            let unchanged = match &found {
                Some(kv) => Compare::modified(&key, kv.mod_revision),
                None => Compare::create(&key, Comparison::Equal, 0),
            };
            let put = RequestOp::put(&key, kept.to_bytes(), lease.id);
            let txn = TxnRequest { compare: vec![unchanged], success: vec![put], failure: Vec::new() };
            let done = self.client.txn(txn, limit).await?.answer.succeeded;
            // Whichever has no key now; 0 is none.
            let idle = if done { found.map_or(0, |kv| kv.lease) } else { lease.id };
            if idle != 0 && !(done && idle == lease.id) {
                self.retire(Lease { id: idle, ..lease }, false);
            }
            if done {
                return Ok(answer);
            }
        }
        Err(restless())
    }
}

fn only(key: &[u8]) -> RangeRequest {
    RangeRequest {
        key: key.to_vec(),
        range_end: Vec::new(),
        limit: 1,
        sort_order: Order::None as i32,
        sort_target: SortBy::Create as i32,
        keys_only: false,
        max_create_revision: 0,
    }
}
