//! The network: what is under way, how late it comes, and whether it comes at all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_core::FencingToken;
use fencepost_core::store::{Event, Owner, Reply, Step, StoreErrorKind, Trouble};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::history::Ledger;

use crate::plan::{Fault, Weather};
use crate::resource::{Errand, Resource};
use crate::time::{MILLI, Nanos};

/// A process: its place, and which of those that were started there.
pub(crate) type Pid = (usize, u32);

/// How a wire is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// As good as the weather.
    Up,
    /// Ten milliseconds longer.
    Slow,
    /// Everything vanishes.
    Silent,
    /// Requests vanish, what was asked before is answered.
    Mute,
    /// Requests arrive, answers vanish.
    Deaf,
    /// Every request is refused at once.
    Refused,
    /// Everything is kept, and arrives when the wire is mended: as from a node that was stopped and goes on.
    Stalled,
}

pub(crate) enum Parcel {
    ToNode {
        from: Pid,
        node: usize,
        epoch: u32,
        step: Step,
        reply: Reply,
    },
    ToProcess {
        to: Pid,
        node: usize,
        epoch: u32,
        wall: Option<Nanos>,
        reply: Reply,
        event: Event,
    },
    ToResource {
        from: Pid,
        task: usize,
        errand: Errand,
    },
    /// Sent as if now by a process that should not.
    Send {
        from: Pid,
        node: usize,
        step: Step,
        reply: Reply,
    },
    Wake {
        to: Pid,
        task: usize,
    },
    Resume {
        process: usize,
    },
    Start {
        node: usize,
    },
    Mend {
        links: Vec<(usize, usize)>,
    },
    Fault(usize),
}

struct Entry {
    at: Nanos,
    number: u64,
    parcel: Parcel,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

struct Wire {
    link: Link,
    /// Counts breaks: what was under way before is gone.
    epoch: u32,
    /// What is kept in a stalled wire arrives then.
    stalled_until: Nanos,
    /// When the last message in order arrives, there and back.
    there: Nanos,
    back: Nanos,
    /// The node's calendar as last heard, and when.
    heard: (Nanos, Nanos),
    /// Counts breaks, and what vanished: of what was sent before the last of them nothing is known.
    doubts: u64,
}

/// Who listens for the pushes of one claim.
pub(crate) struct Ear {
    pub(crate) pid: Pid,
    pub(crate) reply: Reply,
}

/// Everything that moves between processes, nodes and resources.
pub(crate) struct Net {
    pub(crate) now: Nanos,
    pub(crate) dice: Dice,
    pub(crate) weather: Weather,
    queue: BinaryHeap<Reverse<Entry>>,
    numbers: u64,
    nodes: usize,
    wires: Vec<Wire>,
    /// Per node.
    pub(crate) ears: Vec<BTreeMap<Owner, Ear>>,
    pub(crate) resources: BTreeMap<String, Resource>,
    /// No process begins anything new.
    pub(crate) stopping: bool,
    /// How long each process has stood still so far.
    pub(crate) stood_still: Vec<Nanos>,
    /// How far each process is mistaken about the nodes' clocks.
    pub(crate) mistaken: Vec<i64>,
    /// The tokens of renewals, for the watchdog that does not stop.
    pub(crate) renewed: HashMap<Owner, FencingToken>,
    pub(crate) log: Log,
    /// Messages that did not go as they should.
    pub(crate) mishaps: u64,
}

/// What happened, line by line; text only if somebody wants to read it.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) events: u64,
    pub(crate) text: Option<String>,
}

impl Log {
    /// Counts an event, and describes it if asked to.
    pub(crate) fn add(&mut self, now: Nanos, describe: impl FnOnce() -> String) {
        self.events += 1;
        if let Some(text) = &mut self.text {
            let _ = writeln!(text, "{:>12}  {}", now / 1_000, describe());
        }
    }
}

#[derive(Clone)]
pub(crate) struct Hub {
    net: Arc<Mutex<Net>>,
    pub(crate) ledger: Ledger,
}

impl Hub {
    pub(crate) fn new(net: Net) -> Self {
        Self { net: Arc::new(Mutex::new(net)), ledger: Ledger::default() }
    }

    pub(crate) fn net(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Net {
    pub(crate) fn new(processes: usize, nodes: usize, weather: Weather, seed: u64) -> Self {
        let wire = |_| Wire { link: Link::Up, epoch: 0, stalled_until: 0, there: 0, back: 0, heard: (0, 0), doubts: 0 };
        Self {
            now: 0,
            dice: Dice::new(seed),
            weather,
            queue: BinaryHeap::new(),
            numbers: 0,
            nodes,
            wires: (0..processes * nodes).map(wire).collect(),
            ears: (0..nodes).map(|_| BTreeMap::new()).collect(),
            resources: BTreeMap::new(),
            stopping: false,
            stood_still: vec![0; processes],
            mistaken: vec![0; processes],
            renewed: HashMap::new(),
            log: Log::default(),
            mishaps: 0,
        }
    }

    fn wire(&mut self, process: usize, node: usize) -> &mut Wire {
        &mut self.wires[process * self.nodes + node]
    }

    pub(crate) fn link(&mut self, process: usize, node: usize) -> Link {
        self.wire(process, node).link
    }

    pub(crate) fn set_link(&mut self, process: usize, node: usize, link: Link) {
        self.wire(process, node).link = link;
    }

    /// How a wire is until then.
    pub(crate) fn cut(&mut self, process: usize, node: usize, link: Link, until: Nanos) {
        let wire = self.wire(process, node);
        (wire.link, wire.stalled_until) = (link, until);
    }

    /// Breaks a wire: what is under way on it is lost, and its end knows.
    pub(crate) fn break_link(&mut self, process: usize, node: usize) {
        let wire = self.wire(process, node);
        (wire.epoch, wire.doubts) = (wire.epoch + 1, wire.doubts + 1);
    }

    /// Something vanished that nobody will hear of.
    fn vanishes(&mut self, process: usize, node: usize) {
        self.mishaps += 1;
        self.wire(process, node).doubts += 1;
    }

    /// Whether a wire is as a connection is: what is sent now arrives in order and is answered, or its break is told. As long
    /// as the number stays the same that is so of everything that was sent under it.
    pub(crate) fn certainty(&mut self, process: usize, node: usize) -> Option<u64> {
        let Weather { ordered, repeat_requests, .. } = self.weather;
        let wire = self.wire(process, node);
        let vanishes = matches!(wire.link, Link::Silent | Link::Mute | Link::Deaf);
        (ordered && repeat_requests == 0 && !vanishes).then_some(wire.doubts)
    }

    /// How long ago a process last heard of a node.
    pub(crate) fn silent_for(&mut self, process: usize, node: usize) -> Duration {
        let (_, at) = self.wire(process, node).heard;
        Duration::from_nanos(self.now - at)
    }

    pub(crate) fn epoch(&mut self, process: usize, node: usize) -> u32 {
        self.wire(process, node).epoch
    }

    pub(crate) fn heard(&mut self, process: usize, node: usize, wall: Nanos) {
        let now = self.now;
        self.wire(process, node).heard = (wall, now);
    }

    /// What a process takes for the node's calendar.
    pub(crate) fn estimate(&mut self, process: usize, node: usize) -> Nanos {
        let (now, mistaken) = (self.now, self.mistaken[process]);
        let (wall, at) = self.wire(process, node).heard;
        (wall + (now - at)).saturating_add_signed(mistaken)
    }

    pub(crate) fn post(&mut self, at: Nanos, parcel: Parcel) {
        self.numbers += 1;
        self.queue.push(Reverse(Entry { at: at.max(self.now), number: self.numbers, parcel }));
    }

    pub(crate) fn post_faults(&mut self, faults: &[(Nanos, Fault)]) {
        for (number, (at, _)) in faults.iter().enumerate() {
            self.post(*at, Parcel::Fault(number));
        }
    }

    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.queue.peek().map(|Reverse(entry)| entry.at)
    }

    pub(crate) fn pop(&mut self) -> Option<Parcel> {
        self.queue.pop().map(|Reverse(entry)| entry.parcel)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.queue.is_empty()
    }

    /// When each copy of a message arrives; none if it is lost.
    fn fate(&mut self, process: usize, node: usize, there: bool) -> Vec<Nanos> {
        let weather = self.weather;
        if self.dice.per_mille(weather.lose) {
            self.vanishes(process, node);
            return Vec::new();
        }
        let repeats = if there { weather.repeat_requests } else { weather.repeat_answers };
        let copies = if self.dice.per_mille(repeats) { 2 } else { 1 };
        self.mishaps += copies - 1;
        (0..copies)
            .map(|_| {
                let mut late = weather.latency.0 + self.dice.below(weather.latency.1);
                if self.dice.per_mille(weather.delay) {
                    self.mishaps += 1;
                    late += self.dice.below(weather.delay_max);
                }
                let (now, ordered) = (self.now, weather.ordered);
                let wire = self.wire(process, node);
                let at = match wire.link {
                    Link::Slow => now + late + 10 * MILLI,
                    Link::Stalled => wire.stalled_until.max(now) + late,
                    _ => now + late,
                };
                let last = if there { &mut wire.there } else { &mut wire.back };
                if ordered {
                    *last = at.max(*last + 1);
                    return *last;
                }
                at
            })
            .collect()
    }

    /// A process sends a step.
    pub(crate) fn send(&mut self, from: Pid, node: usize, step: &Step, reply: &Reply) {
        match self.link(from.0, node) {
            Link::Silent | Link::Mute => self.vanishes(from.0, node),
            Link::Refused => {
                let event = Event::Answer(Err(unreachable("connection refused")));
                let (epoch, at) = (self.epoch(from.0, node), self.now + 1);
                self.post(at, Parcel::ToProcess { to: from, node, epoch, wall: None, reply: reply.clone(), event });
            }
            Link::Up | Link::Slow | Link::Deaf | Link::Stalled => {
                let epoch = self.epoch(from.0, node);
                for at in self.fate(from.0, node, true) {
                    let (step, reply) = (step.clone(), reply.clone());
                    self.post(at, Parcel::ToNode { from, node, epoch, step, reply });
                }
            }
        }
    }

    /// A node sends an answer or a push.
    pub(crate) fn answer(&mut self, to: Pid, node: usize, wall: Nanos, reply: &Reply, event: &Event) {
        if matches!(self.link(to.0, node), Link::Silent | Link::Deaf | Link::Refused) {
            self.vanishes(to.0, node);
            return;
        }
        let epoch = self.epoch(to.0, node);
        for at in self.fate(to.0, node, false) {
            let (reply, event) = (reply.clone(), event.clone());
            self.post(at, Parcel::ToProcess { to, node, epoch, wall: Some(wall), reply, event });
        }
    }
}

pub(crate) fn unreachable(message: &str) -> Trouble {
    Trouble::new(StoreErrorKind::Unreachable, message)
}
