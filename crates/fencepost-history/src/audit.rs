//! The audit log of a service: one JSON line per act, each bound to the one before it.
//!
//! A line ends in `"hash"`, the SHA-256 of the hash before it and of its own text up to there: whoever changes, moves or
//! takes out a line has to write all later ones anew. What a chain cannot show is that its *last* lines are missing; who
//! wants to know keeps the head that [`check`] answers somewhere else.

mod chain;
mod judge;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use chain::{Broken, Chain, Head};
pub use judge::{Report, check, check_files};

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// A service began to write here.
    Opened,
    /// A lock was granted.
    Granted,
    /// A renewal got no answer from the store.
    RenewalFailed,
    /// A writer reads on, beside others.
    Downgraded,
    /// A holder was told that it holds no more.
    Lost,
    /// A holder gave a lock back.
    Released,
    /// Somebody took a lock from its holder.
    Forced,
    /// Somebody was refused.
    Denied,
}

/// One act. What does not apply is left out of the line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The place in the file, from 1.
    pub seq: u64,
    /// When, by the calendar (RFC 3339).
    pub at: String,
    /// The same on a clock that only goes forward, in nanoseconds since the machine booted.
    pub boot_ns: u64,
    /// What was done.
    pub act: Act,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// To which lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// Joins the acts of one acquisition: a digest of its owner, which is a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The fencing token; a reader's starts with `r`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// For how long it was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// When the request came in, on the clock of `boot_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_ns: Option<u64>,
    /// Why, or with which reason; of a refusal, what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How many acts could not be written since the line before, because the disk refused or there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u64,
    /// Which boot of the machine `boot_ns` counts from: in lines that open the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// What a later version writes besides.
    #[serde(flatten)]
    pub more: BTreeMap<String, serde_json::Value>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Entry {
    /// An act without particulars, yet to be dated.
    pub fn new(act: Act) -> Self {
        Self {
            seq: 0,
            at: String::new(),
            boot_ns: 0,
            act,
            principal: None,
            lock: None,
            claim: None,
            token: None,
            ttl_ms: None,
            asked_ns: None,
            why: None,
            missed: 0,
            boot: None,
            more: BTreeMap::new(),
        }
    }
}
