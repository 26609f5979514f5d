//! Waiting for something to be so.

use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Servers that agree with each other may take longer.
const LIMIT: Duration = Duration::from_secs(120);

/// Between two looks. Whoever looks all the time leaves no time to what it looks for.
pub fn a_moment() {
    std::thread::sleep(Duration::from_millis(1));
}

/// Asks again and again until it is so.
///
/// # Panics
/// If it is not within two minutes.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        a_moment();
    }
}
