//! Many seeds, on all cores, and what they came to.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fencepost_testkit::checker::{Finding, Rule};

use crate::flaw::Flaw;
use crate::outcome::Run;
use crate::plan::{Mode, Plan};
use crate::story::Story;
use crate::world::run;

/// Not enough until all seeds were run.
pub fn all(_: &Tally) -> bool {
    false
}

/// What many runs came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Runs.
    pub seeds: u64,
    /// Runs that show something: enough events, enough contention, a fault.
    pub worthy: u64,
    /// Of those, the ones in which exclusion itself must hold.
    pub strict: u64,
    /// Messages, alarms, polls and what the library told.
    pub events: u64,
    /// The most events of a run in which clocks are right, and its seed: a claim that goes round in a circle shows here.
    pub busiest: (u64, u64),
    /// Planned faults, and messages that were lost, late or doubled.
    pub faults: u64,
    /// Holds.
    pub grants: u64,
    /// Acquisitions.
    pub acquires: u64,
    /// Acquisitions that met another on the same lock.
    pub contended: u64,
    /// Two holders at a time where a lease lock cannot prevent it.
    pub overlaps: u64,
    /// Writes that a resource accepted, those that came too late, and those of them that it accepted.
    pub writes: [u64; 3],
    /// How often a process stood still.
    pub pauses: u64,
    /// The first findings of runs that went wrong, by seed.
    pub violations: Vec<(u64, Mode, Finding)>,
}

/// A run shows something from so many events on.
const EVENTS_MIN: u64 = 1_000;

impl Tally {
    fn add(&mut self, plan: &Plan, run: &Run) {
        self.seeds += 1;
        let contended = run.contended * 10 >= run.acquires * 3;
        let worthy = run.events >= EVENTS_MIN && contended && (run.faults > 0 || plan.mode == Mode::Calm);
        self.worthy += u64::from(worthy);
        self.strict += u64::from(worthy && plan.mode != Mode::Wild);
        self.events += run.events;
        if plan.mode != Mode::Wild {
            self.busiest = self.busiest.max((run.events, plan.seed));
        }
        self.faults += run.faults;
        self.grants += run.grants;
        self.acquires += run.acquires;
        self.contended += run.contended;
        self.overlaps += run.overlaps;
        self.writes = [0, 1, 2].map(|at| self.writes[at] + run.writes[at]);
        self.pauses += run.pauses;
        if let Some(first) = run.findings.first() {
            self.violations.push((plan.seed, plan.mode, first.clone()));
        }
    }

    /// Which rules were broken, and in how many runs.
    pub fn rules(&self) -> Vec<(Rule, usize)> {
        let mut rules: Vec<Rule> = self.violations.iter().map(|(_, _, finding)| finding.rule).collect();
        rules.sort_unstable();
        let mut counts: Vec<(Rule, usize)> = Vec::new();
        for rule in rules {
            match counts.last_mut().filter(|(last, _)| *last == rule) {
                Some((_, count)) => *count += 1,
                None => counts.push((rule, 1)),
            }
        }
        counts
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, worthy, strict, events, faults, grants, overlaps, .. } = self;
        let contended = self.contended * 100 / self.acquires.max(1);
        write!(
            f,
            "{worthy} of {seeds} seeds count ({strict} strict): {events} events, {faults} faults, {grants} grants, \
             {contended} % of {} acquires contended, {overlaps} overlaps where clocks were wrong, {} violations",
            self.acquires,
            self.violations.len()
        )
    }
}

/// Runs seeds, on all cores, until they are used up or it is enough.
pub fn campaign(seeds: Range<u64>, plan: impl Fn(u64) -> Plan + Sync, enough: impl Fn(&Tally) -> bool + Sync) -> Tally {
    let (next, stop, tally) = (AtomicU64::new(seeds.start), AtomicBool::new(false), Mutex::new(Tally::default()));
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let plan = plan(seed);
                    let run = run(&plan, false);
                    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    tally.add(&plan, &run);
                    if enough(&tally) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    tally.violations.sort_by_key(|(seed, ..)| *seed);
    tally
}

/// Seeds per planted bug: more for one that is hard to find.
const HUNTS: [u64; 3] = [300, 2_000, 8_000];

/// Looks for a planted bug in worlds of all kinds; or in the story that leads to it, where chance hardly ever does.
pub fn hunt(flaw: Flaw) -> Tally {
    let mode = |seed: u64| [Mode::Strict, Mode::Wild, Mode::Calm][(seed % 3) as usize];
    if let Some(story) = Story::that_shows(flaw) {
        return campaign(0..1, |_| Plan::story(story, Some(flaw)), all);
    }
    let plan = |seed| Plan::new(seed, mode(seed), Some(flaw));
    let mut tally = Tally::default();
    for seeds in HUNTS {
        tally = campaign(0..seeds, plan, all);
        if !tally.violations.is_empty() {
            break;
        }
    }
    tally
}
