//! Claims and leases: what all kinds of them say is said once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Exclusive or shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    #[default]
    Exclusive,
    Shared,
}

/// In line, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Queue {
    #[default]
    Fifo,
    /// May overtake those who wait, and be overtaken.
    None,
}

/// Settings that claims of all kinds have.
#[derive(Default)]
pub(crate) struct Terms<'a> {
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) label: Option<&'a str>,
    pub(crate) queue: Queue,
    pub(crate) lock_delay_ms: Option<u64>,
    pub(crate) max_hold_ms: Option<u64>,
    pub(crate) actor: Option<&'a str>,
    pub(crate) fail_on_deadlock: bool,
}

/// A claim of some kind: what all of them say, and its own. (A struct inside a struct would let unknown fields pass.)
macro_rules! claim {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            /// How long the lease lasts without renewal. Default 30000.
            pub(crate) ttl_ms: Option<u64>,
            /// How long to wait in line. Default: not at all.
            pub(crate) wait_ms: Option<u64>,
            /// Who asks, for people to read; never a secret. Default: the caller's name.
            pub(crate) label: Option<String>,
            /// Default: first come, first served.
            #[serde(default)]
            pub(crate) queue: Queue,
            /// A lock that was not released rests for so long after its lease.
            pub(crate) lock_delay_ms: Option<u64>,
            /// Once it is held for so long, it is not renewed any more. Default: as often as is asked.
            #[schema(minimum = 1)]
            pub(crate) max_hold_ms: Option<u64>,
            /// On whose behalf, 16 hexadecimal digits: shows deadlocks.
            #[schema(pattern = "^[0-9a-f]{16}$")]
            pub(crate) actor: Option<String>,
            /// A wait that closes a circle of waiting actors ends with 409.
            #[serde(default)]
            pub(crate) fail_on_deadlock: bool,
            $($own)*
        }

        impl $name {
            pub(crate) fn terms(&self) -> Terms<'_> {
                Terms {
                    ttl_ms: self.ttl_ms,
                    wait_ms: self.wait_ms,
                    label: self.label.as_deref(),
                    queue: self.queue,
                    lock_delay_ms: self.lock_delay_ms,
                    max_hold_ms: self.max_hold_ms,
                    actor: self.actor.as_deref(),
                    fail_on_deadlock: self.fail_on_deadlock,
                }
            }
        }
    };
}

claim! {
    /// What is wanted.
    Claim {
        /// Default: exclusive.
        #[serde(default)]
        pub(crate) mode: Mode,
        /// A secret of the client's own, 20 random bytes as 40 hexadecimal digits: a repeat is then the same claim.
        #[schema(pattern = "^[0-9a-f]{40}$")]
        pub(crate) owner: Option<String>,
        /// The place in line that this claim was told before (`waiting`), when it comes back after its replica has gone.
        #[schema(pattern = "^[0-9]+$")]
        pub(crate) ticket: Option<String>,
    }
}

claim! {
    /// A candidacy.
    Campaign {
        /// As for a lock.
        #[schema(pattern = "^[0-9a-f]{40}$")]
        pub(crate) owner: Option<String>,
        /// As for a lock.
        #[schema(pattern = "^[0-9]+$")]
        pub(crate) ticket: Option<String>,
        /// What others shall know of the leader, such as its address.
        #[serde(default)]
        pub(crate) payload: String,
    }
}

claim! {
    /// A claim on some permits of a semaphore.
    PermitsClaim {
        /// How many there are.
        #[schema(minimum = 1, maximum = 256)]
        pub(crate) permits: u32,
        /// How many are wanted. Default 1.
        #[schema(minimum = 1, maximum = 256)]
        pub(crate) take: Option<u32>,
    }
}

claim! {
    /// Whether to do the work of a key.
    KeyStart {
        /// The SHA-256 of what the request says, as 64 hexadecimal digits: the same key with another is an error.
        #[schema(pattern = "^[0-9a-f]{64}$")]
        pub(crate) payload_hash: String,
        /// How long the outcome is remembered. Default 86400000, a day.
        #[schema(minimum = 1)]
        pub(crate) keep_ms: Option<u64>,
        /// As for a lock.
        #[schema(pattern = "^[0-9a-f]{40}$")]
        pub(crate) owner: Option<String>,
    }
}

claim! {
    /// A claim on several names, all or nothing.
    BatchClaim {
        /// 1 to 256 names, each once.
        pub(crate) names: Vec<String>,
        /// As for a lock.
        #[schema(pattern = "^[0-9a-f]{40}$")]
        pub(crate) owner: Option<String>,
    }
}

/// What leases of several locks have in common.
pub(crate) struct Several<'a> {
    pub(crate) owner: &'a str,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) lock_delay_ms: Option<u64>,
    pub(crate) max_hold_ms: Option<u64>,
}

/// A lease of some kind, sent back whole to renew or release it: what all of them say, and its own.
macro_rules! lease {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            /// The secret of the hold.
            #[schema(pattern = "^[0-9a-f]{40}$")]
            pub(crate) owner: String,
            /// How long it lasts, counted from when the request was sent. Left out of a renewal: 30000.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(crate) ttl_ms: Option<u64>,
            /// Its lock delay.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub(crate) lock_delay_ms: Option<u64>,
            /// How long it is renewed at most, as its claim said.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1)]
            pub(crate) max_hold_ms: Option<u64>,
            $($own)*
        }
    };
}

lease! {
    /// What was granted. Sent back whole to renew or release it.
    Lease {
        /// The lock. Sent back, it is not read: the path says it.
        #[serde(default)]
        pub(crate) name: String,
        /// The fencing token; a reader's starts with `r`. Left out, the service asks the store for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(pattern = "^r?[0-9]+$")]
        pub(crate) token: Option<String>,
        /// Exclusive or shared; an exclusive lease that is renewed as `shared` is a reader's from then on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) mode: Option<Mode>,
        /// Of a release. `false`: no renewal was sent that may still arrive, so the store need not refuse this token
        /// from now on. Default: it does, and the last token rises by one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) renewed: Option<bool>,
        /// Of a job: its window, by name or by when it began. Sent back, it is not read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) window: Option<String>,
    }
}

lease! {
    /// Permits that were granted. Sent back whole to renew or release them.
    PermitsLease {
        /// Each permit with its token.
        pub(crate) permits: Vec<Permit>,
    }
}

lease! {
    /// Several names that were granted. Sent back whole to renew or release them.
    BatchLease {
        /// The token of each name.
        pub(crate) tokens: BTreeMap<String, String>,
    }
}

/// One permit.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, try_from = "serde_json::Map<String, serde_json::Value>")]
pub(crate) struct Permit {
    pub(crate) slot: u32,
    #[schema(pattern = "^[0-9]+$")]
    pub(crate) token: String,
}

/// By way of an object, so that an array is not taken for one.
impl TryFrom<serde_json::Map<String, serde_json::Value>> for Permit {
    type Error = &'static str;

    fn try_from(mut fields: serde_json::Map<String, serde_json::Value>) -> Result<Self, Self::Error> {
        let slot = fields.remove("slot").as_ref().and_then(serde_json::Value::as_u64);
        let slot = slot.and_then(|slot| u32::try_from(slot).ok()).ok_or("a permit has a `slot`, a number")?;
        let Some(serde_json::Value::String(token)) = fields.remove("token") else {
            return Err("a permit has a `token`, digits as text");
        };
        if fields.is_empty() { Ok(Self { slot, token }) } else { Err("a permit has `slot` and `token` only") }
    }
}

/// Leases of several locks under one owner.
macro_rules! several {
    ($($name:ident),+) => {$(
        impl $name {
            pub(crate) fn common(&self) -> Several<'_> {
                let Self { ttl_ms, lock_delay_ms, max_hold_ms, .. } = *self;
                Several { owner: &self.owner, ttl_ms, lock_delay_ms, max_hold_ms }
            }
        }
    )+};
}

several!(PermitsLease, BatchLease);

impl Lease {
    /// As little as is needed to know it again.
    pub(crate) fn of(owner: String, token: String) -> Self {
        Self {
            owner,
            token: Some(token),
            ttl_ms: None,
            lock_delay_ms: None,
            max_hold_ms: None,
            name: String::new(),
            mode: None,
            renewed: None,
            window: None,
        }
    }
}
