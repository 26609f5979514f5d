//! How fast: so many at once, and so many per second after that.

use std::time::{Duration, Instant};

/// A bucket of permissions that fills up again with time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    left: f64,
    filled: Instant,
}

/// How fast a bucket fills, and how much it holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    /// Per second, after the first ones.
    pub per_second: f64,
    /// So many at once.
    pub burst: f64,
}

impl Bucket {
    /// A full one.
    pub(crate) fn full(rate: Rate, now: Instant) -> Self {
        Self { left: rate.burst, filled: now }
    }

    /// Takes one, or says in how long there is one.
    pub(crate) fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let gained = now.saturating_duration_since(self.filled).as_secs_f64() * rate.per_second;
        self.left = (self.left + gained).min(rate.burst);
        self.filled = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        Err(Duration::try_from_secs_f64((1.0 - self.left) / rate.per_second).unwrap_or(Duration::MAX))
    }

    /// Whether it is as good as a new one.
    pub(crate) fn is_full(&self, rate: Rate, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.filled).as_secs_f64() * rate.per_second;
        self.left + gained >= rate.burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_a_steady_flow_and_a_wait_that_is_told() {
        let (rate, start) = (Rate { per_second: 10.0, burst: 3.0 }, Instant::now());
        let mut bucket = Bucket::full(rate, start);
        assert!((0..3).all(|_| bucket.take(rate, start).is_ok()));
        let wait = bucket.take(rate, start).expect_err("empty");
        assert!((Duration::from_millis(99)..=Duration::from_millis(101)).contains(&wait), "{wait:?}");
        assert!(bucket.take(rate, start + Duration::from_millis(101)).is_ok());
        assert!(bucket.take(rate, start + Duration::from_millis(102)).is_err());
        let later = start + Duration::from_secs(3600);
        assert!(bucket.is_full(rate, later) && !bucket.is_full(rate, start));
        assert!((0..3).all(|_| bucket.take(rate, later).is_ok()) && bucket.take(rate, later).is_err());
        assert_eq!(bucket.take(Rate { per_second: 0.0, burst: 0.0 }, later), Err(Duration::MAX));
    }
}
