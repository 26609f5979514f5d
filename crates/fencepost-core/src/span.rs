//! Time spans as people write them.

use std::fmt::Write as _;
use std::time::Duration;

const UNITS: [(u128, &str); 7] = [
    (86_400_000_000_000, "d"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "m"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
];

/// `999d`, `1h30m`, `250ms`: exact, and read again by whatever reads time spans.
pub(crate) fn spoken(span: Duration) -> String {
    let (mut left, mut text) = (span.as_nanos(), String::new());
    for (unit, name) in UNITS {
        let number = left / unit;
        left %= unit;
        if number > 0 {
            // Writing into a string cannot fail.
            let _ = write!(text, "{number}{name}");
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_exact_and_in_the_units_that_people_use() {
        let cases = [(0, "0s"), (250, "250ms"), (30_000, "30s"), (90_000, "1m30s"), (5_400_000, "1h30m")];
        for (ms, text) in cases.into_iter().chain([(86_313_600_000, "999d"), (86_400_001, "1d1ms")]) {
            assert_eq!(spoken(Duration::from_millis(ms)), text);
        }
        assert_eq!(spoken(Duration::from_nanos(1_500)), "1us500ns");
    }
}
