//! Where a claim stands, and what brings it from one phase to the next.

use super::{Course, Input, State, Won};
use crate::clock::Moment;
use crate::error::{AcquireError, LossReason, ReleaseOutcome, StoreError};
use crate::event::EventKind;
use crate::quorum::Scene;
use crate::quorum::farewell::{Farewell, Relay};
use crate::quorum::hold::Hold;
use crate::quorum::pursuit::{Node, Outcome, Pursuit};
use crate::state::Holder;
use crate::store::{Event, Post};

/// Where the claim stands, and what it has come to so far.
pub(super) struct Life {
    pub(super) phase: Phase,
    /// Why the acquisition ended without the lock.
    pub(super) refusal: Option<AcquireError>,
    pub(super) won: Option<Won>,
    pub(super) lost: Option<LossReason>,
}

pub(super) enum Phase {
    /// Behind another claim of this process.
    Lined,
    Pursuing(Pursuit),
    Held(Hold),
    Leaving(Farewell),
    Done(Option<Result<ReleaseOutcome, StoreError>>),
}

impl Course {
    pub(super) fn handle(&self, life: &mut Life, scene: &mut Scene<'_>, input: Input, relay: Option<Relay>) {
        match (&mut life.phase, input) {
            (Phase::Done(_), _) => {}
            (phase, Input::Abandon) => {
                if matches!(phase, Phase::Lined | Phase::Pursuing(_)) {
                    scene.tell(EventKind::Refused);
                }
                *phase = Phase::Done(None);
                // For whoever else rests on it.
                life.lost = life.lost.or(Some(LossReason::TakenOver));
            }
            (Phase::Lined, Input::Begin | Input::Turn) => {
                let mut pursuit = Pursuit::new(scene, self.terms.patience, self.terms.margin);
                let outcome = pursuit.begin(scene);
                life.phase = Phase::Pursuing(pursuit);
                self.conclude(life, scene, outcome);
            }
            (Phase::Lined, Input::Tick) if self.terms.patience.is_over(scene.now) => {
                life.refusal = Some(self.busy(scene.now, self.quorum.line.holder(&self.claim.name, self.id)));
                scene.tell(EventKind::Refused);
                life.phase = Phase::Done(None);
            }
            (Phase::Lined, Input::Stop) => {
                life.refusal = Some(AcquireError::ShuttingDown);
                scene.tell(EventKind::Refused);
                life.phase = Phase::Done(None);
            }
            (Phase::Lined, Input::Leave) => {
                scene.tell(EventKind::Refused);
                life.phase = Phase::Done(None);
            }
            (Phase::Pursuing(pursuit), input) => {
                let outcome = match input {
                    Input::Post(post) => pursuit.post(scene, post),
                    Input::Tick => pursuit.tick(scene),
                    Input::Leave => {
                        scene.tell(EventKind::Refused);
                        life.phase = self.part(scene, pursuit);
                        return;
                    }
                    Input::Stop => {
                        life.refusal = Some(AcquireError::ShuttingDown);
                        scene.tell(EventKind::Refused);
                        life.phase = self.part(scene, pursuit);
                        return;
                    }
                    Input::Begin | Input::Turn | Input::Renew | Input::Downgrade | Input::ByHand | Input::Abandon => {
                        Outcome::Open
                    }
                };
                self.conclude(life, scene, outcome);
            }
            (Phase::Held(hold), input) => {
                match input {
                    Input::Post(Post { node, request, event: Event::Answer(answer) }) => {
                        hold.answered(scene, node, request, answer);
                    }
                    Input::Tick => hold.tick(scene),
                    Input::Renew | Input::Post(Post { event: Event::MayBeLost, .. }) => hold.renew(scene),
                    Input::Downgrade => hold.downgrade(scene),
                    Input::ByHand => hold.renew_by_hand(),
                    Input::Leave => {
                        scene.tell(EventKind::Releasing);
                        // Too late to be a clean end: the lock rests for its delay first.
                        if let Some(lost) = hold.lost.filter(|_| !self.claim.delay.is_zero()) {
                            scene.tell(EventKind::Released(ReleaseOutcome::NotHeld(Some(lost))));
                            life.phase = Phase::Done(None);
                            return;
                        }
                        let mut farewell = Farewell::of_hold(scene, hold, relay);
                        farewell.tick(scene);
                        life.phase = Phase::Leaving(farewell);
                        return;
                    }
                    Input::Begin | Input::Turn | Input::Post(_) | Input::Abandon | Input::Stop => {}
                }
                life.lost = hold.lost;
            }
            (Phase::Leaving(farewell), input) => {
                match input {
                    Input::Post(Post { node, request, event: Event::Answer(answer) }) => {
                        farewell.answered(scene, node, request, answer);
                    }
                    Input::Tick => farewell.tick(scene),
                    _ => {}
                }
                if farewell.is_over() {
                    life.phase = Phase::Done(farewell.verdict.take());
                }
            }
            (Phase::Lined, _) => {}
        }
    }

    /// Moves on from the pursuit if it is decided.
    fn conclude(&self, life: &mut Life, scene: &mut Scene<'_>, outcome: Outcome) {
        let Phase::Pursuing(pursuit) = &mut life.phase else { return };
        let refusal = match outcome {
            Outcome::Open => return,
            Outcome::Won { token, until } => {
                let nodes = pursuit.vouchers(token);
                let votes = pursuit.votes();
                let mut hold = Hold::new(scene, token, pursuit.highest(scene), nodes, &self.upkeep());
                let ticket = pursuit.ticket.or_else(|| scene.claim.place()?.ticket);
                scene.tell(EventKind::Acquired { token, remaining: until.since(scene.now), ticket });
                // A hand-over is renewed before anybody can leak it.
                hold.tick(scene);
                life.won = Some((token, votes));
                life.phase = Phase::Held(hold);
                return;
            }
            Outcome::Busy => self.busy(scene.now, pursuit.holder.take()),
            Outcome::Failed(error) => AcquireError::Store(error),
        };
        scene.tell(EventKind::Refused);
        // Whoever asks for it again may have been granted it elsewhere: its place ends with its lease.
        let lets_go = self.terms.repeats && self.terms.patience.waits() && matches!(refusal, AcquireError::Busy { .. });
        let parting = if lets_go { Phase::Done(None) } else { self.part(scene, pursuit) };
        life.refusal = Some(refusal);
        life.phase = parting;
    }

    /// Cleans up after a pursuit: everywhere something of ours may be, or may still arrive.
    fn part(&self, scene: &mut Scene<'_>, pursuit: &Pursuit) -> Phase {
        // A node whose answers are all in needs no raise: it would lift the fence above the lawful holder.
        let owed = |node: &Node| node.may_hold().then(|| pursuit.highest.filter(|_| node.is_unsettled()));
        let mut farewell = Farewell::of_pursuit(scene, pursuit.nodes.iter().map(owed).collect());
        if farewell.is_over() {
            return Phase::Done(None);
        }
        farewell.tick(scene);
        Phase::Leaving(farewell)
    }

    fn busy(&self, now: Moment, holder: Option<Holder>) -> AcquireError {
        AcquireError::Busy { waited: self.terms.patience.waited(now), holder: holder.map(Box::new) }
    }
}

impl State {
    /// What a future may be waiting for; when it changes they are woken.
    pub(super) fn signs(&self) -> (u8, u64, bool, bool) {
        match &self.life.phase {
            Phase::Lined => (0, 0, false, self.life.refusal.is_some()),
            Phase::Pursuing(pursuit) => (1, 0, pursuit.waiting, self.life.refusal.is_some()),
            Phase::Held(hold) => (2, hold.rounds, hold.lost.is_some(), hold.asked.is_some()),
            Phase::Leaving(farewell) => (3, farewell.answers, farewell.verdict.is_some(), farewell.is_confirmed()),
            Phase::Done(_) => (4, 0, false, false),
        }
    }
}

impl Pursuit {
    fn post(&mut self, scene: &mut Scene<'_>, post: Post) -> Outcome {
        match post.event {
            Event::Answer(answer) => self.answered(scene, post.node, post.request, answer),
            Event::HandedOver { token, attempt } => self.handed_over(scene, post.node, token, attempt),
            Event::MayPay => self.hint(scene),
            Event::MayBeLost => Outcome::Open,
        }
    }
}
