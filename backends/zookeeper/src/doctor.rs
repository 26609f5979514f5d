//! What can go wrong with a ZooKeeper ensemble that keeps locks.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_core::Blocking;
use fencepost_core::doctor::{Report, Severity, answer_within, apart, is_enough, shown};
use fencepost_core::store::{StoreError, StoreErrorKind, Trouble};
use tokio::runtime::Builder;
use tokio::sync::mpsc::unbounded_channel;

use crate::session::Session;
use crate::store::ZooKeeper;
use crate::url::Settings;

/// Connecting and an answer may take so long.
const WITHIN: Duration = Duration::from_secs(3);

/// Looks at the ensemble of `SCHEME:REST`, which keeps locks of this ttl. Takes a moment, and blocks.
///
/// # Errors
/// If the URL cannot be used.
pub fn examine(scheme: &str, rest: &str, ttl: Duration) -> Result<Report, StoreError> {
    let wrong = |invalid: fencepost_core::Invalid| {
        StoreError::new(StoreErrorKind::Misconfigured, "examine", invalid.to_string())
    };
    let settings = Settings::parse(scheme, rest).map_err(wrong)?;
    let mut report = Report::new(format!("every process that uses this ensemble, below the node {:?}", settings.root));
    judge_servers(&settings.servers, ttl, &mut report);
    if report.worst() != Some(Severity::Error) {
        judge_sessions(&settings, ttl, &mut report)?;
    }
    let label = settings.label();
    report.judge_use(&label, ttl, |clock| ZooKeeper::open(settings, clock).block());
    Ok(report)
}

/// What a server says of itself.
enum Seen {
    Serving {
        mode: String,
    },
    /// It answers, but tells nothing: it is not asked for, or the word is not allowed.
    Silent(String),
}

fn judge_servers(servers: &[String], ttl: Duration, report: &mut Report) {
    let (mut modes, mut missing) = (Vec::new(), Vec::new());
    for place in servers {
        match look_at(place, ttl, report) {
            Ok(Seen::Serving { mode }) => modes.push((place, mode)),
            Ok(Seen::Silent(said)) if said.contains("not currently serving") => {
                let cure = "start the other servers: nothing is granted or renewed without a majority";
                report.find(Severity::Error, "no-leader", place, "it serves nobody: it sees no leader", cure);
            }
            Ok(Seen::Silent(said)) => {
                let evidence = format!("it does not tell its part in the ensemble: {said}");
                let cure = "let it answer: 4lw.commands.whitelist=srvr in zoo.cfg";
                report.find(Severity::Notice, "silent", place, evidence, cure);
            }
            Err(error) => missing.push((place, error)),
        }
    }
    let suffice = missing.len() < servers.len();
    let missing = missing.into_iter().map(|(place, error): (&String, io::Error)| {
        let kind = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => StoreErrorKind::TooSlow,
            _ => StoreErrorKind::Unreachable,
        };
        (place.clone(), Trouble::new(kind, error.to_string()))
    });
    report.judge_missing(missing, suffice);
    for (place, mode) in &modes {
        report.fact(place, "mode", mode.clone());
        match mode.as_str() {
            "standalone" if servers.len() > 1 => {
                let evidence = "it is no part of an ensemble: its locks are its own";
                report.find(Severity::Error, "different-clusters", place, evidence, "name the servers of one ensemble");
            }
            "standalone" => {
                let evidence = "it is alone: without it no lock is granted or renewed";
                report.find(Severity::Warning, "one-server", place, evidence, "run three servers, or five");
            }
            "read-only" => {
                let evidence = "it is cut off from the others, and only reads";
                report.find(Severity::Error, "read-only", place, evidence, "repair the network between the servers");
            }
            "observer" => {
                let evidence = "it is an observer: it passes requests on, and has no vote";
                report.find(Severity::Notice, "observer", place, evidence, "name the voting servers");
            }
            _ => {}
        }
    }
    let voting = modes.iter().filter(|(_, mode)| ["leader", "follower"].contains(&mode.as_str())).count();
    if servers.len() > 1 && servers.len().is_multiple_of(2) && voting == servers.len() {
        let count = servers.len();
        let evidence = format!("{count} servers survive the loss of {}, as {} would", (count - 1) / 2, count - 1);
        report.find(Severity::Warning, "even", "all servers", evidence, "run an odd number of servers");
    }
}

fn look_at(place: &str, ttl: Duration, report: &mut Report) -> io::Result<Seen> {
    let (mut round_trips, mut said) = (Vec::new(), String::new());
    while !is_enough(&round_trips) {
        let start = Instant::now();
        said = word(place, "srvr")?;
        round_trips.push(start.elapsed());
    }
    let field = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).map(|text| text.trim().to_owned());
    let Some(mode) = field("Mode:") else { return Ok(Seen::Silent(said.trim().to_owned())) };
    report.fact(place, "version", field("Zookeeper version:").unwrap_or_default());
    report.judge_latency(place, round_trips, answer_within(ttl), ttl);
    Ok(Seen::Serving { mode })
}

/// Asks one of the words that servers answer without a session.
fn word(place: &str, word: &str) -> io::Result<String> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let address = place.to_socket_addrs()?.next().ok_or_else(none)?;
    let mut stream = TcpStream::connect_timeout(&address, WITHIN)?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.write_all(word.as_bytes())?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}

/// Servers decide how long a session lasts, and with it how long a lock of a process that died.
fn judge_sessions(settings: &Settings, ttl: Duration, report: &mut Report) -> Result<(), StoreError> {
    let (settings, label) = (Arc::new(settings.clone()), settings.label());
    // In whole seconds, as all sessions are asked for.
    let wanted = Duration::from_secs(ttl.saturating_add(settings.slack_for(ttl)).as_secs() + 1);
    let needed = ttl.saturating_add(settings.slack_min());
    let unexpected = |what: String| StoreError::new(StoreErrorKind::Unexpected, "examine", what);
    let opened = apart(move || {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(|error| unexpected(error.to_string()))?;
        Ok(runtime.block_on(async {
            let (news, _heard) = unbounded_channel();
            let limit = tokio::time::Instant::now() + WITHIN;
            let session = Session::open(&settings, wanted, news, limit).await?;
            let granted = session.timeout;
            session.close().await;
            Ok(granted)
        }))
    });
    let granted: Duration = match opened? {
        Ok(granted) => granted,
        Err(failure) => {
            let failure: crate::error::Failure = failure;
            report.judge_refusal(&label, failure.trouble());
            return Ok(());
        }
    };
    report.fact(&label, "session", format!("{} asked for, {} granted", shown(wanted), shown(granted)));
    if granted < needed {
        let evidence =
            format!("sessions last {} at most; a ttl of {} needs {}", shown(granted), shown(ttl), shown(needed));
        let cure = "raise maxSessionTimeout in zoo.cfg, or choose a shorter ttl";
        report.find(Severity::Error, "session-limits", &label, evidence, cure);
    } else if granted > wanted {
        let evidence =
            format!("sessions last {} at least: a lock of a process that died stays for that long", shown(granted));
        let cure = "lower minSessionTimeout or tickTime in zoo.cfg, or choose a longer ttl";
        report.find(Severity::Warning, "session-limits", &label, evidence, cure);
    }
    Ok(())
}
