//! What clients and the one who watches them say to each other: a line of JSON each, through pipes.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::args::Bug;

/// The first line that a client hears. It is not an argument, because the URL may hold a password.
#[derive(Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) url: String,
    pub(super) label: String,
    pub(super) ttl: Duration,
    pub(super) names: Vec<String>,
    pub(super) bug: Option<Bug>,
}

/// What a client says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Said {
    /// On the clock that all processes share.
    pub(super) at: u64,
    /// Which of its acquisitions.
    pub(super) claim: u64,
    /// Which of the locks.
    pub(super) lock: u32,
    #[serde(flatten)]
    pub(super) word: Word,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub(super) enum Word {
    Asked,
    Waiting,
    Acquired {
        token: u64,
        until: u64,
    },
    Refused {
        why: Option<String>,
    },
    /// It looked, and the library says that the hold is valid until then.
    Believes {
        until: u64,
    },
    Lost {
        reason: String,
    },
    Releasing,
    Released,
    /// The library renewed by itself, or tried to.
    Renewed,
    Unrenewed,
    /// A renewal leaves that the client should not send.
    Renews {
        token: u64,
    },
    /// It looks at the resource without a token.
    Peek,
    /// It reads the resource, whose answer it waits for. From then on the resource knows its token.
    Read {
        token: u64,
    },
    /// It writes what it made of this version, and waits for the answer.
    Write {
        token: u64,
        read: u64,
    },
    /// It cannot begin, and tries again.
    Trouble {
        message: String,
    },
}

/// What a client hears.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Heard {
    /// The answer of the resource: whether it took the token, and its version now.
    Resource { taken: bool, version: u64 },
    /// Let go of everything, and end.
    Stop,
}

/// Nanoseconds of a clock that is the same for all processes of this machine, and never set.
pub(super) fn now() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::CLOCK_MONOTONIC;
    let time = clock_gettime(clock).map(Duration::from).unwrap_or_default();
    nanos(time)
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Any number.
pub(super) fn any() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Any number below this one.
pub(super) fn below(limit: u64) -> u64 {
    any() % limit.max(1)
}

/// Any span from one to another.
pub(super) fn between(least: Duration, most: Duration) -> Duration {
    least + Duration::from_nanos(below(nanos(most.saturating_sub(least))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_is_heard() {
        for word in [Word::Asked, Word::Acquired { token: 1 << 52, until: u64::MAX }, Word::Write { token: 1, read: 2 }]
        {
            let said = Said { at: u64::MAX - 1, claim: 3, lock: 4, word };
            let line = serde_json::to_string(&said).expect("a line");
            assert_eq!(serde_json::from_str::<Said>(&line).expect("the same"), said, "{line}");
        }
        let line = serde_json::to_string(&Heard::Resource { taken: true, version: 7 }).expect("a line");
        assert_eq!(
            serde_json::from_str::<Heard>(&line).expect("the same"),
            Heard::Resource { taken: true, version: 7 }
        );
    }

    #[test]
    fn time_goes_on_and_spans_are_where_they_should_be() {
        let before = now();
        assert!(before > 0 && now() >= before);
        let (least, most) = (Duration::from_millis(3), Duration::from_millis(4));
        assert!((0..100).all(|_| (least..=most).contains(&between(least, most))));
        assert_eq!(between(most, least), most);
    }
}
