//! The command line. Only these files know the parser.

mod bench;
#[cfg(feature = "redis")]
mod reconfigure;
#[cfg(feature = "serve")]
mod serve;
mod top;
mod typed;
mod under;
#[cfg(feature = "verify")]
mod verify;

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit_code::{ExitCode, TABLE};
use crate::failure::Failure;
use crate::version;

pub(crate) use bench::Bench;
#[cfg(feature = "redis")]
pub(crate) use reconfigure::Reconfigure;
#[cfg(feature = "serve")]
pub(crate) use serve::{Audit, AuditCheck, Key, LogForm, Serve};
pub(crate) use top::{Top, Watch};
pub(crate) use typed::Typed;
pub(crate) use under::{Elect, OnLost, Once, Run};
#[cfg(feature = "verify")]
pub(crate) use verify::{Bug, Fault, Verify};

/// The longest word of an error that is worth reading.
const WORD_CHARS_MAX: usize = 80;

const CONFIGURATION: &str = "\
Each setting is taken from the first of these that has it:
  flags         --store, --ttl, --label, --records
  environment   FENCEPOST_STORE, FENCEPOST_TTL, FENCEPOST_LABEL, FENCEPOST_RECORDS
  files         ./fencepost.toml, $XDG_CONFIG_HOME/fencepost/fencepost.toml, /etc/fencepost/fencepost.toml
  default       store sqlite:, ttl 30s

A file has the keys store, ttl, label and records. --config or FENCEPOST_CONFIG names one file to read instead.";

const DOCTOR: &str = "\
Each finding is an error (locks do not hold, or cannot be taken), a warning (locks may fail one day) or a notice. The exit
code is 1 if there is an error. The doctor takes and releases one lock with a random name, and changes nothing else that a
client would not change by connecting.";

/// Distributed locks with a fencing token on every lock.
#[derive(Parser, Debug)]
#[command(name = "fencepost", version, propagate_version = true, subcommand_required = true)]
#[command(after_help = [CONFIGURATION, "\n\n", TABLE].concat(), arg_required_else_help = true, max_term_width = 120)]
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
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say what happens
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    #[arg(skip)]
    pub(crate) typed: Typed,
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
    /// Show who holds a lock and who waits for it
    Show(Show),
    /// Watch locks, queues and nodes live, with keys as in htop
    Top(Top),
    /// Release a lock by force, or ask its holder to release it
    Release(Release),
    /// Check whether a token is the newest
    Check(Check),
    /// Show deadlocks: holders that wait for each other
    Deadlocks,
    /// Check a deployment: what can go wrong, with evidence and cure
    #[command(after_help = DOCTOR)]
    Doctor,
    /// Measure how fast locks are on a store, and compare it with another
    Bench(Bench),
    /// Try a deployment with many clients, faults, and a checker of what they saw
    #[cfg(feature = "verify")]
    Verify(Verify),
    /// Serve locks by HTTP, to programs in any language, with a dashboard at /
    #[cfg(feature = "serve")]
    Serve(Serve),
    /// Make a key for clients of the service, and its entry for `serve --auth-file`
    #[cfg(feature = "serve")]
    Key(Key),
    /// Check the audit log of a service
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Audit(Audit),
    /// Show each setting and where it comes from
    Config,
    /// Prepare a new store; the nodes of a Redlock cluster must be up and hold no locks
    Init,
    /// Replace the servers of a Redlock cluster while its clients continue
    #[cfg(feature = "redis")]
    Reconfigure(Reconfigure),
    /// Print the statements that create tables, for databases where `init` has no right to
    Schema(Schema),
    /// Print completions for a shell
    Completions(Completions),
    /// Write the manual pages into a directory, or print them as one page
    Man(Man),
}

#[derive(Args, Debug)]
pub(crate) struct Leader {
    /// The election
    pub(crate) name: String,
    /// Print a line now and at every change, until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Only locks whose names start with this
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// List free locks, too: names that the store remembers because of their last token
    #[arg(short, long, conflicts_with = "watch")]
    pub(crate) all: bool,
    /// List at most N locks
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) watch: Watch,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The lock
    pub(crate) name: String,
    /// Show the semaphore of this name: its first P permits, and who waits for one
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) permits: Option<u32>,
    #[command(flatten)]
    pub(crate) watch: Watch,
}

#[derive(Args, Debug)]
pub(crate) struct Release {
    /// The lock
    pub(crate) name: String,
    /// Take the lock away from its holder
    #[arg(long, conflicts_with = "ask")]
    pub(crate) force: bool,
    /// Ask the holder to release it; the holder is told with its next renewal, and decides
    #[arg(long)]
    pub(crate) ask: bool,
    /// With --ask: a note to the holder
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, conflicts_with = "force")]
    pub(crate) note: String,
    /// Why, for the logs
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
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
    /// Print all of them as one page of Markdown instead
    #[arg(long, conflicts_with = "dir")]
    pub(crate) markdown: bool,
    /// The directory
    #[arg(required_unless_present = "markdown")]
    pub(crate) dir: Option<PathBuf>,
}

impl Arguments {
    /// Reads the command line. `Ok(None)`: help or version was asked for, and printed.
    pub(crate) fn read() -> Result<Option<Self>, Failure> {
        // Not in the grammar: manual pages would be new with every commit.
        let mut grammar = grammar().long_version(&*version::long().leak());
        let read = grammar.try_get_matches_from_mut(std::env::args_os());
        let read = read.and_then(|mut found| {
            let typed = Typed::of(&grammar, &found);
            let mut arguments = Self::from_arg_matches_mut(&mut found)?;
            arguments.global.typed = typed;
            Ok(arguments)
        });
        match read {
            Ok(arguments) => Ok(Some(arguments)),
            Err(error) if !error.use_stderr() => {
                error.print()?;
                Ok(None)
            }
            // Nothing was asked for: the help is the answer, and scripts still see a failure.
            Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                error.print()?;
                Err(Failure::silent(ExitCode::USAGE))
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
