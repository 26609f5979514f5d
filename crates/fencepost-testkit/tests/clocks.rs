//! Clients that take the wrong time for the store's, in virtual time.

use std::pin::Pin;
use std::time::Duration;

use fencepost_core::store::{self, Memory};
use fencepost_core::{AcquireError, Blocking, FencingToken, Guard, Locks, VirtualClock};
use fencepost_testkit::faulty::{Faults, Faulty};
use fencepost_testkit::poll;
use fencepost_testkit::skewed::Skewed;

const TTL: Duration = Duration::from_secs(10);

/// A client of these nodes that is so many milliseconds ahead of them, or behind.
fn client<S: store::Store + Clone>(clock: &VirtualClock, nodes: &[S], by_ms: i64) -> Locks {
    let nodes: Vec<_> = nodes.iter().map(|node| Skewed::new(node.clone(), by_ms)).collect();
    store::connect(move |_| Ok(nodes)).clock(clock).ttl(TTL).block().expect("memory is there")
}

/// A token of the nodes' present would be of their past when it arrives. Clients that learn nothing from answers either.
#[test]
fn a_client_that_is_far_behind_the_nodes_gets_the_lock_by_the_second_try() {
    for (count, behind_ms) in
        [1, 3, 5].into_iter().flat_map(|count| [4_000, 5_500, 8_000, 60_000].map(|ms| (count, ms)))
    {
        let clock = VirtualClock::new();
        let faults = Faults { delay: 1000, delay_max: Duration::from_millis(20), in_order: true, ..Faults::default() };
        let node = |number: usize| {
            let memory = Memory::node(clock.clock(), &format!("node-{number}"));
            Faulty::new(memory, clock.clock(), number as u64, faults)
        };
        let nodes: Vec<_> = (0..count).map(node).collect();
        let behind = client(&clock, &nodes, -behind_ms);
        for round in 0..3 {
            let lock = behind.lock("x");
            let mut acquiring = Box::pin(async move { lock.acquire().await });
            let mut answer = None;
            // There and back, twice.
            for _ in 0..=80 {
                answer = answer.or_else(|| poll::once(acquiring.as_mut()));
                clock.turn(Duration::from_millis(1));
            }
            let guard =
                answer.unwrap_or_else(|| panic!("{count} nodes, {behind_ms} ms behind, round {round}: no answer"));
            let guard =
                guard.unwrap_or_else(|error| panic!("{count} nodes, {behind_ms} ms behind, round {round}: {error}"));
            drop(guard);
            clock.turn(Duration::from_secs(1));
        }
    }
}

type Waiting = Pin<Box<dyn Future<Output = Result<Guard<FencingToken>, AcquireError>>>>;

/// A line before one lock.
struct Line {
    clock: VirtualClock,
    waiting: Vec<(usize, Waiting)>,
}

impl Line {
    fn new(clock: &VirtualClock) -> Self {
        Self { clock: clock.clone(), waiting: Vec::new() }
    }

    /// The next one joins.
    fn join(&mut self, locks: &Locks) {
        let lock = locks.lock("x").wait_forever();
        let mut waiting: Waiting = Box::pin(async move { lock.acquire().await });
        assert!(poll::once(waiting.as_mut()).is_none());
        self.waiting.push((self.waiting.len(), waiting));
    }

    /// Everybody in the order served, as numbers of arrival. Each holds for a moment: two requests of one moment have no order.
    fn served(mut self) -> Vec<usize> {
        let mut order = Vec::new();
        for _ in 0..60_000 {
            let served = order.len();
            self.waiting.retain_mut(|(number, waiting)| {
                let guard = if order.len() == served { poll::once(waiting.as_mut()) } else { None };
                let Some(guard) = guard else { return true };
                order.push(*number);
                self.clock.turn(Duration::from_millis(1));
                drop(guard.expect("its turn"));
                false
            });
            self.clock.turn(Duration::from_millis(1));
        }
        assert!(self.waiting.is_empty(), "{} were never served, after {order:?}", self.waiting.len());
        order
    }
}

/// Two that mint their tokens, in order and by bounds, and one that is proposed to.
fn single_stores(clock: &VirtualClock) -> [Memory; 3] {
    [Memory::new(clock.clock()), Memory::bounded(clock.clock()), Memory::node(clock.clock(), "node")]
}

#[test]
fn one_store_serves_in_the_order_in_which_claims_reach_it_whatever_clients_take_for_the_time() {
    for minting in [0, 1, 2] {
        let clock = VirtualClock::new();
        let store = &single_stores(&clock)[minting..=minting];
        let guard = client(&clock, store, 0).lock("x").acquire().block().expect("free");
        let skews = [0, -4_000, 4_000, -50, 50, 1, -1, 3_000, -3_000, 0];
        let clients = skews.map(|by_ms| client(&clock, store, by_ms));
        let mut line = Line::new(&clock);
        clients.iter().for_each(|locks| line.join(locks));
        drop(guard);
        assert_eq!(line.served(), (0..skews.len()).collect::<Vec<_>>());
    }
}

/// Only the first of a process is in line at the store; those behind it keep the time of their arrival.
#[test]
fn claims_of_one_process_and_of_others_are_served_in_order_of_arrival() {
    for minting in [0, 1, 2] {
        let clock = VirtualClock::new();
        let store = &single_stores(&clock)[minting..=minting];
        let [holding, one, other] = [0, 0, 0].map(|by_ms| client(&clock, store, by_ms));
        let guard = holding.lock("x").acquire().block().expect("free");
        let mut line = Line::new(&clock);
        for locks in [&one, &one, &other, &one, &other, &other, &one] {
            line.join(locks);
            clock.turn(Duration::from_millis(1));
        }
        drop(guard);
        assert_eq!(line.served(), [0, 1, 2, 3, 4, 5, 6]);
    }
}

/// As after a failover: each comes back with the place that it was given, in whatever order they come.
#[test]
fn a_line_that_the_store_forgot_stands_again_in_its_old_order() {
    for minting in [0, 1, 2] {
        let clock = VirtualClock::new();
        let store = &single_stores(&clock)[minting..=minting];
        let guard = client(&clock, store, 0).lock("x").acquire().block().expect("free");
        let clients = [0; 4].map(|by_ms| client(&clock, store, by_ms));
        let mut line = Line::new(&clock);
        for locks in &clients {
            line.join(locks);
            clock.turn(Duration::from_millis(300));
        }
        // They ask again once a second: by now the second is the next to do so.
        clock.turn(Duration::from_millis(50));
        store[0].forget(Duration::ZERO);
        guard.renew().block().expect("nobody had it since");
        clock.turn(Duration::from_secs(5));
        drop(guard);
        assert_eq!(line.served(), [0, 1, 2, 3]);
    }
}
