//! A simulated node: the reference semantics on rows of its own, by a clock of its own.

use std::time::Duration;

use fencepost_core::FencingToken;
use fencepost_core::store::table::{self, Notice, Now, WINDOW};
use fencepost_core::store::{
    Answer, Event, LockName, Loss, Mode, Owner, Part, Proposal, Step, StoreErrorKind, Then, Trouble, Turn,
};
use fencepost_testkit::dice::Dice;

use crate::flaw::Flaw;
use crate::rows::{Desk, Rows};
use crate::time::{MILLI, Nanos, NodeClock, moment, nanos, token_at};

/// What a step came to.
pub(crate) struct Outcome {
    pub(crate) answer: Result<Answer, Trouble>,
    pub(crate) notices: Vec<(Owner, Event)>,
    pub(crate) readers: Vec<FencingToken>,
}

/// What a crash leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// Everything.
    Kept,
    /// Nothing.
    Empty,
    /// What there was at the last snapshot.
    Old,
}

pub(crate) struct Node {
    pub(crate) clock: NodeClock,
    pub(crate) up: bool,
    rows: Rows,
    snapshot: Rows,
    /// By its own calendar.
    quarantined_until: Option<Nanos>,
    /// How long it keeps still after it forgot.
    probation: Duration,
    /// It mints one more than the last, whatever the time: INCR.
    counts: bool,
    flaw: Option<Flaw>,
    dice: Dice,
    /// Deletions of the wrong release, which come when they come.
    deletions: Vec<(Nanos, LockName)>,
}

/// The permits of the counting semaphore, and its lock.
pub(crate) const COUNTED: (&str, usize) = ("count", 2);

impl Node {
    pub(crate) fn new(clock: NodeClock, probation: Duration, counts: bool, flaw: Option<Flaw>, seed: u64) -> Self {
        let probation = match flaw {
            Some(Flaw::NoQuarantine | Flaw::LosesLastWrites) => Duration::ZERO,
            Some(Flaw::ShortQuarantine) => Duration::from_millis(300),
            _ => probation,
        };
        let (rows, snapshot, deletions) = (Rows::default(), Rows::default(), Vec::new());
        let dice = Dice::new(seed);
        Self { clock, up: true, rows, snapshot, quarantined_until: None, probation, counts, flaw, dice, deletions }
    }

    pub(crate) fn take_snapshot(&mut self) {
        self.snapshot = self.rows.clone();
    }

    pub(crate) fn start(&mut self, now: Nanos, memory: Memory) {
        self.up = true;
        match memory {
            Memory::Kept => return,
            Memory::Empty => self.rows = Rows::default(),
            Memory::Old => self.rows = self.snapshot.clone(),
        }
        self.quarantined_until = Some(self.clock.wall(now) + nanos(self.probation));
    }

    /// Grants and places in line that are alive.
    pub(crate) fn in_use(&self, now: Nanos) -> Vec<(LockName, String)> {
        self.rows.in_use(moment(self.clock.wall(now)))
    }

    pub(crate) fn apply(&mut self, step: &Step, now: Nanos, listens: &dyn Fn(&Owner) -> bool) -> Outcome {
        let wall = self.clock.wall(now);
        self.delete_late(now);
        let quarantined = self.quarantined_until.filter(|until| *until > wall).map(|until| until - wall);
        let quarantined = quarantined.map(Duration::from_nanos);
        let mut now_here = Now { moment: moment(wall), clock: token_at(wall), quarantined };
        if self.counts
            && let Some(first) = FencingToken::from_number(1)
        {
            now_here.clock = first;
        }
        let mut step = step.clone();
        if let Some(flaw) = self.flaw
            && let Some(answer) = self.go_wrong(flaw, &mut step, &mut now_here, now)
        {
            return Outcome { answer, notices: Vec::new(), readers: Vec::new() };
        }
        if let Step::AcquireAll { parts } = &step {
            let answer = self.acquire_all(parts, now_here);
            return Outcome { answer: Ok(answer), notices: Vec::new(), readers: Vec::new() };
        }
        let Some(name) = step.name().cloned() else {
            let answer = Err(Trouble::new(StoreErrorKind::Unsupported, "nobody lists in here"));
            return Outcome { answer, notices: Vec::new(), readers: Vec::new() };
        };
        let flaw = self.flaw;
        let mode = step.claim().map(|claim| claim.mode);
        let hides = match (flaw, mode, &step) {
            (Some(Flaw::ReaderBesideWriter), Some(Mode::Shared), Step::Acquire { .. }) => Some(Mode::Exclusive),
            (Some(Flaw::WriterBesideReaders), Some(Mode::Exclusive), Step::Acquire { .. }) => Some(Mode::Shared),
            _ => None,
        };
        let entry = self.rows.locks.entry(name).or_default();
        let last_first = flaw == Some(Flaw::LastFirst);
        let mut desk = Desk { entry, listens, notices: Vec::new(), readers: Vec::new(), last_first, hides };
        let answer = match table::apply(&mut desk, &step, now_here) {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let Desk { entry, mut notices, readers, .. } = desk;
        match flaw {
            Some(Flaw::EarlyExpiry) => {
                if let Some(claim) = step.claim() {
                    let early = now_here.moment.plus(claim.ttl / 2);
                    let mine = entry.holders.iter_mut().filter(|held| held.owner == claim.owner);
                    mine.for_each(|held| held.until = held.until.min(early));
                }
            }
            Some(Flaw::FenceExpires) if entry.holders.iter().all(|held| held.until <= now_here.moment) => {
                entry.last = None;
            }
            Some(Flaw::NoWakeUp) => notices.clear(),
            _ => {}
        }
        let notices = notices.into_iter().map(|(owner, attempt, notice)| {
            let event = match notice {
                Notice::HandedOver { token } => Event::HandedOver { token, attempt },
                Notice::MayPay => Event::MayPay,
            };
            (owner, event)
        });
        Outcome { answer, notices: notices.collect(), readers }
    }

    /// All of several locks, or nothing is changed.
    fn acquire_all(&mut self, parts: &[Part], now: Now) -> Answer {
        let mut tokens = Vec::new();
        for granting in [false, true] {
            for part in parts {
                let entry = self.rows.locks.entry(part.claim.name.clone()).or_default();
                let listens = &|_: &Owner| true;
                let mut desk =
                    Desk { entry, listens, notices: Vec::new(), readers: Vec::new(), last_first: false, hides: None };
                if !granting {
                    match table::would_grant(&mut desk, part, now) {
                        Ok(true) => continue,
                        Ok(false) => return Answer::NotAll,
                        Err(never) => match never {},
                    }
                }
                if let Ok(Ok(Answer::Granted { token })) = table::apply(&mut desk, &part.alone(), now) {
                    tokens.push(token);
                }
            }
        }
        Answer::AllGranted { tokens }
    }

    fn delete_late(&mut self, now: Nanos) {
        for (at, name) in std::mem::take(&mut self.deletions) {
            match self.rows.locks.get_mut(&name).filter(|_| at <= now) {
                Some(entry) => entry.holders.clear(),
                None => self.deletions.push((at, name)),
            }
        }
    }

    /// Does before the step what a wrong node would do; an answer ends it there.
    fn go_wrong(&mut self, flaw: Flaw, step: &mut Step, here: &mut Now, now: Nanos) -> Option<Result<Answer, Trouble>> {
        let name = step.name()?.clone();
        let entry = self.rows.locks.entry(name.clone()).or_default();
        let live = entry.holders.iter().filter(|held| held.until > here.moment).count();
        let proposed = match step {
            Step::Acquire { token: Proposal::Exactly(token), .. } => Some(*token),
            Step::Release { pass: Proposal::Exactly(token), .. }
            | Step::GiveBack { pass: Proposal::Exactly(token), .. } => Some(*token),
            _ => None,
        };
        match (flaw, &mut *step) {
            (Flaw::ReleaseAnybody, Step::Release { .. }) => entry.holders.clear(),
            (Flaw::GetThenDelete, Step::Release { claim, .. }) => {
                entry.remove_line(&claim.owner);
                if !entry.is_held(&claim.owner, here.moment) {
                    return Some(Ok(Answer::NotHeld));
                }
                let pause = if self.dice.per_mille(300) { self.dice.below(2 * nanos(claim.ttl)) } else { MILLI };
                self.deletions.push((now + pause, name));
                return Some(Ok(Answer::Freed));
            }
            (Flaw::ReleaseRaisesNothing, Step::Release { raise, .. }) => *raise = None,
            (Flaw::RenewalRecreates, Step::Renew { claim, .. }) if !entry.is_held(&claim.owner, here.moment) => {
                entry.last = None;
            }
            (Flaw::RenewalKeepsAnybody, Step::Renew { claim, .. })
                if live > 0 && !entry.is_held(&claim.owner, here.moment) =>
            {
                return Some(Ok(Answer::Kept));
            }
            (Flaw::RenewalKeepsNewer, Step::Renew { claim, token, .. }) => {
                let mine = entry.holders.iter().find(|held| held.owner == claim.owner);
                *token = mine.map_or(*token, |held| held.token.max(*token));
            }
            (Flaw::AnyToken, Step::Acquire { .. }) if proposed.is_some_and(|token| entry.last >= Some(token)) => {
                entry.last = None;
            }
            (Flaw::NoLowerBound, _) => here.clock = proposed.map_or(here.clock, |token| here.clock.min(token)),
            (Flaw::NoUpperBound, _) => {
                let window = u64::try_from(WINDOW.as_millis()).unwrap_or_default() * 1024;
                let lowest = proposed.and_then(|token| FencingToken::from_number(token.as_u64() - window));
                here.clock = lowest.map_or(here.clock, |lowest| here.clock.max(lowest));
            }
            (Flaw::LosesPlaces, Step::Acquire { claim, .. }) if entry.remove_line(&claim.owner) => {
                let mut moved = (**claim).clone();
                if let Turn::InLine(place) = &mut moved.turn {
                    place.ticket = Some(here.clock);
                }
                *claim = moved.into();
            }
            (Flaw::StalePass, Step::Release { .. } | Step::GiveBack { .. })
                if entry.last >= proposed && !entry.line.is_empty() =>
            {
                entry.last = proposed.and_then(|token| FencingToken::from_number(token.as_u64() - 1));
                if let Step::Release { raise, then, .. } = step {
                    (*raise, *then) = (None, None::<Then>);
                }
            }
            (Flaw::Evicts, _) if self.dice.per_mille(4) => drop(self.rows.locks.remove(&name)),
            (Flaw::CountingSemaphore, Step::Acquire { claim, .. })
                if name.as_str() == COUNTED.0 && live >= COUNTED.1 && !entry.is_held(&claim.owner, here.moment) =>
            {
                return Some(Ok(Answer::Held { holder: None, last: entry.last, ticket: None }));
            }
            _ => {}
        }
        None
    }

    /// Why a renewal is refused, for the wires that do not listen.
    pub(crate) fn is_refusal(answer: &Result<Answer, Trouble>) -> bool {
        matches!(answer, Ok(Answer::Lost(Loss::TakenOver | Loss::Revoked)) | Err(_))
    }
}
