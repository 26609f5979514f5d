//! Downgrades over a network that loses and delays, in virtual time.

use std::pin::{Pin, pin};
use std::time::Duration;

use fencepost_core::store::{Answer, LockName, Step};
use fencepost_core::{Blocking, Guard, Locks, SharedToken, VirtualClock};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::faulty::{Faults, Link};
use fencepost_testkit::nodes::{Node, Nodes, memory};
use fencepost_testkit::{poll, steps};

const TTL: Duration = Duration::from_secs(9);
const ANSWER_WITHIN: Duration = Duration::from_millis(50);

struct World {
    clock: VirtualClock,
    nodes: Nodes,
}

impl World {
    fn new(count: usize) -> Self {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(count, &clock.clock(), 1, Faults::default());
        Self { clock, nodes }
    }

    fn connect(&self, seed: u64) -> Locks {
        let connect = self.nodes.connect().clock(&self.clock).seed(seed).ttl(TTL).answer_within(ANSWER_WITHIN);
        connect.block().expect("memory is there")
    }
}

/// Whether this node sees one holder, who reads.
fn reads(node: &Node) -> bool {
    let inspect = Step::Inspect { name: LockName::new("x").expect("valid") };
    let Ok(Answer::State(state)) = steps::run(memory(node), inspect) else { panic!("a state") };
    assert_eq!(state.holders.len(), 1);
    state.holders[0].shared
}

fn now<T>(future: impl Future<Output = T>) -> T {
    poll::once(pin!(future)).expect("memory answers at once")
}

fn reader(locks: &Locks) -> Option<Guard<SharedToken>> {
    now(locks.lock("x").shared().try_acquire()).expect("an answer")
}

fn writer(locks: &Locks) -> Option<Guard> {
    now(locks.lock("x").try_acquire()).expect("an answer")
}

/// It excludes writers all the same, so nobody is in danger meanwhile.
#[test]
fn a_node_that_missed_a_downgrade_hears_of_it_with_the_next_renewal() {
    let world = World::new(3);
    let (one, other) = (world.connect(1), world.connect(2));
    let guard = writer(&one).expect("free");
    world.nodes.set_links(1, Link::Silent);
    let guard = now(guard.downgrade()).expect("a majority heard");
    world.nodes.set_links(1, Link::Up);
    assert_eq!(world.nodes.iter().map(reads).collect::<Vec<_>>(), [false, true, true]);
    assert!(writer(&other).is_none());
    drop(reader(&other).expect("two of three let it in"));
    world.clock.turn(TTL / 3);
    assert!(world.nodes.iter().all(reads), "renewed");
    assert!(guard.is_held());
}

/// A guard without a watchdog has nobody who tells them later: so it goes on until they know.
#[test]
fn a_downgrade_that_nobody_heard_of_makes_a_reader_and_is_told_again() {
    for manual in [false, true] {
        let world = World::new(3);
        let (one, other) = (world.connect(1), world.connect(2));
        let lock = one.lock("x");
        let guard = now(if manual { lock.manual_renewal() } else { lock }.acquire()).expect("free");
        world.nodes.set_links(3, Link::Silent);
        let mut downgrade = Box::pin(guard.downgrade());
        assert!(poll::once(downgrade.as_mut()).is_none(), "nobody answers");
        world.clock.turn(ANSWER_WITHIN);
        let guard = poll::once(downgrade.as_mut()).expect("asked in vain").expect("held");
        world.nodes.set_links(3, Link::Up);
        assert!(!world.nodes.iter().any(reads) && writer(&other).is_none(), "still a writer's to the nodes");
        assert!(guard.is_held());
        world.clock.turn(TTL / 24 + ANSWER_WITHIN);
        assert!(world.nodes.iter().all(reads), "told again");
        assert!(reader(&other).is_some() && writer(&other).is_none());
        world.clock.turn(TTL);
        assert_eq!(guard.is_held(), !manual, "from then on only the watchdog renews");
    }
}

/// The nodes heard of it and their answers are lost: readers may be there, so the hold must not count as a writer's.
#[test]
fn a_downgrade_whose_answers_are_lost_lets_readers_in_and_writers_not() {
    let world = World::new(3);
    let (one, other) = (world.connect(1), world.connect(2));
    let guard = writer(&one).expect("free");
    world.nodes.set_links(3, Link::Deaf);
    let mut downgrade = Box::pin(guard.downgrade());
    assert!(poll::once(downgrade.as_mut()).is_none(), "nobody answers");
    world.nodes.set_links(3, Link::Up);
    let second = reader(&other).expect("readers share");
    world.clock.turn(ANSWER_WITHIN);
    let guard = poll::once(downgrade.as_mut()).expect("asked in vain").expect("held");
    assert!(guard.is_held() && second.is_held() && writer(&other).is_none());
}

#[test]
fn a_downgrade_that_is_given_up_releases_the_lock() {
    let world = World::new(3);
    let (one, other) = (world.connect(1), world.connect(2));
    let guard = writer(&one).expect("free");
    world.nodes.set_links(3, Link::Deaf);
    {
        let mut downgrade = pin!(guard.downgrade());
        assert!(poll::once(downgrade.as_mut()).is_none(), "nobody answers");
    }
    world.nodes.set_links(3, Link::Up);
    world.clock.turn(TTL / 2);
    assert_eq!(world.nodes.rows_in_use(), 0);
    assert!(writer(&other).is_some());
}

enum Worker {
    Idle,
    Reading(Pin<Box<dyn Future<Output = Option<Guard<SharedToken>>>>>),
    Writing(Pin<Box<dyn Future<Output = Option<Guard>>>>),
    Downgrading(Pin<Box<dyn Future<Output = Option<Guard<SharedToken>>>>>),
    Reads(Guard<SharedToken>),
    Writes(Guard),
}

/// Random readers, and writers that become readers, as `chaos` has it for one kind.
struct Chaos {
    world: World,
    dice: Dice,
    workers: Vec<(Locks, Worker)>,
    /// Turns with two readers at once, and downgrades: what the test is about.
    together: u64,
    downgrades: u64,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let clock = VirtualClock::new();
        let faults =
            Faults { lose: 30, duplicate: 50, delay: 700, delay_max: Duration::from_millis(120), ..Faults::default() };
        let nodes = Nodes::new([1, 3, 5][dice.below(3) as usize], &clock.clock(), seed, faults);
        let connect = |number| {
            let connect = nodes.connect().clock(&clock).seed(seed * 8 + number).ttl(Duration::from_secs(2));
            connect.answer_within(Duration::from_millis(200)).block().expect("memory is there")
        };
        let workers = (0..3 + dice.below(3)).map(|number| (connect(number), Worker::Idle)).collect();
        Self { world: World { clock, nodes }, dice, workers, together: 0, downgrades: 0 }
    }

    fn turn(&mut self, seed: u64) {
        for number in 0..self.workers.len() {
            // A worker that is not polled is a paused process.
            if self.dice.per_mille(600) {
                self.step(number);
            }
            self.check(seed);
        }
        if self.dice.per_mille(20) {
            let node = self.dice.below(self.world.nodes.iter().count() as u64) as usize;
            let link = [Link::Up, Link::Silent, Link::Refused, Link::Deaf][self.dice.below(4) as usize];
            self.world.nodes.iter().for_each(|node| node.set_link(Link::Up));
            self.world.nodes.node(node).set_link(link);
        }
        self.world.clock.turn(Duration::from_millis(self.dice.below(60)));
    }

    fn step(&mut self, number: usize) {
        let (locks, worker) = &mut self.workers[number];
        *worker = match std::mem::replace(worker, Worker::Idle) {
            Worker::Idle if self.dice.per_mille(400) => {
                let lock = locks.lock("x").wait_at_most(Duration::from_millis(100 + self.dice.below(2000)));
                let lock = if self.dice.per_mille(200) { lock.unfair() } else { lock };
                if self.dice.per_mille(500) {
                    let lock = lock.shared();
                    Worker::Reading(Box::pin(async move { lock.acquire().await.ok() }))
                } else {
                    Worker::Writing(Box::pin(async move { lock.acquire().await.ok() }))
                }
            }
            // Dropped at any await: a cancelled request.
            _ if self.dice.per_mille(30) => Worker::Idle,
            Worker::Reading(mut future) => match poll::once(future.as_mut()) {
                None => Worker::Reading(future),
                Some(guard) => guard.map_or(Worker::Idle, Worker::Reads),
            },
            Worker::Writing(mut future) => match poll::once(future.as_mut()) {
                None => Worker::Writing(future),
                Some(guard) => guard.map_or(Worker::Idle, Worker::Writes),
            },
            Worker::Downgrading(mut future) => match poll::once(future.as_mut()) {
                None => Worker::Downgrading(future),
                Some(guard) => guard.map_or(Worker::Idle, Worker::Reads),
            },
            Worker::Writes(guard) if self.dice.per_mille(200) => {
                self.downgrades += u64::from(guard.is_held());
                let mut future = Box::pin(async move { guard.downgrade().await.ok() });
                match poll::once(future.as_mut()) {
                    None => Worker::Downgrading(future),
                    Some(guard) => guard.map_or(Worker::Idle, Worker::Reads),
                }
            }
            Worker::Reads(_) if self.dice.per_mille(150) => Worker::Idle,
            other => other,
        };
    }

    /// Who is being downgraded reads already.
    fn check(&mut self, seed: u64) {
        let writers =
            self.workers.iter().filter(|(_, worker)| matches!(worker, Worker::Writes(guard) if guard.is_held()));
        let readers =
            self.workers.iter().filter(|(_, worker)| matches!(worker, Worker::Reads(guard) if guard.is_held()));
        let (writers, readers) = (writers.count(), readers.count());
        assert!(writers == 0 || writers + readers == 1, "{writers} writers and {readers} readers, seed {seed}");
        self.together += u64::from(readers > 1);
    }
}

#[test]
fn never_a_writer_beside_another_holder_whatever_the_network_does() {
    const SEEDS: u64 = 600;
    let (mut together, mut downgrades) = (0, 0);
    for seed in 0..SEEDS {
        let mut chaos = Chaos::new(seed);
        for _ in 0..300 {
            chaos.turn(seed);
        }
        chaos.workers.iter_mut().for_each(|(_, worker)| *worker = Worker::Idle);
        let nodes = &chaos.world.nodes;
        nodes.iter().for_each(|node| node.set_link(Link::Up));
        nodes.iter().for_each(|node| node.set_faults(Faults::default()));
        chaos.world.clock.turn(TTL);
        assert_eq!((nodes.rows_in_use(), nodes.under_way()), (0, 0), "left behind, seed {seed}");
        assert_eq!(chaos.world.clock.next_alarm(), None, "something goes on for ever, seed {seed}");
        (together, downgrades) = (together + chaos.together, downgrades + chaos.downgrades);
    }
    assert!(together > SEEDS * 20 && downgrades > SEEDS * 2, "{together} {downgrades}: the test shows little");
}
