//! Durations as people write them.

use std::time::Duration;

/// Reads `30s`, `5m`, `1h30m`, `250ms`; a bare number is seconds (`5`, `0.5`). `Err` is the cure, in one line.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err("a duration cannot be negative".into());
    }
    let bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let span = match bare {
        true => text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        false => humantime::parse_duration(text).ok(),
    };
    span.ok_or_else(|| "not a duration; write 30s, 5m, 1h30m or 250ms; a bare number is seconds".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_bare_numbers_are_seconds() {
        for (text, ms) in [("30s", 30_000), ("1h30m", 5_400_000), ("250ms", 250), ("5", 5_000), ("0.5", 500), ("0", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_cure() {
        for text in ["", " ", "-1", "-5s", "soon", "5 parsecs", ".", "1.2.3", "inf", "NaN", "99999999999999999999"] {
            assert!(parse_duration(text).is_err(), "{text:?} was taken for a duration");
        }
    }
}
