//! Who has how much, as far as this replica granted it: for limits and for times, never for who holds a lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_core::store::{LockName, Owner};

/// Between two looks for leases that are over, for a principal at its limit.
const SWEEPS_APART: Duration = Duration::from_secs(1);
/// Below that many nobody looks for leases that are over.
const SWEEP_MIN: usize = 1024;

#[derive(Debug)]
struct Held {
    principal: Arc<str>,
    since: Instant,
    renewed: Instant,
    ttl: Duration,
    token: Box<str>,
}

impl Held {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.renewed) >= self.ttl
    }
}

/// Leases that were granted here and are not known to be over. Memory follows what is held: whatever has ended is swept
/// out when the table has doubled.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    held: HashMap<(LockName, Owner), Held>,
    counts: HashMap<Arc<str>, usize>,
    sweep_at: usize,
    swept: Option<Instant>,
}

impl Holdings {
    /// How many leases this principal has.
    pub(crate) fn count(&mut self, principal: &str, limit: usize, now: Instant) -> usize {
        let counted = self.counts.get(principal).copied().unwrap_or_default();
        // Whoever is at its limit asks again and again, and must not make all others wait.
        if counted < limit || self.swept.is_some_and(|swept| now.saturating_duration_since(swept) < SWEEPS_APART) {
            return counted;
        }
        self.sweep(now);
        self.counts.get(principal).copied().unwrap_or_default()
    }

    /// `token`: as it is written.
    pub(crate) fn granted(
        &mut self,
        principal: &str,
        (name, owner): (LockName, Owner),
        token: &str,
        ttl: Duration,
        now: Instant,
    ) {
        if self.held.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.sweep(now);
            self.sweep_at = 2 * self.held.len();
        }
        let known = self.counts.get_key_value(principal).map(|(name, _)| name.clone());
        let principal = known.unwrap_or_else(|| principal.into());
        let held = Held { principal: principal.clone(), since: now, renewed: now, ttl, token: token.into() };
        if let Some(before) = self.held.insert((name, owner), held) {
            self.uncount(&before.principal);
        }
        *self.counts.entry(principal).or_default() += 1;
    }

    /// How long after the last grant or renewal this one came, and whether its token is written as before; `None`: that was
    /// elsewhere.
    pub(crate) fn renewed(
        &mut self,
        claim: &(LockName, Owner),
        token: &str,
        ttl: Duration,
        now: Instant,
    ) -> Option<(Duration, bool)> {
        let held = self.held.get_mut(claim)?;
        let (since, same) = (now.saturating_duration_since(held.renewed), &*held.token == token);
        (held.renewed, held.ttl) = (now, ttl);
        if !same {
            held.token = token.into();
        }
        Some((since, same))
    }

    /// How long it was held, and its token; `None`: it was granted elsewhere.
    pub(crate) fn ended(&mut self, name: &LockName, owner: Owner, now: Instant) -> Option<(Duration, Box<str>)> {
        let held = self.held.remove(&(name.clone(), owner))?;
        self.uncount(&held.principal);
        Some((now.saturating_duration_since(held.since), held.token))
    }

    fn uncount(&mut self, principal: &Arc<str>) {
        if let Some(count) = self.counts.get_mut(principal) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(principal);
            }
        }
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = Some(now);
        self.held.retain(|_, held| !held.is_over(now));
        self.counts.clear();
        for held in self.held.values() {
            *self.counts.entry(held.principal.clone()).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> LockName {
        LockName::new(format!("lock {number}")).expect("a name")
    }

    #[test]
    fn what_is_held_counts_until_it_is_released_or_over() {
        let (mut holdings, start) = (Holdings::default(), Instant::now());
        let owner = Owner::random().expect("random");
        let (second, third) = (Duration::from_secs(1), start + Duration::from_secs(3));
        holdings.granted("a", (name(1), owner), "1", second, start);
        holdings.granted("a", (name(1), owner), "1", second, start);
        holdings.granted("a", (name(2), owner), "2", 9 * second, start);
        holdings.granted("b", (name(3), owner), "3", 9 * second, start);
        assert_eq!(
            (holdings.count("a", 2, start), holdings.count("b", 2, start), holdings.count("c", 0, start)),
            (2, 1, 0)
        );
        assert_eq!(holdings.count("a", 2, third), 1, "one is over");
        assert_eq!(holdings.renewed(&(name(1), owner), "1", second, third), None);
        assert_eq!(holdings.renewed(&(name(2), owner), "2", second, third), Some((3 * second, true)));
        assert_eq!(holdings.renewed(&(name(2), owner), "r2", second, third), Some((Duration::ZERO, false)));
        assert_eq!(holdings.ended(&name(2), owner, third + second), Some((4 * second, "r2".into())));
        assert_eq!(holdings.ended(&name(2), owner, third), None);
        assert_eq!((holdings.count("a", 0, third), holdings.count("b", 0, third)), (0, 1));
    }

    #[test]
    fn memory_follows_what_is_held_and_not_what_was() {
        let (mut holdings, start) = (Holdings::default(), Instant::now());
        let owner = Owner::random().expect("random");
        for number in 0..100_000u32 {
            let now = start + Duration::from_millis(number.into());
            holdings.granted("a", (name(number as usize), owner), "1", Duration::from_millis(500), now);
            assert!(holdings.held.len() <= 2 * SWEEP_MIN);
        }
    }
}
