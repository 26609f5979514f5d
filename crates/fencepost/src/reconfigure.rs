//! Changing the servers of a `redlock://` cluster: the library behind `fencepost reconfigure`.

use fencepost_core::{Invalid, StoreError, StoreErrorKind};
pub use fencepost_redis::{MemberState, Orders, Progress, Reconfiguration};

use crate::connect::unknown;

/// Goes one step further from the servers of one `redlock://` URL to those of another, while their clients go on.
///
/// Nothing is kept but on the servers: call it again, from anywhere, and it goes on where it stopped, until it answers
/// [`Progress::Done`]. With the URLs changed over it goes back. See `docs/reconfigure.md`.
///
/// Takes a moment, and blocks.
///
/// # Errors
/// If the URLs do not fit together, or too many servers cannot be reached. What was done stays.
pub fn reconfigure(from: &str, to: &str, orders: &Orders) -> Result<Reconfiguration, StoreError> {
    let parts = |field: &'static str, url| {
        let scheme = |(scheme, _): &(&str, &str)| fencepost_redis::SCHEMES.contains(scheme);
        let parts = str::split_once(url, ':').filter(scheme);
        parts.ok_or_else(|| {
            let Invalid { value, .. } = unknown(url);
            let invalid = Invalid::new(field, value, "only servers that vote are replaced set by set: redlock://A,B,C");
            StoreError::new(StoreErrorKind::Misconfigured, "reconfigure", invalid.to_string())
        })
    };
    fencepost_redis::reconfigure(parts("from", from)?, parts("to", to)?, orders)
}
