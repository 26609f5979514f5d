//! `fencepost top`, and `--watch` of other commands.

use std::time::Duration;

use clap::Args;
use fencepost::config::parse_duration;

/// Asking more often would only measure the asking.
const DELAY_MIN: Duration = Duration::from_millis(100);
/// A longer one is no live view.
const DELAY_MAX: Duration = Duration::from_secs(3600);

const KEYS: &str = "\
Keys, as in htop; F1 shows all of them:
  arrows, PgUp, PgDn, Home, End  move
  Enter    show a lock
  F3, /    search
  F4, \\    filter
  F6, s    sort; I reverses the order
  Tab      which locks are shown: in use, contended, free, all
  n        nodes
  d        deadlocks
  F9, k    release by force
  a        ask the holder to release
  Space    pause
  +, -     read less often, more often
  F10, q   quit

At most one request about locks and one to the nodes is under way at a time. After a slow answer, top waits four times as
long as that answer took. Colours follow NO_COLOR.";

/// What `top` understands.
#[derive(Args, Debug)]
#[command(after_help = KEYS)]
pub(crate) struct Top {
    /// Only locks whose names start with this; others are not read
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Show free locks, too; Tab changes it
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Time between two readings; 100ms to 1h
    #[arg(short, long, value_name = "D", value_parser = delay, default_value = "1s", allow_hyphen_values = true)]
    pub(crate) delay: Duration,
    /// Read at most N locks, in name order
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) limit: u32,
    /// Ignore the keys that release a lock or ask for it
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Print the present state as plain text, and exit: for scripts
    #[arg(short = 'b', long)]
    pub(crate) once: bool,
}

/// Looking again and again.
#[derive(Args, Debug)]
pub(crate) struct Watch {
    /// Print the present state, then a line for each change, until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
    /// With --watch: time between two readings; 100ms to 1h
    #[arg(short, long, value_name = "D", value_parser = delay, default_value = "1s", requires = "watch")]
    pub(crate) delay: Duration,
}

fn delay(text: &str) -> Result<Duration, String> {
    let delay = parse_duration(text)?;
    match (DELAY_MIN..=DELAY_MAX).contains(&delay) {
        true => Ok(delay),
        false => Err("say 100ms to 1h".into()),
    }
}
