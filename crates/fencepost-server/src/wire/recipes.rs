//! Recipes: runs of jobs, and work that is done once for a key.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{Holder, Lease};

/// A run of a job that is asked for: once per span of time, or once for a name.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowStart {
    /// All within such a span are the same run, counted from 1970 in UTC. Either this or `window`.
    #[schema(minimum = 1)]
    pub(crate) every_ms: Option<u64>,
    /// All of this name are the same run. Either this or `every_ms`.
    #[schema(min_length = 1, max_length = 255)]
    pub(crate) window: Option<String>,
    /// Nobody starts it again before that, counted from its start.
    pub(crate) at_least_ms: Option<u64>,
    /// It is not renewed after that, and counts as failed.
    #[schema(minimum = 1)]
    pub(crate) at_most_ms: Option<u64>,
    /// How long the lease lasts without renewal: so long after the end of its runner another may run it. Default 30000.
    pub(crate) ttl_ms: Option<u64>,
    /// Who asks, for people to read; never a secret. Default: the caller's name.
    pub(crate) label: Option<String>,
    /// As for a lock.
    #[schema(pattern = "^[0-9a-f]{40}$")]
    pub(crate) owner: Option<String>,
}

/// A run is over: its lease, sent back, and what its error said if it failed.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowFinish {
    /// The secret of the hold.
    #[schema(pattern = "^[0-9a-f]{40}$")]
    pub(crate) owner: String,
    /// Under which it ran.
    #[schema(pattern = "^r?[0-9]+$")]
    pub(crate) token: String,
    /// It failed.
    pub(crate) error: Option<String>,
    /// Not read.
    #[serde(default, rename = "name")]
    pub(crate) _name: String,
    /// Not read.
    #[serde(rename = "ttl_ms")]
    pub(crate) _ttl_ms: Option<u64>,
    /// Not read.
    #[serde(rename = "max_hold_ms")]
    pub(crate) _max_hold_ms: Option<u64>,
    /// Not read.
    #[serde(rename = "window")]
    pub(crate) _window: Option<String>,
}

/// What is known of a job. Times are RFC 3339, by the clocks of its runners.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct WindowState {
    /// When the last run began that came to an end.
    pub(crate) last_run: Option<String>,
    /// Its window: when that began, or its name.
    pub(crate) last_window: Option<String>,
    /// What its error said, if it failed.
    pub(crate) failed: Option<String>,
    /// Who runs it now.
    pub(crate) running: Option<Holder>,
    /// When the next window begins; `null` for named ones.
    pub(crate) next: Option<String>,
}

/// What came of the question whether to work.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum Started {
    /// Do it, under this lease.
    Run { lease: Lease },
    /// It was done.
    Done { result: Value },
    /// It failed before, and that is told to all who ask.
    Failed { error: String },
}

/// Work is over: with a result, or with an error.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyFinish {
    /// The secret of the hold.
    #[schema(pattern = "^[0-9a-f]{40}$")]
    pub(crate) owner: String,
    /// Under which it was done.
    #[schema(pattern = "^r?[0-9]+$")]
    pub(crate) token: String,
    /// What all others get who ask, any JSON. Either this or `error`.
    #[serde(default, deserialize_with = "present")]
    #[schema(required = false)]
    pub(crate) result: Option<Value>,
    /// It failed, and the next caller tries again.
    pub(crate) error: Option<String>,
    /// With `error`: all others get it.
    #[serde(default)]
    pub(crate) keep_failure: bool,
}

/// `null` is a result, too.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}
