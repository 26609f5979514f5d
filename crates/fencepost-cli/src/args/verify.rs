//! `fencepost verify` on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fencepost::config::parse_duration;
use serde::{Deserialize, Serialize};

use crate::exit_code::TABLE;

const ABOUT: &str = "\
It starts clients, each a process of its own, that take and release scratch locks of random names below --prefix in your store,
read and write a resource of our own under their tokens, and it judges what they saw by the rules of docs/verify.md. No other
lock is touched; the load is that of these clients, all busy. Ctrl-C ends it early, with a verdict on what was seen.

Faults are injected from the side of the clients, never at your servers:
  pause        a client is stopped for longer than its ttl, mostly while it holds a lock, and goes on
  kill-client  a client is killed (SIGKILL) and started anew
  cut          a client's connections are closed, or say nothing, for a while; not for stores without a connection that can be
               led through a relay (sqlite:, redis+unix:, sentinels, clusters, TLS other than that of Redis)

Exits with 0 if no rule was broken, with 1 if one was, and with 75 if nothing can be said: no lock was obtained, none ever
changed hands, or a planted bug did not show.";

#[derive(Args, Debug)]
#[command(after_help = [ABOUT, "\n\n", TABLE].concat())]
pub(crate) struct Verify {
    /// How many clients, 2 to 64
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) clients: usize,
    /// For how long, 1s to 1h
    #[arg(long = "for", value_name = "D", value_parser = parse_duration, default_value = "60s", allow_hyphen_values = true)]
    pub(crate) span: Duration,
    /// How many locks they want, 1 to 16; one that is wanted by many changes hands most
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) locks: usize,
    /// The ttl of their locks, 500ms to 30s; faults last about as long
    #[arg(long, value_name = "D", value_parser = parse_duration, default_value = "2s", allow_hyphen_values = true)]
    pub(crate) ttl: Duration,
    /// What the names of the scratch locks begin with
    #[arg(long, value_name = "TEXT", default_value = "verify/")]
    pub(crate) prefix: String,
    /// Faults to inject, joined by commas [default: none]
    #[arg(long, value_name = "FAULTS", value_enum, value_delimiter = ',')]
    pub(crate) faults: Vec<Fault>,
    /// Give the first client, or the resource, a bug, to see that it is found
    #[arg(long, value_name = "BUG", value_enum)]
    pub(crate) plant: Option<Bug>,
    /// Write a page with the figures and a picture of who held what
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// What is done to a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Fault {
    /// Stopped for longer than its ttl
    Pause,
    /// Killed, and started anew
    KillClient,
    /// Its connections are closed or silent for a while
    Cut,
}

/// What is wrong with the first client, or with the resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bug {
    /// Does not renew, and works on after its lease: two at a time (C1)
    IgnoresLoss,
    /// Ends holds that are not its own (C1)
    ReleasesForeign,
    /// Releases once more when the next one holds, without looking whose it is (C1)
    ReleasesTwice,
    /// Takes no lock, and works under the token that it saw there (C1, C3)
    NoLock,
    /// Shows the token of its last hold again (C2, C3)
    OldToken,
    /// Writes under a token that nobody was granted (C4)
    MadeUpToken,
    /// Reads before it holds, and writes what it made of that: an update is lost (C4)
    ReadsEarly,
    /// The resource does not look at tokens, and a client writes after its lease (C4)
    NoFence,
    /// Goes away at the end without releasing (C5)
    LeavesLock,
    /// Says that it has released, and renews on (C11)
    StaysAfterRelease,
}

impl Fault {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::KillClient => "kill-client",
            Self::Cut => "cut",
        }
    }
}

impl Bug {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// What it is, in words.
    pub(crate) fn told(self) -> String {
        let value = self.to_possible_value();
        value.as_ref().and_then(|value| value.get_help()).map(ToString::to_string).unwrap_or_default()
    }
}
