//! What will happen in a run: everything that the seed decides beforehand.

use std::time::Duration;

use fencepost_core::store::Minting;
use fencepost_core::store::table::WINDOW;
use fencepost_testkit::dice::Dice;

use crate::control::Control;
use crate::flaw::Flaw;
use crate::net::Link;
use crate::node::Memory;
use crate::story::Story;
use crate::time::{MILLI, Nanos, Rate, SECOND, nanos};

/// Which faults there are, and so what must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// No fault at all: first come, first served, at once, and nothing is left behind.
    Calm,
    /// Whatever the documents say that a lock survives: exclusion itself must hold.
    Strict,
    /// Clocks that jump, run wild or strobe, too: tokens must still rise, and the resource must be safe.
    Wild,
}

/// How the network is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// The shortest way, and what chance adds to it.
    pub(crate) latency: (Nanos, Nanos),
    /// Lost, in a thousand.
    pub(crate) lose: u32,
    /// Late, in a thousand, and how late at most.
    pub(crate) delay: u32,
    pub(crate) delay_max: Nanos,
    /// Twice, in a thousand.
    pub(crate) repeat_answers: u32,
    pub(crate) repeat_requests: u32,
    /// Messages of one wire keep their order.
    pub(crate) ordered: bool,
}

impl Weather {
    const FINE: Self = Self {
        latency: (100_000, 900_000),
        lose: 0,
        delay: 0,
        delay_max: 1,
        repeat_answers: 0,
        repeat_requests: 0,
        ordered: true,
    };

    /// From now on everything arrives once, in time.
    pub(crate) fn clear_up(&mut self) {
        *self = Self { latency: self.latency, ordered: self.ordered, ..Self::FINE };
    }
}

/// Something that happens to the world.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Wires are like this for so long.
    Cut { links: Vec<(usize, usize)>, link: Link, lasts: Nanos },
    /// A connection breaks in the middle of whatever it carries.
    Break { process: usize, node: usize },
    /// A node is down for so long, and comes back with what it remembers.
    Crash { node: usize, lasts: Nanos, memory: Memory },
    /// What the node has now is what an old snapshot has later.
    Snapshot { node: usize },
    /// A process stands still.
    Pause { process: usize, lasts: Nanos },
    /// A process dies; whether the nodes' ends of its connections hear of it.
    Kill { process: usize, noticed: bool },
    /// A node's clock jumps.
    Jump { node: usize, by: i64 },
    /// A node's clock runs at another rate.
    Drift { node: usize, rate: Rate },
    /// A node's clock swings to and fro for so long.
    Strobe { node: usize, on: bool },
}

/// Everything that a seed decides beforehand.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number it was made from.
    pub seed: u64,
    /// Which faults, and so what must hold.
    pub mode: Mode,
    /// What is done wrongly on purpose.
    pub flaw: Option<Flaw>,
    /// Another way to lock, beside ours.
    pub control: Option<Control>,
    /// A story that is played instead of random work.
    pub story: Option<Story>,
    pub(crate) nodes: usize,
    /// If there is one node: it takes bounds, and may hear things late.
    pub(crate) bounded: bool,
    pub(crate) processes: usize,
    pub(crate) tasks: usize,
    pub(crate) ttl: Duration,
    pub(crate) delay: Duration,
    pub(crate) probation: Duration,
    pub(crate) weather: Weather,
    pub(crate) faults: Vec<(Nanos, Fault)>,
    pub(crate) node_clocks: Vec<(Rate, i64)>,
    pub(crate) process_rates: Vec<Rate>,
    pub(crate) mistaken: Vec<i64>,
    /// One request may take several locks.
    pub(crate) together: bool,
    /// Locks are taken away by operators.
    pub(crate) evictions: bool,
    /// Everybody waits in line until it is served, and holds for a moment.
    pub(crate) patient: bool,
    /// So much happens at least, in so much time at least.
    pub(crate) least: (u64, Nanos),
}

impl Plan {
    /// The run of this seed.
    pub fn of(seed: u64) -> Self {
        Self::new(seed, Self::mode_of(seed), None)
    }

    /// Every second seed is strict, and some more: of those that count it shall be half.
    pub fn mode_of(seed: u64) -> Mode {
        if seed.is_multiple_of(2) || seed % 16 == 1 { Mode::Strict } else { Mode::Wild }
    }

    /// The run of this seed in this mode, with something wrong.
    pub fn new(seed: u64, mode: Mode, flaw: Option<Flaw>) -> Self {
        let mut dice = Dice::new(seed ^ 0x5EED_0000_0000_0000);
        let nodes = match flaw {
            Some(Flaw::DifferentNodes) => 5,
            Some(Flaw::NodeTwice) => 3,
            _ => [3, 3, 3, 5, 4, 1][dice.below(6) as usize],
        };
        let processes = 3 + dice.below(3) as usize;
        let ttl = Duration::from_millis([1_000, 2_000, 3_000][dice.below(3) as usize]);
        let steady = |dice: &mut Dice| Rate(i64::try_from(dice.below(6_001)).unwrap_or_default() - 3_000);
        let mut plan = Self {
            seed,
            mode,
            flaw,
            control: None,
            story: None,
            nodes,
            bounded: false,
            processes,
            tasks: 2,
            ttl,
            delay: Duration::ZERO,
            probation: ttl.max(WINDOW) + Duration::from_secs(1),
            weather: Weather::FINE,
            faults: Vec::new(),
            node_clocks: (0..nodes).map(|_| (steady(&mut dice), signed(&mut dice, 300 * MILLI))).collect(),
            process_rates: (0..processes).map(|_| steady(&mut dice)).collect(),
            mistaken: vec![0; processes],
            together: !seed.is_multiple_of(3),
            evictions: false,
            patient: mode == Mode::Calm,
            least: (1_200, 3 * SECOND),
        };
        match mode {
            Mode::Calm => {}
            Mode::Strict => plan.strict(&mut dice),
            Mode::Wild => plan.wild(&mut dice),
        }
        if plan.nodes == 1 {
            // The contract: some stores that mint run the steps of one owner in their order, others take bounds.
            plan.bounded = dice.per_mille(500);
            if !plan.bounded {
                (plan.weather.ordered, plan.weather.repeat_requests) = (true, 0);
            }
        }
        plan.faults.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Whether the engine or the store chooses the tokens of grants.
    pub(crate) fn minting(&self) -> Minting {
        match (self.nodes, self.bounded) {
            (1, true) => Minting::Bounded,
            (1, false) => Minting::InOrder,
            _ => Minting::Engine,
        }
    }

    /// Nothing but processes that stand still, again and again.
    pub fn pauses_only(seed: u64, flaw: Option<Flaw>) -> Self {
        let mut plan = Self::new(seed, Mode::Calm, flaw);
        let mut dice = Dice::new(seed ^ 0xFA15);
        (plan.mode, plan.nodes, plan.ttl) = (Mode::Strict, 3, Duration::from_secs(1));
        plan.patient = false;
        plan.node_clocks.resize(3, (Rate(0), 0));
        plan.least = (1_200, 12 * SECOND);
        for _ in 0..40 {
            let (at, process) = (plan.some_time(&mut dice), dice.below(plan.processes as u64) as usize);
            let lasts = nanos(plan.ttl) / 2 + dice.below(2 * nanos(plan.ttl));
            plan.faults.push((at, Fault::Pause { process, lasts }));
        }
        plan.faults.sort_by_key(|(at, _)| *at);
        plan
    }

    /// A node of five forgets everything, and within a second of its return another one dies: the three that are left have
    /// to agree all alone, in the midst of what both had promised.
    pub fn second_death(seed: u64) -> Self {
        let mut plan = Self::new(seed, Mode::Calm, None);
        let mut dice = Dice::new(seed ^ 0x2DEA);
        (plan.mode, plan.nodes, plan.ttl) = (Mode::Strict, 5, Duration::from_secs(3));
        plan.probation = plan.ttl.max(WINDOW) + Duration::from_secs(1);
        plan.node_clocks.resize(5, (Rate(0), 0));
        plan.least = (0, 12 * SECOND);
        let (first, at) = (dice.below(5) as usize, plan.some_time(&mut dice) / 4);
        let second = (first + 1 + dice.below(4) as usize) % 5;
        let lasts = dice.below(500 * MILLI);
        plan.faults.push((at, Fault::Crash { node: first, lasts, memory: Memory::Empty }));
        let dies = at + lasts + dice.below(SECOND);
        plan.faults.push((dies, Fault::Crash { node: second, lasts: 60 * SECOND, memory: Memory::Kept }));
        // Every second world is rough: work of all kinds, and connections that break at random.
        if seed % 2 == 1 {
            plan.patient = false;
            for _ in 0..6 {
                let (process, node) = (dice.below(plan.processes as u64) as usize, dice.below(5) as usize);
                plan.faults.push((at + dice.below(3 * SECOND), Fault::Break { process, node }));
            }
            plan.faults.sort_by_key(|(at, _)| *at);
        }
        plan
    }

    /// Another way to lock, in the world of this seed.
    pub fn controlled(seed: u64, control: Control) -> Self {
        let mut plan = Self::of(seed);
        plan.control = Some(control);
        if control != Control::PlainRedlock {
            plan.become_sentinel();
        }
        plan
    }

    /// One server whose replica takes over, with what it had heard by then.
    fn become_sentinel(&mut self) {
        let mut dice = Dice::new(self.seed ^ 0x5E47);
        self.nodes = 1;
        self.node_clocks.truncate(1);
        self.mistaken.fill(0);
        (self.weather.ordered, self.weather.repeat_requests) = (true, 0);
        self.faults.retain(|(_, fault)| matches!(fault, Fault::Pause { .. } | Fault::Kill { .. }));
        for _ in 0..2 + dice.below(3) {
            let at = self.some_time(&mut dice);
            let lag = dice.below(400 * MILLI);
            self.faults.push((at.saturating_sub(lag), Fault::Snapshot { node: 0 }));
            self.faults.push((at, Fault::Crash { node: 0, lasts: 20 * MILLI, memory: Memory::Old }));
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }

    /// Whether clocks are as the documents demand.
    pub(crate) fn has_good_clocks(&self) -> bool {
        self.mode != Mode::Wild
    }

    /// Nothing happened that may leave something behind for a while.
    pub(crate) fn is_clean(&self) -> bool {
        let dirty = |fault: &Fault| matches!(fault, Fault::Crash { .. } | Fault::Kill { .. } | Fault::Snapshot { .. });
        let delayed = !self.delay.is_zero() || self.evictions;
        self.has_good_clocks()
            && self.weather.repeat_requests == 0
            && !delayed
            && !self.faults.iter().any(|(_, fault)| dirty(fault))
    }

    fn strict(&mut self, dice: &mut Dice) {
        match dice.below(4) {
            0 => self.bad_network(dice),
            1 => {
                self.bad_network(dice);
                self.pauses(dice, 4);
            }
            2 => self.crashes(dice),
            _ => {
                self.bad_network(dice);
                self.pauses(dice, 3);
                self.crashes(dice);
                self.delay = Duration::from_millis([0, 0, 500][dice.below(3) as usize]);
            }
        }
        if self.faults.is_empty() {
            self.pauses(dice, 1);
        }
    }

    fn wild(&mut self, dice: &mut Dice) {
        if dice.per_mille(600) {
            self.bad_network(dice);
        }
        self.pauses(dice, 3);
        self.evictions = dice.per_mille(200);
        if dice.per_mille(600) {
            self.wild_clocks(dice);
            return;
        }
        // Memory is lost: then every clock is less wrong than the quarantine is longer than the window of tokens.
        self.crashes(dice);
        for _ in 0..dice.below(4) {
            let (at, node) = (self.some_time(dice), dice.below(self.nodes as u64) as usize);
            self.faults.push((at, Fault::Jump { node, by: signed(dice, 150 * MILLI) }));
        }
        self.mistakes(dice);
    }

    fn bad_network(&mut self, dice: &mut Dice) {
        let ttl = nanos(self.ttl);
        self.weather = Weather {
            latency: (100_000, [900_000, 5 * MILLI, 20 * MILLI][dice.below(3) as usize]),
            lose: [0, 10, 50][dice.below(3) as usize],
            delay: [0, 30, 150][dice.below(3) as usize],
            delay_max: [60 * MILLI, ttl, 2 * ttl][dice.below(3) as usize],
            repeat_answers: [0, 50][dice.below(2) as usize],
            repeat_requests: [0, 0, 30][dice.below(3) as usize],
            ordered: dice.per_mille(400),
        };
        for _ in 0..1 + dice.below(4) {
            let at = self.some_time(dice);
            let lasts = 20 * MILLI + dice.below(2 * ttl);
            let fault = match dice.below(3) {
                0 => {
                    let (process, node) = (dice.below(self.processes as u64), dice.below(self.nodes as u64));
                    Fault::Break { process: process as usize, node: node as usize }
                }
                1 => {
                    let node = dice.below(self.nodes as u64) as usize;
                    let links = (0..self.processes).map(|process| (process, node)).collect();
                    Fault::Cut { links, link: some_link(dice), lasts }
                }
                _ => {
                    // Some processes and some nodes on this side, the others on that one.
                    let (here, there) = (dice.roll(), dice.roll());
                    let side = |number: usize, bits: u64| bits >> number & 1 == 1;
                    let all = (0..self.processes).flat_map(|process| (0..self.nodes).map(move |node| (process, node)));
                    let links = all.filter(|(process, node)| side(*process, here) != side(*node, there)).collect();
                    Fault::Cut { links, link: some_link(dice), lasts }
                }
            };
            self.faults.push((at, fault));
        }
    }

    fn pauses(&mut self, dice: &mut Dice, count: u64) {
        for _ in 0..1 + dice.below(count) {
            let (at, process) = (self.some_time(dice), dice.below(self.processes as u64) as usize);
            let lasts = dice.below(3 * nanos(self.ttl));
            self.faults.push((at, Fault::Pause { process, lasts }));
        }
    }

    fn crashes(&mut self, dice: &mut Dice) {
        for _ in 0..1 + dice.below(3) {
            let (at, node) = (self.some_time(dice), dice.below(self.nodes as u64) as usize);
            let memory = [Memory::Kept, Memory::Empty, Memory::Old][dice.below(3) as usize];
            // One server alone that forgets is documented to lose its locks.
            let memory = if self.nodes == 1 && self.flaw.is_none() { Memory::Kept } else { memory };
            let most = if dice.per_mille(300) { 50 * MILLI } else { 2 * nanos(self.ttl) };
            let lasts = dice.below(most);
            if memory == Memory::Old {
                let before = at.saturating_sub(dice.below(2 * nanos(self.ttl)));
                self.faults.push((before, Fault::Snapshot { node }));
            }
            self.faults.push((at, Fault::Crash { node, lasts, memory }));
        }
        for _ in 0..dice.below(3) {
            let (at, process) = (self.some_time(dice), dice.below(self.processes as u64) as usize);
            self.faults.push((at, Fault::Kill { process, noticed: dice.per_mille(500) }));
        }
        // Some runs go on until those who forgot may vote again.
        let quarantined = self
            .faults
            .iter()
            .any(|(_, fault)| matches!(fault, Fault::Crash { memory, .. } if *memory != Memory::Kept));
        let long = quarantined && dice.per_mille(500);
        self.least.1 = if long { nanos(self.probation) + 8 * SECOND } else { 6 * SECOND };
        if long {
            self.tasks = 1;
        }
    }

    fn wild_clocks(&mut self, dice: &mut Dice) {
        for _ in 0..1 + dice.below(5) {
            let at = self.some_time(dice);
            let node = dice.below(self.nodes as u64) as usize;
            let sizes = [SECOND, nanos(self.ttl), 30 * SECOND, 3_600 * SECOND];
            let size = sizes[dice.below(4) as usize];
            match dice.below(4) {
                0 | 1 => {
                    // One node, or all at once.
                    let by = signed(dice, size);
                    let all = dice.per_mille(300);
                    let hit = (0..self.nodes).filter(|other| all || *other == node);
                    self.faults.extend(hit.map(|node| (at, Fault::Jump { node, by })));
                }
                2 => {
                    let rate = Rate(i64::try_from(dice.below(1_500_001)).unwrap_or_default() - 500_000);
                    self.faults.push((at, Fault::Drift { node, rate }));
                }
                _ => {
                    self.faults.push((at, Fault::Strobe { node, on: true }));
                    self.faults.push((at + dice.below(2 * SECOND), Fault::Strobe { node, on: false }));
                }
            }
        }
        self.mistakes(dice);
    }

    /// What processes take for the nodes' clocks is wrong: mostly by less than half of the window of tokens.
    fn mistakes(&mut self, dice: &mut Dice) {
        for process in 0..self.processes {
            self.mistaken[process] = match dice.below(40) {
                0..4 => signed(dice, 8 * SECOND),
                4 => signed(dice, 3_600 * SECOND),
                _ => signed(dice, 4 * SECOND),
            };
        }
    }

    fn some_time(&self, dice: &mut Dice) -> Nanos {
        200 * MILLI + dice.below(self.least.1)
    }
}

fn some_link(dice: &mut Dice) -> Link {
    [Link::Silent, Link::Mute, Link::Deaf, Link::Refused, Link::Stalled][dice.below(5) as usize]
}

/// Up to this much in either direction.
fn signed(dice: &mut Dice, most: Nanos) -> i64 {
    let size = i64::try_from(dice.below(most + 1)).unwrap_or(i64::MAX);
    if dice.per_mille(500) { size } else { -size }
}
