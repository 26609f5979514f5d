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
  FENCEPOST_OWNER       the secret of this hold; absent if the lock belongs to an outer run that is not the nearest
  FENCEPOST_EXPIRES_AT  when the lease ends unless renewed, for display
  FENCEPOST_SLOT        with --permits: the number of its permit, from 0; several are separated by commas, as are
                        their tokens and secrets
  FENCEPOST_ACTOR       an id that nested runs share, so that deadlocks between them can be seen
  FENCEPOST_HELD        all locks and permits of outer runs. A nested run of one of them starts its command at once,
                        under the lease of the outer run. It is refused if it needs more permits than that.

If the lock is lost, the command's process group gets SIGTERM, and SIGKILL before the lease ends; then so does every
process below it. Durations: 30s, 5m, 1h30m, 250ms; a bare number is seconds.";

const ELECT_ENVIRONMENT: &str = "\
The command finds in its environment what `run` gives it; FENCEPOST_TOKEN is the term, a fencing token to show to every
resource that the leader writes to.

If the leadership is lost, the command's process group gets SIGTERM, and SIGKILL before the lease ends: it is gone before
another leads. Then fencepost campaigns again. If the command ends by itself, fencepost resigns and exits with its code.";

const ONCE_ENVIRONMENT: &str = "\
Put the same line into the crontab of every server. Each server calls it; one of them runs the command, and the others exit
with 0 at once. Call it more often than the job is due, because a server may die in the middle of a run:

    */5 * * * * fencepost once report --at 02:00 --tz America/Los_Angeles -- make-report

A window lasts from one due time to the next. The command runs once in each window, at the first call. A run that failed
counts as done. A run whose server died does not: after its lease, the next call in that window runs the command again.
If all servers were down at the due time, the command runs late; --start-within skips it instead. The very first call is late
in this sense, too. Windows never run out of order, so a slow clock repeats nothing.

When clocks go forward over the time of --at or --cron, the job is due at the first moment after the gap. When clocks go
back, it is due once, the first time. A --cron with * or a step in its minutes or hours is due at each such time on the
clock: never in the hour that is skipped, and twice in the hour that is repeated.

All servers need the same --store. redlock:// keeps no records, so --records names another store for them.
The command finds in its environment what `run` gives it, and in FENCEPOST_WINDOW its window: when it began, or its name.
If the lock is lost, and after --at-most, its process group gets SIGTERM, and SIGKILL before the lease ends. A run that a signal to
fencepost ended is not done.";

#[derive(Args, Debug)]
#[command(after_help = [RUN_ENVIRONMENT, "\n\n", TABLE].concat())]
#[command(override_usage = "fencepost run [OPTIONS] <NAME> -- <CMD>...")]
pub(crate) struct Run {
    /// Wait for at most this time, connecting included [default: until the lock is free]
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
    /// Take K of the permits, all or none [default: 1]
    #[arg(long, value_name = "K", requires = "permits")]
    pub(crate) take: Option<u32>,
    /// How long others wait after a crash; renewed at a third of it [default: 30s]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
    /// The name of this holder, for display and errors [default: host:pid]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Give the lock up after this time [default: 24h]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) max_hold: Option<Duration>,
    /// If the lock is not released cleanly, keep it free of holders for this time after the lease [default: none]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) lock_delay: Option<Duration>,
    /// Fail as if the lock was not obtained, if this wait completes a deadlock
    #[arg(long)]
    pub(crate) fail_on_deadlock: bool,
    /// Do not wait in the queue; may overtake and be overtaken
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
    override_usage = "fencepost once [OPTIONS] <--at HH:MM|--cron FIELDS|--every D|--window KEY> <NAME> -- <CMD>...\n       fencepost once --status [--at HH:MM|--cron FIELDS|--every D] <NAME>"
)]
#[command(group = clap::ArgGroup::new("which").args(["at", "cron", "every", "window"]))]
pub(crate) struct Once {
    /// Due every day at this time, such as 02:00
    #[arg(long, value_name = "HH:MM", required_unless_present_any = ["cron", "every", "window", "status"])]
    pub(crate) at: Option<String>,
    /// Due at these times: minute, hour, day of month, month and weekday, as in a crontab; '0 2 * * MON-FRI'
    #[arg(long, value_name = "FIELDS")]
    pub(crate) cron: Option<String>,
    /// The time zone of --at or --cron, such as America/Los_Angeles [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// Due once in each span of this length, counted from 1970-01-01T00:00Z: 10m, 1h, 1d
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) every: Option<Duration>,
    /// Once for this name, such as 2026-11-15T02; the last 100 names of a job are remembered
    #[arg(long, value_name = "KEY")]
    pub(crate) window: Option<String>,
    /// Skip a window that nobody started within this time after it began [default: run it late]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true, conflicts_with = "window")]
    pub(crate) start_within: Option<Duration>,
    /// Do not start it again within this time after its start [default: the rest of the window]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) at_least: Option<Duration>,
    /// End the command after this time; it counts as failed [default: 24h]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) at_most: Option<Duration>,
    /// How long after a crash another may run it; renewed at a third of it [default: 30s]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
    /// Time from SIGTERM to SIGKILL on loss, taken from the end of the lease [default: a tenth of the ttl]
    #[arg(long, value_name = "D", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) kill_after: Option<Duration>,
    /// Where to remember what has run, if the store keeps no records (redlock://); the same on all servers
    /// [default: the store]
    #[arg(long, value_name = "URL")]
    pub(crate) records: Option<String>,
    /// Exit with this code if the command was not run, because the job is not due
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = ExitCode::DONE.0)]
    pub(crate) conflict_exit_code: u8,
    /// Write the outcome to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Show the last run, its outcome, who runs it now, and when it is due next
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
    /// The name of this holder, for display and errors [default: host:pid]
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
