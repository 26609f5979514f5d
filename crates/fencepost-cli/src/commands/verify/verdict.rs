//! The verdict, and how it is told.

use std::collections::BTreeMap;

use fencepost_history::checker::{Demands, Finding, Hold, check, holds};

use super::Plan;
use super::figures::{Figures, Found, Spread};
use super::leftovers::Leftovers;
use super::session::Seen;
use crate::exit_code::ExitCode;
use crate::output::table;

/// So many findings are shown to people; data has all of them.
const SHOWN_MAX: usize = 8;

/// What is judged, and what each rule says.
const APPLIED: [&str; 6] = ["C1", "C2", "C3", "C4", "C5", "C11"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Clean,
    Violated,
    Inconclusive,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Violated => "violated",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// All that can be said.
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) figures: Figures,
    pub(super) findings: Vec<Finding>,
    pub(super) holds: Vec<Hold>,
    pub(super) seen: Seen,
}

impl Judgement {
    pub(super) fn of(plan: &Plan, mut seen: Seen, left: Leftovers) -> Self {
        let history = seen.book.history();
        if let Leftovers::Some(left) = &left {
            let place = |lock: usize| u32::try_from(lock).expect("BUG: few locks");
            history.left = left.iter().map(|(lock, what)| (place(*lock), what.clone())).collect();
        }
        let demands = Demands { exclusion: true, ..Demands::default() };
        let mut findings = check(history, &demands);
        // The checker tells them rule by rule; people read them as they happened.
        findings.sort_by_key(|finding| (finding.at.is_none(), finding.at));
        let holds = holds(history, &mut Vec::new());
        let mut figures = Figures::of(plan, &mut seen, &findings);
        let doubts = doubts(plan, &figures);
        let verdict = match (findings.is_empty(), doubts.is_empty()) {
            (false, _) => Verdict::Violated,
            (true, false) => Verdict::Inconclusive,
            (true, true) => Verdict::Clean,
        };
        figures.verdict = verdict.word();
        if verdict == Verdict::Inconclusive {
            figures.remarks = doubts;
        }
        figures.remarks.extend(remarks(&figures, &left));
        figures.rules_applied = APPLIED.to_vec();
        figures.rules_not_applied = not_applied();
        figures.left_behind = match left {
            Leftovers::None => format!("nothing is locked below {}", plan.prefix),
            Leftovers::Some(left) => format!("{} of the locks were not free; they were freed by force", left.len()),
            Leftovers::Unknown(why) => {
                figures.rules_applied.retain(|rule| *rule != "C5");
                figures.rules_not_applied.insert("C5", format!("the store could not be looked at: {why}"));
                "unknown".to_owned()
            }
        };
        Self { verdict, figures, findings, holds, seen }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        match self.verdict {
            Verdict::Clean => ExitCode::DONE,
            Verdict::Violated => ExitCode::FOUND,
            Verdict::Inconclusive => ExitCode::NOT_OBTAINED,
        }
    }

    /// One sentence.
    pub(super) fn sentence(&self) -> String {
        let figures = &self.figures;
        match self.verdict {
            Verdict::Clean => format!(
                "no rule was broken in {} acquisitions and {} hand-overs",
                figures.acquisitions, figures.hand_overs
            ),
            Verdict::Violated => {
                let mut rules: Vec<&str> = figures.findings.iter().map(|found| found.rule.as_str()).collect();
                rules.sort_unstable();
                rules.dedup();
                let times = figures.findings.len();
                let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
                format!("rules were broken {times}: {}", rules.join(", "))
            }
            Verdict::Inconclusive => "nothing can be said".to_owned(),
        }
    }
}

/// Why silence would mean nothing.
fn doubts(plan: &Plan, figures: &Figures) -> Vec<String> {
    let mut doubts = Vec::new();
    if figures.acquisitions == 0 {
        // What came up most; that somebody else had it only if there was nothing else.
        let most = |counts: &BTreeMap<String, u64>| {
            counts.iter().max_by_key(|(_, count)| **count).map(|(reason, _)| reason.clone())
        };
        let mut others = figures.refusals.clone();
        others.remove("busy");
        let why = most(&figures.troubles).or_else(|| most(&others)).or_else(|| most(&figures.refusals));
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        doubts.push(format!("no client obtained a lock{why}"));
    } else if figures.hand_overs == 0 {
        doubts.push("no lock ever went from one client to another; run it longer".to_owned());
    }
    if let Some(bug) = plan.bug {
        doubts.push(format!("the planted bug {} did not show; run it longer", bug.name()));
    }
    doubts
}

/// What to know about what is said.
fn remarks(figures: &Figures, left: &Leftovers) -> Vec<String> {
    let mut remarks = Vec::new();
    if figures.interrupted {
        remarks.push("it was ended early: this is about what was seen until then".to_owned());
    }
    let unused = figures.faults.iter().filter(|(_, count)| **count == 0);
    remarks.extend(unused.map(|(fault, _)| format!("{fault} was asked for, and never struck; run it longer")));
    if figures.crashed > 0 {
        remarks.push(format!("{} clients ended by themselves", figures.crashed));
    }
    if figures.stragglers > 0 {
        remarks.push(format!("{} clients did not end in time, and were killed", figures.stragglers));
    }
    if figures.unreached > 0 {
        let what = "clients that nobody had struck could not connect";
        let files = "the store was away, or this machine allows too few open files or processes for these clients";
        remarks.push(format!("{what}, {} times: {files}", figures.unreached));
    }
    if let Leftovers::Unknown(why) = left {
        remarks.push(format!("whether something was left behind is not known: {why}"));
    }
    remarks
}

fn not_applied() -> std::collections::BTreeMap<&'static str, String> {
    [
        ("C6", "how long hand-overs took is told instead: a busy machine and a slow lock look the same"),
        ("C7", "how many were overtaken is told instead: faults put people out of line"),
        ("C8", "no semaphore was used"),
        ("C9", "nobody only read"),
        ("C10", "nobody led; a leader's lock is a lock like any other"),
    ]
    .map(|(rule, why)| (rule, why.to_owned()))
    .into()
}

/// Which rules were not applied and why, by their numbers.
pub(super) fn skipped(figures: &Figures) -> Vec<(&'static str, &str)> {
    let mut rules: Vec<_> = figures.rules_not_applied.iter().map(|(rule, why)| (*rule, why.as_str())).collect();
    rules.sort_by_key(|(rule, _)| (rule.len(), *rule));
    rules
}

/// Each rule, in words.
pub(super) fn rule_in_words(rule: &str) -> &'static str {
    match rule {
        "C1" => "no two holders of one lock at a time",
        "C2" => "who asks after another was granted gets a higher token",
        "C3" => "no token twice",
        "C4" => "the resource: accepted tokens never fall, were granted to somebody, and no update is lost",
        "C5" => "nothing is left behind",
        "C6" => "a free lock goes to who waits for it, in time",
        "C7" => "first come, first served",
        "C8" => "no more holders than permits",
        "C9" => "a writer is alone",
        "C10" => "terms of a leader",
        _ => "who reported loss or release stays gone",
    }
}

/// The figures, each with its name.
pub(super) fn rows(figures: &Figures) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
    row("acquisitions", figures.acquisitions.to_string());
    row("hand-overs", figures.hand_overs.to_string());
    row("acquire, wait in line included", spread(&figures.acquire));
    row("hand-over gap", spread(&figures.hand_over_gap));
    row("overtaken in line", figures.overtaken.to_string());
    row("renewals", format!("{}, not answered {}", figures.renewals, figures.renewals_unanswered));
    let counts = |of: &std::collections::BTreeMap<String, u64>| {
        let counts: Vec<String> = of.iter().map(|(what, count)| format!("{count} × {what}")).collect();
        if counts.is_empty() { "none".to_owned() } else { counts.join("; ") }
    };
    row("losses", counts(&figures.losses));
    row("not obtained", counts(&figures.refusals));
    if !figures.troubles.is_empty() {
        row("could not connect", counts(&figures.troubles));
    }
    row("writes", figures.writes.to_string());
    row("late writes refused by the fence", figures.refused_by_the_fence.to_string());
    let faults: Vec<String> = figures.faults.iter().map(|(fault, count)| format!("{count} × {fault}")).collect();
    row("faults injected", if faults.is_empty() { "none".to_owned() } else { faults.join(", ") });
    row("left behind", figures.left_behind.clone());
    rows
}

fn spread(of: &Spread) -> String {
    match of.count {
        0 => "none".to_owned(),
        _ => format!("p50 {:.2} ms, p99 {:.2} ms, at most {:.2} ms", of.p50_ms, of.p99_ms, of.max_ms),
    }
}

pub(super) fn finding_line(found: &Found) -> String {
    let at = found.at_ms.map(|at| format!(" at {:.4} s", at / 1e3)).unwrap_or_default();
    format!("{}{at}: {}", found.rule, found.what)
}

/// For people.
pub(super) fn text(plan: &Plan, judgement: &Judgement) -> String {
    let figures = &judgement.figures;
    let mut text = format!("{}: {}\n", judgement.verdict.word(), judgement.sentence());
    text.extend(figures.remarks.iter().map(|remark| format!("  {remark}\n")));
    if let Some(bug) = plan.bug {
        text += &format!("  planted: {}, {}\n", bug.name(), bug.told());
    }
    let shown = figures.findings.iter().take(SHOWN_MAX);
    text.extend(shown.map(|found| format!("  {}\n", finding_line(found))));
    if figures.findings.len() > SHOWN_MAX {
        text += &format!("  … and {} more; --json has all of them\n", figures.findings.len() - SHOWN_MAX);
    }
    let setting = format!("{} clients, {} locks, ttl {} ms", figures.clients, figures.locks, figures.ttl_ms);
    let head = [("store".to_owned(), figures.store.clone()), ("with".to_owned(), setting)];
    let ran = ("for".to_owned(), format!("{:.1} s", figures.ran_ms as f64 / 1e3));
    let all = head.into_iter().chain([ran]).chain(rows(figures));
    let all = all.map(|(name, value)| vec![name, value]).collect();
    text.push('\n');
    text += &table(&["WHAT", "SEEN"], all);
    text += &format!("\nrules applied: {}\n", figures.rules_applied.join(", "));
    let skipped = skipped(figures).into_iter().map(|(rule, why)| format!("not applied: {rule}, {why}\n"));
    text + &skipped.collect::<String>()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::args::{Bug, Fault};
    use crate::commands::verify::book::Book;
    use crate::commands::verify::talk::{Said, Word};

    fn plan(bug: Option<Bug>) -> Plan {
        Plan {
            clients: 2,
            span: Duration::from_secs(1),
            ttl: Duration::from_secs(1),
            faults: vec![Fault::Pause],
            bug,
            url: "sqlite:".into(),
            place: None,
            prefix: "verify/x/".into(),
            names: vec!["verify/x/1".into()],
            store: "sqlite:".into(),
        }
    }

    /// Each client, in turn, has the lock once.
    fn judged(bug: Option<Bug>, holders: &[usize], left: Leftovers) -> Judgement {
        let plan = plan(bug);
        let mut book = Book::new(0, &plan.names, plan.clients, false);
        for (turn, &client) in (1u64..).zip(holders) {
            let at = 1000 * turn;
            let words = [Word::Asked, Word::Acquired { token: turn, until: at + 900 }, Word::Releasing];
            for (step, word) in (0u64..).zip(words) {
                book.hear(client, Said { at: at + step, claim: turn, lock: 0, word }, at + step);
            }
        }
        let ran = Duration::from_secs(1);
        let seen = Seen { book, struck: Vec::new(), ran, interrupted: false, crashed: 0, stragglers: 0, unreached: 0 };
        Judgement::of(&plan, seen, left)
    }

    #[test]
    fn silence_is_clean_only_if_a_lock_changed_hands() {
        let cases: [(&[usize], Verdict, u8); 3] =
            [(&[], Verdict::Inconclusive, 75), (&[0, 0], Verdict::Inconclusive, 75), (&[0, 1], Verdict::Clean, 0)];
        for (holders, verdict, code) in cases {
            let judgement = judged(None, holders, Leftovers::None);
            assert_eq!((judgement.verdict, judgement.exit_code()), (verdict, ExitCode(code)), "{holders:?}");
        }
    }

    #[test]
    fn a_planted_bug_that_did_not_show_is_not_clean() {
        let judgement = judged(Some(Bug::NoLock), &[0, 1, 0], Leftovers::None);
        assert_eq!(judgement.verdict, Verdict::Inconclusive);
        assert!(judgement.figures.remarks[0].contains("no-lock did not show"), "{:?}", judgement.figures.remarks);
    }

    #[test]
    fn what_was_left_behind_is_a_violation_and_what_could_not_be_seen_is_said() {
        let left = judged(None, &[0, 1], Leftovers::Some(vec![(0, "held by somebody".into())]));
        assert_eq!((left.verdict, left.figures.findings[0].rule.as_str()), (Verdict::Violated, "C5"));
        let unknown = judged(None, &[0, 1], Leftovers::Unknown("denied".into()));
        assert_eq!(unknown.verdict, Verdict::Clean);
        assert!(!unknown.figures.rules_applied.contains(&"C5"));
        assert!(unknown.figures.remarks.iter().any(|remark| remark.contains("denied")));
    }

    #[test]
    fn clients_that_could_not_connect_though_nobody_struck_them_are_said() {
        let plan = plan(None);
        let seen = |unreached| Seen {
            book: Book::new(0, &plan.names, plan.clients, false),
            struck: Vec::new(),
            ran: Duration::from_secs(1),
            interrupted: false,
            crashed: 0,
            stragglers: 0,
            unreached,
        };
        let said = |unreached| Judgement::of(&plan, seen(unreached), Leftovers::None).figures.remarks.join("\n");
        assert!(said(3).contains("could not connect, 3 times"), "{}", said(3));
        assert!(!said(0).contains("could not connect"));
    }

    #[test]
    fn a_fault_that_never_struck_is_said() {
        let judgement = judged(None, &[0, 1], Leftovers::None);
        assert!(judgement.figures.remarks.iter().any(|remark| remark.contains("pause was asked for")));
    }
}
