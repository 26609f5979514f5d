//! How much one principal, and one lock, may ask of a replica.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fencepost_core::store::LockName;

use crate::bucket::{Bucket, Rate};

/// Principals that are remembered before those are forgotten that did not ask for a while.
const BUCKETS_MAX: usize = 10_000;

/// Counts who asks and who waits.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    buckets: Mutex<HashMap<Arc<str>, Bucket>>,
    lines: Arc<Mutex<HashMap<LockName, usize>>>,
}

impl Admission {
    /// One acquisition more, or in how long there may be one.
    pub(crate) fn take(&self, principal: &Arc<str>, rate: Rate, now: Instant) -> Result<(), Duration> {
        let mut buckets = open(&self.buckets);
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(principal) {
            buckets.retain(|_, bucket| !bucket.is_full(rate, now));
        }
        buckets.entry(principal.clone()).or_insert_with(|| Bucket::full(rate, now)).take(rate, now)
    }

    /// A place among those who wait for this lock here, until it is dropped; `None`: there are too many.
    pub(crate) fn line_up(&self, name: &LockName, limit: usize) -> Option<Place> {
        let mut lines = open(&self.lines);
        let waiting = lines.get(name).copied().unwrap_or_default();
        if waiting >= limit {
            return None;
        }
        lines.insert(name.clone(), waiting + 1);
        Some(Place { lines: self.lines.clone(), name: name.clone() })
    }
}

/// A place in line.
#[derive(Debug)]
pub(crate) struct Place {
    lines: Arc<Mutex<HashMap<LockName, usize>>>,
    name: LockName,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = open(&self.lines);
        if let Some(waiting) = lines.get_mut(&self.name) {
            *waiting -= 1;
            if *waiting == 0 {
                lines.remove(&self.name);
            }
        }
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_principal_has_its_own_rate_and_each_lock_its_own_line() {
        let (admission, now) = (Admission::default(), Instant::now());
        let rate = Rate { per_second: 1.0, burst: 2.0 };
        let (one, other) = ("one".into(), "other".into());
        assert!(admission.take(&one, rate, now).is_ok() && admission.take(&one, rate, now).is_ok());
        assert!(admission.take(&one, rate, now).is_err() && admission.take(&other, rate, now).is_ok());
        let (x, y) = (LockName::new("x").expect("a name"), LockName::new("y").expect("a name"));
        let places = [admission.line_up(&x, 2), admission.line_up(&x, 2)];
        assert!(places.iter().all(Option::is_some));
        assert!(admission.line_up(&x, 2).is_none() && admission.line_up(&y, 2).is_some());
        drop(places);
        assert!(admission.line_up(&x, 1).is_some());
        assert!(open(&admission.lines).is_empty(), "nothing is kept of who is gone");
    }

    #[test]
    fn strangers_do_not_fill_the_memory() {
        let (admission, now) = (Admission::default(), Instant::now());
        let rate = Rate { per_second: 1000.0, burst: 1000.0 };
        for number in 0..3 * BUCKETS_MAX as u64 {
            let later = now + Duration::from_millis(number);
            assert!(admission.take(&number.to_string().into(), rate, later).is_ok());
        }
        assert!(open(&admission.buckets).len() <= BUCKETS_MAX + 1);
    }
}
