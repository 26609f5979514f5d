//! What follows from the votes: won, one more round, a wait, or the end.

use std::sync::Arc;
use std::time::Duration;

use super::{Outcome, Pursuit, RETRY};
use crate::clock::Moment;
use crate::error::{StoreError, StoreErrorKind};
use crate::event::EventKind;
use crate::quorum::ballot::{Verdict, Vote};
use crate::quorum::prospect::votes_again_at;
use crate::quorum::{Scene, margin_of};
use crate::store::{Claim, Step, Turn};
use crate::token::FencingToken;

/// After so many stale answers in a row the lock is contended, not free.
const RAISES_MAX: u32 = 16;
/// Stores count a lease in milliseconds: asking so much after its end finds it over.
const EXPIRY_GRAIN: Duration = Duration::from_millis(5);
/// A wait without limit outlasts an outage of this length, however short its ttl.
const OUTAGE_MIN: Duration = Duration::from_secs(60);
/// Without a place in line: the longest pause between two tries.
const BACK_OFF_MAX: Duration = Duration::from_millis(200);

impl Pursuit {
    pub(super) fn decide(&mut self, scene: &mut Scene<'_>) -> Outcome {
        let verdict = self.ballot.verdict();
        let is_back = self.outage_since.is_some() && self.round.is_none();
        if !matches!(verdict, Verdict::Open | Verdict::NoQuorum) {
            self.outage_since = None;
            self.told = None;
        }
        match verdict {
            Verdict::Open => Outcome::Open,
            Verdict::Won(token) => self.win(scene, token),
            Verdict::Unify if self.raises < RAISES_MAX => {
                self.raises += 1;
                self.open_round(scene, None, true);
                Outcome::Open
            }
            Verdict::Raise(floor) if self.raises < RAISES_MAX => {
                self.raises += 1;
                self.open_round(scene, Some(floor), true);
                Outcome::Open
            }
            Verdict::Raise(_) if !self.patience.waits() => Outcome::Failed(self.clock_off(scene)),
            // Enough nodes vote again. What is not ours we gave back ourselves, while they were too few.
            Verdict::Yield | Verdict::Refused if is_back => {
                self.open_round(scene, None, false);
                Outcome::Open
            }
            Verdict::Unify | Verdict::Raise(_) | Verdict::Yield | Verdict::Refused => self.refused(scene),
            Verdict::NoQuorum => self.no_quorum(scene),
        }
    }

    fn win(&mut self, scene: &mut Scene<'_>, token: FencingToken) -> Outcome {
        let won = |node: usize| self.ballot.vote(node) == Vote::Granted(token);
        let until = scene.electorate().reached(|node| self.nodes[node].until.filter(|_| won(node)));
        let until = until.expect("BUG: a winner has a majority of dated grants");
        let life = scene.claim.place().map_or(scene.claim.ttl, |place| place.lease);
        if until.minus(margin_of(life, self.margin, scene.claim.ttl)) > scene.now {
            return Outcome::Won { token, until };
        }
        // What was granted is over, or nearly: it must not be handed out as a hold. Asking again extends it.
        if self.patience.waits() && self.raises < RAISES_MAX {
            self.raises += 1;
            self.open_round(scene, None, false);
            return Outcome::Open;
        }
        let message = "the grants came so late that the lease was nearly over; use a longer ttl or a nearer store";
        Outcome::Failed(self.with_votes(scene, StoreError::new(StoreErrorKind::TooSlow, "acquire", message)))
    }

    /// Not ours now. What we have is given back, at once; then we wait for our turn.
    fn refused(&mut self, scene: &mut Scene<'_>) -> Outcome {
        self.raises = 0;
        self.round = None;
        self.contended = true;
        if !self.patience.waits() {
            return Outcome::Busy;
        }
        self.give_back(scene, true);
        if !self.waiting {
            self.waiting = true;
            scene.tell(EventKind::Waiting);
        }
        if self.hinted {
            self.open_round(scene, None, false);
            return Outcome::Open;
        }
        let pause = match scene.claim.place() {
            Some(place) => self.until_expiry().map_or(place.lease / 3, |expiry| expiry.min(place.lease / 3)),
            None => self.back_off(scene),
        };
        self.next_try = Some(scene.now.plus(pause));
        Outcome::Open
    }

    /// When the holder's lease is over: nobody tells us if it is dead.
    fn until_expiry(&self) -> Option<Duration> {
        let left = self.holder.as_ref()?.expires_in?;
        Some(left + EXPIRY_GRAIN)
    }

    /// Random, and not shorter than a round takes.
    fn back_off(&self, scene: &Scene<'_>) -> Duration {
        let round = self.nodes.iter().map(|node| node.latency).max().unwrap_or_default();
        round + scene.quorum.chance.below(BACK_OFF_MAX)
    }

    /// With a place in line from now on, if the claim has one and `stays`.
    fn give_back(&mut self, scene: &mut Scene<'_>, stays: bool) {
        let mine: Vec<(usize, FencingToken)> = self.ballot.mine().collect();
        if mine.is_empty() {
            return;
        }
        let pass = self.propose(scene, None);
        let request = scene.new_request();
        let claim = match stays {
            true => scene.claim.clone(),
            false => Arc::new(Claim { turn: Turn::AfterOthers, ..Claim::clone(scene.claim) }),
        };
        for (node, token) in mine {
            let view = &mut self.nodes[node];
            view.void = view.void.max(Some(token));
            view.voided_by = request;
            view.until = None;
            view.granted = false;
            view.in_line = claim.place().is_some();
            view.under_way.push(request);
            self.ballot.record(node, Vote::Refused);
            let claim = claim.clone();
            scene.send(node, request, Step::GiveBack { claim, attempt: request, token, pass });
        }
    }

    /// A waiter goes on until its limit, unless no majority can vote before it. What it has meanwhile it gives back, and leaves
    /// the line there: others may reach a majority that it cannot reach. With its next try it has the same place again.
    fn no_quorum(&mut self, scene: &mut Scene<'_>) -> Outcome {
        self.round = None;
        let error = self.failure(scene);
        let from = self.may_elect_from(scene).filter(|_| self.patience.waits());
        let Some(from) = from.filter(|from| !self.gives_up_before(*from, scene)) else {
            return Outcome::Failed(error);
        };
        // A quarantine whose end is known is no outage.
        self.outage_since = Some(if from > scene.now { from } else { self.outage_since.unwrap_or(scene.now) });
        if self.told.as_ref().is_none_or(|told| !told.has_cause_of(&error)) {
            let error = Box::new(error);
            self.told = Some(error.clone());
            scene.tell(EventKind::WaitingForStore(error));
        }
        self.give_back(scene, false);
        let pause = scene.claim.place().map_or(RETRY, |place| place.lease / 3).min(RETRY);
        let next = scene.now.plus(pause);
        self.next_try = Some(self.next_try.map_or(next, |planned| planned.min(next)));
        Outcome::Open
    }

    /// When enough nodes may vote again, each by what it said last. `None`: never.
    fn may_elect_from(&self, scene: &Scene<'_>) -> Option<Moment> {
        scene.electorate().contents(|node| match &self.nodes[node].trouble {
            Some((trouble, said)) => votes_again_at(&trouble.kind, *said).map(|again| again.max(scene.now)),
            None => Some(scene.now),
        })
    }

    /// The wait is over before this moment; without a limit, once an outage has lasted too long.
    fn gives_up_before(&self, from: Moment, scene: &Scene<'_>) -> bool {
        match self.patience.until() {
            Some(end) => end <= from,
            None => {
                let longest = scene.claim.ttl.max(OUTAGE_MIN);
                self.outage_since.is_some_and(|since| scene.now.since(since) >= longest)
            }
        }
    }

    pub(super) fn give_up(&mut self, scene: &mut Scene<'_>) -> Outcome {
        if self.outage_since.is_some() || !self.contended {
            return Outcome::Failed(self.failure(scene));
        }
        Outcome::Busy
    }

    fn failure(&self, scene: &Scene<'_>) -> StoreError {
        let silent = |node: usize| matches!(self.ballot.vote(node), Vote::Failed | Vote::Pending);
        let failed = self.nodes.iter().enumerate().filter(|(node, _)| silent(*node));
        let said = failed.filter_map(|(node, view)| Some((node, view.latency, view.trouble.clone()?.0)));
        let troubles = said.collect();
        let error = scene.quorum.error("acquire", troubles);
        self.with_votes(scene, error)
    }

    fn with_votes(&self, scene: &Scene<'_>, error: StoreError) -> StoreError {
        StoreError { votes: scene.quorum.node_votes(&self.votes()), ..error }
    }

    fn clock_off(&self, scene: &Scene<'_>) -> StoreError {
        let clock = scene.quorum.clock_guess();
        let ahead = self.highest.map(|highest| highest.ahead_of(clock)).unwrap_or_default();
        let message = "the nodes refused every token we proposed; compare this machine's clock with theirs";
        self.with_votes(scene, StoreError::new(StoreErrorKind::ClockOff { ahead }, "acquire", message))
    }
}
