//! What is known of each node: what it granted or refused, and what may still arrive there.

use std::time::Duration;

use super::{Pursuit, Round, RoundKind};
use crate::clock::Moment;
use crate::error;
use crate::error::StoreErrorKind;
use crate::event::EventKind;
use crate::quorum::Scene;
use crate::quorum::ballot::Vote;
use crate::store::{Minting, Trouble};
use crate::token::FencingToken;

/// What this claim knows of one node.
#[derive(Clone, Default)]
pub(in crate::quorum) struct Node {
    /// The newest request to acquire that was sent to it.
    pub(super) asked: u32,
    /// The newest request whose answer was counted as a vote.
    pub(super) counted: u32,
    /// Until when its grant may be believed in.
    pub(super) until: Option<Moment>,
    /// Grants up to this token were given back, by this request, and never count again.
    pub(in crate::quorum) void: Option<FencingToken>,
    pub(super) voided_by: u32,
    pub(super) last: Option<FencingToken>,
    /// Requests that may still change something there.
    pub(super) under_way: Vec<u32>,
    /// A request ended without an answer: it may run at any time.
    pub(super) unsure: bool,
    /// It granted, and has not said since that it is another's. A stale answer does not say so: an older grant of ours
    /// may be there.
    pub(super) granted: bool,
    pub(super) in_line: bool,
    /// It was asked for us alone, after it had been asked together with others.
    pub(super) alone: bool,
    /// Why its last answer was none, and when it said so.
    pub(super) trouble: Option<(Trouble, Moment)>,
    pub(super) latency: Duration,
}

impl Node {
    /// Its answer to the newest request is still to come, and would count.
    pub(super) fn has_to_answer(&self, unifying: u32) -> bool {
        self.asked >= unifying && self.asked > self.voided_by && self.under_way.contains(&self.asked)
    }

    /// A request may still arrive there after everything we send from now on.
    pub(in crate::quorum) fn is_unsettled(&self) -> bool {
        self.unsure || !self.under_way.is_empty()
    }

    /// Something of ours may be there.
    pub(in crate::quorum) fn may_hold(&self) -> bool {
        self.is_unsettled() || self.in_line || self.granted
    }
}

impl Pursuit {
    /// What the release of the hold has to name as the highest number of the claim. A bound is spent by the request that was
    /// answered: where all are, there is nothing to name.
    pub(in crate::quorum) fn highest(&self, scene: &Scene<'_>) -> Option<FencingToken> {
        let is_needed = scene.quorum.abilities.minting != Minting::Bounded || self.nodes.iter().any(Node::is_unsettled);
        self.highest.filter(|_| is_needed)
    }

    /// Until when each node vouches for this token, and what it may not vouch for.
    pub(in crate::quorum) fn vouchers(&self, token: FencingToken) -> Vec<(Option<Moment>, Option<FencingToken>)> {
        let nodes = self.nodes.iter().enumerate();
        let until = |node, view: &Node| view.until.filter(|_| self.ballot.vote(node) == Vote::Granted(token));
        nodes.map(|(node, view)| (until(node, view), view.void)).collect()
    }

    /// What each node said, and how fast.
    pub(in crate::quorum) fn votes(&self) -> Vec<(Duration, error::Vote)> {
        let votes = self.nodes.iter().enumerate().map(|(node, view)| {
            let vote = match (self.ballot.vote(node), &view.trouble) {
                (Vote::Granted(_), _) => error::Vote::Granted,
                (Vote::Stale(_) | Vote::Void(_), _) => error::Vote::Stale,
                // Asked again, and not answered yet: what it said last is the best that is known.
                (Vote::Failed | Vote::Pending, Some((trouble, _))) => error::Vote::Failed(trouble.kind.clone()),
                (Vote::Pending, None) => error::Vote::Unheard,
                (Vote::Failed, None) => error::Vote::Failed(StoreErrorKind::TooSlow),
                (Vote::Refused, _) => error::Vote::Refused,
            };
            (view.latency, vote)
        });
        votes.collect()
    }

    pub(super) fn record_grant(
        &mut self,
        scene: &mut Scene<'_>,
        node: usize,
        request: u32,
        token: FencingToken,
        until: Moment,
    ) {
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
        view.trouble = None;
        view.latency = scene.latency(request);
        if voided {
            view.until = None;
            self.ballot.record(node, Vote::Void(token));
            return self.tell_vote(scene, node, error::Vote::Stale);
        }
        view.until = Some(until);
        if scene.quorum.abilities.minting != Minting::Bounded {
            self.highest = self.highest.max(Some(token));
        }
        self.ballot.record(node, Vote::Granted(token));
        self.tell_vote(scene, node, error::Vote::Granted);
    }

    /// An honest "no" ends an older grant of that node, but not one that answers the same or a later request: the
    /// push of a hand-over may overtake the answer that put us in line.
    pub(super) fn record_refusal(&mut self, scene: &mut Scene<'_>, node: usize, request: u32, vote: Vote) {
        let view = &mut self.nodes[node];
        let granted = matches!(self.ballot.vote(node), Vote::Granted(_));
        if request < view.counted.max(self.unifying) || (granted && request == view.counted) {
            return;
        }
        view.counted = request;
        view.granted &= matches!(vote, Vote::Stale(_));
        view.until = None;
        view.trouble = None;
        view.latency = scene.latency(request);
        self.ballot.record(node, vote);
        let told = if matches!(vote, Vote::Stale(_)) { error::Vote::Stale } else { error::Vote::Refused };
        self.tell_vote(scene, node, told);
    }

    pub(super) fn record_failure(&mut self, scene: &mut Scene<'_>, node: usize, request: u32, trouble: Trouble) {
        // Also after the round was decided without it: the next one may depend on it.
        let view = &mut self.nodes[node];
        if request >= view.counted {
            view.trouble = Some((trouble.clone(), scene.now));
        }
        let is_asked = matches!(self.round, Some(Round { kind: RoundKind::Asked(_), .. }));
        if !is_asked || self.nodes[node].asked != request || self.ballot.vote(node) != Vote::Pending {
            return;
        }
        self.tell_vote(scene, node, error::Vote::Failed(trouble.kind));
        self.nodes[node].latency = scene.latency(request);
        self.ballot.record(node, Vote::Failed);
    }

    fn tell_vote(&self, scene: &mut Scene<'_>, node: usize, vote: error::Vote) {
        if scene.quorum.herald.has_audience() {
            let vote = scene.quorum.node_vote(node, self.nodes[node].latency, vote);
            scene.tell(EventKind::Voted(vote));
        }
    }
}
