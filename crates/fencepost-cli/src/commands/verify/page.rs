//! The result as a page.

use fencepost::store::Moment;

use super::Plan;
use super::picture::{Window, closer, overview};
use super::reds::{end, windows};
use super::verdict::{Judgement, Verdict, finding_line, rows, rule_in_words, skipped};
use crate::page::{Figure, Page};

/// So many findings are listed.
const LISTED_MAX: usize = 30;

pub(super) fn page(plan: &Plan, judgement: &Judgement) -> String {
    let figures = &judgement.figures;
    let mut page = Page::new(&format!("fencepost verify: {}", judgement.verdict.word()), &judgement.sentence());
    let span = |ms: u64| format!("{:.1} s", ms as f64 / 1e3);
    page.facts(&[
        ("clients", figures.clients.to_string()),
        ("locks", figures.locks.to_string()),
        ("ttl", span(figures.ttl_ms)),
        ("ran for", span(figures.ran_ms)),
        ("planted bug", figures.planted.clone().unwrap_or_else(|| "none".to_owned())),
        ("by", format!("fencepost {}", env!("CARGO_PKG_VERSION"))),
        ("store", figures.store.clone()),
    ]);
    page.warnings(&figures.remarks);
    if judgement.verdict == Verdict::Violated {
        let list: Vec<String> = figures.findings.iter().take(LISTED_MAX).map(finding_line).collect();
        let more = figures.findings.len().saturating_sub(LISTED_MAX);
        let more = (more > 0).then(|| format!("… and {more} more"));
        page.section("What was found", &plan.bug.map(|bug| bug.told()).unwrap_or_default());
        page.findings(&list.into_iter().chain(more).collect::<Vec<_>>());
    }
    page.section("Who held what", "Time runs to the right, in seconds since the start; one lane per client.");
    let whole = Window { from: Moment::from_nanos(0), until: end(judgement) };
    let picture = overview(plan, judgement, whole);
    page.timeline(Figure { caption: "The whole run".to_owned(), legend: Vec::new(), picture });
    for (caption, window) in windows(judgement, plan.ttl) {
        let picture = closer(plan, judgement, window, &caption);
        page.timeline(Figure { caption, legend: Vec::new(), picture });
    }
    page.section("Figures", "");
    let cells: Vec<Vec<String>> = rows(figures).into_iter().map(|(name, value)| vec![name, value]).collect();
    page.table(2, &["what", "seen"], &cells);
    page.section("Rules", "What a clean verdict means, and what it does not, is in docs/verify.md.");
    let applied = figures.rules_applied.iter().map(|rule| (*rule, broken(judgement, rule)));
    let skipped = skipped(figures).into_iter().map(|(rule, why)| (rule, format!("not applied: {why}")));
    let rules: Vec<Vec<String>> = applied
        .chain(skipped)
        .map(|(rule, outcome)| vec![rule.to_owned(), rule_in_words(rule).to_owned(), outcome])
        .collect();
    page.table(3, &["rule", "says", "outcome"], &rules);
    page.finish()
}

fn broken(judgement: &Judgement, rule: &str) -> String {
    match judgement.figures.findings.iter().filter(|found| found.rule == rule).count() {
        0 => "kept".to_owned(),
        1 => "broken once".to_owned(),
        times => format!("broken {times} times"),
    }
}
