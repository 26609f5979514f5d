//! The evidence as a page: every figure follows from the seeds, so anybody can make it again.

use std::fmt::Write as _;

use fencepost_testkit::checker::Rule;

use crate::campaign::{Tally, all, campaign, hunt};
use crate::control::Control;
use crate::flaw::Flaw;
use crate::plan::{Mode, Plan};
use crate::story::Story;
use crate::world::run;

const HEAD: &str = "\
# Evidence

Made by `cargo xtask evidence`; every figure follows from the seeds and can be made again. What the rules say is in
[the checker](../crates/fencepost-history/src/checker/mod.rs); what is simulated, and why it is safe, in
[safety](safety.md). One seed again, with what went wrong: `cargo xtask prove --seed N`.

";

/// What the longest search printed: `cargo xtask prove --minutes M --from SEED --record` writes it.
const LONG_RUN: &str = include_str!("../long_run.txt");

/// How many worlds each way to lock is put into.
const WORLDS: u64 = 10_000;
const CONTROLS: u64 = 1_000;
/// For ten thousand pauses.
const PAUSES: u64 = 600;

const OURS: &str = "Fencepost on Redlock";
const CALM: &str = "the same without faults";

/// The page. `tell` hears what is being done.
pub fn evidence(tell: impl Fn(&str)) -> String {
    let mut page = HEAD.to_owned();
    worlds(&mut page, &tell);
    page.push_str(&long_run());
    pauses(&mut page, &tell);
    tell("stories");
    page.push_str(&stories());
    planted(&mut page, &tell);
    page
}

/// What of a page does not say what is so today. The figures of seeds are not counted again.
pub fn outdated(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut demand = |holds: bool, what: &str| (!holds).then(|| wrong.push(what.to_owned()));
    demand(page.starts_with(HEAD), "its head");
    demand(page.contains(&long_run()), "the longest search");
    demand(page.contains(&stories()), "the stories");
    let row = |name: &str| page.lines().find_map(|line| line.strip_prefix(&format!("| {name} | ")));
    let figures =
        |name| row(name).map(|row| row.split(" | ").filter_map(|cell| cell.trim_end_matches(" |").parse().ok()));
    let good = |name| figures(name).map(|all| all.skip(4).collect::<Vec<u64>>()).is_some_and(|wrong| wrong == [0; 4]);
    let bad = |name| figures(name).and_then(|mut all| all.nth(5)).is_some_and(|order: u64| order > 0);
    demand(good(OURS) && good(CALM), "our Redlock");
    demand([Control::PlainRedlock, Control::SentinelIncr].map(Control::describe).into_iter().all(bad), "the controls");
    for flaw in Flaw::ALL.map(Flaw::describe) {
        demand(row(flaw).is_some_and(|row| !row.starts_with("0 of")), flaw);
    }
    wrong
}

fn long_run() -> String {
    format!(
        "## The longest search\n\nFrom seed 1,000,000 on, so in other worlds than the rest of this page:\n\n> {LONG_RUN}\n"
    )
}

fn broken(tally: &Tally, wanted: &[Rule]) -> u64 {
    let rules = tally.rules();
    rules.iter().filter(|(rule, _)| wanted.contains(rule)).map(|(_, count)| *count as u64).sum()
}

fn worlds(page: &mut String, tell: &impl Fn(&str)) {
    page.push_str(
        "## Ways to lock, in the same worlds\n\nHalf of the worlds are strict (whatever the documents say that a lock \
         survives); in the other half clocks jump, run wild and strobe too, and two holders at a time are counted, not \
         forbidden. Runs that went wrong, by the first rule that they broke.\n\n\
         | | seeds | events | faults | grants | two holders | token order | resource | other |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    tell("our Redlock");
    row(page, OURS, &campaign(0..WORLDS, Plan::of, all));
    tell("without faults");
    row(page, CALM, &campaign(0..CONTROLS, |seed| Plan::new(seed, Mode::Calm, None), all));
    for control in [Control::OursOnSentinel, Control::PlainRedlock, Control::SentinelIncr] {
        tell(control.describe());
        row(page, control.describe(), &campaign(0..CONTROLS, |seed| Plan::controlled(seed, control), all));
    }
    page.push_str(
        "\nFencepost on Sentinel loses exclusion, as its page says, and never the order of tokens. The other two are \
         controls: what they do wrong, the checker finds.\n\n",
    );
}

fn row(page: &mut String, name: &str, tally: &Tally) {
    let Tally { seeds, events, faults, grants, .. } = tally;
    let holders = broken(tally, &[Rule::C1, Rule::C8, Rule::C9]);
    let (order, resource) = (broken(tally, &[Rule::C2, Rule::C3]), broken(tally, &[Rule::C4]));
    let other = broken(tally, &[Rule::C5, Rule::C6, Rule::C7, Rule::C11]);
    let _ = writeln!(
        page,
        "| {name} | {seeds} | {events} | {faults} | {grants} | {holders} | {order} | {resource} | {other} |"
    );
}

fn pauses(page: &mut String, tell: &impl Fn(&str)) {
    tell("pauses");
    page.push_str(
        "## Holders that stand still\n\nProcesses are stopped for half a ttl to two and a half, again and again, and go on \
         where they were: also between the look at the lock and the write.\n\n\
         | resource | pauses | writes accepted | writes that came late | late and accepted |\n|---|---|---|---|---|\n",
    );
    for (name, flaw) in [("checks tokens", None), ("does not", Some(Flaw::NoFence))] {
        let tally = campaign(0..PAUSES, |seed| Plan::pauses_only(seed, flaw), all);
        let [accepted, late, wrong] = tally.writes;
        let _ = writeln!(page, "| {name} | {} | {accepted} | {late} | {wrong} |", tally.pauses);
    }
    page.push('\n');
}

fn stories() -> String {
    let mut page = String::from(
        "## The stories that everybody knows\n\n`tests/stories.rs` plays them.\n\n\
         | story | done wrongly | grants | overlaps | late writes accepted | broken |\n|---|---|---|---|---|---|\n",
    );
    let wrong = |story| match story {
        Story::LongPause => Some(Flaw::NoFence),
        Story::RestartWithinTtl => Some(Flaw::NoQuarantine),
        Story::PauseBetween => Some(Flaw::ReadsWithoutToken),
        Story::ForgottenFence => Some(Flaw::NoUpperBound),
        Story::LateRequest => Some(Flaw::RenewalKeepsNewer),
        Story::OppositeOrder | Story::ClockJump => None,
    };
    for story in Story::ALL {
        let ways = [None, wrong(story)];
        for flaw in ways.into_iter().take(1 + usize::from(wrong(story).is_some())) {
            let run = run(&Plan::story(story, flaw), false);
            let how = flaw.map_or("", Flaw::describe);
            let rules: Vec<String> = run.findings.iter().map(|finding| format!("{:?}", finding.rule)).collect();
            let (grants, overlaps, late) = (run.grants, run.overlaps, run.writes[2]);
            let _ = writeln!(
                page,
                "| {} | {how} | {grants} | {overlaps} | {late} | {} |",
                story.describe(),
                rules.join(" ")
            );
        }
    }
    page.push('\n');
    page
}

fn planted(page: &mut String, tell: &impl Fn(&str)) {
    page.push_str(
        "## Planted bugs\n\nWrong nodes, wires, processes and resources; the product has no switch for any of them. Each \
         is found.\n\n| bug | seeds that find it | by |\n|---|---|---|\n",
    );
    for flaw in Flaw::ALL {
        tell(flaw.describe());
        let tally = hunt(flaw);
        let rules: Vec<String> = tally.rules().iter().map(|(rule, count)| format!("{rule:?} {count}")).collect();
        let (found, seeds) = (tally.violations.len(), tally.seeds);
        let _ = writeln!(page, "| {} | {found} of {seeds} | {} |", flaw.describe(), rules.join(", "));
    }
}
