//! Commands that run another command under a lock.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fencepost::config::parse_duration;

use crate::exit_code::{ExitCode, TABLE};

const RUN_ENVIRONMENT: &str = "\
The command finds in its environment:
  FENCEPOST_LOCK        the name of the lock
  FENCEPOST_TOKEN       its fencing token, to show to the resource that the lock protects; a reader's starts with r
  FENCEPOST_OWNER       the secret of this hold; absent where an outer run holds the lock and another lies between
  FENCEPOST_EXPIRES_AT  when the lease ends unless renewed, for display
  FENCEPOST_SLOT        with --permits: the number of its permit, from 0; of several, as their tokens and secrets are,
                        separated by commas
  FENCEPOST_ACTOR       on whose behalf: a nested run waits for the same one, so that deadlocks can be seen
  FENCEPOST_HELD        all locks and permits held by outer runs: a nested run of one of them starts its command at
                        once, under the outer run's lease, if the store still shows that hold; one that wants more
                        permits than outer runs have is refused

On loss the command's process group gets SIGTERM, and SIGKILL before the lease ends; then so does every process below
it. Durations: 30s, 5m, 1h30m, 250ms; a bare number is seconds.";

const ELECT_ENVIRONMENT: &str = "\
The command finds in its environment what `run` gives it; FENCEPOST_TOKEN is the term, a fencing token to show to every
resource that the leader writes to.

On loss the command's process group gets SIGTERM, and SIGKILL before the lease ends: it is gone before another leads. Then
we campaign again. When the command ends by itself we resign, and exit with its code.";

const ONCE_ENVIRONMENT: &str = "\
For a crontab line on every server: each calls it, one of them runs the command, the others exit with 0 at once. A run
that failed is done; one whose server died is not, and whoever calls next in that window, after the lease, runs it. So
call it more often than once per window: */5 * * * * fencepost once report --every 1d -- make-report
A clock that is slow runs nothing twice: no window is run after a later one. The store must be one that all servers share;
redlock:// keeps no records, so --records names another for them.
The command finds in its environment what `run` gives it, and in FENCEPOST_WINDOW the window: its name, or when it began.
On loss, and after --at-most, its process group gets SIGTERM, and SIGKILL before the lease ends. One that was ended by a
signal to us is not done.";

#[derive(Args, Debug)]
#[command(after_help = [RUN_ENVIRONMENT, "\n\n", TABLE].concat())]
#[command(override_usage = "fencepost run [OPTIONS] <NAME> -- <CMD>...")]
pub(crate) struct Run {
    /// Wait at most so long, connecting included [default: until the lock is free]
    #[arg(short, long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// Share the lock with other readers
    #[arg(short, long)]
    pub(crate) shared: bool,
    /// At most P runs at once instead of one, each with a slot of its own; 1 to 256
    #[arg(long, value_name = "P", conflicts_with = "shared")]
    pub(crate) permits: Option<u32>,
    /// Take so many of the permits, all or none [default: 1]
    #[arg(long, value_name = "K", requires = "permits")]
    pub(crate) take: Option<u32>,
    /// How long others wait after a crash; renewed at a third of it [default: 30s]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
    /// Who we are, for show and for errors [default: host:pid]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Give the lock up after so long [default: 24h]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) max_hold: Option<Duration>,
    /// If the lock is not released cleanly, nobody has it for so long after its lease ended [default: none]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) lock_delay: Option<Duration>,
    /// Fail as if not obtained when the wait closes a circle of runs that wait for each other
    #[arg(long)]
    pub(crate) fail_on_deadlock: bool,
    /// Take no place in line; may overtake and be overtaken
    #[arg(long)]
    pub(crate) unfair: bool,
    /// What happens to the command when the lock is lost
    #[arg(long, value_enum, default_value = "term", value_name = "ACTION")]
    pub(crate) on_lost: OnLost,
    /// Time from SIGTERM to SIGKILL on loss, taken from the end of the lease [default: a tenth of the ttl]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) kill_after: Option<Duration>,
    /// Exit with this code if the lock was not obtained
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = ExitCode::NOT_OBTAINED.0)]
    pub(crate) conflict_exit_code: u8,
    /// Write the outcome to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// The lock
    pub(crate) name: String,
    /// The command and its arguments; no shell in between
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
#[command(after_help = [ONCE_ENVIRONMENT, "\n\n", TABLE].concat())]
#[command(
    override_usage = "fencepost once [OPTIONS] <--every D|--window KEY> <NAME> -- <CMD>...\n       fencepost once --status <NAME>"
)]
#[command(group = clap::ArgGroup::new("which").args(["every", "window", "status"]).required(true))]
pub(crate) struct Once {
    /// Once in each such span, counted from 1970 in UTC: 1d, 1h, 10m
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) every: Option<Duration>,
    /// Once for this window, such as 2026-11-15T02; the last hundred of a job are remembered
    #[arg(long, value_name = "KEY")]
    pub(crate) window: Option<String>,
    /// Nobody starts it again for so long after its start [default: until the window is over]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) at_least: Option<Duration>,
    /// End the command after so long; it counts as failed [default: 24h]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) at_most: Option<Duration>,
    /// How long after a crash another may run it; renewed at a third of it [default: 30s]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
    /// Time from SIGTERM to SIGKILL on loss, taken from the end of the lease [default: a tenth of the ttl]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) kill_after: Option<Duration>,
    /// Where to remember what has run, for a store that keeps no records (redlock://); all servers must name the same
    /// [default: the store]
    #[arg(long, value_name = "URL")]
    pub(crate) records: Option<String>,
    /// Exit with this code if somebody else ran it, or runs it
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = ExitCode::DONE.0)]
    pub(crate) conflict_exit_code: u8,
    /// Write the outcome to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Show the last run, its outcome, who runs it now, and when the next window begins
    #[arg(long)]
    pub(crate) status: bool,
    /// The job
    pub(crate) name: String,
    /// The command and its arguments; no shell in between
    #[arg(last = true, required_unless_present = "status", conflicts_with = "status", value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
#[command(after_help = [ELECT_ENVIRONMENT, "\n\n", TABLE].concat())]
#[command(override_usage = "fencepost elect [OPTIONS] <NAME> -- <CMD>...")]
pub(crate) struct Elect {
    /// What others see of the leader, such as its address
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) payload: String,
    /// How long nobody leads after a crash; renewed at a third of it [default: 30s]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
    /// Who we are, for show and for errors [default: host:pid]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// What happens to the command when the leadership is lost
    #[arg(long, value_enum, default_value = "term", value_name = "ACTION")]
    pub(crate) on_lost: OnLost,
    /// Time from SIGTERM to SIGKILL on loss, taken from the end of the lease [default: a tenth of the ttl]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) kill_after: Option<Duration>,
    /// The election
    pub(crate) name: String,
    /// The command and its arguments; no shell in between
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What happens to the command when the lock is lost.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnLost {
    /// SIGTERM at once, SIGKILL before the lease ends
    Term,
    /// SIGKILL at once
    Kill,
    /// Nothing: it runs on, unprotected
    Ignore,
}

impl Run {
    /// A run with nothing but defaults.
    pub(crate) fn of(name: String, command: Vec<OsString>) -> Self {
        Self {
            wait: None,
            no_wait: false,
            shared: false,
            permits: None,
            take: None,
            ttl: None,
            label: None,
            max_hold: None,
            lock_delay: None,
            fail_on_deadlock: false,
            unfair: false,
            on_lost: OnLost::Term,
            kill_after: None,
            conflict_exit_code: ExitCode::NOT_OBTAINED.0,
            report: None,
            name,
            command,
        }
    }
}
