//! What can go wrong with a file that keeps locks.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use fencepost_core::doctor::{Report, Severity, trial_name, try_out_at};
use fencepost_core::store::{Clock, Store, StoreErrorKind, Trouble};
use rusqlite::{Connection, OpenFlags};

use crate::path::{self, kind_of_file_system, kind_of_network};
use crate::store::{ANSWER_WITHIN, Sqlite};

/// The first version in which a checkpoint beside a writer cannot spoil the file.
const SAFE_VERSION: i32 = 3_051_003;
/// How many times a lock is taken and released, to see how long the disk takes.
const TRIALS: usize = 5;
/// Less than this is soon used up.
const FREE_BYTES_MIN: u64 = 64 << 20;

/// Looks at the file of `sqlite:PATH`, which keeps locks of this ttl. It is made if there is none. Takes a moment, and blocks.
pub fn examine(path: &str, ttl: Duration) -> Report {
    let mut report = Report::new("every process on this machine that may write to the file");
    let unexpected = |error: String| Trouble::new(StoreErrorKind::Unexpected, error);
    let trouble = |error: fencepost_core::StoreError| Trouble::new(error.kind, error.message);
    let file = match path::resolve(path) {
        Ok(file) => file,
        Err(failure) => {
            let message = failure.trouble().message;
            let code = if message.contains("file locks do not hold") { "file-system" } else { "misconfigured" };
            report.find(Severity::Error, code, path, message, "name a file on a local disk: sqlite:/path/locks.db");
            return report;
        }
    };
    let place = file.display().to_string();
    if path.is_empty() {
        "every process of this user on this machine".clone_into(&mut report.scope);
    }
    judge_version(rusqlite::version_number(), &mut report);
    judge_journal(&file, &mut report);
    let clock = match Clock::system() {
        Ok(clock) => clock,
        Err(error) => {
            report.judge_trial(&place, Err(unexpected(error.to_string())));
            return report;
        }
    };
    let store = match Sqlite::open(path, clock.clone()) {
        Ok(store) => store,
        Err(error) => {
            if error.kind == StoreErrorKind::Unexpected {
                judge_content(&file, &mut report);
            }
            // What is wrong already would only be said once more.
            if report.worst() != Some(Severity::Error) {
                report.judge_trial(&place, Err(trouble(error)));
            }
            return report;
        }
    };
    judge_place(&file, &mut report);
    judge_content(&file, &mut report);
    // One name for all of them: the last token of each would stay in the file.
    let name = match trial_name() {
        Ok(name) => name,
        Err(trouble) => {
            report.judge_trial(&store.label(), Err(trouble));
            return report;
        }
    };
    let mut took = Vec::with_capacity(TRIALS);
    for _ in 0..TRIALS {
        let start = Instant::now();
        if let Err(trouble) = try_out_at(&name, &store, &clock, ttl) {
            report.judge_trial(&store.label(), Err(trouble));
            return report;
        }
        // Taken, renewed, released: each is a commit.
        took.push(start.elapsed() / 3);
    }
    report.judge_latency(&place, took, (ttl / 3).min(ANSWER_WITHIN), ttl);
    report
}

fn judge_version(version: i32, report: &mut Report) {
    let text = format!("{}.{}.{}", version / 1_000_000, version / 1000 % 1000, version % 1000);
    report.fact("SQLite", "version", text.clone());
    if version < SAFE_VERSION {
        let evidence =
            format!("{text}: a file that several processes write to may be spoilt, in rare cases; 3.51.3 is not so");
        report.find(Severity::Warning, "version", "SQLite", evidence, "build with SQLite 3.51.3 or newer");
    }
}

/// Before it is opened for writing, which sets what we need.
fn judge_journal(file: &Path, report: &mut Report) {
    let Ok(connection) = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY) else { return };
    let mode = connection.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
    let empty = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    if let (Ok(mode), Ok(1..)) = (mode, empty)
        && mode != "wal"
    {
        let evidence =
            format!("its journal mode was {mode:?}: another program has changed it, and readers had to wait");
        let cure = "it is set to WAL again with every connection; let no other program open the file";
        report.find(Severity::Notice, "journal-mode", &file.display().to_string(), evidence, cure);
    }
}

fn judge_place(file: &Path, report: &mut Report) {
    let place = file.display().to_string();
    let Ok(found) = rustix::fs::statfs(file) else { return };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unnecessary_cast)]
    let magic = found.f_type as u32;
    if let Some(kind) = kind_of_network(magic) {
        let evidence = format!("it is on {kind}, where file locks do not hold between machines");
        report.find(Severity::Error, "file-system", &place, evidence, "name a file on a local disk");
    }
    match kind_of_file_system(magic) {
        Some(kind @ "tmpfs") => {
            let evidence =
                format!("it is on {kind}: held locks are forgotten when the machine starts anew, and so are tokens");
            report.find(Severity::Warning, "file-system", &place, evidence, "name a file on a disk");
        }
        Some(kind) => {
            let evidence =
                format!("it is on {kind}: a container's own layer, which is gone with it and shared with nobody");
            report.find(Severity::Notice, "file-system", &place, evidence, "name a file on a volume");
        }
        None => {}
    }
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the width differs between machines")]
    let free = (found.f_bavail as u64).saturating_mul(found.f_bsize as u64);
    if free < FREE_BYTES_MIN {
        let evidence =
            format!("{} kB are free on its disk; when it is full, no lock is granted or renewed", free / 1000);
        report.find(Severity::Warning, "disk", &place, evidence, "make room");
    }
    let open_to_all = file.metadata().is_ok_and(|found| found.permissions().mode() & 0o002 != 0);
    if open_to_all {
        let cure = format!("chmod o-w {place}; share it by a group");
        report.find(Severity::Warning, "rights", &place, "everybody on this machine may change who holds what", cure);
    }
}

fn judge_content(file: &Path, report: &mut Report) {
    let checked = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .and_then(|connection| connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)));
    let said = match checked {
        Ok(said) if said == "ok" => return,
        Ok(said) => said,
        Err(error) => error.to_string(),
    };
    let cure = "stop all who use it, keep a copy, and delete it: a new one is made";
    report.find(Severity::Error, "spoilt", &file.display().to_string(), said, cure);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_sqlite_is_told_of() {
        let judged = |version| {
            let mut report = Report::new("here");
            judge_version(version, &mut report);
            report.worst()
        };
        assert_eq!(judged(3_051_002), Some(Severity::Warning));
        assert_eq!(judged(SAFE_VERSION), None);
    }
}
