//! One claim from its first request to its last: runs the machines and keeps their deadlines. [`life`] is what they
//! bring it to, [`sight`] what others see of it.

mod life;
mod sight;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::farewell::Relay;
use super::hold::{Hold, Upkeep};
use super::line::Line;
use super::pursuit::Pursuit;
use super::terms::Terms;
use super::{Effect, Errand, Quorum, Requests, Scene};
use crate::clock::{Alarm, AlarmId, Moment};
use crate::error::Vote;
use crate::event::EventKind;
use crate::foreign;
use crate::store::{Claim, Event, Listening, Mailbox, Place, Post, Proposal, Reply, Step, Then, Turn};
use crate::token::FencingToken;
use life::{Life, Phase};

thread_local! {
    /// Empty between two steps: what one step decides is often more than a kilobyte, which would be allocated for each.
    static EFFECTS: Cell<Vec<Effect>> = const { Cell::new(Vec::new()) };
}

/// The token of a hold, and what each node said of it.
pub(crate) type Won = (FencingToken, Vec<(Duration, Vote)>);

/// What somebody else sends for a claim: as it is now, and as which attempt.
type Carried = (Arc<Claim>, u32);

/// The life of one claim. Shared by the future or guard that uses it, the stores' answers and the clock.
pub(crate) struct Course {
    pub(crate) id: u64,
    pub(crate) claim: Arc<Claim>,
    pub(super) quorum: Arc<Quorum>,
    pub(super) terms: Terms,
    /// When it was made, here and on the store's clock.
    since: Moment,
    arrived: FencingToken,
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
    /// Nobody of this process comes before us.
    Begin,
    /// Our turn in the process's own line.
    Turn,
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

/// What is known of a lease that is taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Takeover {
    /// Its owner and its token.
    There,
    /// The same, and renewals of it may be under way elsewhere.
    Renewed,
    /// Its owner only: everything that this owner has is meant.
    Whole,
}

struct State {
    life: Life,
    /// As it is sent: with its ticket, once that is known.
    claim: Arc<Claim>,
    requests: Requests,
    listening: Vec<Listening>,
    alarm: Option<(Moment, AlarmId)>,
    wakers: Vec<Waker>,
    in_line: bool,
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
        let wakers = self.note(EventKind::Asked);
        let contends = self.claim.place().is_none() || self.own_line().enter(self) || self.terms.direct;
        self.push(if contends { Input::Begin } else { Input::Tick });
        foreign::wake(wakers);
    }

    /// Takes over a lease that is said to be there: it is to be renewed or released. `None`: shutting down.
    pub(crate) fn hold(
        quorum: &Arc<Quorum>,
        claim: Claim,
        token: FencingToken,
        terms: Terms,
        takeover: Takeover,
    ) -> Option<Arc<Self>> {
        let margin = terms.margin;
        let course = Self::enrol(quorum, claim, terms)?;
        foreign::wake(course.note(EventKind::Asked));
        course.quorum.herald.deliver();
        {
            let mut guard = course.state();
            let state = &mut *guard;
            let now = quorum.clock.now();
            let mut effects = Vec::new();
            let scene =
                Scene { quorum, claim: &state.claim, now, requests: &mut state.requests, effects: &mut effects };
            // Not known to be ours until the first renewal says so: believed in just long enough to hear it, and never
            // for as long as that renewal would last, or the belief would count as its success.
            let ttl = course.claim.ttl;
            let until = now.plus(quorum.majority_answers_within(ttl).min(ttl / 2) + margin);
            let nodes = vec![(Some(until), None); quorum.nodes.len()];
            let hold = Hold::new(&scene, token, None, nodes, &course.upkeep()).taken_over(takeover == Takeover::Whole);
            let hold = if takeover == Takeover::Renewed { hold.renewed_elsewhere() } else { hold };
            state.life.phase = Phase::Held(hold);
            state.life.won = Some((token, Vec::new()));
        }
        Some(course)
    }

    /// Makes a claim known and asks nobody yet. `None`: shutting down.
    pub(crate) fn enrol(quorum: &Arc<Quorum>, claim: Claim, terms: Terms) -> Option<Arc<Self>> {
        let claim = Arc::new(claim);
        let state = State {
            claim: claim.clone(),
            life: Life { phase: Phase::Lined, refusal: None, won: None, lost: None },
            requests: Requests::default(),
            listening: Vec::new(),
            alarm: None,
            wakers: Vec::new(),
            in_line: claim.place().is_some(),
        };
        quorum.enrol(|id| {
            let (inbox, state) = (Mutex::default(), Mutex::new(state));
            let (since, arrived, successor) = (quorum.clock.now(), quorum.clock_guess(), OnceLock::new());
            Arc::new(Self { id, claim, quorum: quorum.clone(), terms, since, arrived, inbox, state, successor })
        })
    }

    fn upkeep(&self) -> Upkeep {
        let Terms { margin, max_hold, automatic, ref actor, .. } = self.terms;
        Upkeep { margin, max_hold, automatic, actor: actor.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody hears of it before it is delivered. Answers whom to wake then.
    pub(super) fn note(&self, kind: EventKind) -> Vec<Waker> {
        self.quorum.herald.note(self.claim.name.as_str(), self.id, kind)
    }

    fn push(self: &Arc<Self>, input: Input) {
        let mut next = self.drive(input);
        // Not by recursion: a long line of claims may end at one moment.
        while let Some(course) = next {
            next = course.drive(Input::Turn);
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

    /// Decides under the lock, does outside it: sends, then wakes, then has told what happened. Events are noted before
    /// anything is sent, so that they are in order across claims.
    fn work(self: &Arc<Self>, input: Input) -> Option<Arc<Self>> {
        // A claim that came along with a release has begun already.
        if matches!(input, Input::Begin | Input::Turn) && matches!(self.state().life.phase, Phase::Lined) {
            let listening = self.listen();
            self.state().listening = listening;
        }
        let mut effects = EFFECTS.try_with(Cell::take).unwrap_or_default();
        let now = self.quorum.clock.now();
        let (relay, carried) = if matches!(input, Input::Leave) { self.relay(now).unzip() } else { (None, None) };
        let (mut wakers, heard, left_line, parted, done) = {
            let mut guard = self.state();
            let state = &mut *guard;
            let signs = state.signs();
            if matches!(input, Input::Turn) {
                state.keep_ticket(self.arrived);
            }
            let requests = &mut state.requests;
            let (quorum, claim) = (&*self.quorum, &state.claim);
            let mut scene = Scene { quorum, claim, now, requests, effects: &mut effects };
            self.handle(&mut state.life, &mut scene, input, relay);
            if let Phase::Pursuing(Pursuit { ticket: Some(ticket), .. }) = state.life.phase {
                state.keep_ticket(ticket);
            }
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
        for effect in effects.drain(..) {
            match effect {
                Effect::Tell(kind) => wakers.extend(self.note(kind)),
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
        // A thread that is about to end has no place for it.
        let _ = EFFECTS.try_with(|kept| kept.set(effects));
        if let Some((next, token)) = carried.filter(|(next, _)| next.is_past() && !next.terms.repeats) {
            next.undo(token, now);
        }
        // After the release was sent, so that the next claim of this process finds the lock free.
        let next = left_line.then(|| self.own_line().leave(self)).flatten().filter(|_| !self.terms.direct);
        if done {
            self.quorum.strike_off(self.id);
        }
        if parted {
            self.quorum.tell_of_parting();
        }
        foreign::wake(wakers);
        self.quorum.herald.deliver();
        next
    }

    /// The process's own, or the list of guests.
    fn own_line(&self) -> &Line {
        if self.terms.direct { &self.quorum.guests } else { &self.quorum.line }
    }

    /// From here on another claim of this process may contend.
    fn has_left_line(&self, state: &State) -> bool {
        match &state.life.phase {
            Phase::Lined | Phase::Pursuing(_) => false,
            Phase::Held(hold) => self.terms.direct || hold.is_shared(&self.claim) || hold.lost.is_some(),
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
    fn relay(&self, now: Moment) -> Option<(Relay, (Arc<Self>, Proposal))> {
        let raise = match &self.state().life.phase {
            Phase::Held(hold) if hold.lost.is_none() && !hold.is_shared(&self.claim) => hold.raise(),
            _ => return None,
        };
        let pass = self.quorum.proposal(raise);
        let (next, (claim, attempt)) = match self.quorum.line.after(self) {
            // The store was there for us.
            Some(next) => next.begin_carried(now, pass, true).map(|carried| (next, carried))?,
            None => self.take_guest(now, pass)?,
        };
        let then = Then { claim, attempt };
        self.successor.set((Arc::downgrade(&next), attempt)).ok()?;
        Some((Relay { then, pass, request: None }, (next, pass)))
    }

    /// Releases it once more, because it ended while somebody else's step with its request was about to be sent: its own
    /// release may have come before what it was to undo.
    pub(super) fn undo(self: &Arc<Self>, asked: Proposal, now: Moment) {
        let raise = asked.number();
        for (node, store) in self.quorum.nodes.iter().enumerate() {
            let (claim, pass) = (self.claim.clone(), self.quorum.proposal(raise));
            let step = Step::Release { claim, raise, pass, then: None, only: None };
            let deadline = self.quorum.send_until(node, now, self.claim.ttl);
            let undoing = Undoing { _course: self.clone(), _errand: self.quorum.errands.errand(node) };
            store.submit(step, deadline, Reply::new(Arc::new(undoing), node, 0));
        }
    }

    /// Somebody who waits here for another: what it is handed over would be its place's lease, this is its whole ttl. Nodes
    /// that vote have lines that differ, and would have to be asked alike.
    fn take_guest(&self, now: Moment, pass: Proposal) -> Option<(Arc<Self>, Carried)> {
        if self.quorum.nodes.len() > 1 || !self.quorum.abilities.relays {
            return None;
        }
        let guests = self.quorum.guests.first_few(&self.claim.name).into_iter();
        guests.filter_map(|guest| guest.be_carried(now, pass).map(|carried| (guest, carried))).next()
    }

    /// Asks once more by a step that somebody else sends. `None`: it does not rest in line.
    fn be_carried(self: &Arc<Self>, now: Moment, token: Proposal) -> Option<Carried> {
        let mut guard = self.state();
        let state = &mut *guard;
        let Phase::Pursuing(pursuit) = &mut state.life.phase else { return None };
        if !pursuit.rests_in_line() || self.terms.patience.is_over(now) {
            return None;
        }
        let (quorum, claim) = (&*self.quorum, &state.claim);
        let mut effects = Vec::new();
        let mut scene = Scene { quorum, claim, now, requests: &mut state.requests, effects: &mut effects };
        let attempt = pursuit.begin_carried(&mut scene, token, true);
        self.set_alarm(state);
        Some((state.claim.clone(), attempt))
    }

    /// Starts to acquire by a step that somebody else sends: with this claim, as this attempt. `None`: it does not wait
    /// for its turn any more.
    pub(super) fn begin_carried(self: &Arc<Self>, now: Moment, token: Proposal, known: bool) -> Option<Carried> {
        // Before any node can push.
        let listening = self.listen();
        let mut guard = self.state();
        let state = &mut *guard;
        if !matches!(state.life.phase, Phase::Lined) || self.terms.patience.is_over(now) {
            return None;
        }
        state.listening = listening;
        state.keep_ticket(self.arrived);
        let (quorum, claim) = (&*self.quorum, &state.claim);
        let mut effects = Vec::new();
        let mut scene = Scene { quorum, claim, now, requests: &mut state.requests, effects: &mut effects };
        let mut pursuit = Pursuit::new(&scene, self.terms.patience, self.terms.margin);
        let attempt = pursuit.begin_carried(&mut scene, token, known);
        state.life.phase = Phase::Pursuing(pursuit);
        self.set_alarm(state);
        Some((state.claim.clone(), attempt))
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
    /// The claim's ticket from now on, if it has a place and no ticket yet.
    fn keep_ticket(&mut self, ticket: FencingToken) {
        if let Turn::InLine(place @ Place { ticket: None, .. }) = self.claim.turn {
            let turn = Turn::InLine(Place { ticket: Some(ticket), ..place });
            self.claim = Arc::new(Claim { turn, ..Claim::clone(&self.claim) });
        }
    }

    /// Takes the waker if it is new. It was cloned outside the mutex, and is dropped there, because it is the user's code.
    fn wait<T>(&mut self, waker: &mut Option<Waker>) -> Poll<T> {
        let is_known = |waker: &Waker| self.wakers.iter().any(|known| known.will_wake(waker));
        if !waker.as_ref().is_some_and(is_known) {
            self.wakers.extend(waker.take());
        }
        Poll::Pending
    }
}

/// Somebody is at work. A panic, such as one in a store, must not leave the claim without anybody.
struct Shift<'a>(&'a Course);

impl Drop for Shift<'_> {
    fn drop(&mut self) {
        self.0.inbox.lock().unwrap_or_else(PoisonError::into_inner).at_work = false;
    }
}

/// A release that nobody looks at again: it is over at a node when that one has answered.
struct Undoing {
    /// The connection lives until then.
    _course: Arc<Course>,
    _errand: Errand,
}

impl Mailbox for Undoing {
    fn post(self: Arc<Self>, _: Post) {}
}

impl Mailbox for Course {
    fn post(self: Arc<Self>, post: Post) {
        if let Event::Answer(answer) = &post.event {
            self.quorum.heard(post.node, answer);
        }
        self.push(Input::Post(post));
    }
}

impl Alarm for Course {
    fn ring(self: Arc<Self>) {
        self.state().alarm = None;
        self.push(Input::Tick);
    }
}
