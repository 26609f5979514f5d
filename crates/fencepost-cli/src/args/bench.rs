//! The command line of `fencepost bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fencepost::config::parse_duration;

use crate::exit_code::TABLE;

const LOAD: &str = "\
Each client has a connection of its own and asks again as soon as it is answered, so the store gets as much to do as so
many clients can ask for: choose your hour. In turns: one client on a free lock; all clients, a lock each; all clients
in line for one lock; renewals by one client. With --vs both stores have such turns in alternation, and ratios are taken
within each round.
All names begin with fencepost-bench/ and a random part, and nothing stays locked. Ctrl-C ends it with what was measured
until then, a second one at once. Exits with 69 if nothing at all was measured on one of the stores.";

/// How long the store is measured, and how hard.
#[derive(Args, Debug)]
#[command(after_help = [LOAD, "\n\n", TABLE].concat())]
pub(crate) struct Bench {
    /// Measure a second store in the same rounds, and say how --store compares with it
    #[arg(long, value_name = "URL")]
    pub(crate) vs: Option<String>,
    /// Measure for so long in all; 1s to 1h
    #[arg(long = "for", value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    #[arg(default_value = "10s")]
    pub(crate) length: Duration,
    /// So many clients at once where several are measured; 1 to 256
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value = "8")]
    pub(crate) clients: String,
    /// The ttl of every lock; the store waits so long if a client dies [default: 30s]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
    /// Write a page with pictures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
