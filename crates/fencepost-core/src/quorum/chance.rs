//! Chance: owners that nobody can guess, and delays that spread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::name::Owner;

/// Where chance comes from.
pub(crate) enum Chance {
    /// The operating system, for everything that must not be guessed.
    System { spread: AtomicU64 },
    /// A seed, in tests that must run the same way again.
    #[cfg(feature = "test-util")]
    Seed(AtomicU64),
}

impl Chance {
    pub(crate) fn system() -> Result<Self, getrandom::Error> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed)?;
        Ok(Self::System { spread: AtomicU64::new(u64::from_le_bytes(seed)) })
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn seed(seed: u64) -> Self {
        Self::Seed(AtomicU64::new(seed))
    }

    pub(super) fn owner(&self) -> Result<Owner, getrandom::Error> {
        match self {
            Self::System { .. } => Owner::random(),
            #[cfg(feature = "test-util")]
            Self::Seed(state) => {
                let mut bytes = [0; 20];
                bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&roll(state).to_le_bytes()[..part.len()]));
                Ok(Owner::from_bytes(bytes))
            }
        }
    }

    pub(super) fn below(&self, limit: Duration) -> Duration {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.number(nanos))
    }

    /// A number below the limit; 0 if that is 0.
    pub(super) fn number(&self, limit: u64) -> u64 {
        let state = match self {
            Self::System { spread } => spread,
            #[cfg(feature = "test-util")]
            Self::Seed(state) => state,
        };
        roll(state) % limit.max(1)
    }
}

/// SplitMix64: spread is all that a delay needs.
fn roll(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut number = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
