//! One claim from its first request to its last: runs the machines, keeps their deadlines, answers the futures.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::farewell::{Farewell, Relay};
use super::hold::{Heard, Hold, Upkeep};
use super::pursuit::{Outcome, Pursuit};
use super::terms::Terms;
use super::{Effect, Quorum, Requests, Scene};
use crate::clock::{Alarm, AlarmId, Moment};
use crate::error::{AcquireError, LossReason, Lost, NodeVote, ReleaseOutcome, RenewError, StoreError, Vote};
use crate::event::EventKind;
use crate::state::{Holder, Waiter, YieldRequest};
use crate::store::{Claim, Event, Listening, Mailbox, Mode, Post, Proposal, Reply, Then};
use crate::token::FencingToken;

/// The token of a hold, and what each node said of it.
pub(crate) type Won = (FencingToken, Vec<(Duration, Vote)>);

/// The life of one claim. Shared by the future or guard that uses it, the stores' answers and the clock.
pub(crate) struct Course {
    pub(crate) id: u64,
    pub(crate) claim: Arc<Claim>,
    pub(super) quorum: Arc<Quorum>,
    pub(super) terms: Terms,
    /// When it was made.
    since: Moment,
    inbox: Mutex<Inbox>,
    state: Mutex<State>,
    /// Who goes with our release, and which of its requests that is.
    successor: OnceLock<(Weak<Course>, u32)>,
}

/// What waits to be handled. Whoever puts something in while nobody is at work does the work: answers may be posted
/// from inside `submit`, and never meet a lock that is held.
#[derive(Default)]
struct Inbox {
    inputs: VecDeque<Input>,
    at_work: bool,
    /// The claim was told to end, or to stop waiting, though it may not have read that yet.
    leave: bool,
    stop: bool,
}

enum Input {
    /// Our turn in the process's own line.
    Begin,
    Post(Post),
    Tick,
    Renew,
    /// From writer to reader.
    Downgrade,
    Leave,
    /// Forget the claim without releasing it: its lease goes on as data.
    Abandon,
    /// From now on the user renews.
    ByHand,
    /// No more waiting: the connection is shutting down.
    Stop,
}

struct State {
    life: Life,
    requests: Requests,
    listening: Vec<Listening>,
    alarm: Option<(Moment, AlarmId)>,
    wakers: Vec<Waker>,
    in_line: bool,
}

/// Where the claim stands, and what it has come to so far.
struct Life {
    phase: Phase,
    /// Why the acquisition ended without the lock.
    refusal: Option<AcquireError>,
    won: Option<Won>,
    lost: Option<LossReason>,
}

enum Phase {
    /// Behind another claim of this process.
    Lined,
    Pursuing(Pursuit),
    Held(Hold),
    Leaving(Farewell),
    Done(Option<Result<ReleaseOutcome, StoreError>>),
}

impl Course {
    /// Starts to acquire. `None`: shutting down.
    pub(crate) fn start(quorum: &Arc<Quorum>, claim: Claim, terms: Terms) -> Option<Arc<Self>> {
        let course = Self::enrol(quorum, claim, terms)?;
        course.begin();
        Some(course)
    }

    /// Starts what was only enrolled.
    pub(crate) fn begin(self: &Arc<Self>) {
        self.tell(EventKind::Asked);
        let first = self.claim.place().is_none() || self.quorum.line.enter(self);
        self.push(if first { Input::Begin } else { Input::Tick });
    }

    /// Takes over a lease that is already there, by renewing it. `None`: shutting down.
    pub(crate) fn adopt(quorum: &Arc<Quorum>, claim: Claim, token: FencingToken, terms: Terms) -> Option<Arc<Self>> {
        let margin = terms.margin;
        let course = Self::enrol(quorum, claim, terms)?;
        course.tell(EventKind::Asked);
        {
            let mut guard = course.state();
            let state = &mut *guard;
            let now = quorum.clock.now();
            let mut effects = Vec::new();
            let scene =
                Scene { quorum, claim: &course.claim, now, requests: &mut state.requests, effects: &mut effects };
            // Not known to be ours until the first renewal says so: believed in just long enough to hear it, and never
            // for as long as that renewal would last, or the belief would count as its success.
            let ttl = course.claim.ttl;
            let until = now.plus(quorum.answer_within(ttl).min(ttl / 2) + margin);
            let nodes = vec![(Some(until), None); quorum.nodes.len()];
            state.life.phase = Phase::Held(Hold::new(&scene, token, None, nodes, &course.upkeep()));
            state.life.won = Some((token, Vec::new()));
        }
        course.push(Input::Renew);
        Some(course)
    }

    /// Makes a claim known and asks nobody yet. `None`: shutting down.
    pub(crate) fn enrol(quorum: &Arc<Quorum>, claim: Claim, terms: Terms) -> Option<Arc<Self>> {
        let state = State {
            life: Life { phase: Phase::Lined, refusal: None, won: None, lost: None },
            requests: Requests::default(),
            listening: Vec::new(),
            alarm: None,
            wakers: Vec::new(),
            in_line: claim.place().is_some(),
        };
        quorum.enrol(|id| {
            let (inbox, state) = (Mutex::default(), Mutex::new(state));
            let (since, successor) = (quorum.clock.now(), OnceLock::new());
            Arc::new(Self { id, claim: Arc::new(claim), quorum: quorum.clone(), terms, since, inbox, state, successor })
        })
    }

    fn upkeep(&self) -> Upkeep {
        let Terms { margin, max_hold, automatic, ref actor, .. } = self.terms;
        Upkeep { margin, max_hold, automatic, actor: actor.clone() }
    }

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
    pub(super) fn waits_unseen(&self) -> Option<Waiter> {
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

    /// Lets go of the claim without releasing it.
    pub(crate) fn abandon(self: &Arc<Self>) {
        self.push(Input::Abandon);
    }

    pub(super) fn stop_waiting(self: &Arc<Self>) {
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

    /// It has ended, or is about to.
    pub(crate) fn is_past(&self) -> bool {
        matches!(self.state().life.phase, Phase::Leaving(_) | Phase::Done(_))
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, kind: EventKind) {
        self.quorum.herald.tell(self.claim.name.as_str(), self.id, kind);
    }

    fn push(self: &Arc<Self>, input: Input) {
        let mut next = self.drive(input);
        // Not by recursion: a long line of claims may end at one moment.
        while let Some(course) = next {
            next = course.drive(Input::Begin);
        }
    }

    /// Answers whose turn it is now in the process's own line, if that has changed.
    fn drive(self: &Arc<Self>, input: Input) -> Option<Arc<Self>> {
        let mut next = None;
        {
            let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            inbox.leave |= matches!(input, Input::Leave);
            inbox.stop |= matches!(input, Input::Stop);
            inbox.inputs.push_back(input);
            if inbox.at_work {
                return None;
            }
            inbox.at_work = true;
        }
        let shift = Shift(self);
        loop {
            let input = {
                let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(input) = inbox.inputs.pop_front() else {
                    inbox.at_work = false;
                    std::mem::forget(shift);
                    return next;
                };
                input
            };
            next = self.work(input).or(next);
        }
    }

    /// Decides under the lock, does outside it.
    fn work(self: &Arc<Self>, input: Input) -> Option<Arc<Self>> {
        // A claim that came along with a release has begun already.
        if matches!(input, Input::Begin) && matches!(self.state().life.phase, Phase::Lined) {
            let listening = self.listen();
            self.state().listening = listening;
        }
        let mut effects = Vec::new();
        let now = self.quorum.clock.now();
        let relay = if matches!(input, Input::Leave) { self.relay(now) } else { None };
        let (wakers, heard, left_line, parted, done) = {
            let mut guard = self.state();
            let state = &mut *guard;
            let signs = state.signs();
            let requests = &mut state.requests;
            let (quorum, claim) = (&*self.quorum, &self.claim);
            let mut scene = Scene { quorum, claim, now, requests, effects: &mut effects };
            self.handle(&mut state.life, &mut scene, input, relay);
            let changed = state.signs() != signs;
            self.set_alarm(state);
            let ends_listening = !matches!(state.life.phase, Phase::Lined | Phase::Pursuing(_));
            let heard = if ends_listening { std::mem::take(&mut state.listening) } else { Vec::new() };
            let left_line = state.in_line && self.has_left_line(state);
            state.in_line &= !left_line;
            let wakers = if changed { std::mem::take(&mut state.wakers) } else { Vec::new() };
            let parted = changed && matches!(state.life.phase, Phase::Leaving(_) | Phase::Done(_));
            (wakers, heard, left_line, parted, matches!(state.life.phase, Phase::Done(_)))
        };
        drop(heard);
        for effect in effects {
            match effect {
                Effect::Tell(kind) => self.tell(kind),
                Effect::PassOn { node, answer } => {
                    if let Some((next, request)) = self.successor.get()
                        && let Some(next) = next.upgrade()
                    {
                        next.push(Input::Post(Post { node, request: *request, event: Event::Answer(answer) }));
                    }
                }
                Effect::Send { node, request, step, deadline } => {
                    let reply = Reply::new(self.clone(), node, request);
                    self.quorum.nodes[node].submit(step, deadline, reply);
                }
            }
        }
        // After the release was sent, so that the next claim of this process finds the lock free.
        let next = left_line.then(|| self.quorum.line.leave(self)).flatten();
        if done {
            self.quorum.strike_off(self.id);
        }
        if parted {
            self.quorum.tell_of_parting();
        }
        wakers.into_iter().for_each(Waker::wake);
        next
    }

    /// From here on another claim of this process may contend.
    fn has_left_line(&self, state: &State) -> bool {
        match &state.life.phase {
            Phase::Lined | Phase::Pursuing(_) => false,
            Phase::Held(hold) => hold.is_shared(&self.claim) || hold.lost.is_some(),
            Phase::Leaving(_) | Phase::Done(_) => true,
        }
    }

    fn listen(self: &Arc<Self>) -> Vec<Listening> {
        if self.claim.place().is_none() || !self.quorum.abilities.wakes() {
            return Vec::new();
        }
        let nodes = self.quorum.nodes.iter().enumerate();
        nodes.map(|(node, store)| store.listen(&self.claim, Reply::new(self.clone(), node, 0))).collect()
    }

    /// The next claim of this process goes with our release: one step instead of two, still in the order of tickets.
    fn relay(&self, now: Moment) -> Option<Relay> {
        let raise = match &self.state().life.phase {
            Phase::Held(hold) if hold.lost.is_none() && !hold.is_shared(&self.claim) => hold.raise(),
            _ => return None,
        };
        let next = self.quorum.line.after(self)?;
        let pass = self.quorum.proposal(Some(raise));
        // The store was there for us.
        let attempt = next.begin_carried(now, pass, true)?;
        let then = Then { claim: next.claim.clone(), attempt };
        self.successor.set((Arc::downgrade(&next), attempt)).ok()?;
        Some(Relay { then, pass, request: None })
    }

    /// Starts to acquire by a step that somebody else sends. `None`: it does not wait for its turn any more.
    pub(super) fn begin_carried(self: &Arc<Self>, now: Moment, token: Proposal, known: bool) -> Option<u32> {
        // Before any node can push.
        let listening = self.listen();
        let mut guard = self.state();
        let state = &mut *guard;
        if !matches!(state.life.phase, Phase::Lined) || self.terms.patience.is_over(now) {
            return None;
        }
        state.listening = listening;
        let (quorum, claim) = (&*self.quorum, &self.claim);
        let mut effects = Vec::new();
        let mut scene = Scene { quorum, claim, now, requests: &mut state.requests, effects: &mut effects };
        let mut pursuit = Pursuit::new(scene.nodes(), self.terms.patience, self.terms.margin);
        let attempt = pursuit.begin_carried(&mut scene, token, known);
        state.life.phase = Phase::Pursuing(pursuit);
        self.set_alarm(state);
        Some(attempt)
    }

    fn handle(&self, life: &mut Life, scene: &mut Scene<'_>, input: Input, relay: Option<Relay>) {
        match (&mut life.phase, input) {
            (Phase::Done(_), _) => {}
            (phase, Input::Abandon) => {
                *phase = Phase::Done(None);
                // For whoever else rests on it.
                life.lost = life.lost.or(Some(LossReason::TakenOver));
            }
            (Phase::Lined, Input::Begin) => {
                let mut pursuit = Pursuit::new(scene.nodes(), self.terms.patience, self.terms.margin);
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
                    Input::Begin | Input::Renew | Input::Downgrade | Input::ByHand | Input::Abandon => Outcome::Open,
                };
                self.conclude(life, scene, outcome);
            }
            (Phase::Held(hold), input) => {
                match input {
                    Input::Post(Post { node, request, event: Event::Answer(answer) }) => {
                        hold.answered(scene, node, request, answer);
                    }
                    Input::Tick => hold.tick(scene),
                    Input::Renew => hold.renew(scene),
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
                        let mut farewell = Farewell::of_hold(scene, hold.raise(), hold.lost, relay);
                        farewell.tick(scene);
                        life.phase = Phase::Leaving(farewell);
                        return;
                    }
                    Input::Begin | Input::Post(_) | Input::Abandon | Input::Stop => {}
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
                let mut hold = Hold::new(scene, token, pursuit.highest, nodes, &self.upkeep());
                let ticket = self.claim.place().map(|place| place.ticket);
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
        let parting = self.part(scene, pursuit);
        life.refusal = Some(refusal);
        life.phase = parting;
    }

    /// Cleans up after a pursuit: everywhere something of ours may be, or may still arrive.
    fn part(&self, scene: &mut Scene<'_>, pursuit: &Pursuit) -> Phase {
        // A node whose answers are all in needs no raise: it would lift the fence above the lawful holder.
        let owed =
            |node: &super::pursuit::Node| node.may_hold().then(|| pursuit.highest.filter(|_| node.is_unsettled()));
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

    fn set_alarm(self: &Arc<Self>, state: &mut State) {
        let wanted = match &state.life.phase {
            Phase::Lined => self.terms.patience.until(),
            Phase::Pursuing(pursuit) => pursuit.next_wake(),
            Phase::Held(hold) => hold.next_wake(),
            Phase::Leaving(farewell) => farewell.next_wake(),
            Phase::Done(_) => None,
        };
        if state.alarm.map(|(at, _)| at) == wanted {
            return;
        }
        if let Some((_, id)) = state.alarm.take() {
            self.quorum.clock.cancel(id);
        }
        let target: Arc<dyn Alarm> = self.clone();
        state.alarm = wanted.map(|at| (at, self.quorum.clock.alarm(at, Arc::downgrade(&target))));
    }
}

impl State {
    fn wait<T>(&mut self, context: &Context<'_>) -> Poll<T> {
        if !self.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            self.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// What a future may be waiting for; when it changes they are woken.
    fn signs(&self) -> (u8, u64, bool, bool) {
        match &self.life.phase {
            Phase::Lined => (0, 0, false, self.life.refusal.is_some()),
            Phase::Pursuing(pursuit) => (1, 0, pursuit.waiting, self.life.refusal.is_some()),
            Phase::Held(hold) => (2, hold.rounds, hold.lost.is_some(), hold.asked.is_some()),
            Phase::Leaving(farewell) => (3, 0, farewell.verdict.is_some(), farewell.is_confirmed()),
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
        }
    }
}

/// Somebody is at work. A panic, such as one in a subscriber of `tracing`, must not leave the claim without anybody.
struct Shift<'a>(&'a Course);

impl Drop for Shift<'_> {
    fn drop(&mut self) {
        self.0.inbox.lock().unwrap_or_else(PoisonError::into_inner).at_work = false;
    }
}

impl Mailbox for Course {
    fn post(self: Arc<Self>, post: Post) {
        self.push(Input::Post(post));
    }
}

impl Alarm for Course {
    fn ring(self: Arc<Self>) {
        self.state().alarm = None;
        self.push(Input::Tick);
    }
}
