//! Random back-off in virtual time: when it asks, and when it stops.

use std::pin::pin;
use std::time::Duration;

use fencepost_core::store::Step;
use fencepost_core::{AcquireError, Blocking, VirtualClock};
use fencepost_testkit::faulty::Faults;
use fencepost_testkit::nodes::Nodes;
use fencepost_testkit::poll;

const MS: Duration = Duration::from_millis(1);
const TTL: Duration = Duration::from_secs(30);
/// The longest pause between two tries.
const PAUSE_MAX: u32 = 200;

/// One who holds and one who waits, unfairly: the milliseconds at which the latter asked, and when it was refused.
fn asks(count: usize, seed: u64, wait: Duration) -> (Vec<u32>, u32) {
    let clock = VirtualClock::new();
    let nodes = Nodes::new(count, &clock.clock(), seed, Faults::default());
    let locks = |label: &str, number| {
        let connect = nodes.connect().clock(&clock).seed(seed * 8 + number).ttl(TTL).label(label);
        connect.block().expect("memory is there")
    };
    let (holding, waiting) = (locks("holding", 0), locks("waiting", 1));
    let _held = holding.lock("x").acquire().block().expect("free");
    let seen = || nodes.node(0).store().count(|step| matches!(step, Step::Acquire { .. }));
    let lock = waiting.lock("x").unfair().wait_at_most(wait);
    let mut acquiring = pin!(lock.acquire());
    let (mut asked, mut before) = (Vec::new(), seen());
    for at in 0.. {
        let answer = poll::once(acquiring.as_mut());
        // Two tries within a millisecond count once.
        if seen() > before {
            asked.push(at);
            before = seen();
        }
        match answer {
            None => clock.turn(MS),
            Some(Err(AcquireError::Busy { waited, holder, .. })) => {
                assert_eq!((waited, holder.expect("known").label.as_str()), (wait, "holding"));
                return (asked, at);
            }
            Some(other) => panic!("{other:?}"),
        }
    }
    unreachable!("BUG: it waits in time");
}

#[test]
fn an_unfair_wait_is_over_to_the_millisecond() {
    for (count, seed) in [1, 3, 5].into_iter().flat_map(|count| (0..20).map(move |seed| (count, seed))) {
        for wait in [1, 199, 200, 1_000] {
            let (_, refused_at) = asks(count, seed, MS * wait);
            assert_eq!(refused_at, wait, "{count} nodes, seed {seed}");
        }
    }
}

#[test]
fn pauses_are_random_and_bounded() {
    for count in [1, 5] {
        let mut pauses = Vec::new();
        for seed in 0..10 {
            let (asked, _) = asks(count, seed, MS * 10_000);
            assert_eq!(asked[0], 0, "the first try is at once");
            pauses.extend(asked.windows(2).map(|pair| pair[1] - pair[0]));
        }
        let mean = pauses.iter().sum::<u32>() / u32::try_from(pauses.len()).expect("a few");
        assert!(pauses.iter().all(|pause| *pause <= PAUSE_MAX + 1), "{:?}", pauses.iter().max());
        assert!((80..=120).contains(&mean), "{mean} ms on average");
        let short = pauses.iter().filter(|pause| **pause < PAUSE_MAX / 4).count();
        let long = pauses.iter().filter(|pause| **pause > PAUSE_MAX * 3 / 4).count();
        assert!(short * 10 > pauses.len() && long * 10 > pauses.len(), "{short} short, {long} long: not random");
    }
}
