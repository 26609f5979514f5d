//! `fencepost audit check`: whether a log is whole, and whether what it tells may have happened.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use fencepost_history::audit::{self, Report};
use serde::Serialize;

use crate::args::{Audit, AuditCheck};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::settings::Settings;

#[derive(Serialize)]
struct Checked {
    file: String,
    entries: u64,
    grants: u64,
    /// The hash of the last entry: whoever keeps it elsewhere sees later that nothing was cut off.
    head: String,
    /// Acts that the log says it has missed.
    missed: u64,
    torn: bool,
    broken: Option<String>,
    findings: Vec<String>,
}

pub(crate) fn audit(arguments: &Audit, settings: &Settings) -> Result<ExitCode, Failure> {
    let Audit::Check(AuditCheck { files, head, after }) = arguments;
    let unread = |file: &Path, error| Failure::new(ExitCode::USAGE, format!("{}: {error}", file.display()));
    let open = |file: &PathBuf| File::open(file).map(BufReader::new).map_err(|error| unread(file, error));
    let logs = files.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let report = audit::check_files(logs, after.as_deref(), head.as_deref());
    let report = report.map_err(|error| unread(files.last().map_or(Path::new(""), PathBuf::as_path), error))?;
    let shown = files.get(report.file).map(|file| file.display().to_string()).unwrap_or_default();
    let data = Checked {
        file: shown.clone(),
        entries: report.head.seq,
        grants: report.grants,
        head: report.head.hash.clone(),
        missed: report.missed,
        torn: report.torn,
        broken: report.broken.as_ref().map(ToString::to_string),
        findings: report.findings.iter().map(ToString::to_string).collect(),
    };
    settings.output.answer(data, || told(&shown, &report))?;
    Ok(if report.is_clean() { ExitCode::DONE } else { ExitCode::FOUND })
}

fn told(file: &str, report: &Report) -> String {
    let mut lines = Vec::new();
    lines.extend(report.broken.iter().map(|broken| format!("{file}: {broken}")));
    lines.extend(report.findings.iter().map(|finding| format!("{file}: {finding}")));
    if report.torn {
        lines.push(format!("{file}: the last line was cut off, as by a power cut"));
    }
    if report.missed > 0 {
        lines.push(format!("{file}: {} acts could not be written, as the log itself says", report.missed));
    }
    let verdict = if report.is_clean() { "in order" } else { "not in order" };
    let (entries, grants, head) = (report.head.seq, report.grants, &report.head.hash);
    lines.push(format!("{file}: {entries} entries, {grants} grants, {verdict}; head {head}"));
    lines.join("\n")
}
