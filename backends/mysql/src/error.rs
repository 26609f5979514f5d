//! What went wrong, in one line that says the cure.

use fencepost_core::store::StoreErrorKind;
use fencepost_sql::Failure;
use mysql_async::Error;

/// What the server or the driver said. No message has a password in it: the driver repeats none.
pub(crate) fn failure(error: &Error) -> Failure {
    match error {
        Error::Server(said) => {
            let (kind, cure) = sense(said.code);
            let failure = Failure::new(kind, format!("{} ({})", said.message, said.code), cure);
            if said.code == 1213 { failure.undone() } else { failure }
        }
        Error::Io(_) => {
            Failure::new(StoreErrorKind::Unreachable, error, "check the address, and that the server is up")
        }
        Error::Driver(_) => Failure::new(StoreErrorKind::Unreachable, error, "the connection is opened anew"),
        _ => Failure::new(StoreErrorKind::Unexpected, error, "check that a MySQL or MariaDB server is at this address"),
    }
}

fn sense(code: u16) -> (StoreErrorKind, &'static str) {
    match code {
        1213 => (StoreErrorKind::TooSlow, "a deadlock with another transaction: try again"),
        1205 | 3024 | 1969 => {
            (StoreErrorKind::TooSlow, "find who keeps the row locked: another program, or a client that was stopped")
        }
        1146 | 1054 => (
            StoreErrorKind::Misconfigured,
            "create the tables with `fencepost init`, or name them with `schema` and `tables` in the URL",
        ),
        1049 | 1046 => (StoreErrorKind::Misconfigured, "name a database that exists"),
        1044 | 1045 | 1142 | 1143 | 1227 | 1698 => {
            (StoreErrorKind::Denied, "check user and password, and that the user may read and write the tables")
        }
        1040 | 1203 | 1226 => {
            (StoreErrorKind::Unreachable, "lower `pool` in the URL, or let the server have more connections")
        }
        1290 | 1792 | 1836 => (StoreErrorKind::Unreachable, "this server is read only: name the primary"),
        1021 | 1114 => (StoreErrorKind::Unreachable, "free some disk space: until then no lock is granted or renewed"),
        1053 | 1077 | 1080 | 1152 | 1153..=1161 | 1317 | 1927 | 4031 => {
            (StoreErrorKind::Unreachable, "the server ended the connection: check that it is up")
        }
        _ => (StoreErrorKind::Unexpected, "see the log of the server"),
    }
}
