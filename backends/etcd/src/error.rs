//! What went wrong, in one line that says the cure.

use fencepost_core::store::{StoreError, StoreErrorKind, Trouble};
use tonic::{Code, Status};

/// Why something did not work.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: StoreErrorKind,
    message: String,
    pub(crate) sense: Sense,
}

/// What to do about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sense {
    /// It may have run or not; another try may help.
    Passing,
    /// It has not run, because there is no such lease.
    LeaseGone,
    /// It has not run, because there is such a lease.
    LeaseThere,
    /// It has not run: we have to say again who we are.
    Introduce,
    /// It has not run, and never will.
    Refused,
}

impl Failure {
    pub(crate) fn new(kind: StoreErrorKind, what: impl std::fmt::Display, cure: &str) -> Self {
        let what = what.to_string().replace('\n', " ");
        let sense = if kind.outcome_unknown() { Sense::Passing } else { Sense::Refused };
        Self { kind, message: format!("{what}; {cure}"), sense }
    }

    /// No answer came in time.
    pub(crate) fn too_slow(whom: &str) -> Self {
        let cure = "check that a majority of the cluster is up, or give it more time with answer_within";
        Self::new(StoreErrorKind::TooSlow, format!("{whom} did not answer in time"), cure)
    }

    /// What a server or the connection to it said.
    pub(crate) fn of(status: &Status, whom: &str) -> Self {
        let said = status.message();
        let (kind, cure, sense) = sense(status.code(), said);
        let source = std::error::Error::source(status).map(|source| format!(": {source}")).unwrap_or_default();
        Self { sense, ..Self::new(kind, format!("{whom}: {said}{source}"), cure) }
    }

    pub(crate) fn trouble(self) -> Trouble {
        Trouble::new(self.kind, self.message)
    }

    /// As an operation of the user's reports it.
    pub(crate) fn into_store_error(self, operation: &'static str) -> StoreError {
        StoreError::new(self.kind, operation, self.message)
    }
}

fn sense(code: Code, said: &str) -> (StoreErrorKind, &'static str, Sense) {
    let refused = |kind, cure| (kind, cure, Sense::Refused);
    match code {
        Code::NotFound if said.contains("lease") => {
            (StoreErrorKind::Unexpected, "another lease is tried", Sense::LeaseGone)
        }
        Code::FailedPrecondition if said.contains("lease already exists") => {
            (StoreErrorKind::Unexpected, "it was granted before", Sense::LeaseThere)
        }
        Code::Unauthenticated => (StoreErrorKind::Denied, "check user and password in the URL", Sense::Introduce),
        Code::InvalidArgument if said.contains("auth: revision") || said.contains("user name is empty") => (
            StoreErrorKind::Denied,
            "this cluster requires a user: write USER:PASSWORD@ before the servers",
            Sense::Introduce,
        ),
        Code::InvalidArgument if said.contains("authentication failed") => {
            refused(StoreErrorKind::Denied, "check user and password in the URL")
        }
        Code::FailedPrecondition if said.contains("authentication is not enabled") => {
            refused(StoreErrorKind::Misconfigured, "leave user and password out of the URL")
        }
        Code::PermissionDenied => {
            refused(StoreErrorKind::Denied, "let this user read and write all keys below the prefix")
        }
        Code::ResourceExhausted if said.contains("space") => {
            (StoreErrorKind::Unreachable, "compact and defragment the cluster, and clear its alarm", Sense::Passing)
        }
        Code::InvalidArgument | Code::Unimplemented | Code::OutOfRange | Code::FailedPrecondition => {
            refused(StoreErrorKind::Unsupported, "use etcd 3.4 or newer")
        }
        _ => {
            (StoreErrorKind::Unreachable, "check the address, and that a majority of the cluster is up", Sense::Passing)
        }
    }
}
