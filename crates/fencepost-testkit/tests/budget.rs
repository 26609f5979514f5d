//! One time for all requests of an acquisition, in virtual time: whatever the store keeps to itself.

use std::pin::Pin;
use std::time::Duration;

use fencepost_core::{AcquireError, Actor, Blocking, Locks, VirtualClock};
use fencepost_testkit::faulty::{Faults, Link};
use fencepost_testkit::nodes::Nodes;
use fencepost_testkit::poll;

const TTL: Duration = Duration::from_secs(3);
const WAIT: Duration = Duration::from_millis(30);
/// So much later than told is in time.
const SLACK: Duration = Duration::from_millis(20);
/// What one node has to answer: half of the ttl. Nodes that vote have 50 ms for each of three rounds.
const ONE_ANSWER: Duration = Duration::from_millis(1_500);
const THREE_ROUNDS: Duration = Duration::from_millis(150);

type Acquiring = Pin<Box<dyn Future<Output = Result<(), AcquireError>>>>;

struct World {
    clock: VirtualClock,
    nodes: Nodes,
}

impl World {
    fn new(count: usize, seed: u64) -> Self {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(count, &clock.clock(), seed, Faults::default());
        Self { clock, nodes }
    }

    fn locks(&self, seed: u64) -> Locks {
        self.nodes.connect().clock(&self.clock).seed(seed).ttl(TTL).block().expect("memory is there")
    }

    /// How long it takes, and what comes of it.
    fn time(&self, mut acquiring: Acquiring) -> (Duration, Result<(), AcquireError>) {
        let step = Duration::from_millis(1);
        for took in 0.. {
            if let Some(answer) = poll::once(acquiring.as_mut()) {
                return (step * took, answer);
            }
            self.clock.turn(step);
        }
        unreachable!("BUG: time has no end")
    }
}

/// Every kind that is made of several requests, with this wait.
fn kinds(locks: &Locks, wait: Duration) -> Vec<(&'static str, Acquiring)> {
    let (all, one) = (locks.all_of(["a", "b", "c"]), locks.semaphore("s", 5));
    let (some, unfair) = (locks.semaphore("s", 5).take(3), locks.semaphore("s", 5).unfair());
    let (all, one, some, unfair) =
        (all.wait_at_most(wait), one.wait_at_most(wait), some.wait_at_most(wait), unfair.wait_at_most(wait));
    vec![
        ("several names", Box::pin(async move { all.acquire().await.map(drop) })),
        ("one permit", Box::pin(async move { one.acquire().await.map(drop) })),
        ("some permits", Box::pin(async move { some.acquire().await.map(drop) })),
        ("an unfair permit", Box::pin(async move { unfair.acquire().await.map(drop) })),
    ]
}

fn is_on_time(took: Duration, wait: Duration) -> bool {
    took >= wait && took <= wait + SLACK
}

#[test]
fn a_wait_ends_in_time_while_the_store_is_silent() {
    for count in [1, 3, 5] {
        for kind in 0..4 {
            let world = World::new(count, 1);
            let locks = world.locks(1);
            world.nodes.set_links(count, Link::Silent);
            let (name, acquiring) = kinds(&locks, WAIT).swap_remove(kind);
            let (took, answer) = world.time(acquiring);
            assert!(is_on_time(took, WAIT), "{name} on {count} nodes: {took:?}");
            assert!(matches!(answer, Err(AcquireError::Store(_))), "{name} on {count} nodes: {answer:?}");
        }
    }
}

#[test]
fn a_wait_ends_in_time_if_the_store_falls_silent_on_the_way() {
    for (count, seed) in [1, 3, 5].into_iter().flat_map(|count| (0..40).map(move |seed| (count, seed))) {
        for kind in 0..4 {
            let world = World::new(count, seed);
            let (holding, locks) = (world.locks(1), world.locks(2));
            let _b = holding.lock("b").acquire().block().expect("free");
            let _s = holding.semaphore("s", 5).take(5).acquire().block().expect("free");
            let slow = Faults { delay: 900, delay_max: Duration::from_millis(8), in_order: true, ..Faults::default() };
            world.nodes.iter().for_each(|node| node.set_faults(slow));
            let (name, mut acquiring) = kinds(&locks, WAIT).swap_remove(kind);
            let before = Duration::from_millis(seed % 20);
            for _ in 0..before.as_millis() {
                assert!(poll::once(acquiring.as_mut()).is_none(), "{name} on {count} nodes, seed {seed}");
                world.clock.turn(Duration::from_millis(1));
            }
            world.nodes.set_links(count, Link::Silent);
            let (took, answer) = world.time(acquiring);
            assert!(is_on_time(before + took, WAIT), "{name} on {count} nodes, seed {seed}: {:?}", before + took);
            assert!(answer.is_err(), "{name} on {count} nodes, seed {seed}");
        }
    }
}

#[test]
fn a_try_has_one_deadline_and_not_one_per_slot() {
    for (count, limit) in [(1, ONE_ANSWER), (3, THREE_ROUNDS), (5, THREE_ROUNDS)] {
        for seed in 0..60 {
            for kind in 0..4 {
                let world = World::new(count, seed);
                let locks = world.locks(seed);
                let delay_max = limit * 2 / 5;
                let slow = Faults { delay: 1000, delay_max, in_order: true, ..Faults::default() };
                world.nodes.iter().for_each(|node| node.set_faults(slow));
                let (name, acquiring) = kinds(&locks, Duration::ZERO).swap_remove(kind);
                let (took, _) = world.time(acquiring);
                assert!(took <= limit + SLACK, "{name} on {count} nodes, seed {seed}: {took:?}");
            }
        }
    }
}

/// The other task's request may take longer than we wait.
#[test]
fn who_joins_its_actors_request_waits_no_longer_than_told() {
    for count in [1, 3, 5] {
        let world = World::new(count, 1);
        let (locks, me) = (world.locks(1), Actor::new());
        world.nodes.set_links(count, Link::Silent);
        let patient = locks.lock("b").by(&me).wait_forever();
        let mut patient: Acquiring = Box::pin(async move { patient.acquire().await.map(drop) });
        assert!(poll::once(patient.as_mut()).is_none());
        let wait = Duration::from_millis(10);
        let (all, one) = (locks.all_of(["a", "b"]).by(&me), locks.lock("b").by(&me));
        let (all, one) = (all.wait_at_most(wait), one.wait_at_most(wait));
        let all: Acquiring = Box::pin(async move { all.acquire().await.map(drop) });
        let one: Acquiring = Box::pin(async move { one.acquire().await.map(drop) });
        for (name, joining) in [("all of several", all), ("one", one)] {
            let (took, answer) = world.time(joining);
            assert!(is_on_time(took, wait), "{name} on {count} nodes: {took:?}");
            assert!(answer.is_err(), "{name} on {count} nodes");
        }
    }
}

/// As whoever waits for one lock does.
#[test]
fn whoever_waits_rides_out_an_outage_of_five_seconds() {
    for (count, link) in [1, 3, 5].into_iter().flat_map(|count| [(count, Link::Silent), (count, Link::Refused)]) {
        for kind in 0..4 {
            let world = World::new(count, 1);
            let locks = world.locks(1);
            world.nodes.set_links(count, link);
            let (name, mut acquiring) = kinds(&locks, Duration::from_secs(60)).swap_remove(kind);
            for _ in 0..490 {
                assert!(poll::once(acquiring.as_mut()).is_none(), "{name} on {count} nodes, {link:?}");
                world.clock.turn(Duration::from_millis(10));
            }
            world.nodes.set_links(count, Link::Up);
            let (_, answer) = world.time(acquiring);
            assert!(answer.is_ok(), "{name} on {count} nodes, {link:?}: {answer:?}");
            world.clock.turn(TTL * 2);
            assert_eq!(world.nodes.rows_in_use(), 0, "{name} on {count} nodes, {link:?}");
        }
    }
}
