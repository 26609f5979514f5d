//! A run that went wrong, made short.

use std::fmt::Write as _;

use fencepost_testkit::checker::Rule;

use crate::plan::{Mode, Plan};
use crate::world::run;

/// How much of the log is shown, before and after the finding.
const LINES: (usize, usize) = (90, 6);

/// A number of so many digits is a token.
const DIGITS: usize = 13;

/// The command that runs a plan again.
pub fn command(plan: &Plan) -> String {
    let mode = match plan.mode {
        mode if mode == Plan::mode_of(plan.seed) => "",
        Mode::Calm => " --mode calm",
        Mode::Strict => " --mode strict",
        Mode::Wild => " --mode wild",
    };
    let flaw = plan.flaw.map(|flaw| format!(" --flaw {flaw:?}")).unwrap_or_default();
    format!("cargo xtask prove --seed {}{mode}{flaw}", plan.seed)
}

/// Runs a plan again and tells what went wrong: with as few faults as it takes, and the part of the log that matters.
/// `None`: nothing does.
pub fn explain(plan: &Plan) -> Option<String> {
    let rule = run(plan, false).findings.first()?.rule;
    let short = shortened(plan, rule);
    let run = run(&short, true);
    let finding = run.findings.iter().find(|finding| finding.rule == rule)?;
    let mut text = String::new();
    let (all, left) = (plan.faults.len(), short.faults.len());
    let _ = writeln!(text, "seed {} ({:?}): {finding}", plan.seed, plan.mode);
    let _ = writeln!(text, "again: {}", command(plan));
    let _ = writeln!(text, "{left} of {all} planned faults are needed:");
    for (at, fault) in &short.faults {
        let _ = writeln!(text, "{:>12}  {fault:?}", at / 1_000);
    }
    let about = finding.lock.map(|lock| run.history.names()[lock as usize].as_str());
    let mattering: Vec<&str> = run.log.lines().filter(|line| matters(line, about)).collect();
    let at = finding.at.map(|at| at.as_nanos() / 1_000);
    let end = at.map_or(mattering.len(), |at| mattering.partition_point(|line| micros(line) <= at));
    let (from, to) = (end.saturating_sub(LINES.0), (end + LINES.1).min(mattering.len()));
    let _ = writeln!(
        text,
        "the log (microseconds of true time): before line {from} of {} what names a token of it, then all:",
        mattering.len()
    );
    let tokens: Vec<&str> =
        finding.what.split(|c: char| !c.is_ascii_digit()).filter(|word| word.len() >= DIGITS).collect();
    for line in mattering[..from].iter().filter(|line| tokens.iter().any(|token| line.contains(token))) {
        let _ = writeln!(text, "{line}");
    }
    for line in &mattering[from..to] {
        let _ = writeln!(text, "{line}");
    }
    Some(text)
}

/// The same plan with fewer faults, and finer weather, as long as it breaks the same rule.
fn shortened(plan: &Plan, rule: Rule) -> Plan {
    let breaks = |plan: &Plan| run(plan, false).findings.iter().any(|finding| finding.rule == rule);
    let mut short = plan.clone();
    let mut number = short.faults.len();
    while number > 0 {
        number -= 1;
        let mut less = short.clone();
        less.faults.remove(number);
        if breaks(&less) {
            short = less;
        }
    }
    let mut fine = short.clone();
    fine.weather.clear_up();
    for less in [fine, Plan { tasks: 1, ..short.clone() }] {
        if breaks(&less) {
            short = less;
            break;
        }
    }
    short
}

/// Whether a line of the log is about this lock, or about the world. What a node refused is said once, by the node.
fn matters(line: &str, lock: Option<&str>) -> bool {
    if line.contains("Voted(") && !line.contains("vote: Granted") {
        return false;
    }
    let Some(name) = lock else { return true };
    let of_world = ["FAULT", "goes on", "starts, memory", "the faults end"].iter().any(|word| line.contains(word));
    // As nodes and resources write it, and as the library's events do.
    let named = [format!("\"{name}\""), format!("resource {name} "), format!(" {name} #")];
    of_world || named.iter().any(|named| line.contains(named))
}

fn micros(line: &str) -> u64 {
    line.split_whitespace().next().and_then(|at| at.parse().ok()).unwrap_or_default()
}
