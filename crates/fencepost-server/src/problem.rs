//! Errors as RFC 9457 says them: the one place that maps what the library says to a status and a stable code.

use std::convert::Infallible;

use axum::response::{IntoResponse, Response};
use fencepost_core::fence::FenceError;
use fencepost_core::{
    AcquireError, Holder, Invalid, LossReason, NodeVote, OnceError, RenewError, RunError, StoreError, StoreErrorKind,
    Vote,
};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::access::Caller;
use crate::auth::Verb;
use crate::wire;

/// What went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    retry_after_s: Option<u64>,
    more: Map<String, Value>,
    notice: Option<Box<Notice>>,
}

const HOLD_LIMIT: &str = "hold_limit";

/// What a refusal is about, for those who keep count: it travels with the answer, not in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// Refused for who they are.
    Denied { why: &'static str, lock: Option<String> },
    /// Refused by this limit.
    Limited(&'static str),
}

/// The body of every answer that is not a success, as `application/problem+json`.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct ProblemBody {
    /// `about:blank`: the code says what it is.
    r#type: String,
    title: String,
    status: u16,
    /// Stable, for programs: `invalid`, `held`, `not_held`, `stale`, `deadlock`, `denied`, `limit`, `unreachable`, …
    code: String,
    /// For people.
    detail: String,
    /// Of `invalid`: which field.
    field: Option<String>,
    /// Of `invalid`: the refused value, shortened.
    value: Option<String>,
    /// Of `invalid`: what to do instead.
    cure: Option<String>,
    /// Of `held`: who has it.
    holder: Option<wire::Holder>,
    /// Of `held`: how long the request waited.
    waited_ms: Option<u64>,
    /// Of `not_held`, to the owner: `revoked` if an operator threw it out, `hold_limit` if it was held for as long as it
    /// may be.
    reason: Option<String>,
    /// Of `stale`: the newest token.
    seen: Option<String>,
    /// Of `deadlock`: the locks of the circle.
    cycle: Option<Vec<wire::State>>,
    /// Of trouble with the store: it may have happened all the same.
    outcome_unknown: Option<bool>,
    /// Of trouble with the store: what each node said.
    votes: Option<Vec<wire::NodeVote>>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), retry_after_s: None, more: Map::new(), notice: None }
    }

    fn with(mut self, field: &str, value: impl Serialize) -> Self {
        self.more.insert(field.to_owned(), json!(value));
        self
    }

    fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    fn noticed(mut self, notice: Notice) -> Self {
        self.notice = Some(Box::new(notice));
        self
    }

    /// The answer is the same for every name.
    pub(crate) fn denied(verb: Verb, name: &str) -> Self {
        let detail = format!("your credential does not have the right {verb} here");
        let lock = Some(name.to_owned()).filter(|name| !name.is_empty());
        Self::new(StatusCode::FORBIDDEN, "denied", detail).noticed(Notice::Denied { why: verb.as_str(), lock })
    }

    pub(crate) fn not_welcome(detail: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "denied", detail).noticed(Notice::Denied { why: "origin", lock: None })
    }

    pub(crate) fn unauthorized() -> Self {
        let detail = "say who you are: `authorization: Bearer KEY`, or a certificate";
        let notice = Notice::Denied { why: "credential", lock: None };
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail).noticed(notice)
    }

    pub(crate) fn slow_body(limit: std::time::Duration) -> Self {
        let detail = format!("the body was not there within {limit:?}");
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow_body", detail).noticed(Notice::Limited("body_time"))
    }

    /// Refused by a limit, with the seconds after which to come again.
    pub(crate) fn limited(limit: &'static str, detail: impl Into<String>, after: std::time::Duration) -> Self {
        let seconds = after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0)).clamp(1, 3600);
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "limit", detail).retry_after(seconds);
        problem.noticed(Notice::Limited(limit))
    }

    pub(crate) fn bad_path() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", "the path is no UTF-8: percent-encode the name")
    }

    pub(crate) fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_route", "there is no such route; /openapi.json lists them")
    }

    pub(crate) fn wrong_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this route has another method; /openapi.json lists them")
    }

    pub(crate) fn media_type() -> Self {
        let cure = "send the body as `content-type: application/json`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", cure)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let detail = format!("the body has more than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail).noticed(Notice::Limited("body"))
    }

    pub(crate) fn shutting_down() -> Self {
        let detail = "this replica is shutting down; ask another one";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", detail)
            .retry_after(1)
            .with("outcome_unknown", false)
    }

    pub(crate) fn superseded() -> Self {
        let detail = "the same owner has asked again; that request goes on";
        Self::new(StatusCode::CONFLICT, "superseded", detail)
    }

    /// Absent, lost and not yours are one answer. Only who has the secret can hear that it was revoked.
    pub(crate) fn not_held(reason: Option<LossReason>) -> Self {
        let detail = "this owner does not hold it: it was released, lost, or never yours";
        let problem = Self::new(StatusCode::CONFLICT, "not_held", detail);
        match reason {
            Some(LossReason::Revoked) => problem.with("reason", "revoked"),
            Some(LossReason::HoldLimit) => problem.with("reason", HOLD_LIMIT),
            _ => problem,
        }
    }

    /// Somebody else than was meant, or nobody.
    pub(crate) fn another_holds() -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "not_held",
            "the holder with this token does not hold the lock any more: look again",
        )
    }

    pub(crate) fn held(waited: std::time::Duration, holder: Option<&Holder>) -> Self {
        let detail = holder.map_or("held by another".to_owned(), |holder| format!("held by {holder}"));
        let problem = Self::new(StatusCode::LOCKED, "held", detail).with("waited_ms", wire::ms(waited));
        match holder {
            Some(holder) => problem.with("holder", wire::Holder::from(holder)),
            None => problem,
        }
    }

    /// Whether this says that its caller holds nothing.
    pub(crate) fn is_not_held(&self) -> bool {
        self.code == "not_held"
    }

    /// Whether this says that it was held for as long as it may be.
    pub(crate) fn is_hold_limit(&self) -> bool {
        self.more.get("reason").is_some_and(|reason| reason == HOLD_LIMIT)
    }

    /// Of a window.
    pub(crate) fn done() -> Self {
        Self::new(StatusCode::CONFLICT, "done", "this window has run, or rests")
    }

    /// Whether nobody knows what the store did.
    pub(crate) fn is_trouble(&self) -> bool {
        self.status.is_server_error()
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// As JSON, for a stream that has begun.
    pub(crate) fn json(&self) -> Value {
        let mut body = self.more.clone();
        body.insert("type".into(), "about:blank".into());
        body.insert("title".into(), self.status.canonical_reason().unwrap_or("error").into());
        body.insert("status".into(), self.status.as_u16().into());
        body.insert("code".into(), self.code.into());
        body.insert("detail".into(), self.detail.clone().into());
        Value::Object(body)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.json().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(notice) = self.notice {
            response.extensions_mut().insert(*notice);
        }
        response
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", invalid.to_string())
            .with("field", invalid.field)
            .with("value", invalid.value)
            .with("cure", invalid.cure)
    }
}

impl Problem {
    fn deadlock(detail: String) -> Self {
        Self::new(StatusCode::CONFLICT, "deadlock", detail)
    }

    /// Why this caller has not got it. Of a circle it is shown what it may see.
    pub(crate) fn not_acquired(error: AcquireError, caller: &Caller) -> Self {
        let AcquireError::Deadlock { cycle, .. } = &error else { return error.into() };
        let seen: Vec<wire::State> =
            cycle.iter().filter(|state| caller.may_see(&state.name)).map(wire::State::from).collect();
        match seen.len() == cycle.len() {
            true => Self::deadlock(error.to_string()).with("cycle", seen),
            false => Self::from(error).with("cycle", seen),
        }
    }
}

impl From<AcquireError> for Problem {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::Busy { waited, holder, .. } => Self::held(waited, holder.as_deref()),
            // Who may see which of its locks is not known here.
            AcquireError::Deadlock { .. } => Self::deadlock("this wait would never end: it closes a circle".to_owned()),
            AcquireError::ShuttingDown => Self::shutting_down(),
            AcquireError::Invalid(invalid) => invalid.into(),
            AcquireError::Store(error) => error.into(),
            other => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "unexpected", other.to_string()),
        }
    }
}

impl From<RenewError> for Problem {
    fn from(error: RenewError) -> Self {
        match error {
            RenewError::Lost(lost) => Self::not_held(Some(lost.reason)),
            RenewError::Unknown(error) => error.into(),
            other => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "unexpected", other.to_string()),
        }
    }
}

impl From<RunError<Infallible>> for Problem {
    fn from(error: RunError<Infallible>) -> Self {
        match error {
            RunError::Acquire(error) => error.into(),
            RunError::Lost(lost) => Self::not_held(Some(lost.reason)),
            RunError::Work(never) => match never {},
            RunError::Unrecorded(error) => Self::from(&*error),
            other => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "unexpected", other.to_string()),
        }
    }
}

impl From<OnceError<Infallible>> for Problem {
    fn from(error: OnceError<Infallible>) -> Self {
        match error {
            OnceError::Run(error) => error.into(),
            other => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "other_payload", other.to_string()),
        }
    }
}

impl From<FenceError> for Problem {
    fn from(error: FenceError) -> Self {
        Self::from(&error)
    }
}

impl From<&FenceError> for Problem {
    fn from(error: &FenceError) -> Self {
        match error {
            FenceError::Stale(stale) => Self::new(StatusCode::PRECONDITION_FAILED, "stale", stale.to_string())
                .with("seen", stale.seen.to_string()),
            FenceError::Store(error) => error.clone().into(),
            other => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "unexpected", other.to_string()),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let (status, code) = match error.kind {
            StoreErrorKind::Unreachable => (StatusCode::SERVICE_UNAVAILABLE, "unreachable"),
            StoreErrorKind::TooSlow => (StatusCode::SERVICE_UNAVAILABLE, "too_slow"),
            StoreErrorKind::Quarantined { .. } => (StatusCode::SERVICE_UNAVAILABLE, "quarantined"),
            StoreErrorKind::ClockOff { .. } => (StatusCode::SERVICE_UNAVAILABLE, "clock_off"),
            StoreErrorKind::Denied => (StatusCode::BAD_GATEWAY, "store_denied"),
            StoreErrorKind::OtherKind => (StatusCode::CONFLICT, "other_kind"),
            StoreErrorKind::Misconfigured => (StatusCode::INTERNAL_SERVER_ERROR, "misconfigured"),
            StoreErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
            _ => (StatusCode::BAD_GATEWAY, "unexpected"),
        };
        let votes: Vec<wire::NodeVote> = error.votes.iter().map(wire::NodeVote::from).collect();
        let problem = Self::new(status, code, error.to_string())
            .with("outcome_unknown", error.outcome_unknown())
            .with("votes", votes);
        match error.kind {
            StoreErrorKind::Quarantined { left } => problem.retry_after(left.as_secs() + 1),
            _ if status == StatusCode::SERVICE_UNAVAILABLE => problem.retry_after(1),
            _ => problem,
        }
    }
}

impl From<&NodeVote> for wire::NodeVote {
    fn from(vote: &NodeVote) -> Self {
        let said = match &vote.vote {
            Vote::Failed(kind) => kind.to_string(),
            other => other.to_string(),
        };
        Self { node: vote.node.clone(), latency_ms: wire::ms(vote.latency), vote: said }
    }
}
