//! The result as data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost::store::Moment;
use fencepost_history::checker::{Demands, Finding, Rule, check};
use fencepost_history::history::{History, LockId, Note, What};
use serde::Serialize;

use super::Plan;
use super::faults::Struck;
use super::session::Seen;
use crate::histogram::Histogram;
use crate::report::ms;

/// Everything that `--json` tells.
#[derive(Serialize)]
pub(super) struct Figures {
    pub(super) verdict: &'static str,
    /// Why nothing can be said, or what to know about what is said.
    pub(super) remarks: Vec<String>,
    pub(super) findings: Vec<Found>,
    pub(super) store: String,
    /// What the names of all locks of this run began with.
    pub(super) prefix: String,
    pub(super) clients: usize,
    pub(super) locks: usize,
    pub(super) ttl_ms: u64,
    pub(super) ran_ms: u64,
    /// It was ended early.
    pub(super) interrupted: bool,
    pub(super) planted: Option<String>,
    pub(super) acquisitions: u64,
    /// From one client to another.
    pub(super) hand_overs: u64,
    /// From asking to having, the wait in line included.
    pub(super) acquire: Spread,
    /// From one client's release to the next one's hold, where that one was waiting.
    pub(super) hand_over_gap: Spread,
    /// Claims that were served after one that had asked when they were in line already.
    pub(super) overtaken: usize,
    pub(super) renewals: u64,
    pub(super) renewals_unanswered: u64,
    pub(super) losses: BTreeMap<String, u64>,
    /// Acquisitions that ended without the lock.
    pub(super) refusals: BTreeMap<String, u64>,
    /// What kept clients from connecting.
    pub(super) troubles: BTreeMap<String, u64>,
    pub(super) writes: usize,
    /// Writes of clients whose lease was over: late, and harmless.
    pub(super) refused_by_the_fence: usize,
    pub(super) faults: BTreeMap<&'static str, usize>,
    /// Clients that ended though nobody killed them.
    pub(super) crashed: usize,
    /// Clients that had to be killed at the end.
    pub(super) stragglers: usize,
    /// How often a client could not connect to which nothing had been done.
    pub(super) unreached: usize,
    pub(super) rules_applied: Vec<&'static str>,
    pub(super) rules_not_applied: BTreeMap<&'static str, String>,
    pub(super) left_behind: String,
}

/// A rule that was broken.
#[derive(Serialize)]
pub(super) struct Found {
    pub(super) rule: String,
    pub(super) at_ms: Option<f64>,
    pub(super) lock: Option<String>,
    pub(super) what: String,
}

/// How long something took.
#[derive(Serialize)]
pub(super) struct Spread {
    pub(super) count: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

impl From<&Histogram> for Spread {
    fn from(seen: &Histogram) -> Self {
        let exact = |span: Duration| (span.as_secs_f64() * 1e6).round() / 1e3;
        let (p50_ms, p99_ms) = (exact(seen.percentile(50.0)), exact(seen.percentile(99.0)));
        Self { count: seen.count(), p50_ms, p99_ms, max_ms: exact(seen.max()) }
    }
}

impl Figures {
    /// All but the verdict on it.
    pub(super) fn of(plan: &Plan, seen: &mut Seen, findings: &[Finding]) -> Self {
        let history = seen.book.history();
        let overtaken = overtaken(history);
        let (hand_overs, gaps) = hand_overs(history);
        let book = &seen.book;
        Self {
            verdict: "",
            remarks: Vec::new(),
            findings: findings.iter().map(|finding| found(plan, finding)).collect(),
            store: plan.store.clone(),
            prefix: plan.prefix.clone(),
            clients: plan.clients,
            locks: plan.names.len(),
            ttl_ms: ms(plan.ttl),
            ran_ms: ms(seen.ran),
            interrupted: seen.interrupted,
            planted: plan.bug.map(|bug| bug.name()),
            acquisitions: book.acquisitions,
            hand_overs,
            acquire: Spread::from(&book.waits),
            hand_over_gap: Spread::from(&gaps),
            overtaken,
            renewals: book.renewed,
            renewals_unanswered: book.unrenewed,
            losses: book.losses.clone(),
            refusals: book.refusals.clone(),
            troubles: book.troubles.clone(),
            writes: book.written.len(),
            refused_by_the_fence: book.refused_by_the_fence(),
            faults: faults(plan, &seen.struck),
            crashed: seen.crashed,
            stragglers: seen.stragglers,
            unreached: seen.unreached,
            rules_applied: Vec::new(),
            rules_not_applied: BTreeMap::new(),
            left_behind: String::new(),
        }
    }
}

fn found(plan: &Plan, finding: &Finding) -> Found {
    Found {
        rule: format!("{:?}", finding.rule),
        at_ms: finding.at.map(|at| (at.as_nanos() / 1000) as f64 / 1e3),
        lock: finding.lock.and_then(|lock| plan.names.get(lock as usize).cloned()),
        what: readable(&finding.what.replace(&plan.prefix, "lock ")),
    }
}

/// The checker tells moments in nanoseconds, and holders by two numbers; people read seconds, and who it was.
fn readable(what: &str) -> String {
    let mut words: Vec<String> = what.split(' ').map(str::to_owned).collect();
    for place in 1..words.len() {
        if let ("holder", Some((client, claim))) = (words[place - 1].as_str(), words[place].split_once('.')) {
            words[place] = format!("{client} (claim {claim})");
            words[place - 1] = "client".to_owned();
        }
        if !matches!(words[place - 1].as_str(), "from" | "to" | "at") {
            continue;
        }
        let digits = words[place].trim_end_matches([',', ':', ';']).len();
        let (number, rest) = words[place].split_at(digits);
        if let Ok(nanos) = number.parse::<u64>() {
            words[place] = format!("{:.4} s{rest}", nanos as f64 / 1e9);
        }
    }
    words.join(" ")
}

fn faults(plan: &Plan, struck: &[Struck]) -> BTreeMap<&'static str, usize> {
    let count = |kind| struck.iter().filter(|struck| struck.kind == kind).count();
    plan.faults.iter().map(|&kind| (kind.name(), count(kind))).collect()
}

fn overtaken(history: &History) -> usize {
    let demands = Demands { in_line: Some(Duration::ZERO), ..Demands::default() };
    check(history, &demands).iter().filter(|finding| finding.rule == Rule::C7).count()
}

/// How often a lock went from one client to another, and how long it lay between them.
fn hand_overs(history: &History) -> (u64, Histogram) {
    let (mut count, mut gaps) = (0, Histogram::default());
    let mut asked: BTreeMap<(u32, u64), Moment> = BTreeMap::new();
    // Per lock: who had it last, and since when it is free, if that was given back.
    let mut last: BTreeMap<LockId, (u32, Option<Moment>)> = BTreeMap::new();
    let mut held: BTreeSet<(u32, u64)> = BTreeSet::new();
    for Note { at, process, claim, lock, what } in &history.notes {
        match what {
            What::Asked => drop(asked.insert((*process, *claim), *at)),
            What::Acquired { .. } => {
                held.insert((*process, *claim));
                let before = last.insert(*lock, (*process, None));
                let Some((_, freed)) = before.filter(|(other, _)| other != process) else { continue };
                count += 1;
                let waited = asked.get(&(*process, *claim));
                if let Some(freed) = freed.filter(|freed| waited.is_some_and(|asked| asked < freed)) {
                    gaps.record(at.since(freed));
                }
            }
            What::Releasing if held.remove(&(*process, *claim)) => {
                if let Some((_, freed)) = last.get_mut(lock).filter(|(holder, _)| holder == process) {
                    *freed = Some(*at);
                }
            }
            What::Lost | What::Died => drop(held.remove(&(*process, *claim))),
            _ => {}
        }
    }
    (count, gaps)
}

#[cfg(test)]
mod tests {
    use fencepost::FencingToken;

    use super::*;

    #[test]
    fn moments_and_holders_are_told_as_people_say_them() {
        let what = "holder 3.7 of x under 12 from 1500000000 to 1600000000, beside holder 1.2 of x at 5";
        let told =
            "client 3 (claim 7) of x under 12 from 1.5000 s to 1.6000 s, beside client 1 (claim 2) of x at 0.0000 s";
        assert_eq!(readable(what), told);
        assert_eq!(readable("accepted 5 after 7"), "accepted 5 after 7");
    }

    #[test]
    fn a_hand_over_is_from_one_client_to_another_and_its_gap_needs_somebody_who_waited() {
        let mut history = History::new();
        let lock = history.lock("x");
        let acquired = |token| What::Acquired {
            token: FencingToken::from_number(token).expect("a token"),
            until: Moment::from_nanos(9000),
        };
        for (at, process, claim, what) in [
            (1, 1, 1, What::Asked),
            (2, 1, 1, acquired(1)),
            (3, 2, 1, What::Asked),
            (10, 1, 1, What::Releasing),
            (14, 2, 1, acquired(2)),
            (20, 2, 1, What::Releasing),
            (21, 2, 2, What::Asked),
            (22, 2, 2, acquired(3)),
            (23, 2, 2, What::Releasing),
            (30, 1, 2, What::Asked),
            (31, 1, 2, acquired(4)),
        ] {
            history.note(Moment::from_nanos(at), process, claim, lock, what);
        }
        let (count, gaps) = hand_overs(&history);
        assert_eq!((count, gaps.count(), gaps.max()), (2, 1, Duration::from_nanos(4)));
    }
}
