//! Fencing tokens: the growing number that every hold carries.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::Invalid;
use crate::fence::Stale;

/// Milliseconds from 1970-01-01 to 2025-01-01, where tokens start counting.
const EPOCH_MS: u64 = 1_735_689_600_000;
/// Tokens per millisecond.
const PER_MS: u64 = 1024;

/// Grows with every grant of its lock, on every back end.
///
/// A token is `(milliseconds since 2025-01-01) × 1024 + counter`. It stays below 2^53 for 277 years, so it is exact in
/// JSON, Lua and `BIGINT`. On etcd it is a revision of the cluster, on ZooKeeper a transaction of the ensemble, which rise
/// too and are other numbers. As text ([`Display`](fmt::Display), [`FromStr`]) it is plain digits.
///
/// Show it to the resource that the lock protects, and let the resource reject an older one: that check, and nothing
/// else, stops a holder that was paused for longer than its lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The largest token that every wire format carries exactly.
    pub const MAX: FencingToken = FencingToken((1 << 53) - 1);

    /// The token with this number, if it is one: 1 to 2^53 − 1.
    pub fn from_number(number: u64) -> Option<Self> {
        (1..=Self::MAX.0).contains(&number).then_some(Self(number))
    }

    /// The number, for a `BIGINT` column.
    pub fn as_i64(self) -> i64 {
        i64::try_from(self.0).expect("BUG: a token is below 2^53")
    }

    /// The number.
    pub fn as_u64(self) -> u64 {
        self.0
    }

    /// The verdict on what a resource answered: `Stale` if it has seen a newer token; an equal one is accepted.
    pub fn check(self, seen: i64) -> Result<(), Stale> {
        match u64::try_from(seen).ok().and_then(Self::from_number) {
            Some(seen) if seen > self => Err(Stale { token: self, seen }),
            _ => Ok(()),
        }
    }

    /// The token that a wall clock stands for. Before 2025 it is the first token.
    pub fn at(wall: SystemTime) -> Self {
        let since_1970 = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = since_1970.saturating_sub(Duration::from_millis(EPOCH_MS));
        let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let part = u64::from(since.subsec_nanos() % 1_000_000) * PER_MS / 1_000_000;
        Self(ms.saturating_mul(PER_MS).saturating_add(part).clamp(1, Self::MAX.0))
    }

    /// This token, moved on by a span of time.
    pub fn plus(self, span: Duration) -> Self {
        let steps = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).saturating_mul(PER_MS);
        Self(self.0.saturating_add(steps).min(Self::MAX.0))
    }

    /// The next token.
    pub fn next(self) -> Self {
        self.offset(1)
    }

    /// So many tokens further on.
    pub fn offset(self, steps: u64) -> Self {
        Self(self.0.saturating_add(steps).min(Self::MAX.0))
    }

    /// How far this token lies ahead of another, as a span of time.
    pub fn ahead_of(self, other: Self) -> Duration {
        let steps = self.0.saturating_sub(other.0);
        Duration::from_millis(steps / PER_MS) + Duration::from_nanos(steps % PER_MS * 1_000_000 / PER_MS)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencingToken({})", self.0)
    }
}

impl FromStr for FencingToken {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten().and_then(Self::from_number).ok_or_else(|| {
            Invalid::new(
                "token",
                text,
                "pass the digits of a fencing token, 1 to 9007199254740991, as the lock gave it",
            )
        })
    }
}

/// The token of a reader.
///
/// No fence takes it for a write: it is another type here, and as text it has an `r` before the digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedToken(FencingToken);

impl SharedToken {
    pub(crate) fn new(token: FencingToken) -> Self {
        Self(token)
    }
}

impl fmt::Display for SharedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl fmt::Debug for SharedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedToken({})", self.0)
    }
}

impl FromStr for SharedToken {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let digits = text.strip_prefix('r').and_then(|digits| digits.parse().ok());
        digits.map(Self).ok_or_else(|| Invalid::new("token", text, "a reader's token is an `r` and digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_today_is_exact_in_a_double() {
        let token = FencingToken::at(SystemTime::now());
        assert_eq!((token.as_u64() as f64) as u64, token.as_u64());
        assert!(FencingToken::at(UNIX_EPOCH + Duration::from_millis(EPOCH_MS)).as_u64() == 1);
    }

    #[test]
    fn the_format_lasts_277_years() {
        let year = Duration::from_secs(31_556_952);
        let start = UNIX_EPOCH + Duration::from_millis(EPOCH_MS);
        assert!(FencingToken::at(start + year * 277) < FencingToken::MAX);
        assert_eq!(FencingToken::at(start + year * 300), FencingToken::MAX);
    }

    #[test]
    fn text_is_digits_and_nothing_else() {
        let token = FencingToken::from_number(42).expect("a token");
        assert_eq!(token.to_string(), "42");
        assert_eq!("42".parse::<FencingToken>().expect("digits"), token);
        for bad in ["", "0", "+42", "-1", " 42", "4_2", "r42", "9007199254740992", "99999999999999999999"] {
            assert!(bad.parse::<FencingToken>().is_err(), "{bad:?} was taken for a token");
        }
    }

    #[test]
    fn a_readers_token_is_never_read_as_a_writers() {
        let token = SharedToken::new(FencingToken::from_number(7).expect("a token"));
        assert!(token.to_string().parse::<FencingToken>().is_err());
        assert_eq!(token.to_string().parse::<SharedToken>().expect("a reader's"), token);
    }

    #[test]
    fn check_accepts_equal_and_rejects_older() {
        let token = FencingToken::from_number(10).expect("a token");
        assert!(token.check(9).is_ok() && token.check(10).is_ok() && token.check(0).is_ok());
        assert_eq!(token.check(11).expect_err("stale").seen.as_u64(), 11);
    }
}
