//! Names, labels and owners: what may be said to a store.

use std::fmt;
use std::sync::Arc;

use crate::error::Invalid;

/// The longest name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// The longest name of a semaphore: its permits have longer ones.
const SEMAPHORE_BYTES_MAX: usize = 240;
/// Between the name of a semaphore and its part.
const PERMIT: &str = "/permit#";
/// The part that is no permit.
const GATE: &str = "line";
/// The longest label, in bytes.
pub(crate) const LABEL_BYTES_MAX: usize = 255;

/// A valid name of a lock: 1 to 255 bytes of UTF-8 without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<str>);

impl LockName {
    /// Checks the name.
    pub fn new(name: impl AsRef<str>) -> Result<Self, Invalid> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(Invalid::new("name", "", "give the lock a name of 1 to 255 bytes"));
        }
        checked("name", name, NAME_BYTES_MAX).map(Self)
    }

    /// A name that a user gave: the locks behind a semaphore have names of their own.
    pub(crate) fn of_user(name: impl AsRef<str>) -> Result<Self, Invalid> {
        let name = Self::new(name)?;
        let is_gate = name.as_str().rsplit_once(PERMIT).is_some_and(|(_, ending)| ending == GATE);
        if is_gate || semaphore_of(name.as_str()).is_some() {
            let cure = "it names a part of a semaphore: use `semaphore` for that, else another ending";
            return Err(Invalid::new("name", name.as_str(), cure));
        }
        Ok(name)
    }

    /// The lock behind one permit of a semaphore.
    pub(crate) fn permit(semaphore: &str, slot: u32) -> Result<Self, Invalid> {
        Self::part(semaphore, &slot.to_string())
    }

    /// The lock in whose line those wait who found no permit.
    pub(crate) fn gate(semaphore: &str) -> Result<Self, Invalid> {
        Self::part(semaphore, GATE)
    }

    fn part(semaphore: &str, part: &str) -> Result<Self, Invalid> {
        let name = Self::of_user(semaphore)?;
        if name.as_str().len() > SEMAPHORE_BYTES_MAX {
            let cure = format!("it has {} bytes: a semaphore's has at most {SEMAPHORE_BYTES_MAX}", name.as_str().len());
            return Err(Invalid::new("name", semaphore, cure));
        }
        Self::new(format!("{name}{PERMIT}{part}"))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The semaphore of which this lock is a permit.
pub(crate) fn semaphore_of(lock: &str) -> Option<&str> {
    let (semaphore, slot) = lock.rsplit_once(PERMIT)?;
    let is_permit = !slot.is_empty() && slot.bytes().all(|byte| byte.is_ascii_digit());
    is_permit.then_some(semaphore)
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// Checks a label: who holds or waits, for people to read. It may be empty.
pub(crate) fn checked_label(label: &str) -> Result<Arc<str>, Invalid> {
    checked("label", label, LABEL_BYTES_MAX)
}

/// Checks what a leader publishes. It may be empty.
pub(crate) fn checked_payload(payload: &str) -> Result<Arc<str>, Invalid> {
    checked("payload", payload, LABEL_BYTES_MAX)
}

/// What stands between a label and a payload: neither has such a character.
const PAYLOAD: char = '\u{1f}';

/// A label as stores keep it, with what its owner publishes.
pub(crate) fn with_payload(label: Arc<str>, payload: &str) -> Arc<str> {
    if payload.is_empty() { label } else { format!("{label}{PAYLOAD}{payload}").into() }
}

/// A label as stores keep it: the label, and what its owner publishes.
pub(crate) fn without_payload(kept: &str) -> (&str, Option<&str>) {
    kept.split_once(PAYLOAD).map_or((kept, None), |(label, payload)| (label, Some(payload)))
}

pub(crate) fn checked_note(note: &str) -> Result<Arc<str>, Invalid> {
    checked("note", note, LABEL_BYTES_MAX)
}

fn checked(field: &'static str, text: &str, bytes_max: usize) -> Result<Arc<str>, Invalid> {
    if text.len() > bytes_max {
        let cure = format!("it has {} bytes: use at most {bytes_max}", text.len());
        return Err(Invalid::new(field, text, cure));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(Invalid::new(field, text, format!("take out the control character U+{:04X}", u32::from(c)))),
        None => Ok(text.into()),
    }
}

/// The secret of one acquisition: 20 bytes from the operating system's random source.
///
/// Fresh for every acquisition, the same for all its attempts; a store compares it in the same atomic step that
/// changes the lock. `Debug` hides it; only [`expose`](Owner::expose) writes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner([u8; 20]);

impl Owner {
    /// A new owner. `Err` if the operating system has no random bytes to give.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 20];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The owner of these bytes, which nobody can guess: a chosen one, or what a secret was hashed to.
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// The owner as 40 hexadecimal digits: a secret.
    pub fn expose(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(2 * self.0.len());
        for byte in self.0 {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        text
    }

    /// Reads what [`expose`](Owner::expose) wrote.
    pub fn from_exposed(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 40 {
            return None;
        }
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            *byte = u8::try_from(high * 16 + low).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_names_are_refused_with_field_value_and_cure() {
        for bad in ["", "a\0b", "a\nb", "tab\t", "\u{7f}", &"x".repeat(256)] {
            let invalid = LockName::new(bad).expect_err("refused");
            assert_eq!(invalid.field, "name");
            assert!(!invalid.cure.is_empty());
            assert!(!invalid.to_string().contains('\n'), "one line: {invalid}");
        }
        for good in ["a", "order/42", "ünïcode ✓", "{braces}", "a b", &"x".repeat(255)] {
            assert_eq!(LockName::new(good).expect("valid").as_str(), good);
        }
    }

    #[test]
    fn the_parts_of_a_semaphore_are_no_users_locks() {
        for name in ["a", "issue#5", "a/permit#", "a/permit#x", "a/permit#3x", "/permit#3/b"] {
            assert_eq!(LockName::of_user(name).expect("valid").as_str(), name);
        }
        let parts = [LockName::permit("a", 3), LockName::gate("a")].map(|part| part.expect("valid"));
        assert_eq!(parts.each_ref().map(LockName::as_str), ["a/permit#3", "a/permit#line"]);
        for part in parts {
            assert_eq!(LockName::of_user(part.as_str()).expect_err("refused").field, "name");
            assert!(LockName::permit(part.as_str(), 0).is_err(), "no semaphore inside a semaphore");
        }
        assert!(LockName::permit(&"x".repeat(240), 255).is_ok());
        assert_eq!(LockName::gate(&"x".repeat(241)).expect_err("refused").field, "name");
    }

    #[test]
    fn an_owner_is_unguessable_and_hidden() {
        let (one, two) = (Owner::random().expect("random"), Owner::random().expect("random"));
        assert_ne!(one, two);
        assert_eq!(format!("{one:?}"), "Owner(..)");
        assert_eq!(Owner::from_exposed(&one.expose()), Some(one));
        assert_eq!(Owner::from_exposed("zz"), None);
        assert_eq!(Owner::from_exposed(&"g".repeat(40)), None);
    }
}
