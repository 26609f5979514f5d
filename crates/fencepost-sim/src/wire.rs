//! One end of a wire, in a process: the store that the engine talks to.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_core::FencingToken;
use fencepost_core::store::{
    Abilities, Answer, Claim, Clock, Closing, Event, Listening, Mailbox, Minting, Moment, Owed, Owner, Post, Proposal,
    Repair, Reply, Step, Store,
};

use crate::flaw::Flaw;
use crate::net::{Ear, Hub, Link, Parcel, Pid};
use crate::node::Node;
use crate::plan::Plan;
use crate::time::{moment, nanos, token_at};

/// How many moments of sending a wire remembers.
const SENT_MAX: usize = 256;
/// How long after it was heard a wire that owes an answer counts as at work.
const PATIENCE: Duration = Duration::from_millis(20);

/// The moments at which requests were sent, each once, and how certain the wire was of all requests of that moment.
type Sent = VecDeque<(Moment, Option<u64>)>;

/// Whether a process is alive: the dead send nothing.
pub(crate) type Life = Arc<AtomicBool>;

#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) hub: Hub,
    pub(crate) pid: Pid,
    pub(crate) node: usize,
    pub(crate) life: Life,
    pub(crate) minting: Minting,
    pub(crate) together: bool,
    pub(crate) flaw: Option<Flaw>,
    /// The process's own.
    clock: Clock,
    sent: Arc<Mutex<Sent>>,
    /// The newest request of each owner, for the wires that mix them up.
    newest: Arc<Mutex<HashMap<Owner, (u32, Reply)>>>,
}

impl Wire {
    pub(crate) fn new(hub: &Hub, pid: Pid, node: usize, life: &Life, plan: &Plan, clock: &Clock) -> Self {
        let (clock, sent) = (clock.clone(), Arc::default());
        let (minting, together, flaw) = (plan.minting(), plan.together, plan.flaw);
        Self {
            hub: hub.clone(),
            pid,
            node,
            life: life.clone(),
            minting,
            together,
            flaw,
            clock,
            sent,
            newest: Arc::default(),
        }
    }

    fn newest(&self) -> MutexGuard<'_, HashMap<Owner, (u32, Reply)>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how certain the wire is of what is sent now.
    ///
    /// `owed` names a request by its moment only, and several requests may leave in one. If one of them vanishes, the
    /// next one is sent under another certainty, and nothing is certain of that moment: otherwise the engine would wait
    /// for an answer to the lost request, and never repeat it.
    fn note(&self, certainty: Option<u64>) {
        let (now, mut sent) = (self.clock.now(), self.sent());
        if let Some((_, noted)) = sent.back_mut().filter(|(at, _)| *at == now) {
            *noted = noted.filter(|noted| certainty == Some(*noted));
            return;
        }
        if sent.len() == SENT_MAX {
            sent.pop_front();
        }
        sent.push_back((now, certainty));
    }

    fn is_alive(&self) -> bool {
        self.life.load(Ordering::SeqCst)
    }

    /// What a wrong wire does with a step. Answers the step and where its answer goes, if it is still to be sent.
    fn go_wrong(&self, flaw: Flaw, step: Step, reply: Reply) -> Option<(Step, Reply)> {
        let Some(claim) = step.claim() else { return Some((step, reply)) };
        let owner = claim.owner;
        let mut twist = Twist { wire: self.clone(), reply: reply.clone(), owner, instead: None };
        match (flaw, &step) {
            (Flaw::WatchdogOutlivesRelease, Step::Release { claim, raise: Some(_), .. }) => {
                let held = self.newest().remove(&owner);
                if let Some((_, late)) = held {
                    let at = self.hub.net().now + nanos(claim.ttl) / 3;
                    let token = self.renewed_token(claim);
                    let renewal = token.map(|token| Step::Renew {
                        claim: claim.clone(),
                        token,
                        pass: None,
                        repair: Repair::NotLater,
                    });
                    if let Some(step) = renewal {
                        let (from, node) = (self.pid, self.node);
                        self.hub.net().post(at, Parcel::Send { from, node, step, reply: late });
                    }
                }
            }
            (Flaw::WatchdogOutlivesRelease, Step::Renew { token, .. }) => {
                self.newest().insert(owner, (0, reply.clone()));
                self.hub.net().renewed.insert(owner, *token);
            }
            (Flaw::UnknownIsKept, Step::Renew { .. }) => twist.instead = Some(Answer::Kept),
            (Flaw::UnknownIsGranted, Step::Acquire { token: Proposal::Exactly(token), .. }) => {
                twist.instead = Some(Answer::Granted { token: *token });
            }
            (Flaw::DatedFromTheNewest, Step::Acquire { .. } | Step::Renew { .. }) => {
                self.newest().insert(owner, (0, reply.clone()));
            }
            (Flaw::PushDatedFromTheNewest, Step::Acquire { attempt, .. }) => {
                self.newest().insert(owner, (*attempt, reply));
                return Some((step, twist.reply));
            }
            (Flaw::NeverReleases, Step::Release { raise: Some(_), .. })
            | (Flaw::NoCleanUp, Step::Release { raise: None, .. }) => return None,
            _ => return Some((step, reply)),
        }
        if let Some(instead) = &twist.instead
            && self.hub.net().link(self.pid.0, self.node) != Link::Up
        {
            reply.answer(Ok(instead.clone()));
            return None;
        }
        let twisted = matches!(flaw, Flaw::UnknownIsKept | Flaw::UnknownIsGranted | Flaw::DatedFromTheNewest);
        Some((step, if twisted { Reply::new(Arc::new(twist), 0, 0) } else { reply }))
    }

    fn renewed_token(&self, claim: &Claim) -> Option<FencingToken> {
        self.hub.net().renewed.get(&claim.owner).copied()
    }
}

/// An answer that is not passed on as it came.
struct Twist {
    wire: Wire,
    reply: Reply,
    owner: Owner,
    /// Said instead of a refusal or an error.
    instead: Option<Answer>,
}

impl Mailbox for Twist {
    fn post(self: Arc<Self>, post: Post) {
        match (&post.event, &self.instead) {
            (Event::Answer(answer), Some(instead)) if Node::is_refusal(answer) => {
                self.reply.push(Event::Answer(Ok(instead.clone())));
            }
            (Event::Answer(_), Some(_)) => self.reply.push(post.event),
            (Event::Answer(Ok(Answer::Granted { .. } | Answer::Kept)), None) => {
                let newest = self.wire.newest().get(&self.owner).map(|(_, newest)| newest.clone());
                newest.as_ref().unwrap_or(&self.reply).push(post.event);
            }
            (Event::HandedOver { token, attempt }, None) => {
                let newest = self.wire.newest().get(&self.owner).map(|(newest, _)| *newest);
                let attempt = newest.unwrap_or_default().max(*attempt);
                self.reply.push(Event::HandedOver { token: *token, attempt });
            }
            _ => self.reply.push(post.event),
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Wire {
    fn abilities(&self) -> Abilities {
        Abilities {
            minting: self.minting,
            queues: true,
            tells: false,
            relays: true,
            together: self.together,
            records: false,
            survives_restart: false,
            smallest_ttl: Duration::from_millis(20),
            largest_ttl: None,
            answer_within: None,
        }
    }

    fn label(&self) -> String {
        format!("n{}", self.node)
    }

    fn submit(&self, step: Step, _deadline: Moment, reply: Reply) {
        if !self.is_alive() {
            return;
        }
        let sent = match self.flaw {
            Some(flaw) => self.go_wrong(flaw, step, reply),
            None => Some((step, reply)),
        };
        let Some((step, reply)) = sent else { return };
        let mut net = self.hub.net();
        self.note(net.certainty(self.pid.0, self.node));
        if let Step::Renew { claim, token, .. } = &step {
            let mut history = self.hub.ledger.open();
            let lock = history.lock(claim.name.as_str());
            history.renewals.push((moment(net.now), lock, *token));
        }
        net.send(self.pid, self.node, &step, &reply);
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        let reply = match self.flaw {
            Some(Flaw::PushDatedFromTheNewest) => {
                let twist = Twist { wire: self.clone(), reply, owner: claim.owner, instead: None };
                Reply::new(Arc::new(twist), 0, 0)
            }
            _ => reply,
        };
        self.hub.net().ears[self.node].insert(claim.owner, Ear { pid: self.pid, reply });
        Listening::new(Hearing { wire: self.clone(), owner: claim.owner })
    }

    fn clock(&self) -> Option<FencingToken> {
        Some(token_at(self.hub.net().estimate(self.pid.0, self.node)))
    }

    fn owed(&self, submitted: Moment) -> Owed {
        let (now, mut net) = (self.clock.now(), self.hub.net());
        let (certainty, silent) = (net.certainty(self.pid.0, self.node), net.silent_for(self.pid.0, self.node));
        // What is asked about before it is sent is sent now.
        let sent = self.sent().iter().rev().find(|(at, _)| *at == submitted).map(|(_, certainty)| *certainty);
        let sent = sent.or_else(|| (submitted >= now).then_some(certainty)).flatten();
        match sent.filter(|sent| certainty == Some(*sent)) {
            Some(_) => Owed::Until(now.minus(silent).max(submitted).plus(PATIENCE)),
            None => Owed::Unknown,
        }
    }

    /// A link that is cut looks like a slow one.
    fn is_live(&self) -> Option<bool> {
        None
    }

    /// A node keeps nothing for claims to come.
    fn close(&self, closing: Closing) {
        drop(closing);
    }
}

struct Hearing {
    wire: Wire,
    owner: Owner,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        // A process that died does not hang up; the node may believe that it listens.
        if self.wire.is_alive() {
            // Dropped after the locks are: with them the last of a claim may go.
            let _newest = self.wire.newest().remove(&self.owner);
            let _ear = self.wire.hub.net().ears[self.wire.node].remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_core::VirtualClock;
    use fencepost_core::store::LockName;

    use super::*;
    use crate::net::Net;
    use crate::plan::Mode;

    struct Nobody;

    impl Mailbox for Nobody {
        fn post(self: Arc<Self>, _: Post) {}
    }

    #[test]
    fn a_request_that_vanished_is_not_owed_though_another_was_sent_in_the_same_moment() {
        let plan = Plan::new(0, Mode::Calm, None);
        let hub = Hub::new(Net::new(plan.processes, plan.nodes, plan.weather, plan.seed));
        let clock = VirtualClock::new();
        let wire = Wire::new(&hub, (0, 0), 0, &Life::new(AtomicBool::new(true)), &plan, &clock.clock());
        let send = |lose| {
            hub.net().weather.lose = lose;
            let (name, now) = (LockName::new("a").expect("BUG: a valid name"), clock.clock().now());
            wire.submit(Step::Inspect { name }, now, Reply::new(Arc::new(Nobody), 0, 1));
            now
        };
        let is_owed = |sent| wire.owed(sent) != Owed::Unknown;
        let arrives = send(0);
        assert!(is_owed(arrives));

        clock.turn(Duration::from_millis(1));
        let vanishes = send(1_000);
        assert_eq!(send(0), vanishes, "the clock stands");
        assert!(!is_owed(vanishes), "nobody will answer the first of the two");
        assert!(!is_owed(arrives), "a message vanished after it: perhaps its answer");

        clock.turn(Duration::from_millis(1));
        assert!(is_owed(send(0)));
    }
}
