//! What an examination of a deployment found, for tests that made it good or bad.

use fencepost_core::doctor::{Finding, Report, Severity};

/// The warnings and errors of a report, as `error evicts`; each once, in order.
///
/// # Panics
/// If a finding says nothing of what was seen or what to do.
pub fn bad(report: &Report) -> Vec<String> {
    for Finding { code, place, evidence, cure, .. } in &report.findings {
        assert!([place, evidence, cure].iter().all(|text| !text.is_empty()), "{code} does not say enough: {report:#?}");
    }
    let bad = report.findings.iter().filter(|finding| finding.severity > Severity::Notice);
    let mut words: Vec<String> = bad.map(|finding| format!("{} {}", finding.severity.as_str(), finding.code)).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// The finding with this code.
///
/// # Panics
/// If there is none.
pub fn finding<'a>(report: &'a Report, code: &str) -> &'a Finding {
    let found = report.findings.iter().find(|finding| finding.code == code);
    found.unwrap_or_else(|| panic!("no {code} in {report:#?}"))
}
