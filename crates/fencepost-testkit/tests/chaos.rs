//! Random workers on nodes that vote, or guests of one service on one node, over a network that loses, delays and repeats,
//! with nodes that come and go: never two holders by their own clocks, tokens rise in grant order, and everything is free in
//! the end.

use std::pin::Pin;
use std::time::Duration;

use fencepost_core::store::OnBehalf;
use fencepost_core::{Blocking, FencingToken, Guard, Lock, Locks, VirtualClock};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::faulty::{Faults, Link};
use fencepost_testkit::nodes::Nodes;
use fencepost_testkit::poll;

const SEEDS: u64 = 1_500;
const TTL: Duration = Duration::from_secs(2);
const TURNS: u32 = 300;

type Acquiring = Pin<Box<dyn Future<Output = Option<Guard>>>>;

/// Who works.
#[derive(Clone, Copy)]
enum Crowd {
    /// Programs on three or five nodes.
    Programs,
    /// Clients of one service on one node: a release takes the next of them along.
    Guests,
}

enum Worker {
    Idle,
    Acquiring(Acquiring),
    Holding(Guard),
}

struct World {
    clock: VirtualClock,
    nodes: Nodes,
    dice: Dice,
    workers: Vec<(Lock, Worker)>,
    newest: Option<FencingToken>,
    grants: u64,
}

impl World {
    fn new(seed: u64, crowd: Crowd) -> Self {
        let mut dice = Dice::new(seed);
        let clock = VirtualClock::new();
        let faults =
            Faults { lose: 30, duplicate: 50, delay: 700, delay_max: Duration::from_millis(120), ..Faults::default() };
        let count = match crowd {
            Crowd::Programs => [3, 5][dice.below(2) as usize],
            Crowd::Guests => 1,
        };
        let nodes = Nodes::new(count, &clock.clock(), seed, faults);
        let connect = |number: u64| -> Locks {
            let locks = nodes.connect().clock(&clock).seed(seed * 8 + number).ttl(TTL);
            locks.answer_within(Duration::from_millis(200)).block().expect("memory is there")
        };
        let service = connect(0);
        let workers = 2 + dice.below(4);
        let workers = (0..workers).map(|number| {
            let lock = match crowd {
                Crowd::Programs => connect(number).lock("x"),
                Crowd::Guests => service.lock("x").on_behalf(OnBehalf::default()),
            };
            let lock = match number % 3 {
                0 => lock.wait_forever(),
                1 => lock.wait_at_most(Duration::from_millis(700)),
                _ => match crowd {
                    Crowd::Programs => lock.unfair().wait_at_most(Duration::from_secs(1)),
                    Crowd::Guests => lock.wait_at_most(Duration::from_secs(3)),
                },
            };
            (lock, Worker::Idle)
        });
        let workers = workers.collect();
        Self { clock, nodes, dice, workers, newest: None, grants: 0 }
    }

    fn turn(&mut self, seed: u64) {
        for number in 0..self.workers.len() {
            // A worker that is not polled is a paused process.
            if self.dice.per_mille(600) {
                self.step(number, seed);
            }
            self.check(seed);
        }
        if self.dice.per_mille(20) {
            let node = self.dice.below(self.nodes.iter().count() as u64) as usize;
            let link = [Link::Up, Link::Silent, Link::Refused, Link::Deaf][self.dice.below(4) as usize];
            self.nodes.iter().for_each(|node| node.set_link(Link::Up));
            self.nodes.node(node).set_link(link);
        }
        self.clock.turn(Duration::from_millis(self.dice.below(60)));
    }

    fn step(&mut self, number: usize, seed: u64) {
        let (lock, worker) = &mut self.workers[number];
        *worker = match std::mem::replace(worker, Worker::Idle) {
            Worker::Idle if self.dice.per_mille(300) => {
                let lock = lock.clone();
                Worker::Acquiring(Box::pin(async move { lock.acquire().await.ok() }))
            }
            Worker::Idle => Worker::Idle,
            // Dropped while it waits: a cancelled request.
            Worker::Acquiring(_) if self.dice.per_mille(20) => Worker::Idle,
            Worker::Acquiring(mut future) => match poll::once(future.as_mut()) {
                None => Worker::Acquiring(future),
                Some(None) => Worker::Idle,
                Some(Some(guard)) => {
                    assert!(self.newest < Some(guard.token()), "a token fell, seed {seed}");
                    self.newest = Some(guard.token());
                    self.grants += 1;
                    Worker::Holding(guard)
                }
            },
            Worker::Holding(guard) if self.dice.per_mille(150) => {
                drop(guard);
                Worker::Idle
            }
            Worker::Holding(guard) => Worker::Holding(guard),
        };
    }

    fn check(&self, seed: u64) {
        let holds = |(_, worker): &&(Lock, Worker)| matches!(worker, Worker::Holding(guard) if guard.is_held());
        assert!(self.workers.iter().filter(holds).count() <= 1, "two holders, seed {seed}");
    }
}

/// How many were granted in all.
fn live_through(crowd: Crowd) -> u64 {
    let mut grants = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed, crowd);
        for _ in 0..TURNS {
            world.turn(seed);
        }
        world.workers.clear();
        world.nodes.iter().for_each(|node| node.set_link(Link::Up));
        world.nodes.iter().for_each(|node| node.set_faults(Faults::default()));
        world.clock.turn(TTL * 4);
        assert_eq!((world.nodes.rows_in_use(), world.nodes.under_way()), (0, 0), "left behind, seed {seed}");
        assert_eq!(world.clock.next_alarm(), None, "something goes on for ever, seed {seed}");
        grants += world.grants;
    }
    grants
}

#[test]
fn never_two_holders_and_never_a_lower_token_whatever_the_network_does() {
    let grants = live_through(Crowd::Programs);
    assert!(grants > SEEDS * 5, "{grants} grants in {SEEDS} runs: the test shows little");
}

#[test]
fn the_same_holds_for_guests_of_one_service_that_go_with_each_others_releases() {
    let grants = live_through(Crowd::Guests);
    assert!(grants > SEEDS * 5, "{grants} grants in {SEEDS} runs: the test shows little");
}
