//! What the locks protect: a number that everybody increments, behind a check of the token.

use std::sync::{Arc, Mutex, PoisonError};

use fencepost_core::FencingToken;
use fencepost_core::store::Moment;
use fencepost_testkit::history::{History, Write};

use crate::flaw::Flaw;

/// One resource per lock.
#[derive(Debug, Default)]
pub(crate) struct Resource {
    newest: Option<FencingToken>,
    version: u64,
    /// Writes with a token older than one that was there before.
    pub(crate) late: u64,
    pub(crate) accepted_late: u64,
    pub(crate) accepted: u64,
}

/// What a holder wants of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    pub(crate) lock: String,
    pub(crate) token: FencingToken,
    /// The version that was read; `None`: read it.
    pub(crate) write_after: Option<u64>,
    pub(crate) result: Slot,
}

/// Where the result arrives: the version, or that the token is stale.
pub(crate) type Slot = Arc<Mutex<Option<Result<u64, ()>>>>;

impl Resource {
    pub(crate) fn run(
        &mut self,
        errand: &Errand,
        flaw: Option<Flaw>,
        restarts: bool,
        at: Moment,
        history: &mut History,
    ) {
        if restarts && flaw == Some(Flaw::ForgetfulFence) {
            self.newest = None;
        }
        let stale = self.newest.is_some_and(|newest| newest > errand.token);
        let checked =
            !matches!((flaw, errand.write_after), (Some(Flaw::NoFence), _) | (Some(Flaw::ReadsWithoutToken), None));
        let accepted = !(stale && checked);
        if checked || flaw == Some(Flaw::NoFence) {
            self.newest = self.newest.max(Some(errand.token));
        }
        let met = self.version;
        if let Some(read) = errand.write_after {
            self.late += u64::from(stale);
            self.accepted_late += u64::from(stale && accepted);
            self.accepted += u64::from(accepted);
            let lock = history.lock(&errand.lock);
            history.writes.push(Write { at, lock, token: errand.token, accepted, read, met });
            self.version += u64::from(accepted);
        }
        *errand.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(accepted.then_some(met).ok_or(()));
    }
}
