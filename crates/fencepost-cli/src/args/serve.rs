//! The service, and what belongs to it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fencepost::config::parse_duration;

/// How a log is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogForm {
    /// For people.
    Text,
    /// One object per line.
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct Key {
    /// The name of the client in logs; several keys may have the same name
    pub(crate) name: String,
    /// A right: acquire, observe or admin, on all names with a prefix; * is every name
    #[arg(long, value_name = "VERB:PREFIX", required = true)]
    pub(crate) allow: Vec<String>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Audit {
    /// Whether a log is whole, and whether what it tells may have happened
    Check(AuditCheck),
}

#[derive(Args, Debug)]
pub(crate) struct AuditCheck {
    /// The log; of one that was moved away and went on in a new file, all files, the oldest first
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// An entry that must be in it: the head that an earlier check printed
    #[arg(long, value_name = "HASH")]
    pub(crate) head: Option<String>,
    /// The head of the file before these, if it is not among them
    #[arg(long, value_name = "HASH")]
    pub(crate) after: Option<String>,
}

/// What `serve` understands.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7117")]
    pub(crate) listen: SocketAddr,
    /// The keys and certificates of clients, with their rights, as `fencepost key` prints them; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub(crate) auth_file: Option<PathBuf>,
    /// The certificate to show (PEM); read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The authority that signs certificates of clients (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Append each action and its caller to this file, as one JSON line
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
    /// Send traces to this collector: OTLP over HTTP, such as http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Put the names of locks into traces
    #[arg(long, requires = "otlp")]
    pub(crate) trace_names: bool,
    /// The form of the log on standard error
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) log: LogForm,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(crate) max_connections: usize,
    /// Requests that wait for one lock
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_waiters: usize,
    /// Locks that one principal has
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) max_locks: usize,
    /// Acquisitions of one principal per second, and twice as many at once
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_rate: u32,
    /// How long connections have to end after SIGTERM
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    pub(crate) drain: Duration,
    /// Print the interface as OpenAPI 3.1, and end
    #[arg(long)]
    pub(crate) openapi: bool,
}
