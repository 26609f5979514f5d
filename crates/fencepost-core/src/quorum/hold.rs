//! Keeping a lock: renewal, and loss in time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::{Scene, margin_of};
use crate::actor::{Actor, Holding};
use crate::clock::Moment;
use crate::error::{self, LossReason, StoreError, StoreErrorKind};
use crate::event::EventKind;
use crate::lease::valid_until;
use crate::state::YieldRequest;
use crate::store::{Answer, Claim, Loss, Minting, Mode, Repair, Step, Trouble};
use crate::token::FencingToken;

/// How many requests to yield a hold remembers: nodes that missed the newest repeat an older one.
const HEARD_MAX: usize = 16;

/// A claim that has a majority.
pub(super) struct Hold {
    pub(super) token: FencingToken,
    minting: Minting,
    /// The highest number ever proposed for this claim, if its release has to name it.
    highest: Option<FencingToken>,
    nodes: Vec<Node>,
    valid_until: Moment,
    /// What is asked for; less while only a hand-over vouches.
    full_margin: Duration,
    margin: Duration,
    /// Renewal and the hold itself end here.
    limit_at: Option<Moment>,
    automatic: bool,
    next_renewal: Option<Moment>,
    round: Option<Round>,
    /// A renewal was sent: one may arrive after the release.
    renewed: bool,
    /// Only a hand-over vouches so far: it is renewed by itself until it lasts a ttl.
    short: bool,
    /// The claim as it is renewed, if that is not as it was acquired.
    reader: Option<Reader>,
    failing: bool,
    pub(super) lost: Option<LossReason>,
    /// How many rounds of renewal have ended, and how the last one did.
    pub(super) rounds: u64,
    pub(super) last_round: Option<Result<(), StoreError>>,
    _holding: Option<Holding>,
    /// Who asks for the lock, until somebody reads it.
    pub(super) asked: Option<YieldRequest>,
    /// The requests that were told, the newest last.
    heard: VecDeque<u64>,
    /// Its release frees no grant under a higher token.
    pub(super) only: Option<FencingToken>,
    /// The store granted it to this claim, or a renewal has found it.
    proven: bool,
}

#[derive(Clone, Copy)]
struct Node {
    until: Option<Moment>,
    /// Its grants up to this token were given back: it cannot vouch for them, not even by renewing.
    void: Option<FencingToken>,
    /// The renewal that it has not answered.
    asked: Option<u32>,
    /// It said to this renewal that the lock is not ours there any more. That stays so until it keeps a later one.
    gone: Option<(u32, Loss)>,
}

/// A writer that became a reader.
struct Reader {
    claim: Arc<Claim>,
    heard: Heard,
}

/// Who knows of a downgrade.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is on its way.
    NotYet,
    /// The nodes were told, and too few have answered: they are told again.
    Unknown,
    /// A majority.
    Yes,
}

struct Round {
    request: u32,
    planned: Moment,
    deadline: Moment,
    votes: Vec<Option<Result<Answer, Trouble>>>,
}

/// How a hold is to be kept.
pub(super) struct Upkeep {
    pub(super) margin: Duration,
    pub(super) max_hold: Option<Duration>,
    pub(super) automatic: bool,
    pub(super) actor: Option<Actor>,
}

impl Hold {
    /// `nodes`: until when each vouches, and what it may not vouch for.
    pub(super) fn new(
        scene: &Scene<'_>,
        token: FencingToken,
        highest: Option<FencingToken>,
        nodes: Vec<(Option<Moment>, Option<FencingToken>)>,
        upkeep: &Upkeep,
    ) -> Self {
        let nodes: Vec<Node> =
            nodes.into_iter().map(|(until, void)| Node { until, void, asked: None, gone: None }).collect();
        let until = scene.electorate().reached(|node| nodes[node].until);
        let valid_until = until.expect("BUG: a majority vouches for a hold");
        // A hand-over is shorter than a ttl: then the first renewal is due at once.
        let full = valid_until.since(scene.now) > scene.claim.ttl - scene.claim.ttl / 10;
        let next = if full { scene.now.plus(scene.claim.ttl / 3) } else { scene.now };
        let life = if full { scene.claim.ttl } else { valid_until.since(scene.now) };
        let minting = scene.quorum.abilities.minting;
        Self {
            token,
            minting,
            highest: if minting == Minting::Bounded { highest } else { highest.max(Some(token)) },
            nodes,
            valid_until,
            full_margin: upkeep.margin,
            margin: margin_of(life, upkeep.margin, scene.claim.ttl),
            limit_at: upkeep.max_hold.map(|limit| scene.now.plus(limit)),
            automatic: upkeep.automatic,
            next_renewal: (upkeep.automatic || !full).then_some(next),
            round: None,
            renewed: false,
            short: !full,
            reader: None,
            failing: false,
            lost: None,
            rounds: 0,
            last_round: None,
            _holding: upkeep.actor.as_ref().map(Actor::holding),
            asked: None,
            heard: VecDeque::new(),
            only: None,
            proven: true,
        }
    }

    /// A lease that is said to exist under this token. Nothing is repaired for it until a renewal has found it. Its release
    /// leaves newer grants of the same owner alone, unless everything that the owner has is meant (`whole`).
    pub(super) fn taken_over(self, whole: bool) -> Self {
        Self { only: (!whole).then_some(self.token), proven: false, ..self }
    }

    /// A renewal of it may be under way somewhere: its end raises the last token above its own.
    pub(super) fn renewed_elsewhere(self) -> Self {
        Self { renewed: true, ..self }
    }

    /// What a release has to raise the last token to, or the bound that it spends: an acquire or a renewal that arrives after it
    /// is refused. Where the store mints by bounds it knows the last grant, and a late renewal makes none again.
    pub(super) fn raise(&self) -> Option<FencingToken> {
        match self.minting {
            Minting::Engine | Minting::InOrder if self.renewed => self.highest.max(Some(self.token.next())),
            _ => self.highest,
        }
    }

    /// The nodes whose grants it rests on now.
    pub(super) fn vouched(&self, now: Moment) -> Vec<bool> {
        self.nodes.iter().map(|node| node.until.is_some_and(|until| until > now)).collect()
    }

    /// When the holder must have stopped.
    fn loss_at(&self) -> Moment {
        let end = self.valid_until.minus(self.margin);
        self.limit_at.map_or(end, |limit| limit.min(end))
    }

    pub(super) fn remaining(&self, now: Moment) -> Duration {
        let end = self.limit_at.map_or(self.valid_until, |limit| limit.min(self.valid_until));
        if self.is_lost(now) { Duration::ZERO } else { end.since(now) }
    }

    /// By the clock and by all we have heard.
    pub(super) fn is_lost(&self, now: Moment) -> bool {
        self.lost.is_some() || now >= self.loss_at()
    }

    pub(super) fn next_wake(&self) -> Option<Moment> {
        if self.lost.is_some() {
            return None;
        }
        let round = self.round.as_ref().map(|round| round.deadline);
        [round, self.next_renewal, Some(self.loss_at())].into_iter().flatten().min()
    }

    pub(super) fn tick(&mut self, scene: &mut Scene<'_>) {
        if self.lost.is_some() {
            return;
        }
        if scene.now >= self.loss_at() {
            return self.lose(scene, self.why_over(scene.now, scene.claim.ttl));
        }
        if let Some(round) = self.round.as_mut().filter(|round| round.deadline <= scene.now) {
            match Self::answers_until(scene, round) {
                Some(deadline) => round.deadline = deadline,
                None => self.end_round(scene, false),
            }
        }
        if self.round.is_none() && self.next_renewal.is_some_and(|next| next <= scene.now) {
            self.renew(scene);
        }
    }

    /// Starts a round of renewal, or joins the one that is open.
    pub(super) fn renew(&mut self, scene: &mut Scene<'_>) {
        if self.lost.is_some() || self.round.is_some() {
            return;
        }
        let request = scene.new_request();
        let planned = self.next_renewal.take().unwrap_or(scene.now);
        // Short enough to leave time for another try before the loss.
        let within = scene.quorum.answer_within(scene.claim.ttl).min(scene.claim.ttl / 6);
        let deadline = scene.now.plus(within);
        self.round = Some(Round { request, planned, deadline, votes: vec![None; scene.nodes()] });
        self.renewed = true;
        let claim = self.reader.as_ref().map_or(scene.claim, |reader| &reader.claim);
        // A node that missed a downgrade catches up with any renewal.
        let pass = (claim.mode == Mode::Shared).then(|| scene.quorum.proposal(self.highest));
        let repair = match self.minting {
            _ if !self.proven => Repair::Never,
            Minting::Bounded => Repair::Forgotten,
            Minting::Engine | Minting::InOrder => Repair::NotLater,
        };
        for (node, state) in self.nodes.iter_mut().enumerate() {
            if state.asked.is_some_and(|asked| scene.owes(node, asked)) {
                continue;
            }
            state.asked = Some(request);
            scene.send(node, request, Step::Renew { claim: claim.clone(), token: self.token, pass, repair });
        }
    }

    /// Until when a round goes on because nodes that have not answered are at work on their queues: for a third of the ttl, so
    /// that those that failed are asked again before the loss.
    fn answers_until(scene: &Scene<'_>, round: &Round) -> Option<Moment> {
        let started = scene.sent_at(round.request)?;
        let ttl = scene.claim.ttl;
        let pending = (0..scene.nodes()).filter(|node| round.votes[*node].is_none());
        let until = pending.filter_map(|node| scene.quorum.at_work_until(node, started, ttl)).max()?;
        Some(until.min(started.plus(ttl / 3))).filter(|until| *until > scene.now)
    }

    /// From here on a reader's hold: other readers may come in as soon as this is sent.
    pub(super) fn downgrade(&mut self, scene: &mut Scene<'_>) {
        if self.lost.is_some() || self.is_shared(scene.claim) {
            return;
        }
        let claim = Arc::new(Claim { mode: Mode::Shared, ..Claim::clone(scene.claim) });
        self.reader = Some(Reader { claim, heard: Heard::NotYet });
        // A renewal that is under way is a writer's: its answers prolong the hold, and say nothing of this.
        self.round = None;
        self.nodes.iter_mut().for_each(|node| node.asked = None);
        scene.tell(EventKind::Downgraded);
        self.renew(scene);
    }

    /// Whether others may hold it, too.
    pub(super) fn is_shared(&self, claim: &Claim) -> bool {
        claim.mode == Mode::Shared || self.reader.is_some()
    }

    /// Who knows that it is a reader's by now.
    pub(super) fn heard(&self) -> Option<Heard> {
        self.reader.as_ref().map(|reader| reader.heard)
    }

    /// Renewed without being asked to.
    fn renews_itself(&self) -> bool {
        self.automatic || self.short || self.heard().is_some_and(|heard| heard != Heard::Yes)
    }

    /// Renewed from here on only when somebody asks, and once a hand-over lasts a ttl.
    pub(super) fn renew_by_hand(&mut self) {
        self.automatic = false;
        if !self.renews_itself() {
            self.next_renewal = None;
        }
    }

    pub(super) fn answered(
        &mut self,
        scene: &mut Scene<'_>,
        node: usize,
        request: u32,
        answer: Result<Answer, Trouble>,
    ) {
        if self.lost.is_some() {
            return;
        }
        if self.nodes[node].asked.is_some_and(|asked| asked <= request) {
            self.nodes[node].asked = None;
        }
        let vouches = self.nodes[node].void.is_none_or(|void| void < self.token);
        // An acquire may still be answered after the win: one more node that vouches.
        let vouched = match &answer {
            Ok(Answer::Kept | Answer::KeptAndAsked(_)) => vouches,
            Ok(Answer::Granted { token }) => vouches && *token == self.token,
            _ => false,
        };
        if let (true, Some(sent)) = (vouched, scene.sent_at(request)) {
            let until = valid_until(sent, scene.claim.ttl);
            self.nodes[node].until = self.nodes[node].until.max(Some(until));
            // Also by an answer that comes after its round: it is dated from its own request.
            let majority = scene.electorate().reached(|node| self.nodes[node].until);
            self.valid_until = majority.map_or(self.valid_until, |until| until.max(self.valid_until));
        }
        let state = &mut self.nodes[node];
        let is_news = state.gone.is_none_or(|(heard, _)| heard < request);
        match &answer {
            Ok(Answer::Lost(loss)) if is_news => state.gone = Some((request, *loss)),
            Ok(Answer::Kept | Answer::KeptAndAsked(_)) if is_news => state.gone = None,
            _ => {}
        }
        if let Ok(Answer::KeptAndAsked(request)) = &answer {
            self.hear(scene, request);
        }
        if let Some(round) = self.round.as_mut().filter(|round| round.request == request) {
            round.votes[node] = Some(answer);
            self.judge(scene);
        }
        // Also by answers that come after their rounds.
        let gone = |node: usize| self.nodes[node].gone.is_some();
        if self.lost.is_none() && scene.electorate().is_blocked_by(gone) {
            self.lose(scene, self.why_gone());
        }
    }

    /// Every node says it with every renewal; it is told once.
    fn hear(&mut self, scene: &mut Scene<'_>, request: &YieldRequest) {
        if self.heard.contains(&request.number()) {
            return;
        }
        if self.heard.len() == HEARD_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back(request.number());
        self.asked = Some(request.clone());
        scene.tell(EventKind::YieldRequested(request.clone()));
    }

    fn judge(&mut self, scene: &mut Scene<'_>) {
        let Some(round) = &self.round else { return };
        let started = scene.sent_at(round.request).unwrap_or(scene.now);
        let fresh = valid_until(started, scene.claim.ttl);
        let telling = self.heard().is_some_and(|heard| heard != Heard::Yes);
        // Whoever vouches by an older request has not heard of a downgrade.
        let heard = |vote: &Option<_>| !telling || matches!(vote, Some(Ok(Answer::Kept | Answer::KeptAndAsked(_))));
        let keeps =
            |node: usize| self.nodes[node].until.is_some_and(|until| until >= fresh) && heard(&round.votes[node]);
        if scene.electorate().elects(keeps) {
            self.end_round(scene, true);
        } else if round.votes.iter().all(Option::is_some) {
            self.end_round(scene, false);
        }
    }

    fn end_round(&mut self, scene: &mut Scene<'_>, kept: bool) {
        let Some(round) = self.round.take() else { return };
        self.failing = !kept;
        self.rounds += 1;
        if let Some(reader) = self.reader.as_mut().filter(|reader| reader.heard != Heard::Yes) {
            reader.heard = if kept { Heard::Yes } else { Heard::Unknown };
        }
        let remaining = self.valid_until.since(scene.now);
        if kept {
            self.proven = true;
            self.margin = self.full_margin;
            self.short = false;
            let started = scene.sent_at(round.request).unwrap_or(scene.now);
            self.next_renewal = self.automatic.then(|| started.plus(scene.claim.ttl / 3));
            self.last_round = Some(Ok(()));
            let late = started.since(round.planned);
            return scene.tell(EventKind::Renewed { late, remaining });
        }
        // The old deadline stands. Ask again soon, as long as there is time.
        self.next_renewal = self.renews_itself().then(|| scene.now.plus(scene.claim.ttl / 24));
        let within = error::round(scene.latency(round.request));
        let silent = || Trouble::new(StoreErrorKind::TooSlow, format!("no answer within {within:?}"));
        let troubles = round.votes.into_iter().enumerate().filter_map(|(node, vote)| match vote {
            Some(Ok(_)) => None,
            Some(Err(trouble)) => Some((node, scene.latency(round.request), trouble)),
            None => Some((node, scene.latency(round.request), silent())),
        });
        let error = scene.quorum.error("renew", troubles.collect());
        self.last_round = Some(Err(error));
        scene.tell(EventKind::RenewalUnknown { remaining });
    }

    fn why_over(&self, now: Moment, ttl: Duration) -> LossReason {
        if self.limit_at.is_some_and(|limit| limit <= now) {
            return LossReason::HoldLimit;
        }
        let quarantined = |error: &StoreError| matches!(error.kind, StoreErrorKind::Quarantined { .. });
        // Long enough for one more round: this process slept, whatever the store had said before.
        let slept = self.next_wake().is_some_and(|due| now.since(due) >= ttl / 6);
        match &self.last_round {
            Some(Err(error)) if self.failing && quarantined(error) => LossReason::NodeRestarted,
            _ if slept => LossReason::Expired,
            _ if self.failing || self.round.is_some() => LossReason::Unreachable,
            _ => LossReason::Expired,
        }
    }

    fn why_gone(&self) -> LossReason {
        let revoked = self.nodes.iter().any(|node| matches!(node.gone, Some((_, Loss::Revoked))));
        if revoked { LossReason::Revoked } else { LossReason::TakenOver }
    }

    /// A guard that reported loss stays dead: nothing is renewed from here on.
    fn lose(&mut self, scene: &mut Scene<'_>, reason: LossReason) {
        self.lost = Some(reason);
        self.round = None;
        self.next_renewal = None;
        scene.tell(EventKind::Lost(reason));
    }
}
