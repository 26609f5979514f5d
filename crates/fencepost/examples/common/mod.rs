//! What all examples begin with.

use std::time::{SystemTime, UNIX_EPOCH};

/// `with` or `without` the lock, and where locks live.
pub(crate) fn arguments() -> (bool, String) {
    let mut arguments = std::env::args().skip(1);
    let with = match arguments.next().as_deref() {
        Some("with") => true,
        Some("without") => false,
        _ => {
            eprintln!("say `with` or `without`, and the URL of a store unless it shall be the embedded one");
            std::process::exit(2);
        }
    };
    (with, arguments.next().unwrap_or_else(|| "sqlite:".to_owned()))
}

/// A name that no earlier run has used.
pub(crate) fn fresh(name: &str) -> String {
    format!("{name}-{}", SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())
}
