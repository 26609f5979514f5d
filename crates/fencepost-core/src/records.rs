//! Records beside locks: read by anybody, written by whoever has the newest token.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Invalid, StoreError, StoreErrorKind};
use crate::fence::FenceError;
use crate::handle::Handle;
use crate::locks::checked;
use crate::store::{Answer, Deed};
use crate::token::FencingToken;

pub use crate::store::Record;

/// The largest value, in bytes: what every store takes.
const VALUE_BYTES_MAX: usize = 512 * 1024;
/// The longest time for which a record is kept.
const KEEP_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// What is remembered beside locks, by their names. A recipe that has to know what was done keeps it here.
///
/// A record is written under the fencing token of its lock. The store refuses a token that is older than the newest it
/// has seen, in the same step: whoever slept through its lease changes nothing. It has seen a token once somebody
/// [sealed](Self::seal) the record or [put](Self::put) something there under it; so **seal first, then decide, then put**.
///
/// Only where one store decides and keeps data: SQLite, a database, etcd, ZooKeeper, memory, one Redis, Sentinel, Cluster.
/// A Redis that loses its memory, or fails over to a replica that did not have the last write, loses records with it.
#[derive(Clone)]
pub struct Records {
    quorum: Handle,
}

impl Records {
    pub(crate) fn new(quorum: Handle) -> Self {
        Self { quorum }
    }

    /// What is there. `None`: nothing, or it was forgotten.
    pub async fn read(&self, name: &str) -> Result<Option<Record>, StoreError> {
        match self.quorum.record(checked(name, "read_record")?, Deed::Read).await? {
            Answer::Record(record) => Ok(record),
            other => Err(odd("read_record", &other)),
        }
    }

    /// What is there; from now on nobody writes whose token is older. [`Stale`](crate::fence::Stale): it is ours that is.
    pub async fn seal(&self, name: &str, token: FencingToken) -> Result<Option<Record>, FenceError> {
        match self.quorum.record(checked(name, "write_record")?, Deed::Seal { token }).await? {
            Answer::Record(record) => Ok(record),
            other => Err(refused(token, &other)),
        }
    }

    /// Puts this there, and forgets it after so long; a `keep` of zero forgets what is there at once. Repeated with the
    /// same token it takes the place of what was put before.
    pub async fn put(
        &self,
        name: &str,
        token: FencingToken,
        value: impl Into<Arc<[u8]>>,
        keep: Duration,
    ) -> Result<(), FenceError> {
        let (name, value) = (checked(name, "write_record")?, value.into());
        if value.len() > VALUE_BYTES_MAX {
            let cure =
                format!("a record has at most {VALUE_BYTES_MAX} bytes: keep the rest elsewhere, and its place here");
            return Err(invalid(&Invalid::new("value", format!("{} bytes", value.len()), cure)).into());
        }
        if keep > KEEP_MAX {
            let cure = "a record is kept for ten years at most";
            return Err(invalid(&Invalid::new("keep", format!("{keep:?}"), cure)).into());
        }
        match self.quorum.record(name, Deed::Put { token, value, keep }).await? {
            Answer::Stored => Ok(()),
            other => Err(refused(token, &other)),
        }
    }
}

fn refused(token: FencingToken, answer: &Answer) -> FenceError {
    match answer {
        Answer::Outdated { seen } => match token.check(seen.as_i64()) {
            Err(stale) => stale.into(),
            Ok(()) => odd("write_record", answer).into(),
        },
        other => odd("write_record", other).into(),
    }
}

fn invalid(invalid: &Invalid) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, "write_record", invalid.to_string())
}

fn odd(operation: &'static str, answer: &Answer) -> StoreError {
    StoreError::new(StoreErrorKind::Unexpected, operation, format!("an odd answer: {answer:?}"))
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<String> = self.quorum.nodes.iter().map(|node| node.label()).collect();
        f.debug_struct("Records").field("nodes", &nodes).finish()
    }
}
