//! The command line. The only file that knows the parser.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use fencepost::config::parse_duration;

use crate::exit_code::{ExitCode, TABLE};
use crate::failure::Failure;

/// The longest word of an error that is worth reading.
const WORD_CHARS_MAX: usize = 80;

const CONFIGURATION: &str = "\
Configuration, the first that speaks wins:
  flags; FENCEPOST_STORE, FENCEPOST_RECORDS, FENCEPOST_LABEL, FENCEPOST_TTL; ./fencepost.toml;
  $XDG_CONFIG_HOME/fencepost/fencepost.toml; /etc/fencepost/fencepost.toml; the default, store sqlite:.
  FENCEPOST_CONFIG or --config names one file to read instead of the three.
  A file has the keys store, records, label and ttl.";

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

/// Distributed locks with a fencing token on every lock.
#[derive(Parser, Debug)]
#[command(name = "fencepost", version, propagate_version = true, subcommand_required = true)]
#[command(after_help = [CONFIGURATION, "\n\n", TABLE].concat(), arg_required_else_help = false, max_term_width = 120)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(Args, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME,
    /// redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE,
    /// fencepost+http://HOST:PORT
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Read this file instead of searching fencepost.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say what is done
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    Run(Run),
    /// Run a command once per window of time in the whole cluster
    Once(Once),
    /// Run a command only while leading; campaign again when the leadership is lost
    Elect(Elect),
    /// Show who leads
    Leader(Leader),
    /// List locks
    Ls(Ls),
    /// Show who has a lock and who is in line
    Show(Show),
    /// End somebody's hold by force, or ask for it
    Release(Release),
    /// Is this token the newest granted?
    Check(Check),
    /// Show who waits for whom in a circle, with holders, waiters and ages
    Deadlocks,
    /// Serve locks by HTTP, to programs in any language
    #[cfg(feature = "serve")]
    Serve(Serve),
    /// Show each setting and where it comes from
    Config,
    /// Make a new store ready; of a Redlock cluster all nodes must be up, and none may hold a lock
    Init,
    /// Print the statements that create tables, for databases where `init` may not
    Schema(Schema),
    /// Print completions for a shell
    Completions(Completions),
    /// Write the manual pages into a directory
    Man(Man),
}

#[derive(Args, Debug)]
#[command(after_help = [RUN_ENVIRONMENT, "\n\n", TABLE].concat())]
#[command(override_usage = "fencepost run [OPTIONS] <NAME> -- <CMD>...")]
pub(crate) struct Run {
    /// Wait at most so long [default: until the lock is free]
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

#[derive(Args, Debug)]
pub(crate) struct Leader {
    /// The election
    pub(crate) name: String,
    /// Print a line now and at every change, until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
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

#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Only names that start so
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// At most so many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The lock
    pub(crate) name: String,
    /// Show the semaphore of this name: its first P permits, and who waits for one
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) permits: Option<u32>,
}

#[derive(Args, Debug)]
pub(crate) struct Release {
    /// The lock
    pub(crate) name: String,
    /// Yes, take it away from whoever has it
    #[arg(long, conflicts_with = "ask")]
    pub(crate) force: bool,
    /// Ask whoever has it to let go; they hear of it with their next renewal, and decide
    #[arg(long)]
    pub(crate) ask: bool,
    /// What to tell them
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, conflicts_with = "force")]
    pub(crate) note: String,
    /// Why, for the logs
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
}

/// What `serve` understands.
#[cfg(feature = "serve")]
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7117")]
    pub(crate) listen: std::net::SocketAddr,
    /// How long connections have to end after SIGTERM
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    pub(crate) drain: Duration,
    /// Print the interface as OpenAPI 3.1, and end
    #[arg(long)]
    pub(crate) openapi: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Check {
    /// The lock
    pub(crate) name: String,
    /// The fencing token
    pub(crate) token: String,
}

#[derive(Args, Debug)]
pub(crate) struct Schema {
    /// The table of the check at the resource instead of those of the store
    #[arg(long)]
    pub(crate) fence: bool,
    /// The tables of a stock in your own database instead of those of the store
    #[arg(long, conflicts_with = "fence")]
    pub(crate) stock: bool,
    /// The schema of the tables; of MySQL, the database [default: that of the connection]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["fence", "stock"])]
    pub(crate) schema: Option<String>,
    /// What the tables' names begin with
    #[arg(long, value_name = "NAME", default_value = "fencepost", conflicts_with_all = ["fence", "stock"])]
    pub(crate) tables: String,
    /// The dialect
    pub(crate) dialect: Dialect,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Dialect {
    Postgres,
    Mysql,
    Sqlite,
}

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The directory
    pub(crate) dir: PathBuf,
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

impl Arguments {
    /// Reads the command line. `Ok(None)`: help or version was asked for, and printed.
    pub(crate) fn read() -> Result<Option<Self>, Failure> {
        match Self::try_parse() {
            Ok(arguments) => Ok(Some(arguments)),
            Err(error) if !error.use_stderr() => {
                error.print()?;
                Ok(None)
            }
            Err(error) => Err(Failure::new(ExitCode::USAGE, one_line(&error))),
        }
    }
}

/// The whole command line as data, for manual and completions.
pub(crate) fn grammar() -> clap::Command {
    Arguments::command()
}

/// What the parser says in paragraphs: the error itself, its tips, the usage.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n");
    let first = paragraphs.next().unwrap_or_default().trim_start_matches("error: ");
    let tips = paragraphs.filter(|paragraph| paragraph.trim_start().starts_with("tip:"));
    let line = [first].into_iter().chain(tips).map(flat).collect::<Vec<_>>().join("; ");
    match text.lines().find_map(|line| line.strip_prefix("Usage: ")) {
        Some(usage) => format!("{line}; usage: {usage}"),
        None => format!("{line}; see --help"),
    }
}

fn flat(text: &str) -> String {
    let short = |word: &str| match word.char_indices().nth(WORD_CHARS_MAX) {
        Some((cut, _)) => format!("{}…", &word[..cut]),
        None => word.to_owned(),
    };
    text.split_whitespace().map(short).collect::<Vec<_>>().join(" ")
}
