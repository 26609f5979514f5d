//! What can be seen of a claim, and asked of it: by futures, guards and whoever looks at the whole connection.

use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use super::life::Phase;
use super::{Course, Input, Won};
use crate::error::{AcquireError, LossReason, Lost, NodeVote, ReleaseOutcome, RenewError, StoreError, Vote};
use crate::quorum::hold::Heard;
use crate::state::{Holder, Waiter, YieldRequest};
use crate::store::Mode;
use crate::token::FencingToken;

impl Course {
    /// The end of the acquisition.
    pub(crate) fn poll_acquired(&self, context: &Context<'_>) -> Poll<Result<(), AcquireError>> {
        let mut state = self.state();
        if let Some(refusal) = &state.life.refusal {
            return Poll::Ready(Err(refusal.clone()));
        }
        match state.life.won {
            Some(_) => Poll::Ready(Ok(())),
            None => state.wait(context),
        }
    }

    /// The end of the acquisition for one that joined it, and whose own wait may be over.
    pub(crate) fn poll_joined(&self, is_over: bool, context: &Context<'_>) -> Poll<Result<(), AcquireError>> {
        let acquired = self.poll_acquired(context);
        let waits = match &self.state().life.phase {
            Phase::Lined => true,
            Phase::Pursuing(pursuit) => pursuit.waiting,
            _ => false,
        };
        if acquired.is_pending() && is_over && waits {
            return Poll::Ready(Err(AcquireError::Busy {
                waited: Duration::ZERO,
                holder: self.holder().map(Box::new),
            }));
        }
        acquired
    }

    /// It is held, or may come to be: one more hold can rest on it.
    pub(crate) fn can_be_joined(&self) -> bool {
        let state = self.state();
        match &state.life.phase {
            Phase::Lined | Phase::Pursuing(_) => state.life.refusal.is_none(),
            Phase::Held(hold) => !hold.is_lost(self.quorum.clock.now()),
            Phase::Leaving(_) | Phase::Done(_) => false,
        }
    }

    /// Others come first. Pending too once the acquisition has ended.
    pub(crate) fn poll_waiting(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        match &state.life.phase {
            Phase::Lined => Poll::Ready(()),
            Phase::Pursuing(pursuit) if pursuit.waiting => Poll::Ready(()),
            _ => state.wait(context),
        }
    }

    /// Who waits here without a place in any store's line.
    pub(in crate::quorum) fn waits_unseen(&self) -> Option<Waiter> {
        let waits = match &self.state().life.phase {
            Phase::Lined => true,
            Phase::Pursuing(pursuit) => {
                pursuit.waiting && (self.claim.place().is_none() || !self.quorum.abilities.queues)
            }
            Phase::Held(_) | Phase::Leaving(_) | Phase::Done(_) => false,
        };
        // As a store counts it: one of several names may have been waited for before this one.
        let waited = self.quorum.clock.now().since(self.since);
        let mut waiter = Waiter::new(&*self.claim.label, self.claim.mode == Mode::Shared, waited);
        waiter.actor = self.claim.actor;
        (waits && waiter.actor.is_some()).then_some(waiter)
    }

    /// The end of the hold, if it ended unasked. Loss is judged by the clock, at every poll.
    pub(crate) fn poll_lost(self: &Arc<Self>, context: &Context<'_>) -> Poll<Lost> {
        // First the waker, then the question: a loss between the two must wake it.
        let waiting = self.state().wait(context);
        self.lost().map_or(waiting, Poll::Ready)
    }

    /// The next request to let go.
    pub(crate) fn poll_yield_requested(&self, context: &Context<'_>) -> Poll<YieldRequest> {
        let mut state = self.state();
        let asked = match &mut state.life.phase {
            Phase::Held(hold) => hold.asked.take(),
            _ => None,
        };
        asked.map_or_else(|| state.wait(context), Poll::Ready)
    }

    pub(crate) fn lost(self: &Arc<Self>) -> Option<Lost> {
        let now = self.quorum.clock.now();
        let due = matches!(&self.state().life.phase, Phase::Held(hold) if hold.lost.is_none() && hold.is_lost(now));
        if due {
            self.push(Input::Tick);
        }
        let state = self.state();
        let reason = match &state.life.phase {
            // Another thread is at work on it; by the clock it is over.
            Phase::Held(hold) if hold.is_lost(now) => Some(hold.lost.unwrap_or(LossReason::Expired)),
            _ => state.life.lost,
        };
        reason.map(|reason| Lost::new(self.claim.name.as_str(), reason))
    }

    pub(crate) fn remaining(&self) -> Duration {
        match &self.state().life.phase {
            Phase::Held(hold) => hold.remaining(self.quorum.clock.now()),
            _ => Duration::ZERO,
        }
    }

    /// The clock that dates it.
    pub(crate) fn clock(&self) -> &crate::clock::Clock {
        &self.quorum.clock
    }

    /// The token of the hold, and what each node said.
    pub(crate) fn won(&self) -> Option<Won> {
        self.state().life.won.clone()
    }

    /// The same votes, with the names of the nodes.
    pub(crate) fn node_votes(&self, votes: &[(Duration, Vote)]) -> Vec<NodeVote> {
        self.quorum.node_votes(votes)
    }

    /// Asks for a renewal now. Answers the number of the round that will end it.
    pub(crate) fn renew(self: &Arc<Self>) -> u64 {
        let round = match &self.state().life.phase {
            Phase::Held(hold) => hold.rounds + 1,
            _ => 0,
        };
        self.push(Input::Renew);
        round
    }

    pub(crate) fn poll_renewed(
        self: &Arc<Self>,
        round: u64,
        context: &Context<'_>,
    ) -> Poll<Result<Duration, RenewError>> {
        let waiting = self.state().wait(context);
        if let Some(lost) = self.lost() {
            return Poll::Ready(Err(lost.into()));
        }
        let state = self.state();
        let Phase::Held(hold) = &state.life.phase else {
            let lost = Lost::new(self.claim.name.as_str(), LossReason::Expired);
            return Poll::Ready(Err(lost.into()));
        };
        match &hold.last_round {
            Some(Ok(())) if hold.rounds >= round => Poll::Ready(Ok(hold.remaining(self.quorum.clock.now()))),
            Some(Err(error)) if hold.rounds >= round => Poll::Ready(Err(error.clone().into())),
            _ => waiting,
        }
    }

    /// Makes a writer's hold a reader's.
    pub(crate) fn downgrade(self: &Arc<Self>) {
        self.push(Input::Downgrade);
    }

    /// A majority knows of the downgrade, or was asked in vain: the renewals go on telling it.
    pub(crate) fn poll_downgraded(self: &Arc<Self>, context: &Context<'_>) -> Poll<Result<(), Lost>> {
        let waiting = self.state().wait(context);
        if let Some(lost) = self.lost() {
            return Poll::Ready(Err(lost));
        }
        match &self.state().life.phase {
            Phase::Held(hold) if hold.heard().is_none_or(|heard| heard == Heard::NotYet) => waiting,
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Leaves renewal to the user from now on.
    pub(crate) fn renew_by_hand(self: &Arc<Self>) {
        self.push(Input::ByHand);
    }

    /// Ends the claim: out of the line, or released. Never blocks.
    pub(crate) fn leave(self: &Arc<Self>) {
        self.push(Input::Leave);
    }

    pub(crate) fn poll_left(&self, context: &Context<'_>) -> Poll<Result<ReleaseOutcome, StoreError>> {
        let mut state = self.state();
        let verdict = match &state.life.phase {
            Phase::Leaving(farewell) => farewell.verdict.clone(),
            Phase::Done(verdict) => Some(verdict.clone().unwrap_or(Ok(ReleaseOutcome::NotHeld(state.life.lost)))),
            _ => None,
        };
        verdict.map_or_else(|| state.wait(context), Poll::Ready)
    }

    /// The same, but trouble is the answer only once nobody waits any longer: the release is sent again meanwhile.
    pub(crate) fn poll_confirmed(
        &self,
        is_over: bool,
        context: &Context<'_>,
    ) -> Poll<Result<ReleaseOutcome, StoreError>> {
        match self.poll_left(context) {
            Poll::Ready(Err(_)) if !is_over && self.is_leaving() => self.state().wait(context),
            answer => answer,
        }
    }

    /// Lets go of the claim without releasing it.
    pub(crate) fn abandon(self: &Arc<Self>) {
        self.push(Input::Abandon);
    }

    pub(in crate::quorum) fn stop_waiting(self: &Arc<Self>) {
        self.push(Input::Stop);
    }

    /// On its way out, and nobody has confirmed it yet.
    pub(crate) fn is_leaving(&self) -> bool {
        let (leave, stop) = {
            let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            (inbox.leave, inbox.stop)
        };
        match &self.state().life.phase {
            Phase::Lined | Phase::Pursuing(_) => leave || stop,
            Phase::Held(_) => leave,
            Phase::Leaving(farewell) => !farewell.is_confirmed(),
            Phase::Done(_) => false,
        }
    }

    /// On its way out, and a live node has not answered its release yet.
    pub(in crate::quorum) fn owes(&self) -> bool {
        match &self.state().life.phase {
            Phase::Leaving(farewell) => return farewell.owes(&self.quorum.nodes),
            Phase::Lined | Phase::Pursuing(_) | Phase::Held(_) => {}
            Phase::Done(_) => return false,
        }
        self.is_leaving()
    }

    /// It may be asked for again elsewhere, and nothing of it was given up yet.
    pub(crate) fn may_go_on_elsewhere(&self) -> bool {
        self.terms.repeats && !self.is_past()
    }

    /// It has ended, or is about to.
    pub(crate) fn is_past(&self) -> bool {
        matches!(self.state().life.phase, Phase::Leaving(_) | Phase::Done(_))
    }

    /// Its place in the store's line, once the store has told it.
    pub(crate) fn ticket(&self) -> Option<FencingToken> {
        self.state().claim.place()?.ticket
    }

    /// Who has the lock, as far as this claim knows.
    pub(crate) fn holder(&self) -> Option<Holder> {
        match &self.state().life.phase {
            Phase::Pursuing(pursuit) => pursuit.holder.clone(),
            Phase::Held(hold) => {
                let mut holder = Holder::new(&*self.claim.label);
                holder.token = Some(hold.token);
                holder.shared = hold.is_shared(&self.claim);
                holder.actor = self.claim.actor;
                Some(holder)
            }
            Phase::Lined | Phase::Leaving(_) | Phase::Done(_) => None,
        }
    }
}
