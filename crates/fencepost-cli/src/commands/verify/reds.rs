//! What is drawn in red: where and when a rule was broken, and by whom.

use std::time::Duration;

use fencepost::store::Moment;
use fencepost_history::checker::{Finding, Hold, Rule};

use super::picture::Window;
use super::verdict::Judgement;
use crate::args::Fault;

/// More would be one red area.
const REDS_MAX: usize = 400;
/// Rules of which a picture is shown closer.
const CLOSER_MAX: usize = 3;

/// A broken rule in the picture.
pub(super) struct Red {
    pub(super) rule: String,
    pub(super) at: Moment,
    /// Whose, from when to when.
    pub(super) spans: Vec<(usize, Moment, Moment)>,
    pub(super) what: String,
}

pub(super) fn reds(judgement: &Judgement) -> Vec<Red> {
    // Of too many some over the whole time, and the first of each rule.
    let every = judgement.findings.len().div_ceil(REDS_MAX).max(1);
    let mut rules = Vec::new();
    let is_drawn = |(number, finding): &(usize, &Finding)| {
        let is_first = !rules.contains(&finding.rule);
        if is_first {
            rules.push(finding.rule);
        }
        is_first || number % every == 0
    };
    judgement
        .findings
        .iter()
        .enumerate()
        .filter(is_drawn)
        .map(|(number, finding)| red(judgement, number, finding))
        .collect()
}

fn red(judgement: &Judgement, number: usize, finding: &Finding) -> Red {
    // What is left behind shows at the end.
    let at = finding.at.unwrap_or_else(|| end(judgement));
    let of_lock = || judgement.holds.iter().filter(|hold| Some(hold.lock) == finding.lock);
    let whole = |hold: &Hold| (place(hold), hold.from, hold.until);
    let spans = match finding.rule {
        Rule::C1 | Rule::C8 | Rule::C9 => {
            let inside: Vec<&Hold> = of_lock().filter(|hold| hold.from <= at && hold.until > at).collect();
            let until = inside.iter().map(|hold| hold.until).min().unwrap_or(at);
            inside.iter().map(|hold| (place(hold), at, until)).collect()
        }
        Rule::C2 | Rule::C3 => {
            let later = of_lock().find(|hold| hold.from == at);
            let same = |hold: &&Hold| later.is_some_and(|later| later.token == hold.token);
            of_lock().filter(same).map(whole).collect()
        }
        Rule::C4 => {
            let written = judgement.seen.book.written.iter().filter(|write| write.at == at);
            written.map(|write| (write.client, write.at, write.at)).collect()
        }
        // From the end that it told to what it did afterwards.
        Rule::C11 => {
            let last = of_lock().filter(|hold| hold.until <= at).max_by_key(|hold| hold.until);
            last.map(|hold| (place(hold), hold.until, at)).into_iter().collect()
        }
        _ => Vec::new(),
    };
    // In the words of the list.
    let told = judgement.figures.findings.get(number).map_or(&finding.what, |found| &found.what);
    Red { rule: format!("{:?}", finding.rule), at, spans, what: format!("{:?}: {told}", finding.rule) }
}

fn place(hold: &Hold) -> usize {
    hold.process as usize - 1
}

/// The end of the run.
pub(super) fn end(judgement: &Judgement) -> Moment {
    let last = judgement.holds.last().map_or(Moment::from_nanos(0), |hold| hold.from);
    last.max(Moment::from_nanos(0).plus(judgement.seen.ran))
}

/// The parts of the run that are worth a closer look, with what is to be seen there.
pub(super) fn windows(judgement: &Judgement, ttl: Duration) -> Vec<(String, Window)> {
    let mut windows = broken(judgement, ttl);
    if windows.is_empty() {
        windows = struck(judgement, ttl);
        windows.push(calm(judgement));
    }
    windows
}

/// The first violation of each rule.
fn broken(judgement: &Judgement, ttl: Duration) -> Vec<(String, Window)> {
    let mut windows: Vec<(String, Window)> = Vec::new();
    for red in reds(judgement) {
        let caption = format!("Closer: {} broken at {}", red.rule, super::picture::seconds(red.at, 3));
        if windows.len() == CLOSER_MAX || windows.iter().any(|(other, _)| other.contains(&format!(" {} ", red.rule))) {
            continue;
        }
        let (mut from, mut until) = (red.at, red.at);
        // Holds that take part from their beginning, as far as they are near.
        for (client, start, end) in &red.spans {
            let begun = judgement.holds.iter().filter(|hold| place(hold) == *client && hold.from <= *start);
            let begun = begun.map(|hold| hold.from).max().unwrap_or(*start);
            from = from.min(begun).max(red.at.minus(2 * ttl));
            until = until.max(*end).min(red.at.plus(ttl));
        }
        let room = (until.since(from) / 3).max(Duration::from_millis(40));
        windows.push((caption, Window { from: from.minus(room), until: until.plus(room) }));
    }
    windows
}

/// A fault of each kind, if possible one whose late write was refused.
fn struck(judgement: &Judgement, ttl: Duration) -> Vec<(String, Window)> {
    let mut windows = Vec::new();
    for (kind, name) in [(Fault::Pause, "a pause"), (Fault::KillClient, "a kill"), (Fault::Cut, "a cut")] {
        let all = || judgement.seen.struck.iter().filter(|struck| struck.kind == kind);
        let refused = |client: usize, from: Moment, until: Moment| {
            let late = |write: &&super::book::Written| !write.accepted && write.client == client;
            judgement.seen.book.written.iter().filter(late).any(|write| (from..=until).contains(&write.at))
        };
        let telling = all().find(|struck| refused(struck.client, struck.from, struck.until.plus(ttl / 4)));
        let Some(struck) = telling.or_else(|| all().next()) else { continue };
        let least = struck.from.plus(ttl * 5 / 4);
        let window = Window { from: struck.from.minus(ttl / 6), until: struck.until.plus(ttl / 4).max(least) };
        let at = super::picture::seconds(struck.from, 1);
        windows.push((format!("Closer: {name} at {at}, client {} was {}", struck.client + 1, struck.what), window));
    }
    windows
}

/// Where most locks changed hands.
fn calm(judgement: &Judgement) -> (String, Window) {
    const LONG: Duration = Duration::from_millis(400);
    let begun = |from: Moment| {
        let place = |at: Moment| judgement.holds.partition_point(|hold| hold.from < at);
        place(from.plus(LONG)) - place(from)
    };
    let starts = judgement.holds.iter().step_by(8).map(|hold| hold.from);
    let from = starts.max_by_key(|from| begun(*from)).unwrap_or(Moment::from_nanos(0));
    ("Closer: where most locks changed hands".to_owned(), Window { from, until: from.plus(LONG) })
}
