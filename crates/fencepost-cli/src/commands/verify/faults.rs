//! Faults: when, to whom, for how long.

use std::time::Duration;

use fencepost::store::Moment;
use nix::sys::signal::Signal;

use super::crew::Crew;
use super::relay::{Flow, Relay};
use super::talk::{below, between};
use crate::args::Fault;

/// A fault that was injected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Struck {
    pub(super) kind: Fault,
    pub(super) client: usize,
    pub(super) from: Moment,
    /// When it was over.
    pub(super) until: Moment,
    /// What exactly was done.
    pub(super) what: String,
}

/// What strikes next, and what has struck.
pub(super) struct Faults {
    ttl: Duration,
    /// Each kind with the moment from which on it may strike again.
    due: Vec<(Fault, Moment)>,
    /// The place in `struck` of what is going on.
    open: Vec<usize>,
    struck: Vec<Struck>,
    /// Of each client, one per server.
    relays: Vec<Vec<Relay>>,
}

impl Faults {
    pub(super) fn new(kinds: &[Fault], ttl: Duration, relays: Vec<Vec<Relay>>) -> Self {
        // The first of each kind comes soon, but not all at once.
        let first = |(number, kind): (usize, &Fault)| {
            let wait = ttl / 4 + ttl / 3 * u32::try_from(number).expect("BUG: few kinds");
            (*kind, Moment::from_nanos(0).plus(wait))
        };
        let due = kinds.iter().enumerate().map(first).collect();
        Self { ttl, due, open: Vec::new(), struck: Vec::new(), relays }
    }

    pub(super) fn struck(&self) -> &[Struck] {
        &self.struck
    }

    /// Whether something is done to this client now.
    pub(super) fn is_struck(&self, client: usize) -> bool {
        self.open.iter().any(|&place| self.struck[place].client == client)
    }

    /// Whether something was done to this client within this time.
    pub(super) fn was_struck(&self, client: usize, now: Moment, within: Duration) -> bool {
        self.struck.iter().any(|struck| struck.client == client && struck.until.plus(within) >= now)
    }

    /// A client holds a lock now: the best moment to strike.
    pub(super) fn saw_holder(&mut self, client: usize, now: Moment, crew: &Crew) {
        let due = self.due.iter().position(|(_, from)| *from <= now);
        if let Some(place) = due.filter(|_| self.may_strike(client, crew)) {
            self.strike(place, client, now, crew);
        }
    }

    /// Ends what is over, and strikes somebody who only waits if no holder was seen for a while.
    pub(super) fn tick(&mut self, now: Moment, crew: &Crew) {
        let open = std::mem::take(&mut self.open);
        let (over, open): (Vec<usize>, Vec<usize>) =
            open.into_iter().partition(|&place| self.struck[place].until <= now);
        self.open = open;
        over.into_iter().for_each(|place| self.end(place, now, crew));
        let late = self.due.iter().position(|(_, from)| from.plus(self.ttl / 2) <= now);
        let client = usize::try_from(below(crew.len() as u64)).expect("BUG: few clients");
        if let Some(place) = late.filter(|_| self.may_strike(client, crew)) {
            self.strike(place, client, now, crew);
        }
    }

    /// Ends everything now.
    pub(super) fn end_all(&mut self, now: Moment, crew: &Crew) {
        for place in std::mem::take(&mut self.open) {
            self.struck[place].until = now;
            self.end(place, now, crew);
        }
    }

    /// Half of the clients are always left alone: locks go on changing hands.
    fn may_strike(&self, client: usize, crew: &Crew) -> bool {
        crew.is_alive(client) && !self.is_struck(client) && 2 * (self.open.len() + 1) <= crew.len()
    }

    fn strike(&mut self, place: usize, client: usize, now: Moment, crew: &Crew) {
        let (kind, ttl) = (self.due[place].0, self.ttl);
        let (lasts, what) = match kind {
            Fault::Pause => {
                crew.signal(client, Signal::SIGSTOP);
                (between(ttl * 5 / 4, ttl * 7 / 4), "paused".to_owned())
            }
            Fault::KillClient => {
                crew.signal(client, Signal::SIGKILL);
                (Duration::ZERO, "killed".to_owned())
            }
            Fault::Cut => (between(ttl / 4, ttl * 7 / 4), self.cut(client)),
        };
        // A holder that is struck keeps its lock for a ttl: between two of them others shall have it too.
        self.due[place].1 = now.plus(lasts + between(ttl, 3 * ttl));
        if !lasts.is_zero() {
            self.open.push(self.struck.len());
        }
        self.struck.push(Struck { kind, client, from: now, until: now.plus(lasts), what });
    }

    /// All servers or some of them, by a farewell or in silence.
    fn cut(&self, client: usize) -> String {
        let relays = &self.relays[client];
        let count = if below(2) == 0 { relays.len() } else { 1 + below(relays.len() as u64) as usize };
        let flow = if below(2) == 0 { Flow::Closed } else { Flow::Silent };
        let first = below(relays.len() as u64) as usize;
        relays.iter().cycle().skip(first).take(count).for_each(|relay| relay.set(flow));
        let how = if flow == Flow::Closed { "closed" } else { "silent" };
        match relays.len() {
            1 => format!("cut off, {how}"),
            all => format!("cut off from {count} of {all} servers, {how}"),
        }
    }

    fn end(&mut self, place: usize, now: Moment, crew: &Crew) {
        let struck = &mut self.struck[place];
        struck.until = now;
        match struck.kind {
            Fault::Pause => crew.signal(struck.client, Signal::SIGCONT),
            Fault::KillClient => {}
            Fault::Cut => self.relays[struck.client].iter().for_each(|relay| relay.set(Flow::Pass)),
        }
    }
}
