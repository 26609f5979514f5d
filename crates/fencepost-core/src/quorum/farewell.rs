//! Giving a lock up: everywhere it may be, until every node has confirmed it or the lease is over.

use std::time::Duration;

use super::hold::Hold;
use super::{Effect, Scene};
use crate::clock::Moment;
use crate::error::{self, LossReason, ReleaseOutcome, StoreError, StoreErrorKind};
use crate::event::EventKind;
use crate::store::{Answer, Proposal, Step, Then, Trouble};
use crate::token::FencingToken;

/// The pause between two tries grows from the time of one answer to this.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Where a node has failed there is no answer to wait for: the pause grows from this.
const RETRY_MIN: Duration = Duration::from_millis(20);

pub(super) struct Farewell {
    nodes: Vec<Node>,
    /// What is told when all is done: a release of a guard, not the clean-up after a failed acquisition.
    ends_hold: bool,
    /// The hold was lost before.
    lost: Option<LossReason>,
    /// No grant under a higher token is to be released.
    only: Option<FencingToken>,
    /// The nodes whose grants the hold rested on.
    vouched: Vec<bool>,
    verdict_by: Moment,
    next_send: Moment,
    /// Answers to earlier requests say nothing of the release.
    first_request: u32,
    pause: Duration,
    /// The pause after a failure.
    retry: Duration,
    /// From here on nothing of ours can be left in any store.
    give_up_at: Moment,
    pub(super) verdict: Option<Result<ReleaseOutcome, StoreError>>,
    /// How many answers have come.
    pub(super) answers: u64,
    relay: Option<Relay>,
}

/// Another claim of this process goes with the first sending.
pub(super) struct Relay {
    pub(super) then: Then,
    /// The token that it was told to expect.
    pub(super) pass: Proposal,
    /// The request that carries it, once sent.
    pub(super) request: Option<u32>,
}

enum Node {
    /// Nothing of ours is there.
    Clean,
    Owed {
        raise: Option<FencingToken>,
        trouble: Option<Trouble>,
        /// The release that it has not answered.
        asked: Option<u32>,
    },
    /// It freed the lock, or held nothing of ours: whether that was so before this release is not known if an earlier
    /// sending of it may have freed the lock.
    Answered(Said),
}

/// What a node said to a release.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Freed,
    NotHeld,
    /// Not held, to a release that was sent before.
    NotHeldAgain,
}

impl Farewell {
    /// The end of a hold.
    pub(super) fn of_hold(scene: &Scene<'_>, hold: &Hold, relay: Option<Relay>) -> Self {
        let nodes = (0..scene.nodes()).map(|_| Some(hold.raise())).collect();
        let vouched = hold.vouched(scene.now);
        Self { relay, vouched, lost: hold.lost, only: hold.only, ..Self::new(scene, nodes, true) }
    }

    /// The end of an acquisition that did not succeed. `None`: nothing to do at that node; else what to raise.
    pub(super) fn of_pursuit(scene: &Scene<'_>, nodes: Vec<Option<Option<FencingToken>>>) -> Self {
        Self::new(scene, nodes, false)
    }

    fn new(scene: &Scene<'_>, nodes: Vec<Option<Option<FencingToken>>>, ends_hold: bool) -> Self {
        let pause = scene.quorum.answer_within(scene.claim.ttl);
        let owed = |raise: Option<Option<FencingToken>>| match raise {
            Some(raise) => Node::Owed { raise, trouble: None, asked: None },
            None => Node::Clean,
        };
        Self {
            nodes: nodes.into_iter().map(owed).collect(),
            ends_hold,
            lost: None,
            only: None,
            vouched: Vec::new(),
            verdict_by: scene.now.plus(pause),
            next_send: scene.now,
            first_request: scene.requests.last + 1,
            pause,
            retry: RETRY_MIN,
            give_up_at: scene.now.plus(scene.claim.kept_for() * 2),
            verdict: None,
            answers: 0,
            relay: None,
        }
    }

    /// A majority has confirmed it, or there was nothing to confirm.
    pub(super) fn is_confirmed(&self) -> bool {
        matches!(self.verdict, Some(Ok(_))) || self.is_over()
    }

    /// Nothing is left to be done.
    pub(super) fn is_over(&self) -> bool {
        !self.nodes.iter().any(|node| matches!(node, Node::Owed { .. }))
    }

    /// Whether a live node has still to confirm it. One that answers an error is waited for only if its store knows that
    /// the link is up again; and never for what waiting cannot cure.
    pub(super) fn owes(&self, is_live: impl Fn(usize) -> Option<bool>) -> bool {
        self.nodes.iter().enumerate().any(|(node, state)| match state {
            Node::Owed { trouble: None, .. } => is_live(node) != Some(false),
            Node::Owed { trouble: Some(trouble), .. } => trouble.kind.passes() && is_live(node) == Some(true),
            Node::Clean | Node::Answered(_) => false,
        })
    }

    pub(super) fn next_wake(&self) -> Option<Moment> {
        let verdict_by = self.verdict.is_none().then_some(self.verdict_by);
        [Some(self.next_send.min(self.give_up_at)), verdict_by].into_iter().flatten().min()
    }

    pub(super) fn tick(&mut self, scene: &mut Scene<'_>) {
        if scene.now >= self.give_up_at {
            if self.verdict.is_none() {
                self.verdict = Some(Err(self.failure(scene)));
            }
            self.nodes.iter_mut().for_each(|node| *node = Node::Clean);
            if self.ends_hold && !matches!(self.verdict, Some(Ok(_))) {
                scene.tell(EventKind::ReleaseUnknown);
            }
            return;
        }
        if scene.now >= self.verdict_by && self.verdict.is_none() {
            match self.answers_until(scene) {
                Some(later) => self.verdict_by = later,
                None => self.judge(scene),
            }
        }
        if scene.now >= self.next_send {
            self.send(scene);
        }
    }

    pub(super) fn answered(
        &mut self,
        scene: &mut Scene<'_>,
        node: usize,
        request: u32,
        answer: Result<Answer, Trouble>,
    ) {
        // A late answer to an acquire, a give-back or a renewal: the release that follows it settles the matter.
        if request < self.first_request {
            return;
        }
        self.answers += 1;
        let answer = self.pass_on(scene, node, request, answer);
        let Node::Owed { trouble, asked, .. } = &mut self.nodes[node] else { return };
        if asked.is_some_and(|asked| asked <= request) {
            *asked = None;
        }
        match answer {
            Ok(Answer::Freed) => self.nodes[node] = Node::Answered(Said::Freed),
            Ok(Answer::NotHeld) if request == self.first_request => self.nodes[node] = Node::Answered(Said::NotHeld),
            Ok(Answer::NotHeld) => self.nodes[node] = Node::Answered(Said::NotHeldAgain),
            Ok(_) => return,
            Err(why) => {
                *trouble = Some(why);
                if asked.is_none() {
                    self.next_send = self.next_send.min(scene.now.plus(self.retry));
                }
            }
        }
        self.judge(scene);
    }

    /// Tells the other claim what the node said to it; answers what it said to us.
    fn pass_on(
        &self,
        scene: &mut Scene<'_>,
        node: usize,
        request: u32,
        answer: Result<Answer, Trouble>,
    ) -> Result<Answer, Trouble> {
        let carried = self.relay.as_ref().is_some_and(|relay| relay.request == Some(request));
        match answer {
            Ok(Answer::Relayed { freed, then }) => {
                if carried {
                    scene.effects.push(Effect::PassOn { node, answer: Ok(*then) });
                }
                Ok(if freed { Answer::Freed } else { Answer::NotHeld })
            }
            Err(trouble) if carried => {
                scene.effects.push(Effect::PassOn { node, answer: Err(trouble.clone()) });
                Err(trouble)
            }
            Ok(other) if carried => {
                // The node released this claim and did not answer the other one, which now asks by itself.
                scene.effects.push(Effect::PassOn { node, answer: Ok(Answer::NotAll) });
                Ok(other)
            }
            other => other,
        }
    }

    /// To those that owe nothing: what a connection was given once is never written to it again.
    fn send(&mut self, scene: &mut Scene<'_>) {
        let due: Vec<usize> = (0..self.nodes.len())
            .filter(|node| match &self.nodes[*node] {
                Node::Owed { asked, .. } => asked.is_none_or(|asked| !scene.owes(*node, asked)),
                Node::Clean | Node::Answered { .. } => false,
            })
            .collect();
        self.next_send = scene.now.plus(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        if due.is_empty() {
            return;
        }
        let request = scene.new_request();
        let raises = self.nodes.iter().filter_map(|node| match node {
            Node::Owed { raise, .. } => *raise,
            Node::Clean | Node::Answered(_) => None,
        });
        // One token for all nodes: the next in line wins when a majority hands over under the same.
        let mut pass = scene.quorum.proposal(raises.max());
        let mut then = None;
        if let Some(relay) = self.relay.as_mut().filter(|relay| relay.request.is_none()) {
            relay.request = Some(request);
            (pass, then) = (relay.pass, Some(relay.then.clone()));
        }
        for node in due {
            let Node::Owed { raise, asked, .. } = &mut self.nodes[node] else { continue };
            *asked = Some(request);
            let (claim, raise) = (scene.claim.clone(), *raise);
            scene.send(node, request, Step::Release { claim, raise, pass, then: then.clone(), only: self.only });
        }
        // Nothing is due before the last of the queues is expected to be through.
        let through =
            (0..self.nodes.len()).filter_map(|node| self.asked(node)).map(|(node, asked)| scene.silent_at(node, asked));
        self.next_send = self.next_send.max(through.max().unwrap_or(scene.now));
        self.verdict_by = self.verdict_by.max(self.answers_until(scene).unwrap_or(scene.now));
        self.retry = (self.retry * 2).min(PAUSE_MAX);
    }

    /// The node, and which release it has not answered.
    fn asked(&self, node: usize) -> Option<(usize, u32)> {
        match &self.nodes[node] {
            Node::Owed { asked, .. } => asked.map(|asked| (node, asked)),
            Node::Clean | Node::Answered { .. } => None,
        }
    }

    /// Until when the release may still be confirmed, by nodes that are at work on their queues. `None`: they are too few.
    fn answers_until(&self, scene: &Scene<'_>) -> Option<Moment> {
        let until = |node: usize| match self.nodes[node] {
            Node::Clean => None,
            Node::Answered { .. } => Some(scene.now),
            Node::Owed { .. } => {
                self.asked(node).map(|(node, asked)| scene.silent_at(node, asked)).filter(|until| *until > scene.now)
            }
        };
        let has_to = |node: usize| !matches!(self.nodes[node], Node::Clean);
        if !scene.electorate().is_done(has_to, |node| until(node).is_some()) {
            return None;
        }
        (0..self.nodes.len()).filter_map(until).max().filter(|until| *until > scene.now)
    }

    fn judge(&mut self, scene: &mut Scene<'_>) {
        let answered = |node: usize| matches!(self.nodes[node], Node::Answered(_));
        let asked = |node: usize| !matches!(self.nodes[node], Node::Clean);
        if scene.electorate().is_done(asked, answered) && !matches!(self.verdict, Some(Ok(_))) {
            let Some(outcome) = self.outcome(scene) else { return };
            self.verdict = Some(Ok(outcome));
            if self.ends_hold {
                scene.tell(EventKind::Released(outcome));
            }
            return;
        }
        if scene.now >= self.verdict_by && self.verdict.is_none() {
            self.verdict = Some(Err(self.failure(scene)));
            return;
        }
        let failed = |node: usize| matches!(self.nodes[node], Node::Owed { trouble: Some(_), .. });
        if scene.electorate().is_blocked_by(failed) && self.verdict.is_none() {
            self.verdict = Some(Err(self.failure(scene)));
        }
    }

    /// What became of the hold. It was lost if the nodes that may still have had it are no majority: those that freed it, and
    /// of those that it rested on the ones that have not denied it. `None`: nodes that may settle it have time to answer.
    fn outcome(&self, scene: &Scene<'_>) -> Option<ReleaseOutcome> {
        let said = |node: usize| match &self.nodes[node] {
            Node::Answered(said) => Some(*said),
            Node::Clean | Node::Owed { .. } => None,
        };
        let rested_on = |node: usize| self.vouched.get(node).copied().unwrap_or_default();
        let freed = |node: usize| said(node) == Some(Said::Freed);
        let may_have_had = |node: usize| freed(node) || (rested_on(node) && said(node) != Some(Said::NotHeld));
        if self.lost.is_some() || !scene.electorate().elects(may_have_had) {
            return Some(ReleaseOutcome::NotHeld(self.lost));
        }
        let nodes = || 0..self.nodes.len();
        let is_denied = nodes().any(|node| rested_on(node) && said(node) == Some(Said::NotHeld));
        let is_open =
            nodes().any(|node| rested_on(node) && matches!(self.nodes[node], Node::Owed { trouble: None, .. }));
        if is_denied && is_open && scene.now < self.verdict_by && !scene.electorate().elects(freed) {
            return None;
        }
        Some(if nodes().any(freed) { ReleaseOutcome::Freed } else { ReleaseOutcome::Unproven })
    }

    fn failure(&self, scene: &Scene<'_>) -> StoreError {
        let troubles = self.nodes.iter().enumerate().filter_map(|(node, state)| {
            let Node::Owed { trouble, .. } = state else { return None };
            let silent = || Trouble::new(StoreErrorKind::TooSlow, "nobody confirmed the release");
            let latency = error::round(scene.quorum.answer_within(scene.claim.ttl));
            Some((node, latency, trouble.clone().unwrap_or_else(silent)))
        });
        scene.quorum.error("release", troubles.collect())
    }
}
