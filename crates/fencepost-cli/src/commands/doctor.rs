//! `fencepost doctor`: what can go wrong with a deployment, before it does.

mod machine;

use fencepost::doctor::{Fact, Finding, Report, Severity, examine};
use serde::Serialize;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::table;
use crate::settings::Settings;

#[derive(Serialize)]
struct Examination<'a> {
    store: String,
    /// Where the store was set.
    store_source: String,
    ttl_ms: u128,
    ttl_source: String,
    scope: &'a str,
    facts: Vec<FactData<'a>>,
    findings: Vec<FindingData<'a>>,
}

#[derive(Serialize)]
struct FactData<'a> {
    place: &'a str,
    what: &'a str,
    value: &'a str,
}

#[derive(Serialize)]
struct FindingData<'a> {
    severity: &'static str,
    code: &'static str,
    place: &'a str,
    evidence: &'a str,
    cure: &'a str,
}

impl<'a> From<&'a Fact> for FactData<'a> {
    fn from(fact: &'a Fact) -> Self {
        Self { place: &fact.place, what: fact.what, value: &fact.value }
    }
}

impl<'a> From<&'a Finding> for FindingData<'a> {
    fn from(finding: &'a Finding) -> Self {
        let (severity, code) = (finding.severity.as_str(), finding.code);
        Self { severity, code, place: &finding.place, evidence: &finding.evidence, cure: &finding.cure }
    }
}

pub(crate) fn doctor(settings: &Settings) -> Result<ExitCode, Failure> {
    let config = &settings.config;
    let mut report = examine(&config.store.value, config.ttl.value)?;
    machine::examine(&mut report);
    // What is worst is read first.
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let data = Examination {
        store: config.store_redacted(),
        store_source: config.store.source.to_string(),
        ttl_ms: config.ttl.value.as_millis(),
        ttl_source: config.ttl.source.to_string(),
        scope: &report.scope,
        facts: report.facts.iter().map(FactData::from).collect(),
        findings: report.findings.iter().map(FindingData::from).collect(),
    };
    let ttl = humantime::format_duration(config.ttl.value).to_string();
    let head = vec![
        vec!["store".into(), data.store.clone(), format!("set by {}", data.store_source)],
        vec!["ttl".into(), ttl, format!("set by {}", data.ttl_source)],
        vec!["scope".into(), report.scope.clone(), String::new()],
    ];
    settings.output.answer(&data, || text(head, &report))?;
    Ok(if report.worst() == Some(Severity::Error) { ExitCode::FOUND } else { ExitCode::DONE })
}

fn text(head: Vec<Vec<String>>, report: &Report) -> String {
    let mut text = table(&["", "", ""], head).trim_start().to_owned();
    text.push('\n');
    let facts =
        report.facts.iter().map(|fact| vec![fact.place.clone(), fact.what.into(), fact.value.clone()]).collect();
    text += &table(&["PLACE", "WHAT", "VALUE"], facts);
    let said = together(&report.findings);
    for (places, finding) in &said {
        let Finding { severity, code, evidence, cure, .. } = finding;
        let severity = severity.as_str().to_uppercase();
        text += &format!("\n{severity} {code}: {}\n  {evidence}\n  cure: {cure}\n", places.join(", "));
    }
    // What is printed once counts once.
    let count = |severity, word: &str| match said.iter().filter(|(_, finding)| finding.severity == severity).count() {
        1 => format!("1 {word}"),
        number => format!("{number} {word}s"),
    };
    let counts = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Notice, "notice")];
    let counts: Vec<String> = counts.into_iter().map(|(severity, word)| count(severity, word)).collect();
    text + &format!("\n{}\n", counts.join(", "))
}

/// What is the same in several places is said once.
fn together(findings: &[Finding]) -> Vec<(Vec<&str>, &Finding)> {
    let mut said: Vec<(Vec<&str>, &Finding)> = Vec::new();
    for finding in findings {
        let same = |(_, other): &&mut (Vec<&str>, &Finding)| {
            (other.code, &other.evidence, &other.cure) == (finding.code, &finding.evidence, &finding.cure)
        };
        match said.iter_mut().find(same) {
            Some((places, _)) => places.push(&finding.place),
            None => said.push((vec![&finding.place], finding)),
        }
    }
    said
}
