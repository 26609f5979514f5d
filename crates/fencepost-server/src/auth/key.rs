//! API keys: what a client shows, and what the service keeps of it.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// How a key starts, so that scanners for leaked secrets know one when they see it.
const MARK: &str = "fpk_";
const BYTES: usize = 32;

/// A new API key: 32 bytes from the operating system's random source. `Debug` hides it.
pub struct ApiKey(String);

impl ApiKey {
    /// A key that nobody knows. `Err` if the operating system has no random bytes to give.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(format!("{MARK}{}", hex(&bytes))))
    }

    /// The key itself: a secret.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What the service keeps.
    pub fn digest(&self) -> KeyDigest {
        KeyDigest::of(self.0.as_bytes())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// The SHA-256 of a key. Keys are random, so there is nothing to guess and nothing to salt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    pub(crate) fn of(key: &[u8]) -> Self {
        Self(Sha256::digest(key).into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Takes as long for any two.
    pub(crate) fn equals(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest(..)")
    }
}

impl FromStr for KeyDigest {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        // Somebody may have put the key itself there: an error never repeats it.
        let refuse = || "sha256 has 64 hexadecimal digits; `fencepost key` makes a key and its entry".to_owned();
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(refuse());
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(pair).map_err(|_| refuse())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| refuse())?;
        }
        Ok(Self(bytes))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_random_hidden_and_known_by_its_digest() {
        let (one, other) = (ApiKey::random().expect("random"), ApiKey::random().expect("random"));
        assert!(one.expose().starts_with(MARK) && one.expose().len() == MARK.len() + 2 * BYTES);
        assert_eq!(format!("{one:?} {:?}", one.digest()), "ApiKey(..) KeyDigest(..)");
        let kept: KeyDigest = one.digest().to_string().parse().expect("its own text");
        assert!(bool::from(kept.equals(&one.digest())) && !bool::from(kept.equals(&other.digest())));
        // The digest that sha256sum(1) prints.
        let known = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        assert_eq!(KeyDigest::of(b"secret").to_string(), known);
    }

    #[test]
    fn a_digest_that_is_none_is_refused_without_repeating_it() {
        let key = ApiKey::random().expect("random");
        for bad in [key.expose(), "", "0", &"g".repeat(64), &"ä".repeat(32), &"+f".repeat(32)] {
            let refused = bad.parse::<KeyDigest>();
            assert!(refused.is_err_and(|why| bad.len() < 2 || !why.contains(bad)), "{bad}");
        }
    }
}
