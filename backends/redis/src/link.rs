//! One link to one server, as both sides see it: those who submit steps, and the driver's thread.
//!
//! Whoever finds the link idle writes to the socket at once; while answers are under way, commands gather and leave
//! with the driver's next write, or as soon as they are many. So one task pays no detour, many tasks share one write, and
//! the server does not sleep while a batch grows.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, UNIX_EPOCH};

use fencepost_core::store::{Clock, Event, FencingToken, Moment, Owed, Owner, Reply, Step, StoreErrorKind, Trouble};

use crate::channels::{Channels, Subscription};
use crate::error;
use crate::fleet::{Fleet, PROBATION_IS_OVER};
use crate::held_back::HeldBack;
use crate::keys::{Keys, Layout};
use crate::listeners::Listeners;
use crate::pace::{Pace, Trips};
use crate::replicas::Replicas;
use crate::scripts::{Dialect, Script, Trust};
use crate::sentinel;
use crate::sets;
use crate::socket::Socket;
use crate::standing::{Says, Voice, Vouch};
use crate::steps::{self, Meaning, Read};
use crate::wire::{self, Value};

/// The most bytes that wait for a slow server, and the most answers. Steps beyond that wait for their turn.
const UNSENT_MAX: usize = 8 << 20;
const WAITING_MAX: usize = 16_384;

/// How long the driver may take to read what has come.
const UNREAD_GRACE: Duration = Duration::from_millis(50);

/// So many bytes are not kept back for the driver's next write: the server may begin with them.
const FLUSH_AT: usize = 4096;

/// How often clocks are compared when a link comes up.
const CLOCK_SAMPLES: u32 = 5;
/// An answer's own delay makes a clock in it look wrong by less than this.
const CLOCK_SLACK: Duration = Duration::from_millis(500);

/// What is done with a reply. Runs on the driver's thread.
type Then = Box<dyn FnOnce(&Arc<Link>, Result<Value, Trouble>) + Send>;

/// A command whose reply has not come.
pub(crate) enum Waiting {
    Step {
        step: Step,
        meaning: Meaning,
        reply: Reply,
        again: Again,
    },
    Then(Then),
    /// Its reply is a push.
    Subscription(Subscription),
}

/// What was already tried again for a step, so that nothing is tried for ever.
#[derive(Clone, Copy, Default)]
pub(crate) struct Again {
    with_text: bool,
    after_trust: bool,
    /// In a cluster: this server is not the slot's master yet, but shall do it all the same.
    pub(crate) asking: bool,
    /// How often a server sent it away.
    pub(crate) bounces: u32,
    /// When nobody waits for its answer any more.
    pub(crate) deadline: Option<Moment>,
}

impl Again {
    /// For a step that was not tried yet.
    pub(crate) fn until(deadline: Moment) -> Self {
        Self { deadline: Some(deadline), ..Self::default() }
    }
}

pub(crate) struct Link {
    pub(crate) label: String,
    pub(crate) keys: Arc<Keys>,
    pub(crate) inbox: String,
    pub(crate) clock: Clock,
    /// Wakes the driver.
    pub(crate) waker: Arc<mio::Waker>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) replicas: Option<Replicas>,
    /// Whom to tell that the server sent a step away, if there may be another one.
    pub(crate) fleet: Option<Weak<Fleet>>,
    /// The server's calendar at the moment when this machine's boot clock was zero, in microseconds; `i64::MIN`: not known. Our
    /// wall clock has no part in it, so setting that clock changes nothing here.
    calendar_us: AtomicI64,
    /// Where it votes, as one of several. `None`: it is alone, or found by others.
    pub(crate) voice: Option<Voice>,
    pub(crate) pace: Pace,
    state: Mutex<State>,
}

/// What all links of a connection have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) keys: Arc<Keys>,
    pub(crate) inbox: String,
    pub(crate) clock: Clock,
    pub(crate) waker: Arc<mio::Waker>,
    /// `None`: each link has its own.
    pub(crate) listeners: Option<Arc<Listeners>>,
    pub(crate) replicas: Option<Replicas>,
    pub(crate) fleet: Option<Weak<Fleet>>,
}

pub(crate) struct State {
    pub(crate) up: Option<Up>,
    /// Why there is no link.
    pub(crate) trouble: Trouble,
    /// The command that judges a node without a marker.
    pub(crate) trust: Vec<Vec<u8>>,
}

pub(crate) struct Up {
    pub(crate) socket: Arc<Socket>,
    pub(crate) hashes: Vec<(Script, String)>,
    pub(crate) dialect: Dialect,
    pub(crate) unsent: Vec<u8>,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) asked_driver: bool,
    /// When the server last said something, or was first asked after a silence.
    pub(crate) heard_at: Moment,
    trips: Trips,
    /// Steps that wait for their turn because too much is under way.
    pub(crate) held_back: HeldBack,
    /// Somebody is writing what was held back: whatever comes meanwhile goes behind it.
    catching_up: bool,
    /// What it listens to beside its inbox.
    pub(crate) channels: Channels,
}

impl Link {
    pub(crate) fn new(label: String, common: &Common) -> Self {
        let state = State { up: None, trouble: not_connected(), trust: Vec::new() };
        let calendar_us = AtomicI64::new(i64::MIN);
        let Common { keys, inbox, clock, waker, listeners, replicas, fleet } = common.clone();
        let listeners = listeners.unwrap_or_default();
        let (voice, state) = (None, Mutex::new(state));
        Self {
            label,
            keys,
            inbox,
            clock,
            waker,
            listeners,
            replicas,
            fleet,
            calendar_us,
            voice,
            pace: Pace::down(),
            state,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's clock, as far as we know.
    pub(crate) fn server_clock(&self) -> Option<FencingToken> {
        let calendar = self.calendar_us.load(Ordering::Relaxed);
        if calendar == i64::MIN {
            return None;
        }
        let now = u64::try_from(calendar.saturating_add(self.uptime_us())).unwrap_or_default();
        Some(FencingToken::at(UNIX_EPOCH + Duration::from_micros(now)))
    }

    /// The reading of the boot clock, in microseconds.
    fn uptime_us(&self) -> i64 {
        i64::try_from(self.clock.now().as_nanos() / 1000).unwrap_or(i64::MAX / 4)
    }

    /// Learns the server's clock roughly, from an answer that has it: only if we were far off.
    fn learn_clock(&self, clock: FencingToken) {
        let guess = self.server_clock().unwrap_or_else(|| FencingToken::at(self.clock.wall()));
        let (ahead, behind) = (clock.ahead_of(guess), guess.ahead_of(clock));
        if ahead.max(behind) > CLOCK_SLACK {
            let known = self.calendar_us.load(Ordering::Relaxed);
            let known = if known == i64::MIN { self.wall_us() - self.uptime_us() } else { known };
            self.calendar_us.store(known + micros(ahead) - micros(behind), Ordering::Relaxed);
        }
    }

    /// Our own calendar: a first guess of a clock that was never read.
    fn wall_us(&self) -> i64 {
        micros(self.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// Compares the server's clock with ours a few times; the quickest answer is the most exact. Places in line are
    /// ordered by it, over all clients.
    pub(crate) fn compare_clocks(self: &Arc<Self>, then: impl FnOnce(bool) + Send + 'static) {
        self.sample_clock(CLOCK_SAMPLES, Duration::MAX, Box::new(then));
    }

    fn sample_clock(self: &Arc<Self>, left: u32, best: Duration, then: Box<dyn FnOnce(bool) + Send>) {
        let asked = self.clock.now();
        self.command(&[b"TIME"], move |link, outcome| {
            let Ok(value) = outcome else { return then(false) };
            let took = link.clock.now().since(asked);
            let mut best = best;
            if let Some(server) = time_of(&value)
                && took < best
            {
                best = took;
                link.calendar_us.store(micros(server + took / 2) - link.uptime_us(), Ordering::Relaxed);
            }
            match left {
                0 | 1 => then(true),
                _ => link.sample_clock(left - 1, best, then),
            }
        });
    }

    /// Sends a step about one lock, or keeps it until fewer are under way.
    pub(crate) fn step(self: &Arc<Self>, step: Step, reply: Reply, again: Again) {
        if let Some(trouble) = steps::refused(&self.keys, &step) {
            return reply.answer(Err(trouble));
        }
        let not_sent = {
            let mut state = self.state();
            match state.up.as_mut().filter(|up| up.is_full() || up.catching_up || !up.held_back.is_empty()) {
                None => {
                    drop(state);
                    return self.write_step(step, reply, again);
                }
                Some(up) => {
                    let not_sent = up.held_back.push((step, reply, again));
                    self.pace.owes(up.owed());
                    not_sent
                }
            }
        };
        not_sent.into_iter().for_each(|(reply, trouble)| reply.answer(Err(trouble)));
    }

    /// Writes steps that were held back, as many as there is room for, and not those whose deadline has passed.
    pub(crate) fn catch_up(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = self.state();
                let Some(up) = state.up.as_mut() else { return };
                if up.is_full() {
                    return;
                }
                let Some(next) = up.held_back.pop(self.clock.now()) else {
                    up.catching_up = false;
                    return;
                };
                up.catching_up = true;
                self.pace.owes(up.owed());
                next
            };
            match next {
                Ok((step, reply, again)) => self.write_step(step, reply, again),
                Err((reply, trouble)) => reply.answer(Err(trouble)),
            }
        }
    }

    fn write_step(self: &Arc<Self>, step: Step, reply: Reply, again: Again) {
        let clock = self.server_clock().unwrap_or_else(|| FencingToken::at(self.clock.wall()));
        let (call, meaning) = steps::call(&self.keys, &self.inbox, clock, &step);
        let replicas = self.replicas.filter(|_| Replicas::concern(&step));
        let (waiting, witness) = match replicas {
            None => (Waiting::Step { step, meaning, reply, again }, None),
            Some(replicas) => {
                let (waiting, witness) = replicas.waiting(step, meaning, reply, again);
                (waiting, Some(witness))
            }
        };
        let asking = again.asking.then(|| Waiting::Then(Box::new(|_, _| {})));
        let script = |up: &Up, out: &mut Vec<u8>| {
            let Some(script) = call.script else {
                wire::write_head(out, call.count);
                out.extend_from_slice(&call.words);
                return;
            };
            wire::write_head(out, call.count + 3);
            match up.hashes.iter().find(|(loaded, _)| *loaded == script) {
                Some((_, hash)) if !again.with_text => {
                    wire::write_word(out, "EVALSHA");
                    wire::write_word(out, hash);
                }
                _ => {
                    wire::write_word(out, "EVAL");
                    wire::write_word(out, &script.text(up.dialect));
                }
            }
            wire::write_word(out, &call.keys.to_string());
            out.extend_from_slice(&call.words);
        };
        self.send([asking, Some(waiting), witness], |up, out| {
            if again.asking {
                wire::write(out, &[b"ASKING"]);
            }
            script(up, out);
            if let Some(replicas) = replicas {
                replicas.write(out, &self.clock, again.deadline);
            }
        });
    }

    /// Sends any command.
    pub(crate) fn command(
        self: &Arc<Self>,
        parts: &[&[u8]],
        then: impl FnOnce(&Arc<Link>, Result<Value, Trouble>) + Send + 'static,
    ) {
        self.send([Some(Waiting::Then(Box::new(then)))], |_, out| wire::write(out, parts));
    }

    fn is_on_probation(&self) -> bool {
        self.state().up.as_ref().is_some_and(|up| up.dialect.trust == Trust::Never)
    }

    /// Whether it can be used now.
    pub(crate) fn is_up(&self) -> bool {
        self.state().up.is_some()
    }

    /// What is known of the answer to a step of this moment.
    pub(crate) fn owed(&self, submitted: Moment) -> Owed {
        let Some(silent_at) = self.pace.silent_at(submitted) else { return Owed::Unknown };
        if self.pace.owes_any() {
            let now = self.clock.now();
            // Answers may be here for which the driver had no time yet: then this process is late, and not the server.
            if silent_at <= now && self.state().up.as_ref().is_some_and(|up| up.socket.has_unread()) {
                return Owed::Until(now.plus(UNREAD_GRACE));
            }
        }
        Owed::Until(silent_at)
    }

    /// Whether the end of the connection waits for it: nothing is owed on it, its next answer can still be expected, or answers
    /// are here for which the driver had no time yet.
    pub(crate) fn is_live(&self) -> bool {
        let state = self.state();
        let Some(up) = &state.up else { return false };
        up.waiting.is_empty() || self.clock.now() < self.pace.worth_waiting_until() || up.socket.has_unread()
    }

    /// Writes commands and puts down who waits for their replies, in one go: nothing comes between them.
    pub(crate) fn send<const N: usize>(
        self: &Arc<Self>,
        waiting: [Option<Waiting>; N],
        write: impl FnOnce(&Up, &mut Vec<u8>),
    ) {
        let mut state = self.state();
        let Some(up) = state.up.as_mut() else {
            let trouble = state.trouble.clone();
            drop(state);
            return waiting.into_iter().flatten().for_each(|waiting| self.complete(waiting, Err(trouble.clone())));
        };
        let idle = up.waiting.is_empty() && up.unsent.is_empty();
        let mut unsent = std::mem::take(&mut up.unsent);
        write(up, &mut unsent);
        up.unsent = unsent;
        up.waiting.extend(waiting.into_iter().flatten());
        if idle || up.trips.is_idle() {
            let now = self.clock.now();
            up.trips.written(up.waiting.len(), now);
            if idle {
                up.heard_at = now;
                self.pace.heard(now);
            }
        }
        self.pace.owes(up.owed());
        if idle || up.unsent.len() >= FLUSH_AT {
            // A failure shows on the driver's side too, which then takes the link down.
            let _ = up.flush();
        }
        if !up.unsent.is_empty() && !up.asked_driver {
            up.asked_driver = true;
            let _ = self.waker.wake();
        }
    }

    /// Acts on a reply. Never called under the lock.
    pub(crate) fn complete(self: &Arc<Self>, waiting: Waiting, outcome: Result<Value, Trouble>) {
        match waiting {
            Waiting::Then(then) => then(self, outcome),
            Waiting::Subscription(subscription) => self.subscribed(&subscription, &outcome),
            Waiting::Step { step, meaning, reply, again } => match outcome {
                Err(trouble) => reply.answer(Err(trouble)),
                Ok(Value::Error(text)) if text.starts_with("NOSCRIPT") && !again.with_text => {
                    self.step(step, reply, Again { with_text: true, ..again });
                }
                Ok(Value::Error(text)) if self.fleet.is_some() && Fleet::sends_away(&text) => {
                    self.bounce(step, reply, again, &text);
                }
                Ok(value) => self.answer(step, meaning, reply, again, &value),
            },
        }
    }

    /// The server did not do it, and said so: it is done elsewhere, or later.
    fn bounce(self: &Arc<Self>, step: Step, reply: Reply, again: Again, text: &str) {
        match self.fleet.as_ref().and_then(Weak::upgrade) {
            Some(fleet) => fleet.bounced(self, step, reply, again, text),
            None => reply.answer(Err(error::trouble(text))),
        }
    }

    fn answer(self: &Arc<Self>, step: Step, meaning: Meaning, reply: Reply, again: Again, value: &Value) {
        let name = step.name().map(|name| name.as_str().to_owned()).unwrap_or_default();
        match steps::read(meaning, &name, value) {
            Read::Answer(answer) => {
                self.listen_to_refusal(&step, &answer);
                reply.answer(Ok(answer));
            }
            Read::Clock(answer, clock) => {
                self.learn_clock(clock);
                reply.answer(Ok(answer));
            }
            Read::Trouble(trouble) => reply.answer(Err(trouble)),
            Read::Untrusted if again.after_trust => {
                reply.answer(Err(Trouble::new(StoreErrorKind::Unexpected, "its marker vanishes again and again")));
            }
            // The marker is gone: somebody emptied the server while we were connected.
            Read::Untrusted => self.judge(move |link, verdict| match verdict {
                // Its scripts are those of a node on probation, which is over.
                Ok(()) if link.is_on_probation() => link.bounce(step, reply, again, PROBATION_IS_OVER),
                Ok(()) => link.step(step, reply, Again { after_trust: true, ..again }),
                Err(trouble) => reply.answer(Err(trouble)),
            }),
        }
    }

    /// Asks whether the node may vote.
    pub(crate) fn judge(self: &Arc<Self>, then: impl FnOnce(&Arc<Link>, Result<(), Trouble>) + Send + 'static) {
        let words = self.state().trust.clone();
        let parts: Vec<&[u8]> = words.iter().map(Vec::as_slice).chain([self.vouches()]).collect();
        self.command(&parts, move |link, outcome| then(link, outcome.and_then(|value| link.judged(&value))));
    }

    /// Whether we may let it into our set again if it forgot, as `trust.lua` is told.
    pub(crate) fn vouches(&self) -> &'static [u8] {
        let vouch = self.voice.as_ref().map_or(Vouch::Firm, |voice| voice.standing.vouch(self.clock.now()));
        vouch.word().as_bytes()
    }

    /// What `trust.lua` says. The others are judged by it, too.
    pub(crate) fn judged(&self, value: &Value) -> Result<(), Trouble> {
        let is_used = self.voice.as_ref().is_some_and(|voice| voice.standing.somebody_votes());
        let verdict = trusted(value, &self.keys.marker, is_used);
        let says = match &verdict {
            Ok(()) => Some(Says::Ours),
            Err(Trouble { kind: StoreErrorKind::Quarantined { .. }, .. }) => Some(Says::Nothing),
            Err(Trouble { kind: StoreErrorKind::Misconfigured, .. }) => Some(Says::Others),
            Err(_) => None,
        };
        self.voice.iter().zip(says).for_each(|(voice, says)| voice.says(says, self.clock.now()));
        verdict
    }

    /// Takes what the server said unasked to whom it concerns.
    pub(crate) fn pushed(&self, parts: &[Value]) {
        let [kind, channel, word] = parts else { return };
        if !matches!(kind.text().as_deref(), Some("message" | "smessage")) {
            return;
        }
        let Some(word) = word.text() else { return };
        if let (Layout::Redisson, Some(channel)) = (self.keys.layout, channel.text()) {
            self.listeners.tell_channel(&channel);
        }
        if channel.text().as_deref() == Some(sentinel::SWITCHED) {
            return self.fleet.iter().filter_map(Weak::upgrade).for_each(|fleet| fleet.switched(&word));
        }
        let words: Vec<&str> = word.split(' ').collect();
        let (owner, event) = match words[..] {
            // The replicas may not have it yet, and nobody can ask them for another link's write.
            // And in a cluster a push comes by way of other nodes, too: also one that found nobody at its own node, who
            // was then passed over.
            ["G", owner, ..] if self.replicas.is_some() || self.keys.clustered => (owner, Event::MayPay),
            ["G", owner, token, attempt] => match (token.parse(), attempt.parse()) {
                (Ok(token), Ok(attempt)) => (owner, Event::HandedOver { token, attempt }),
                _ => return,
            },
            ["W", owner] => (owner, Event::MayPay),
            _ => return,
        };
        if let Some(owner) = Owner::from_exposed(owner) {
            self.listeners.tell(&owner, event);
        }
    }
}

impl Up {
    /// The answer to the oldest request has come: who waits for it.
    pub(crate) fn answered(&mut self, now: Moment, pace: &Pace) -> Option<Waiting> {
        self.heard_at = now;
        self.trips.answered(now, pace);
        let waiting = self.waiting.pop_front();
        pace.heard(now);
        pace.owes(self.owed());
        waiting
    }

    /// As much is under way as may be.
    fn is_full(&self) -> bool {
        self.unsent.len() > UNSENT_MAX || self.waiting.len() > WAITING_MAX
    }

    fn owed(&self) -> usize {
        self.waiting.len() + self.held_back.len()
    }

    pub(crate) fn new(socket: Socket, hashes: Vec<(Script, String)>, dialect: Dialect, now: Moment) -> Self {
        Self {
            socket: Arc::new(socket),
            hashes,
            dialect,
            unsent: Vec::new(),
            waiting: VecDeque::new(),
            asked_driver: false,
            heard_at: now,
            trips: Trips::default(),
            held_back: HeldBack::default(),
            catching_up: false,
            channels: Channels::default(),
        }
    }

    /// Writes what can be written now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == self.unsent.len() {
                break Ok(());
            }
            match self.socket.write(&self.unsent[sent..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.unsent.drain(..sent);
        result
    }
}

pub(crate) fn not_connected() -> Trouble {
    Trouble::new(StoreErrorKind::Unreachable, "not connected yet")
}

/// What `trust.lua` says. `is_used`: another node votes in this set, so it is no new one.
fn trusted(value: &Value, marker: &str, is_used: bool) -> Result<(), Trouble> {
    let parts = match value {
        Value::Error(text) => return Err(error::trouble(text)),
        other => other.array().unwrap_or_default(),
    };
    match (parts.first().and_then(Value::number), parts.get(1)) {
        (Some(1), _) => Ok(()),
        (Some(0), Some(left)) => {
            let left = Duration::from_millis(left.number().and_then(|left| u64::try_from(left).ok()).unwrap_or(0));
            if let Some(other) = parts.get(2).and_then(Value::text) {
                let message = format!(
                    "it lost its memory, and so did the others, and clients of two lists of servers ask for it: the other one \
                     is {:?}; while nobody holds a lock, `fencepost init` says which is right",
                    sets::shown(&other)
                );
                return Err(Trouble::new(StoreErrorKind::Quarantined { left }, message));
            }
            let message = match (left.is_zero(), is_used) {
                (false, true) => {
                    "it may have lost its memory: it votes again when every lease it may have forgotten is over"
                }
                (false, false) => {
                    "it may have lost its memory: it votes again when every lease it may have forgotten is over; only if \
                     the cluster is new and no lock was ever held, `fencepost init` trusts it at once"
                }
                (true, _) => {
                    "it lost its memory, and is let in again once a majority of its servers is heard and none of them \
                     belongs to another cluster; look at what the others say"
                }
            };
            Err(Trouble::new(StoreErrorKind::Quarantined { left }, message))
        }
        (Some(2), Some(theirs)) => {
            let message = sets::refusal(marker, &theirs.text().unwrap_or_default());
            Err(Trouble::new(StoreErrorKind::Misconfigured, message))
        }
        _ => Err(Trouble::new(StoreErrorKind::Unexpected, format!("an odd reply: {value:?}"))),
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX / 4)
}

/// What TIME says.
fn time_of(value: &Value) -> Option<Duration> {
    let [seconds, micros] = value.array()? else { return None };
    let seconds = Duration::from_secs(u64::try_from(seconds.number()?).ok()?);
    Some(seconds + Duration::from_micros(u64::try_from(micros.number()?).ok()?))
}
