//! Nodes that vote, in virtual time: what a quorum promises when some of it is dead, slow, late or forgetful.

use std::pin::pin;
use std::time::Duration;

use fencepost_core::store::Step;
use fencepost_core::{AcquireError, Blocking, Locks, StoreErrorKind, VirtualClock, Vote};
use fencepost_testkit::faulty::{Faults, Link};
use fencepost_testkit::nodes::{Nodes, memory};
use fencepost_testkit::poll;

const TTL: Duration = Duration::from_secs(10);
/// The deadline of one request to one node: the smaller of 50 ms and 5 % of the ttl.
const ANSWER_WITHIN: Duration = Duration::from_millis(50);

fn world(count: usize, faults: Faults) -> (VirtualClock, Nodes) {
    let clock = VirtualClock::new();
    let nodes = Nodes::new(count, &clock.clock(), 5, faults);
    (clock, nodes)
}

fn locks(clock: &VirtualClock, nodes: &Nodes, label: &str) -> Locks {
    nodes.connect().clock(clock).ttl(TTL).label(label).block().expect("memory is there")
}

#[test]
fn an_uncontended_lock_takes_one_request_and_one_release_per_node() {
    let (clock, nodes) = world(5, Faults::default());
    let locks = locks(&clock, &nodes, "one");
    for _ in 0..10 {
        locks.lock("x").acquire().block().expect("free").release().block().expect("released");
        clock.turn(Duration::from_millis(1));
    }
    for node in nodes.iter() {
        assert_eq!(node.store().steps().len(), 20);
    }
}

#[test]
fn a_silent_minority_is_not_waited_for() {
    let (clock, nodes) = world(5, Faults::default());
    nodes.set_links(2, Link::Silent);
    let locks = locks(&clock, &nodes, "one");
    // Time stands still: had it waited for anybody, this would never return.
    let guard = locks.lock("x").acquire().block().expect("three of five");
    let granted = guard.votes().iter().filter(|vote| vote.vote == Vote::Granted).count();
    assert_eq!((guard.votes().len(), granted), (5, 3));
    guard.release().block().expect("three confirmed");
}

#[test]
fn a_semaphore_on_a_silent_majority_is_an_error_at_the_deadline_too() {
    let (clock, nodes) = world(5, Faults::default());
    nodes.set_links(3, Link::Silent);
    let locks = locks(&clock, &nodes, "one");
    for take in [1, 2] {
        let lock = locks.semaphore("x", 5).take(take).wait_at_most(Duration::from_millis(30));
        let mut acquiring = pin!(lock.acquire());
        assert!(poll::once(acquiring.as_mut()).is_none());
        clock.turn(ANSWER_WITHIN);
        let Some(Err(AcquireError::Store(error))) = poll::once(acquiring.as_mut()) else { panic!("not in time") };
        assert_eq!(error.kind, StoreErrorKind::TooSlow);
    }
}

#[test]
fn a_silent_majority_is_an_error_at_the_deadline_that_names_every_node() {
    let (clock, nodes) = world(5, Faults::default());
    nodes.set_links(3, Link::Silent);
    let locks = locks(&clock, &nodes, "one");
    let lock = locks.lock("x");
    let mut acquiring = pin!(lock.acquire());
    assert!(poll::once(acquiring.as_mut()).is_none());
    clock.turn(ANSWER_WITHIN);
    let Some(Err(AcquireError::Store(error))) = poll::once(acquiring.as_mut()) else { panic!("not in time") };
    assert_eq!(error.kind, StoreErrorKind::TooSlow);
    assert!(error.is_retryable() && error.outcome_unknown());
    let votes: Vec<(&str, &Vote)> = error.votes.iter().map(|vote| (vote.node.as_str(), &vote.vote)).collect();
    let silent = Vote::Failed(StoreErrorKind::TooSlow);
    assert_eq!(
        votes,
        [
            ("node-0", &silent),
            ("node-1", &silent),
            ("node-2", &silent),
            ("node-3", &Vote::Granted),
            ("node-4", &Vote::Granted)
        ]
    );
    clock.turn(ANSWER_WITHIN);
    assert_eq!(nodes.rows_in_use(), 0, "what two nodes granted was given back");
}

#[test]
fn a_late_acquire_after_its_own_release_leaves_no_ghost() {
    let faults = Faults { delay: 1000, delay_max: Duration::from_millis(400), ..Faults::default() };
    for seed in 0..200 {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(3, &clock.clock(), seed, faults);
        let locks = locks(&clock, &nodes, "one");
        let lock = locks.lock("x");
        {
            let mut acquiring = pin!(lock.acquire());
            assert!(poll::once(acquiring.as_mut()).is_none());
            clock.turn(Duration::from_millis(seed % 60));
        }
        // Requests and releases overtake each other; the ttl is far away.
        clock.turn(Duration::from_secs(2));
        assert_eq!((nodes.rows_in_use(), nodes.under_way()), (0, 0), "seed {seed}");
    }
}

#[test]
fn a_node_that_forgot_grants_nothing_until_its_quarantine_is_over() {
    let (clock, nodes) = world(3, Faults::default());
    let (first, second) = (locks(&clock, &nodes, "first"), locks(&clock, &nodes, "second"));
    nodes.set_links(1, Link::Refused);
    let guard = first.lock("x").acquire().block().expect("two of three");
    nodes.set_links(1, Link::Up);
    memory(nodes.node(1)).forget(Duration::from_secs(60));
    // Node 0 never knew of the hold, node 1 forgot it: without quarantine they would be a majority.
    match second.lock("x").acquire().block() {
        Err(AcquireError::Busy { .. } | AcquireError::Store(_)) => {}
        other => panic!("{other:?}"),
    }
    assert!(guard.is_held());
    drop(guard);
    clock.turn(Duration::from_secs(61));
    assert!(second.lock("x").try_acquire().block().expect("an answer").is_some());
}

#[test]
fn a_majority_in_quarantine_is_an_error_that_says_how_long() {
    let (clock, nodes) = world(5, Faults::default());
    nodes.iter().take(3).for_each(|node| memory(node).forget(Duration::from_secs(60)));
    clock.turn(Duration::from_secs(18));
    match locks(&clock, &nodes, "one").lock("x").acquire().block() {
        Err(AcquireError::Store(error)) => {
            assert_eq!(error.kind, StoreErrorKind::Quarantined { left: Duration::from_secs(42) });
            assert!(!error.outcome_unknown() && error.is_retryable());
            assert!(error.to_string().contains("42s"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn claims_that_split_the_votes_yield_and_one_of_them_wins_at_once() {
    // Each message takes its own time, so that the nodes hear the claims in different orders.
    let faults = Faults { delay: 1000, delay_max: Duration::from_millis(3), ..Faults::default() };
    let mut contended = 0;
    for seed in 0..300 {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(5, &clock.clock(), seed, faults);
        let claims: Vec<_> = (0..4)
            .map(|number| {
                let locks = nodes.connect().clock(&clock).seed(seed * 8 + number).ttl(TTL);
                let lock = locks.block().expect("memory is there").lock("x").wait_forever();
                Box::pin(async move { lock.acquire().await.expect("its turn") })
            })
            .collect();
        let mut claims = claims;
        let mut held = Vec::new();
        for _ in 0..4000 {
            claims.retain_mut(|claim| match poll::once(claim.as_mut()) {
                Some(guard) => {
                    assert!(held.is_empty(), "two holders, seed {seed}");
                    held.push(guard);
                    false
                }
                None => true,
            });
            if let Some(guard) = held.pop() {
                drop(guard);
            }
            if claims.is_empty() {
                break;
            }
            clock.turn(Duration::from_millis(1));
        }
        assert!(claims.is_empty(), "{} claims starve, seed {seed}", claims.len());
        let given_back =
            |node: &fencepost_testkit::nodes::Node| node.store().count(|step| matches!(step, Step::GiveBack { .. }));
        contended += usize::from(nodes.iter().map(given_back).sum::<usize>() > 0);
        clock.turn(Duration::from_secs(1));
        assert_eq!(nodes.rows_in_use(), 0, "seed {seed}");
    }
    assert!(contended > 30, "votes were split in {contended} of 300 runs only: the test shows little");
}

#[test]
fn one_node_that_hands_over_alone_does_not_keep_a_claim_from_asking_the_others() {
    let (clock, nodes) = world(5, Faults::default());
    let (first, second) = (locks(&clock, &nodes, "first"), locks(&clock, &nodes, "second"));
    let guard = first.lock("x").acquire().block().expect("free");
    let lock = second.lock("x").wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    // Four of five hand over too, but their word is lost.
    nodes.iter().skip(1).for_each(|node| node.set_link(Link::Deaf));
    drop(guard);
    nodes.iter().for_each(|node| node.set_link(Link::Up));
    clock.turn(ANSWER_WITHIN * 2);
    assert!(poll::once(waiting.as_mut()).expect("decided").expect("granted").is_held());
}

#[test]
fn a_client_whose_clock_is_off_neither_poisons_a_lock_nor_is_shut_out() {
    // The nodes say what time it is, so a client learns it; its own calendar does not matter.
    let (clock, nodes) = world(3, Faults::default());
    let sane = locks(&clock, &nodes, "sane");
    for years in [-1_i64, 74] {
        let odd = VirtualClock::new();
        let shift = Duration::from_secs(years.unsigned_abs() * 31_556_952);
        let wall = odd.clock().wall();
        odd.set_wall(if years < 0 { wall - shift } else { wall + shift });
        let odd = nodes.connect().clock(&odd).ttl(TTL).block().expect("memory is there");
        let guard = odd.lock("x").acquire().block().expect("free");
        let token = guard.token();
        guard.release().block().expect("released");
        let next = sane.lock("x").acquire().block().expect("not poisoned");
        assert!(next.token() > token);
        drop(next);
    }
}

#[test]
fn stores_that_mint_their_own_tokens_may_not_vote_together() {
    let (clock, _) = world(1, Faults::default());
    let time = clock.clock();
    let connect = fencepost_core::store::connect(move |_| {
        Ok(vec![fencepost_core::store::Memory::new(time.clone()), fencepost_core::store::Memory::new(time)])
    });
    let error = connect.clock(&clock).block().expect_err("refused");
    assert_eq!(error.kind, StoreErrorKind::Misconfigured);
}
