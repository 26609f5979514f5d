//! Workers on one store or on nodes that vote, behind networks that lose, delay and repeat, with outages.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_core::store::Moment;
use fencepost_core::{AcquireError, Actor, Blocking, Locks, ReleaseOutcome, VirtualClock};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::faulty::{Faults, Link};
use fencepost_testkit::nodes::{Kind, Nodes};
use fencepost_testkit::poll;

use crate::hold::{Acquiring, Hold, Manner, Want, acquire};

pub(crate) const TTL: Duration = Duration::from_secs(6);
const TURNS: u32 = 350;
/// Shorter than any lease that was just renewed: whatever is gone by then was released.
const CLEAN_UP: Duration = Duration::from_millis(2_500);

/// What is tried in one world.
pub(crate) struct Theme {
    pub(crate) name: &'static str,
    /// What the next acquisition of a worker is.
    pub(crate) wants: fn(&mut Dice) -> Want,
    /// How many holds a worker has at a time.
    pub(crate) holds: usize,
    /// Workers act for actors, some two of a connection for the same.
    pub(crate) actors: bool,
    pub(crate) fail_on_deadlock: bool,
    /// A hold that is not released rests for so long; some crash.
    pub(crate) delay: Duration,
    /// Some are asked to let go.
    pub(crate) asks: bool,
    pub(crate) outages: bool,
}

/// Nothing special.
pub(crate) const PLAIN: Theme = Theme {
    name: "plain",
    wants: |_| Want::Writer("x"),
    holds: 1,
    actors: false,
    fail_on_deadlock: false,
    delay: Duration::ZERO,
    asks: false,
    outages: true,
};

struct Worker {
    locks: Locks,
    manner: Manner,
    acquiring: Option<(Want, Acquiring)>,
    holds: Vec<(Box<dyn Hold>, Vec<u64>)>,
}

/// What was seen so far.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) grants: u64,
    pub(crate) several: u64,
    pub(crate) re_entries: u64,
    pub(crate) lost: u64,
    pub(crate) deadlocks: u64,
    pub(crate) crashes: u64,
    pub(crate) heard: u64,
}

pub(crate) struct World<'a> {
    theme: &'a Theme,
    seed: u64,
    clock: VirtualClock,
    kind: Kind,
    nodes: Nodes,
    dice: Dice,
    workers: Vec<Worker>,
    /// The highest token of each lock, and the highest that was not shared.
    newest: BTreeMap<String, (u64, u64)>,
    /// Who got a lock under a token first, where an actor may enter it again.
    first_by: BTreeMap<(String, u64), Actor>,
    /// With a delay, nobody may have these before unless they were released.
    rests_until: BTreeMap<String, Moment>,
    outage: u32,
    asked: u64,
    tally: &'a mut Tally,
}

impl<'a> World<'a> {
    pub(crate) fn new(theme: &'a Theme, kind: Kind, seed: u64, tally: &'a mut Tally) -> Self {
        let mut dice = Dice::new(seed ^ 0x00FA_0172);
        let clock = VirtualClock::new();
        let nodes = Nodes::of(kind, &clock.clock(), seed, Self::faults(kind));
        let connections: Vec<Locks> = (0..4)
            .map(|number| {
                let connect = nodes.connect().clock(&clock).seed(seed * 8 + number).ttl(TTL);
                connect.answer_within(Duration::from_millis(200)).block().expect("memory is there")
            })
            .collect();
        let mut workers = Vec::new();
        for locks in connections {
            let actor = Actor::new();
            // Of each process only the first that waits for a lock can be seen by others.
            let workers_here = if theme.fail_on_deadlock { 1 } else { 1 + dice.below(2) };
            for _ in 0..workers_here {
                let alone = theme.fail_on_deadlock || dice.per_mille(700);
                let actor = if alone { Actor::new() } else { actor.clone() };
                let actor = if theme.fail_on_deadlock { actor.fail_on_deadlock() } else { actor };
                let wait = [None, Some(Duration::from_millis(900)), Some(Duration::ZERO)][dice.below(3) as usize];
                // Whoever fails on deadlock may wait for as long as it takes.
                let wait = wait.filter(|_| !theme.fail_on_deadlock);
                let manner = Manner {
                    wait,
                    unfair: dice.per_mille(250) && !theme.fail_on_deadlock,
                    delay: theme.delay,
                    actor: theme.actors.then_some(actor),
                };
                workers.push(Worker { locks: locks.clone(), manner, acquiring: None, holds: Vec::new() });
            }
        }
        let (newest, first_by, rests_until) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            theme,
            seed,
            clock,
            kind,
            nodes,
            dice,
            workers,
            newest,
            first_by,
            rests_until,
            outage: 0,
            asked: 0,
            tally,
        }
    }

    fn faults(kind: Kind) -> Faults {
        let delay_max = Duration::from_millis(120);
        Faults { lose: 20, duplicate: 80, delay: 700, delay_max, in_order: kind.in_order(), answers_only: false }
    }

    fn place(&self) -> String {
        format!("{}, {:?}, seed {}", self.theme.name, self.kind, self.seed)
    }

    /// Some time in which everything happens, and an end at which nothing is left.
    pub(crate) fn run(mut self) {
        for _ in 0..TURNS {
            self.turn();
        }
        self.nodes.iter().for_each(|node| node.set_link(Link::Up));
        // What is under way still comes late.
        let sound = Faults { in_order: self.kind.in_order(), ..Faults::default() };
        self.nodes.iter().for_each(|node| node.set_faults(sound));
        self.finishes();
        let place = self.place();
        // What crashed, or was lost with a delay, ends by itself.
        let rest = if self.theme.delay.is_zero() { Duration::ZERO } else { TTL + self.theme.delay * 2 };
        self.workers.clear();
        self.clock.turn(CLEAN_UP + rest);
        assert_eq!((self.nodes.rows_in_use(), self.nodes.under_way()), (0, 0), "left behind: {place}");
        // A question that nobody waits for any more has an end too.
        self.clock.turn(Duration::from_secs(5));
        assert_eq!(self.clock.next_alarm(), None, "something goes on for ever: {place}");
    }

    fn turn(&mut self) {
        for number in 0..self.workers.len() {
            // A worker that is not polled is a paused process.
            if self.dice.per_mille(600) {
                self.step(number);
            }
            self.check();
        }
        self.outage = self.outage.saturating_sub(1);
        if self.outage == 0 && self.dice.per_mille(20) {
            let count = self.kind.count();
            let link = [Link::Up, Link::Silent, Link::Refused, Link::Deaf][self.dice.below(4) as usize];
            self.nodes.iter().for_each(|node| node.set_link(Link::Up));
            // Mostly one of several; long enough to lose a hold if it is all of them.
            let all = self.theme.outages && self.dice.per_mille(150);
            if all {
                self.nodes.set_links(count, link);
                self.outage = 200;
            } else if count > 1 {
                let node = self.dice.below(count as u64) as usize;
                self.nodes.node(node).set_link(link);
            }
        }
        if self.theme.asks && self.dice.per_mille(100) {
            self.asked += 1;
            let number = self.dice.below(self.workers.len() as u64) as usize;
            let (locks, note) = (self.workers[number].locks.clone(), self.asked.to_string());
            // Whether it arrives is up to the network.
            let mut asking = Box::pin(async move { locks.ask_to_yield("x", &note).await });
            let _ = poll::once(asking.as_mut());
        }
        self.clock.turn(Duration::from_millis(self.dice.below(60)));
    }

    fn step(&mut self, number: usize) {
        let chance = self.dice.below(1000);
        let worker = &mut self.workers[number];
        if let Some((want, mut future)) = worker.acquiring.take() {
            match poll::once(future.as_mut()) {
                // Dropped while it waits: a cancelled request. Who is in a deadlock is not let off.
                None if chance < 15 && !self.theme.fail_on_deadlock => {}
                None => worker.acquiring = Some((want, future)),
                Some(Ok(hold)) => self.granted(number, &want, hold),
                Some(Err(AcquireError::Deadlock { .. })) => self.deadlocked(number),
                Some(Err(_)) => {}
            }
            return;
        }
        self.listen(number);
        let worker = &mut self.workers[number];
        // Work takes longer while nothing can be reached: some holds are lost.
        let lets_go = if self.outage == 0 { 150 } else { 5 };
        match chance {
            _ if chance < lets_go && !worker.holds.is_empty() => self.lets_go(number),
            150..450 if worker.holds.len() < self.theme.holds => {
                let want = (self.theme.wants)(&mut self.dice);
                let future = acquire(&worker.locks, &want, &worker.manner);
                worker.acquiring = Some((want, future));
            }
            _ => {}
        }
    }

    fn granted(&mut self, number: usize, want: &Want, hold: Box<dyn Hold>) {
        let (now, place) = (self.clock.clock().now(), self.place());
        assert_eq!(hold.grips().len(), want.count(), "{want:?} was asked for: {place}");
        // Lost before anybody looked: it says so itself.
        if !hold.is_held() {
            self.tally.lost += 1;
            return;
        }
        let grips = hold.grips();
        let actor = self.workers[number].manner.actor.clone();
        for grip in &grips {
            let (highest, exclusive) = self.newest.entry(grip.name.clone()).or_default();
            let above = if grip.shared { *exclusive } else { *highest };
            *highest = grip.token.max(*highest);
            if !grip.shared {
                *exclusive = grip.token.max(*exclusive);
            }
            let first_by = self.first_by.get(&(grip.name.clone(), grip.token));
            if actor.is_some() && first_by == actor.as_ref() {
                self.tally.re_entries += 1;
                continue;
            }
            assert!(grip.token > above, "the token of {grip:?} is not above {above}: {place}");
            let rests = self.rests_until.get(&grip.name).is_some_and(|until| now < *until);
            assert!(!rests, "{} was to rest: {place}", grip.name);
            self.tally.grants += 1;
            self.first_by.extend(actor.iter().map(|actor| ((grip.name.clone(), grip.token), actor.clone())));
        }
        self.tally.several += u64::from(grips.len() > 1);
        self.workers[number].holds.push((hold, Vec::new()));
    }

    /// Each request is told to a hold once.
    fn listen(&mut self, number: usize) {
        let place = self.place();
        for (hold, heard) in &mut self.workers[number].holds {
            if let Some(request) = hold.hears() {
                let note: u64 = request.note.parse().expect("its number");
                assert!(!heard.contains(&note), "told twice of request {note}: {place}");
                heard.push(note);
                self.tally.heard += 1;
            }
        }
    }

    fn lets_go(&mut self, number: usize) {
        let place = self.place();
        let at = self.dice.below(self.workers[number].holds.len() as u64) as usize;
        let (hold, _) = self.workers[number].holds.swap_remove(at);
        let (grips, held) = (hold.grips(), hold.is_held());
        self.tally.lost += u64::from(!held);
        if !self.theme.delay.is_zero() && held {
            if self.dice.per_mille(300) {
                self.tally.crashes += u64::from(hold.crash());
                return;
            }
            // A clean end, which a loss is not.
            self.rests_until.retain(|name, _| grips.iter().all(|grip| grip.name != *name));
        }
        let shared = self.workers.iter().filter(|other| other.manner.actor == self.workers[number].manner.actor);
        let others = shared.flat_map(|worker| &worker.holds).filter(|(other, _)| other.grips() == grips).count();
        let outcome = hold.release();
        if self.theme.actors && grips.len() == 1 && held && others > 0 {
            // Counted here: no network has a say in it. Who asks at this moment counts already.
            match outcome {
                Some(ReleaseOutcome::StillHeld { count }) => assert!(count as usize >= others, "{count}: {place}"),
                other => panic!("{others} more hold {grips:?}, and it was {other:?}: {place}"),
            }
        }
    }

    /// It really was one: whoever is told holds something, and so does somebody else who waits or was told as well.
    fn deadlocked(&mut self, number: usize) {
        self.tally.deadlocks += 1;
        let place = self.place();
        let holds = |worker: &Worker| !worker.holds.is_empty();
        assert!(holds(&self.workers[number]), "told of a deadlock without a hold: {place}");
        self.workers[number].holds.clear();
    }

    /// By their own clocks nobody has what another has.
    fn check(&mut self) {
        let now = self.clock.clock().now();
        let held = self.workers.iter().flat_map(|worker| &worker.holds).filter(|(hold, _)| hold.is_held());
        let mut locks: BTreeMap<String, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
        for (grip, left) in held.flat_map(|(hold, _)| hold.grips().into_iter().map(|grip| (grip, hold.remaining()))) {
            if !self.theme.delay.is_zero() {
                self.rests_until.insert(grip.name.clone(), now.plus(left + self.theme.delay));
            }
            let (writers, readers) = locks.entry(grip.name).or_default();
            let side = if grip.shared { readers } else { writers };
            // Holds of one actor rest on one lease.
            if !side.contains(&grip.token) {
                side.push(grip.token);
            }
        }
        for (name, (writers, readers)) in locks {
            // A writer that reads what it has shares its own lease.
            let others = readers.iter().filter(|token| !writers.contains(token)).count();
            let alone = writers.len() <= 1 && (writers.is_empty() || others == 0);
            assert!(alone, "{name}: writers {writers:?}, readers {readers:?}: {}", self.place());
        }
    }

    /// With a sound network everybody comes to an end.
    fn finishes(&mut self) {
        let place = self.place();
        for _ in 0..3_000 {
            for number in 0..self.workers.len() {
                let worker = &mut self.workers[number];
                match worker.acquiring.take() {
                    None => (0..worker.holds.len()).for_each(|_| self.lets_go(number)),
                    Some((want, mut future)) => match poll::once(future.as_mut()) {
                        None => worker.acquiring = Some((want, future)),
                        Some(Ok(hold)) => self.granted(number, &want, hold),
                        Some(Err(AcquireError::Deadlock { .. })) => self.deadlocked(number),
                        Some(Err(_)) => {}
                    },
                }
                self.check();
            }
            if self.workers.iter().all(|worker| worker.acquiring.is_none() && worker.holds.is_empty()) {
                return;
            }
            self.clock.turn(Duration::from_millis(20));
        }
        let waiting: Vec<&Want> =
            self.workers.iter().filter_map(|worker| Some(&worker.acquiring.as_ref()?.0)).collect();
        panic!("never got {waiting:?}: {place}");
    }
}
