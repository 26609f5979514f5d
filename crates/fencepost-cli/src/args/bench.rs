//! The command line of `fencepost bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fencepost::config::parse_duration;

use crate::exit_code::TABLE;

const LOAD: &str = "\
Each client has its own connection and sends the next request as soon as it has an answer. This is a full load on the store:
choose a quiet hour. The turns are: one client on a free lock; all clients, a lock each; all clients waiting for one lock;
renewals by one client. With --vs the stores take turns, and ratios are taken within each round.
All names begin with fencepost-bench/ and a random part, and nothing stays locked. Ctrl-C ends it with the figures so far, a
second one at once. The exit code is 69 if nothing was measured on one of the stores.";

/// How long the store is measured, and how hard.
#[derive(Args, Debug)]
#[command(after_help = [LOAD, "\n\n", TABLE].concat())]
pub(crate) struct Bench {
    /// Measure a second store in the same rounds, and say how --store compares with it
    #[arg(long, value_name = "URL")]
    pub(crate) vs: Option<String>,
    /// How long to measure in all; 1s to 1h
    #[arg(long = "for", value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    #[arg(default_value = "10s")]
    pub(crate) length: Duration,
    /// Number of clients where several are measured; 1 to 256
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value = "8")]
    pub(crate) clients: String,
    /// The ttl of every lock; its lock is free after this time if a client dies [default: 30s]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
    /// Write a page with pictures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
