//! What went wrong, in one line that says the cure.

use fencepost_core::store::{StoreError, StoreErrorKind, Trouble};

use crate::wire::code;

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
    /// It may have run or not, or may still run.
    Passing,
    /// It has not run, and never will: its session is over, and everything that ends with it is gone, or about to be.
    Expired,
    /// It has not run: there is no such node.
    NoNode,
    /// It has not run: the node has changed.
    BadVersion,
    /// It has not run: there is such a node.
    NodeExists,
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
    pub(crate) fn too_slow() -> Self {
        let cure = "check that a majority of the servers is up, or give them more time with answer_within";
        Self::new(StoreErrorKind::TooSlow, "ZooKeeper did not answer in time", cure)
    }

    /// No connection, or one that broke.
    pub(crate) fn unreachable(what: impl std::fmt::Display) -> Self {
        let cure = "check the address, and that a majority of the servers is up";
        Self::new(StoreErrorKind::Unreachable, what, cure)
    }

    /// The session is over.
    pub(crate) fn expired() -> Self {
        let failure = Self::new(StoreErrorKind::Unreachable, "our session has expired", "a new one is opened");
        Self { sense: Sense::Expired, ..failure }
    }

    /// What no server says.
    pub(crate) fn nonsense(what: &str) -> Self {
        Self::new(StoreErrorKind::Unexpected, what, "check that this is a ZooKeeper server, 3.5 or newer")
    }

    /// What a server refuses with.
    pub(crate) fn refused(number: i32, path: &str) -> Self {
        let (kind, what, cure, sense) = match number {
            code::NO_NODE => (StoreErrorKind::Unexpected, "there is no such node", "try again", Sense::NoNode),
            code::BAD_VERSION => (StoreErrorKind::Unexpected, "the node has changed", "try again", Sense::BadVersion),
            code::NODE_EXISTS | code::NOT_EMPTY => {
                (StoreErrorKind::Unexpected, "the node is there already", "try again", Sense::NodeExists)
            }
            code::SESSION_EXPIRED => return Self::expired(),
            code::NO_AUTH => {
                let cure = "let this user create, read, write and delete there, or check user and password";
                (StoreErrorKind::Denied, "not permitted", cure, Sense::Refused)
            }
            code::AUTH_FAILED | code::INVALID_ACL => {
                let cure = "check user and password in the URL, and that the servers take digest authentication";
                (StoreErrorKind::Denied, "they do not know us", cure, Sense::Refused)
            }
            code::UNIMPLEMENTED => {
                (StoreErrorKind::Unsupported, "not known to this server", "use ZooKeeper 3.5 or newer", Sense::Refused)
            }
            code::BAD_ARGUMENTS => {
                (StoreErrorKind::Misconfigured, "no such path can be", "check the path in the URL", Sense::Refused)
            }
            code::QUOTA => (StoreErrorKind::Misconfigured, "the quota is used up", "raise it", Sense::Refused),
            _ => return Self::unreachable(format!("{path}: the server said {number}")),
        };
        Self { sense, ..Self::new(kind, format!("{path}: {what}"), cure) }
    }

    pub(crate) fn trouble(self) -> Trouble {
        Trouble::new(self.kind, self.message)
    }

    /// As an operation of the user's reports it.
    pub(crate) fn into_store_error(self, operation: &'static str) -> StoreError {
        StoreError::new(self.kind, operation, self.message)
    }
}
