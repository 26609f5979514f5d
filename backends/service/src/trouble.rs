//! What a service says when it does not do what was asked, as the engine knows it.

use std::time::Duration;

use fencepost_core::store::{StoreErrorKind, Trouble};
use http::StatusCode;

use crate::wire::Problem;

/// By the stable code of the problem.
pub(crate) fn of(status: StatusCode, problem: &Problem) -> Trouble {
    let kind = match problem.code.as_str() {
        "unreachable" | "shutting_down" | "limit" | "superseded" => StoreErrorKind::Unreachable,
        "too_slow" => StoreErrorKind::TooSlow,
        "quarantined" => StoreErrorKind::Quarantined { left: Duration::from_secs(1) },
        "clock_off" => StoreErrorKind::ClockOff { ahead: Duration::ZERO },
        "denied" | "unauthorized" | "store_denied" => StoreErrorKind::Denied,
        "other_kind" => StoreErrorKind::OtherKind,
        "invalid" | "misconfigured" | "too_large" => StoreErrorKind::Misconfigured,
        "unsupported" | "no_route" | "method" => StoreErrorKind::Unsupported,
        _ => StoreErrorKind::Unexpected,
    };
    Trouble::new(kind, format!("the service answered {status}: {}", problem.detail))
}

pub(crate) fn unreachable(what: impl std::fmt::Display) -> Trouble {
    Trouble::new(StoreErrorKind::Unreachable, what.to_string())
}

pub(crate) fn too_slow() -> Trouble {
    Trouble::new(StoreErrorKind::TooSlow, "the service did not answer in time")
}

pub(crate) fn odd(what: impl std::fmt::Display) -> Trouble {
    let message = format!("{what}; is it a fencepost service, of a version that this client knows?");
    Trouble::new(StoreErrorKind::Unexpected, message)
}
