//! Getting a lock: attempts, votes, places in line.

mod carried;

use std::time::Duration;

use super::ballot::{Ballot, Verdict, Vote};
use super::terms::Patience;
use super::{Scene, majority_until, margin_of};
use crate::clock::Moment;
use crate::error::{self, StoreError, StoreErrorKind};
use crate::event::EventKind;
use crate::lease::valid_until;
use crate::state::Holder;
use crate::store::table::WINDOW;
use crate::store::{Answer, Proposal, Step, Trouble};
use crate::token::FencingToken;

/// After so many stale answers in a row the lock is contended, not free.
const RAISES_MAX: u32 = 16;
/// Stores count a lease in milliseconds: asking so much after its end finds it over.
const EXPIRY_GRAIN: Duration = Duration::from_millis(5);
/// An outage of so long is ridden out by whoever waits, however short its ttl.
const OUTAGE_MIN: Duration = Duration::from_secs(5);
/// Without a place in line: the longest pause between two tries.
const BACK_OFF_MAX: Duration = Duration::from_millis(200);

/// A claim that has no majority yet.
pub(super) struct Pursuit {
    patience: Patience,
    margin: Duration,
    ballot: Ballot,
    pub(super) nodes: Vec<Node>,
    /// The highest token ever proposed for this claim, pass tokens included.
    pub(super) highest: Option<FencingToken>,
    round: Option<Round>,
    /// The newest request that puts its own token in the place of ours: what was answered to an older one is not there
    /// any more, or not for long.
    unifying: u32,
    next_try: Option<Moment>,
    /// The request that somebody else carried, and its token.
    carried: Option<(u32, Proposal)>,
    raises: u32,
    /// A majority has answered: when time is up, that is no trouble of the store's.
    answered: bool,
    outage_since: Option<Moment>,
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

/// What this claim knows of one node.
#[derive(Clone, Default)]
pub(super) struct Node {
    /// The newest request whose answer was counted as a vote.
    counted: u32,
    /// Until when its grant may be believed in.
    until: Option<Moment>,
    /// Grants up to this token were given back, by this request, and never count again.
    pub(super) void: Option<FencingToken>,
    voided_by: u32,
    last: Option<FencingToken>,
    /// Requests that may still change something there.
    under_way: Vec<u32>,
    /// A request ended without an answer: it may run at any time.
    unsure: bool,
    /// It granted, and has not said since that it is another's. A stale answer does not say so: an older grant of ours
    /// may be there.
    granted: bool,
    in_line: bool,
    /// It was asked for us alone, after it had been asked together with others.
    alone: bool,
    trouble: Option<Trouble>,
    latency: Duration,
}

impl Node {
    /// A request may still arrive there after everything we send from now on.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsure || !self.under_way.is_empty()
    }

    /// Something of ours may be there.
    pub(super) fn may_hold(&self) -> bool {
        self.is_unsettled() || self.in_line || self.granted
    }
}

pub(super) enum Outcome {
    Open,
    Won { token: FencingToken, until: Moment },
    Busy,
    Failed(StoreError),
}

impl Pursuit {
    pub(super) fn new(nodes: usize, patience: Patience, margin: Duration) -> Self {
        Self {
            patience,
            margin,
            ballot: Ballot::open(nodes),
            nodes: vec![Node::default(); nodes],
            highest: None,
            round: None,
            unifying: 0,
            next_try: None,
            carried: None,
            raises: 0,
            answered: false,
            outage_since: None,
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
                let silent: Vec<usize> = self.ballot.pending().collect();
                for node in silent {
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
                    self.open_round(scene, None, false);
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
                // In the middle of the window of the node's own clock: a token of its present is of the past on arrival.
                let middle = clock.plus(WINDOW / 2);
                let floor = last.map_or(middle, |last| last.next().max(middle));
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

    /// Until when each node vouches for this token, and what it may not vouch for.
    pub(super) fn vouchers(&self, token: FencingToken) -> Vec<(Option<Moment>, Option<FencingToken>)> {
        let nodes = self.nodes.iter().enumerate();
        let until = |node, view: &Node| view.until.filter(|_| self.ballot.vote(node) == Vote::Granted(token));
        nodes.map(|(node, view)| (until(node, view), view.void)).collect()
    }

    /// What each node said, and how fast.
    pub(super) fn votes(&self) -> Vec<(Duration, error::Vote)> {
        let votes = self.nodes.iter().enumerate().map(|(node, view)| {
            let vote = match (self.ballot.vote(node), &view.trouble) {
                (Vote::Granted(_), _) => error::Vote::Granted,
                (Vote::Stale(_) | Vote::Void(_), _) => error::Vote::Stale,
                (Vote::Failed, Some(trouble)) => error::Vote::Failed(trouble.kind.clone()),
                (Vote::Pending, _) => error::Vote::Unheard,
                (Vote::Failed, None) => error::Vote::Failed(StoreErrorKind::TooSlow),
                (Vote::Refused, _) => error::Vote::Refused,
            };
            (view.latency, vote)
        });
        votes.collect()
    }

    /// Asks all nodes at once. A vote from before counts no more: each node answers with what it has.
    fn open_round(&mut self, scene: &mut Scene<'_>, floor: Option<FencingToken>, unify: bool) {
        let request = scene.new_request();
        let token = self.propose(scene, floor);
        if unify {
            self.unifying = request;
        }
        self.await_answers(scene, request);
        for node in 0..scene.nodes() {
            let claim = scene.claim.clone();
            scene.send(node, request, Step::Acquire { claim, attempt: request, token, unify });
        }
    }

    fn await_answers(&mut self, scene: &Scene<'_>, request: u32) {
        self.ballot.reset();
        self.nodes.iter_mut().for_each(|node| node.under_way.push(request));
        let deadline = scene.now.plus(scene.quorum.answer_within(scene.claim.ttl));
        self.round = Some(Round { kind: RoundKind::Asked(request), deadline });
        self.next_try = None;
        self.hinted = false;
    }

    /// A fresh token, above what a majority has seen. A single node that lies about its last token is ignored.
    fn propose(&mut self, scene: &Scene<'_>, floor: Option<FencingToken>) -> Proposal {
        let mut seen: Vec<Option<FencingToken>> = self.nodes.iter().map(|node| node.last).collect();
        seen.sort_unstable();
        let proposal = match (scene.quorum.proposal(seen[scene.need() - 1]), floor) {
            (Proposal::Exactly(token), Some(floor)) => Proposal::Exactly(token.max(floor)),
            (proposal, _) => proposal,
        };
        if let Proposal::Exactly(token) = proposal {
            self.highest = self.highest.max(Some(token));
        }
        proposal
    }

    fn record_grant(&mut self, scene: &mut Scene<'_>, node: usize, request: u32, token: FencingToken, until: Moment) {
        let view = &mut self.nodes[node];
        if request < self.unifying {
            view.granted = true;
            return;
        }
        let voided = view.void.is_some_and(|void| token <= void);
        let outdated = matches!(self.ballot.vote(node), Vote::Granted(newer) if newer > token);
        // What was asked before the give-back says nothing about it; what was asked after it says that it is lost.
        if outdated || request < view.counted || (voided && request <= view.voided_by) {
            return;
        }
        view.counted = request;
        view.granted = true;
        view.latency = scene.latency(request);
        if voided {
            view.until = None;
            self.ballot.record(node, Vote::Void(token));
            return self.tell_vote(scene, node, error::Vote::Stale);
        }
        view.until = Some(until);
        self.highest = self.highest.max(Some(token));
        self.ballot.record(node, Vote::Granted(token));
        self.tell_vote(scene, node, error::Vote::Granted);
    }

    /// An honest "no" ends an older grant of that node, but not one that answers the same or a later request: the
    /// push of a hand-over may overtake the answer that put us in line.
    fn record_refusal(&mut self, scene: &mut Scene<'_>, node: usize, request: u32, vote: Vote) {
        let view = &mut self.nodes[node];
        let granted = matches!(self.ballot.vote(node), Vote::Granted(_));
        if request < view.counted.max(self.unifying) || (granted && request == view.counted) {
            return;
        }
        view.counted = request;
        view.granted &= matches!(vote, Vote::Stale(_));
        view.until = None;
        view.latency = scene.latency(request);
        self.ballot.record(node, vote);
        let told = if matches!(vote, Vote::Stale(_)) { error::Vote::Stale } else { error::Vote::Refused };
        self.tell_vote(scene, node, told);
    }

    fn record_failure(&mut self, scene: &mut Scene<'_>, node: usize, request: u32, trouble: Trouble) {
        let current = self.round.is_some_and(|round| round.kind == RoundKind::Asked(request));
        if !current || self.ballot.vote(node) != Vote::Pending {
            return;
        }
        self.tell_vote(scene, node, error::Vote::Failed(trouble.kind.clone()));
        let view = &mut self.nodes[node];
        view.latency = scene.latency(request);
        view.trouble = Some(trouble);
        self.ballot.record(node, Vote::Failed);
    }

    fn tell_vote(&self, scene: &mut Scene<'_>, node: usize, vote: error::Vote) {
        if scene.quorum.herald.has_audience() {
            let vote = scene.quorum.node_vote(node, self.nodes[node].latency, vote);
            scene.tell(EventKind::Voted(vote));
        }
    }

    fn decide(&mut self, scene: &mut Scene<'_>) -> Outcome {
        let verdict = self.ballot.verdict();
        if !matches!(verdict, Verdict::Open | Verdict::NoQuorum) {
            self.answered = true;
            self.outage_since = None;
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
            Verdict::Unify | Verdict::Raise(_) | Verdict::Yield | Verdict::Refused => self.refused(scene),
            Verdict::NoQuorum => self.no_quorum(scene),
        }
    }

    fn win(&mut self, scene: &mut Scene<'_>, token: FencingToken) -> Outcome {
        let winners = self.ballot.granted().filter(|(_, other)| *other == token);
        let each = winners.filter_map(|(node, _)| self.nodes[node].until).collect();
        let until = majority_until(each, scene.need()).expect("BUG: a winner has a majority of dated grants");
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
        if !self.patience.waits() {
            return Outcome::Busy;
        }
        self.give_back(scene);
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

    fn give_back(&mut self, scene: &mut Scene<'_>) {
        let mine: Vec<(usize, FencingToken)> = self.ballot.mine().collect();
        if mine.is_empty() {
            return;
        }
        let pass = self.propose(scene, None);
        let request = scene.new_request();
        for (node, token) in mine {
            let view = &mut self.nodes[node];
            view.void = view.void.max(Some(token));
            view.voided_by = request;
            view.until = None;
            view.granted = false;
            view.in_line = scene.claim.place().is_some();
            view.under_way.push(request);
            self.ballot.record(node, Vote::Refused);
            let claim = scene.claim.clone();
            scene.send(node, request, Step::GiveBack { claim, attempt: request, token, pass });
        }
    }

    /// Whoever waits rides out an outage, for as long as a holder's lease may last.
    fn no_quorum(&mut self, scene: &mut Scene<'_>) -> Outcome {
        self.round = None;
        let since = *self.outage_since.get_or_insert(scene.now);
        let error = self.failure(scene);
        let patient = self.patience.waits() && error.kind.passes();
        if !patient || scene.now.since(since) >= scene.claim.ttl.max(OUTAGE_MIN) {
            return Outcome::Failed(error);
        }
        let pause = scene.claim.place().map_or(BACK_OFF_MAX, |place| place.lease / 3).min(BACK_OFF_MAX);
        self.next_try = Some(scene.now.plus(pause));
        Outcome::Open
    }

    fn give_up(&mut self, scene: &mut Scene<'_>) -> Outcome {
        if self.outage_since.is_some() || !self.answered {
            return Outcome::Failed(self.failure(scene));
        }
        Outcome::Busy
    }

    fn failure(&self, scene: &Scene<'_>) -> StoreError {
        let failed = self.nodes.iter().enumerate().filter(|(node, _)| self.ballot.vote(*node) == Vote::Failed);
        let troubles = failed.filter_map(|(node, view)| Some((node, view.latency, view.trouble.clone()?))).collect();
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
