//! What each deed on a record means.

use std::time::Duration;

use super::{REMEMBER, Shelf};
use crate::store::{Answer, Deed, Record};
use crate::token::FencingToken;

/// A record as a store keeps it. Its times are the calendar's, as tokens: it outlives the machine's uptime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The newest token seen.
    pub token: FencingToken,
    /// The token is remembered until then.
    pub until: FencingToken,
    /// What was put there; `None`: it was only sealed, or forgotten.
    pub value: Option<Vec<u8>>,
    /// The value is remembered until then.
    pub value_until: FencingToken,
}

impl Kept {
    /// What a deed finds, and what is to be written. Nobody's lease is looked at: whoever was overtaken is known by its
    /// token.
    pub fn decide(kept: Option<Self>, deed: &Deed, clock: FencingToken) -> (Answer, Option<Self>) {
        let kept = kept.filter(|kept| kept.until > clock);
        let Some(token) = deed.token() else { return (Answer::Record(kept.and_then(|kept| kept.shown(clock))), None) };
        if let Some(newer) = kept.as_ref().filter(|kept| kept.token > token) {
            return (Answer::Outdated { seen: newer.token }, None);
        }
        let (value, value_until) = match deed {
            Deed::Put { keep: Duration::ZERO, .. } => (None, clock),
            Deed::Put { value, keep, .. } => (Some(value.to_vec()), clock.plus(*keep)),
            Deed::Read | Deed::Seal { .. } => {
                let live = kept.filter(|kept| kept.value_until > clock);
                live.map_or((None, clock), |kept| (kept.value, kept.value_until))
            }
        };
        let kept = Self { token, until: clock.plus(REMEMBER).max(value_until), value, value_until };
        let answer = match deed {
            Deed::Put { .. } => Answer::Stored,
            Deed::Read | Deed::Seal { .. } => Answer::Record(kept.clone().shown(clock)),
        };
        (answer, Some(kept))
    }

    fn shown(self, clock: FencingToken) -> Option<Record> {
        let Self { token, value, value_until, .. } = self;
        let value = value.filter(|_| value_until > clock)?;
        Some(Record { token, value, left: value_until.ahead_of(clock) })
    }

    /// As one value, for a store that has only those: the numbers in digits, a line, and the bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mark = if self.value.is_some() { '+' } else { '-' };
        let mut bytes = format!("{} {} {} {mark}\n", self.token, self.until, self.value_until).into_bytes();
        bytes.extend_from_slice(self.value.as_deref().unwrap_or_default());
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote; `None`: it is something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let line = bytes.iter().position(|byte| *byte == b'\n')?;
        let mut words = std::str::from_utf8(&bytes[..line]).ok()?.split(' ');
        let mut number = || FencingToken::from_number(words.next()?.parse().ok()?);
        let (token, until, value_until) = (number()?, number()?, number()?);
        let value = (words.next()? == "+").then(|| bytes[line + 1..].to_vec());
        Some(Self { token, until, value, value_until })
    }
}

/// Runs one deed on a shelf.
pub(super) fn apply<S: Shelf>(shelf: &mut S, deed: &Deed, clock: FencingToken) -> Result<Answer, S::Error> {
    let (answer, written) = Kept::decide(shelf.record()?, deed, clock);
    if let Some(kept) = written {
        shelf.put_record(&kept)?;
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let token = |number| FencingToken::from_number(number).expect("a token");
        for value in [None, Some(Vec::new()), Some(b"a\n+ \0b".to_vec())] {
            let kept = Kept { token: token(7), until: token(1 << 52), value, value_until: token(9) };
            assert_eq!(Kept::from_bytes(&kept.to_bytes()), Some(kept));
        }
        assert_eq!(Kept::from_bytes(b"somebody else's"), None);
    }
}
