//! Cancel safety: a future dropped at any await leaves nothing behind, and no renewal is ever sent afterwards.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use fencepost_core::store::Step;
use fencepost_core::{Blocking, Guard, Locks, VirtualClock};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::faulty::Faults;
use fencepost_testkit::nodes::{Kind, Nodes};
use fencepost_testkit::poll;

const CASES: u64 = 10_000;
const TTL: Duration = Duration::from_secs(30);

type Working = Pin<Box<dyn Future<Output = ()>>>;

/// One worker: acquires, works for a moment, renews, releases; any of its awaits may be the last.
async fn worker(locks: Locks, waits: bool) {
    let lock = locks.lock("x");
    let lock = if waits { lock.wait_forever() } else { lock };
    let Ok(guard) = lock.acquire().await else { return };
    let _ = guard.renew().await;
    work(&guard).await;
    let _ = guard.release().await;
}

async fn work(guard: &Guard) {
    let mut steps = 3;
    std::future::poll_fn(|_| match steps {
        0 => std::task::Poll::Ready(()),
        _ => {
            steps -= 1;
            assert!(guard.is_held());
            std::task::Poll::Pending
        }
    })
    .await;
}

/// Some workers on one lock, each dropped after a random number of polls.
fn case(seed: u64) -> BTreeMap<&'static str, u64> {
    let mut dice = Dice::new(seed);
    let clock = VirtualClock::new();
    let kind = [Kind::InOrder, Kind::Bounded, Kind::Voting(3), Kind::Voting(5)][dice.below(4) as usize];
    let delay_max = Duration::from_millis(20);
    let in_order = kind.in_order();
    let faults = Faults { delay: 900, duplicate: 100, lose: 0, delay_max, in_order, answers_only: false };
    let nodes = Nodes::of(kind, &clock.clock(), seed, faults);
    let workers = 1 + dice.below(3);
    let mut futures: Vec<(u64, Working)> = (0..workers)
        .map(|number| {
            let locks = nodes.connect().clock(&clock).seed(seed * 8 + number).ttl(TTL);
            let locks = locks.block().expect("memory is there");
            let future: Working = Box::pin(worker(locks, dice.per_mille(700)));
            (dice.below(40), future)
        })
        .collect();
    let mut tally = BTreeMap::new();
    while !futures.is_empty() {
        futures.retain_mut(|(polls_left, future)| {
            let fate = match (*polls_left, poll::once(future.as_mut())) {
                (_, Some(())) => "finished",
                (0, None) => "dropped",
                _ => {
                    *polls_left -= 1;
                    return true;
                }
            };
            *tally.entry(fate).or_default() += 1;
            false
        });
        clock.turn(Duration::from_millis(dice.below(8)));
    }
    // Long before the ttl: nothing waits for an expiry.
    clock.turn(Duration::from_secs(2));
    if nodes.rows_in_use() > 0 {
        for n in nodes.iter() {
            eprintln!("NODE {}", fencepost_testkit::nodes::memory(n).rows_in_use());
            for s in n.store().steps() {
                eprintln!("  {s:?}");
            }
        }
    }
    assert_eq!((nodes.rows_in_use(), nodes.under_way()), (0, 0), "left behind, seed {seed}");
    let renewals = |nodes: &Nodes| -> usize {
        nodes.iter().map(|node| node.store().count(|step| matches!(step, Step::Renew { .. }))).sum()
    };
    let sent = renewals(&nodes);
    clock.turn(TTL * 3);
    assert_eq!(renewals(&nodes), sent, "renewed after the end, seed {seed}");
    let locks = nodes.connect().clock(&clock).ttl(TTL).block().expect("memory is there");
    let lock = locks.lock("x");
    let mut next = Box::pin(lock.acquire());
    clock.turn(Duration::from_millis(0));
    let mut granted = poll::once(next.as_mut());
    for _ in 0..200 {
        if granted.is_some() {
            break;
        }
        clock.turn(Duration::from_millis(1));
        granted = poll::once(next.as_mut());
    }
    assert!(granted.expect("an answer").expect("the lock is free").is_held());
    tally
}

#[test]
fn futures_dropped_at_random_awaits_leave_nothing_behind() {
    let mut tally: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..CASES {
        for (fate, count) in case(seed) {
            *tally.entry(fate).or_default() += count;
        }
    }
    assert!(tally["dropped"] > CASES / 2, "{tally:?}");
    assert!(tally["finished"] > CASES / 10, "{tally:?}");
}
