//! Getting a lock: attempts and their rounds. [`votes`] is what each node said, [`verdict`] what follows from it.

mod carried;
mod verdict;
mod votes;

use std::time::Duration;

use super::Scene;
use super::ballot::{Ballot, Vote};
use super::terms::Patience;
use crate::clock::Moment;
use crate::error::{self, StoreError, StoreErrorKind};
use crate::lease::valid_until;
use crate::state::Holder;
use crate::store::table::WINDOW;
use crate::store::{Answer, Minting, Proposal, Step, Trouble};
use crate::token::FencingToken;

pub(super) use votes::Node;

/// The pause between two tries while too few nodes can vote.
const RETRY: Duration = Duration::from_millis(200);

/// A claim that has no majority yet.
pub(super) struct Pursuit {
    patience: Patience,
    margin: Duration,
    ballot: Ballot,
    pub(super) nodes: Vec<Node>,
    /// The highest number ever proposed for this claim, passes included: of tokens, or of bounds where the store mints by them.
    pub(super) highest: Option<FencingToken>,
    round: Option<Round>,
    /// The newest request that puts its own token in the place of ours: what was answered to an older one is not there
    /// any more, or not for long.
    unifying: u32,
    next_try: Option<Moment>,
    /// The request that somebody else carried, and its token.
    carried: Option<(u32, Proposal)>,
    raises: u32,
    /// A majority has refused: when time is up, that is no trouble of the store's.
    contended: bool,
    outage_since: Option<Moment>,
    /// Why there is no majority, as it was told last.
    told: Option<Box<StoreError>>,
    hinted: bool,
    /// Which place in line a node gave us, as the first one says that does.
    pub(super) ticket: Option<FencingToken>,
    pub(super) waiting: bool,
    pub(super) holder: Option<Holder>,
}

/// Votes are coming in.
#[derive(Clone, Copy)]
struct Round {
    kind: RoundKind,
    deadline: Moment,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RoundKind {
    /// We asked: a missing answer is a failure.
    Asked(u32),
    /// A node handed over: the others are about to, or still hold on to another.
    Pushed,
}

pub(super) enum Outcome {
    Open,
    Won { token: FencingToken, until: Moment },
    Busy,
    Failed(StoreError),
}

impl Pursuit {
    pub(super) fn new(scene: &Scene<'_>, patience: Patience, margin: Duration) -> Self {
        Self {
            patience,
            margin,
            ballot: Ballot::open(scene.nodes(), scene.electorate().clone()),
            nodes: vec![Node::default(); scene.nodes()],
            highest: None,
            round: None,
            unifying: 0,
            next_try: None,
            carried: None,
            raises: 0,
            contended: false,
            outage_since: None,
            told: None,
            hinted: false,
            ticket: None,
            waiting: false,
            holder: None,
        }
    }

    /// The first attempt.
    pub(super) fn begin(&mut self, scene: &mut Scene<'_>) -> Outcome {
        if self.patience.is_over(scene.now) {
            return Outcome::Busy;
        }
        self.open_round(scene, None, false);
        Outcome::Open
    }

    /// The earliest moment at which something is due.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        let round = self.round.map(|round| round.deadline);
        [round, self.next_try, self.patience.until()].into_iter().flatten().min()
    }

    pub(super) fn tick(&mut self, scene: &mut Scene<'_>) -> Outcome {
        if self.patience.is_over(scene.now) {
            return self.give_up(scene);
        }
        match self.round {
            Some(Round { kind: RoundKind::Asked(request), deadline }) if deadline <= scene.now => {
                let (silent, at_work): (Vec<usize>, Vec<usize>) =
                    self.ballot.pending().partition(|node| self.silent_at(scene, *node) <= scene.now);
                // The others have a queue, and are at work on it.
                if let Some(deadline) = at_work.into_iter().map(|node| self.silent_at(scene, node)).min() {
                    self.round = Some(Round { kind: RoundKind::Asked(request), deadline });
                }
                for node in silent {
                    let request = self.nodes[node].asked;
                    let within = error::round(scene.latency(request));
                    let trouble = Trouble::new(StoreErrorKind::TooSlow, format!("no answer within {within:?}"));
                    self.record_failure(scene, node, request, trouble);
                }
                return self.decide(scene);
            }
            Some(Round { kind: RoundKind::Asked(_), .. }) => {}
            // The others did not hand over: perhaps they have nothing to hand over any more. Asking tells.
            Some(Round { kind: RoundKind::Pushed, deadline }) if deadline <= scene.now => {
                self.open_round(scene, None, false);
            }
            Some(Round { kind: RoundKind::Pushed, .. }) | None => {
                if self.next_try.is_some_and(|next| next <= scene.now) {
                    self.ask_again(scene);
                }
            }
        }
        Outcome::Open
    }

    pub(super) fn answered(
        &mut self,
        scene: &mut Scene<'_>,
        node: usize,
        request: u32,
        answer: Result<Answer, Trouble>,
    ) -> Outcome {
        if answer == Ok(Answer::NotAll) {
            self.ask_alone(scene, node, request);
            return Outcome::Open;
        }
        let certain = answer.as_ref().map_or_else(|trouble| !trouble.kind.outcome_unknown(), |_| true);
        let view = &mut self.nodes[node];
        view.under_way.retain(|other| *other != request);
        view.unsure |= !certain;
        match answer {
            Ok(Answer::Granted { token }) => {
                let Some(sent) = scene.sent_at(request) else { return Outcome::Open };
                self.record_grant(scene, node, request, token, valid_until(sent, scene.claim.ttl));
            }
            Ok(Answer::Held { holder, last, ticket }) => {
                self.ticket = self.ticket.or(ticket);
                view.last = view.last.max(last);
                view.in_line |= scene.claim.place().is_some();
                self.holder = holder.or_else(|| self.holder.take());
                self.record_refusal(scene, node, request, Vote::Refused);
            }
            Ok(Answer::Stale { last, clock }) => {
                view.last = view.last.max(last);
                let fits = match scene.quorum.abilities.minting {
                    // In the middle of the window of the node's own clock: a token of its present is of the past on arrival.
                    Minting::Engine => clock.plus(WINDOW / 2),
                    Minting::InOrder | Minting::Bounded => clock,
                };
                let floor = last.map_or(fits, |last| last.next().max(fits));
                self.record_refusal(scene, node, request, Vote::Stale(floor));
            }
            // To a give-back: it changes no vote.
            Ok(Answer::Freed | Answer::NotHeld) => return Outcome::Open,
            Ok(other) => {
                let trouble = Trouble::new(StoreErrorKind::Unexpected, format!("answered {other:?} to an acquire"));
                self.record_failure(scene, node, request, trouble);
            }
            Err(trouble) => self.record_failure(scene, node, request, trouble),
        }
        self.decide(scene)
    }

    /// The store gave us the lock without being asked again.
    pub(super) fn handed_over(
        &mut self,
        scene: &mut Scene<'_>,
        node: usize,
        token: FencingToken,
        attempt: u32,
    ) -> Outcome {
        let (Some(sent), Some(place)) = (scene.sent_at(attempt), scene.claim.place()) else { return Outcome::Open };
        self.record_grant(scene, node, attempt, token, valid_until(sent, place.lease));
        if self.round.is_none() {
            self.await_pushes(scene);
        }
        self.decide(scene)
    }

    /// One node has handed over, the others will within an answer's time: until then a minority is no verdict.
    fn await_pushes(&mut self, scene: &Scene<'_>) {
        for node in 0..scene.nodes() {
            if self.ballot.vote(node) == Vote::Refused {
                self.ballot.record(node, Vote::Pending);
            }
        }
        let deadline = scene.now.plus(scene.quorum.answer_within(scene.claim.ttl));
        self.round = Some(Round { kind: RoundKind::Pushed, deadline });
    }

    /// A hint that trying again may pay.
    pub(super) fn hint(&mut self, scene: &mut Scene<'_>) -> Outcome {
        match self.round {
            Some(Round { kind: RoundKind::Asked(_), .. }) => self.hinted = true,
            Some(Round { kind: RoundKind::Pushed, .. }) | None => self.open_round(scene, None, false),
        }
        Outcome::Open
    }

    /// Asks all nodes at once. A vote from before counts no more: each node answers with what it has.
    fn open_round(&mut self, scene: &mut Scene<'_>, floor: Option<FencingToken>, unify: bool) {
        let all: Vec<usize> = (0..scene.nodes()).collect();
        self.ask(scene, &all, floor, unify);
    }

    /// Asks once more, except nodes whose answer certainly comes: a second request would only make their queues longer. A
    /// ttl after its request an answer is of no use any more, since a grant is dated from there.
    fn ask_again(&mut self, scene: &mut Scene<'_>) {
        let is_of_use = |asked: Moment| asked.plus(scene.claim.ttl) > scene.now;
        let is_idle = |node: &usize| {
            let view = &self.nodes[*node];
            let is_awaited = view.has_to_answer(self.unifying) && scene.sent_at(view.asked).is_some_and(is_of_use);
            !(is_awaited && scene.owes(*node, view.asked))
        };
        let idle: Vec<usize> = (0..scene.nodes()).filter(is_idle).collect();
        if idle.is_empty() {
            self.next_try = Some(scene.now.plus(RETRY));
            return;
        }
        self.ask(scene, &idle, None, false);
    }

    fn ask(&mut self, scene: &mut Scene<'_>, nodes: &[usize], floor: Option<FencingToken>, unify: bool) {
        let request = scene.new_request();
        let token = self.propose(scene, floor);
        if unify {
            self.unifying = request;
        }
        self.await_answers(scene, request, nodes);
        for node in nodes {
            let claim = scene.claim.clone();
            scene.send(*node, request, Step::Acquire { claim, attempt: request, token, unify });
        }
    }

    /// These nodes are asked by this request; the others still answer an older one.
    fn await_answers(&mut self, scene: &Scene<'_>, request: u32, asked: &[usize]) {
        self.ballot.reset();
        for node in asked {
            let view = &mut self.nodes[*node];
            view.under_way.push(request);
            view.asked = request;
        }
        let deadline = (0..scene.nodes()).map(|node| self.silent_at(scene, node)).min().unwrap_or(scene.now);
        self.round = Some(Round { kind: RoundKind::Asked(request), deadline });
        self.next_try = None;
        self.hinted = false;
    }

    /// When a node counts as silent, by the newest request that was sent to it.
    fn silent_at(&self, scene: &Scene<'_>, node: usize) -> Moment {
        scene.silent_at(node, self.nodes[node].asked)
    }

    /// A fresh number, above what a majority has seen. A single node that lies about its last token is ignored.
    fn propose(&mut self, scene: &Scene<'_>, floor: Option<FencingToken>) -> Proposal {
        let seen = scene.electorate().contents(|node| Some(self.nodes[node].last));
        let proposal = match (scene.quorum.proposal(seen.flatten()), floor) {
            (Proposal::Exactly(token), Some(floor)) => Proposal::Exactly(token.max(floor)),
            (Proposal::Bounded(bound), Some(floor)) => Proposal::Bounded(bound.max(floor)),
            (proposal, _) => proposal,
        };
        self.highest = self.highest.max(proposal.number());
        proposal
    }
}
