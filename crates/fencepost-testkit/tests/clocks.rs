//! Clients that take the wrong time for the store's, in virtual time.

use std::time::Duration;

use fencepost_core::store::{self, Memory};
use fencepost_core::{Blocking, Locks, VirtualClock};
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
