//! Fencepost on SQLite.

use fencepost_core::store::StoreErrorKind;
use fencepost_core::{Connect, Invalid};

/// Connects.
pub fn connect(_path: &str) -> Connect {
    let _ = StoreErrorKind::Unsupported;
    Connect::invalid(Invalid::new("store", "sqlite:", "not built yet"))
}
