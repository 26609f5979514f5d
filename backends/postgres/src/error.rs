//! What went wrong, in one line that says the cure.

use fencepost_core::store::StoreErrorKind;
use fencepost_sql::Failure;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// What the server or the driver said. No message has a password in it: the driver repeats none.
pub(crate) fn failure(error: &Error) -> Failure {
    let Some(code) = error.code() else {
        let (kind, cure) = match error.is_closed() {
            true => (StoreErrorKind::Unreachable, "check that the server is up"),
            false if is_io(error) => (StoreErrorKind::Unreachable, "check the address, and that the server is up"),
            false => (StoreErrorKind::Unexpected, "check that a PostgreSQL server is at this address"),
        };
        return Failure::new(kind, with_source(error), cure);
    };
    let said = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
    let (kind, cure) = sense(code);
    let failure = Failure::new(kind, format!("{said} ({})", code.code()), cure);
    match *code {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => failure.undone(),
        _ => failure,
    }
}

fn sense(code: &SqlState) -> (StoreErrorKind, &'static str) {
    match *code {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => {
            (StoreErrorKind::TooSlow, "another transaction was in the way: try again")
        }
        SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => {
            (StoreErrorKind::TooSlow, "find who keeps the row locked: another program, or a client that was stopped")
        }
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME | SqlState::UNDEFINED_COLUMN => (
            StoreErrorKind::Misconfigured,
            "create the tables with `fencepost init`, or name them with `schema` and `tables` in the URL",
        ),
        SqlState::INVALID_CATALOG_NAME => (StoreErrorKind::Misconfigured, "name a database that exists"),
        SqlState::INSUFFICIENT_PRIVILEGE => {
            (StoreErrorKind::Denied, "let this user read and write the tables of Fencepost")
        }
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            (StoreErrorKind::Denied, "check user and password; a server that wants TLS needs sslmode=require")
        }
        SqlState::TOO_MANY_CONNECTIONS => {
            (StoreErrorKind::Unreachable, "lower `pool` in the URL, or let the server have more connections")
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => (
            StoreErrorKind::Unreachable,
            "this server is a standby: name the primary, or all and target_session_attrs=read-write",
        ),
        SqlState::DISK_FULL => {
            (StoreErrorKind::Unreachable, "free some disk space: until then no lock is granted or renewed")
        }
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => {
            (StoreErrorKind::Unreachable, "this process was stopped in the middle of a step, which was undone")
        }
        _ if ["08", "57"].contains(&&code.code()[..2]) => {
            (StoreErrorKind::Unreachable, "the server ended the connection: check that it is up")
        }
        _ => (StoreErrorKind::Unexpected, "see the log of the server"),
    }
}

fn is_io(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

fn with_source(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) if !error.to_string().contains(&source.to_string()) => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}
