//! A run that went wrong, made short.

use std::fmt::Write as _;

use fencepost_testkit::checker::Rule;

use crate::plan::{Mode, Plan};
use crate::world::run;

/// How much of the log is shown, before and after the finding.
const LINES: (usize, usize) = (70, 6);

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
    let lines: Vec<&str> = run.log.lines().collect();
    let names = run.history.names();
    let about = names.iter().filter(|name| finding.what.contains(&format!(" {name}"))).max_by_key(|name| name.len());
    let wanted = |line: &&&str| match about {
        Some(name) => {
            let (named, quoted) = (format!(" {name} "), format!("\"{name}\""));
            line.contains(&named) || line.contains(&quoted) || line.contains("FAULT") || line.contains("goes on")
        }
        None => true,
    };
    let mattering: Vec<&&str> = lines.iter().filter(wanted).collect();
    let at = moment_of(&finding.what);
    let end = at.map_or(mattering.len(), |at| mattering.partition_point(|line| micros(line) <= at));
    let (from, to) = (end.saturating_sub(LINES.0), (end + LINES.1).min(mattering.len()));
    let _ =
        writeln!(text, "the log from there (microseconds of true time), lines {from} to {to} of {}:", mattering.len());
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

/// The first moment that a finding names, in microseconds.
fn moment_of(what: &str) -> Option<u64> {
    let from = what.split("from ").nth(1)?.split(' ').next()?;
    from.parse::<u64>().ok().map(|nanos| nanos / 1_000)
}

fn micros(line: &str) -> u64 {
    line.split_whitespace().next().and_then(|at| at.parse().ok()).unwrap_or_default()
}
