//! What an operator says, and is told.

use std::time::Duration;

/// How far it is, and what each server says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reconfiguration {
    /// How far it is.
    pub progress: Progress,
    /// Every server of either set.
    pub servers: Vec<MemberState>,
    /// What is odd, but no reason to stop.
    pub warnings: Vec<String>,
}

/// One server.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemberState {
    /// `HOST:PORT`.
    pub server: String,
    /// It is one of those that are left.
    pub in_old: bool,
    /// It is one of those that are entered.
    pub in_new: bool,
    /// Whose clients it votes for: `old`, `both`, `new`.
    pub votes_for: Vec<&'static str>,
    /// Why it cannot be counted on.
    pub trouble: Option<String>,
}

/// How far it is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Progress {
    /// The servers accept clients of the old set, and clients of both. All clients are to use this URL now.
    Prepared {
        /// Old and new servers, without credentials.
        url: String,
    },
    /// There are clients of the old set alone. They are to use this URL first.
    OldClients {
        /// The addresses of their connections, as the server that has most of them sees them.
        clients: Vec<String>,
        /// Old and new servers, without credentials.
        url: String,
    },
    /// The old set is closed; leases that it granted may last so long.
    Closing {
        /// The rest.
        left: Duration,
    },
    /// The servers accept clients of both sets, and clients of the new one. All clients are to use this URL now.
    Opened {
        /// The new servers, without credentials.
        url: String,
    },
    /// There are clients of both sets. They are to use this URL first.
    BothClients {
        /// The addresses of their connections, as the server that has most of them sees them.
        clients: Vec<String>,
        /// The new servers, without credentials.
        url: String,
    },
    /// Only the new set votes. Servers that are not in it may be switched off.
    Done,
}

/// What an operator says.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// Do not care who still uses a set that is left. Whoever does is refused from then on, and loses its locks: that is
    /// safe, but work is interrupted.
    pub force: bool,
    /// These servers of the old set, `HOST:PORT`, are off for good: they need not be told that it is closed. One that comes
    /// back with its memory still votes in the old set.
    pub gone: Vec<String>,
}
