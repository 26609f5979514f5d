//! Nodes that vote, in virtual time: what a quorum promises when some of it is dead, slow, late or forgetful.

use std::pin::pin;
use std::time::Duration;

use fencepost_core::store::{self, Answer, Proposal, Step};
use fencepost_core::{
    AcquireError, Blocking, Event, EventKind, Feed, FencingToken, Locks, LossReason, ReleaseOutcome, RenewError,
    StoreErrorKind, VirtualClock, Vote,
};
use fencepost_testkit::contract::wait_for;
use fencepost_testkit::faulty::{Faults, Faulty, Link};
use fencepost_testkit::nodes::{Nodes, memory};
use fencepost_testkit::{poll, steps};

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

/// A failed attempt leaves its token on the one node that had no holder. It was granted to nobody.
#[test]
fn a_token_that_only_a_minority_accepted_is_not_the_last() {
    for (count, apart) in [(3, 1), (5, 2)] {
        let (clock, nodes) = world(count, Faults::default());
        let (first, second) = (locks(&clock, &nodes, "first"), locks(&clock, &nodes, "second"));
        nodes.set_links(apart, Link::Refused);
        let guard = first.lock("x").acquire().block().expect("a majority");
        nodes.set_links(apart, Link::Up);
        clock.turn(Duration::from_millis(1));
        assert!(second.lock("x").try_acquire().block().expect("an answer").is_none());
        second.check("x", guard.token()).block().expect("the newest there is");
        let state = second.inspect("x").block().expect("read");
        assert_eq!(state.last_token, Some(guard.token()));
        assert_eq!(state.holders.iter().map(|holder| holder.token).collect::<Vec<_>>(), [Some(guard.token())]);
    }
}

/// Answers of one majority that do not agree are not believed before the rest had time to say what it knows.
#[test]
fn the_holder_is_whom_the_majority_names_even_if_a_minority_answers_first() {
    let (clock, nodes) = world(3, Faults::default());
    let (first, second) = (locks(&clock, &nodes, "first"), locks(&clock, &nodes, "second"));
    nodes.set_links(1, Link::Refused);
    let guard = first.lock("x").acquire().block().expect("two of three");
    nodes.set_links(1, Link::Up);
    // An older attempt of the same owner reached the first node late, under a higher token.
    let Some(Step::Acquire { claim, .. }) = nodes.node(1).store().steps().first().cloned() else { panic!("no claim") };
    clock.turn(Duration::from_millis(1));
    let higher = Proposal::Exactly(guard.token().offset(2 << 10));
    let step = Step::Acquire { claim, attempt: 9, token: higher, unify: false };
    assert!(matches!(steps::run(memory(nodes.node(0)), step), Ok(Answer::Granted { token }) if token > guard.token()));
    // The node that makes the majority is slow.
    let slow = Faults { delay: 1000, delay_max: Duration::from_millis(40), ..Faults::default() };
    nodes.node(1).set_faults(slow);
    let mut checking = pin!(second.check("x", guard.token()));
    assert!(poll::once(checking.as_mut()).is_none(), "two of three do not agree");
    clock.turn(Duration::from_millis(100));
    assert!(matches!(poll::once(checking.as_mut()), Some(Ok(()))));
    let mut evicting = pin!(second.force_release("x", "test"));
    for _ in 0..4 {
        clock.turn(Duration::from_millis(50));
        if let Some(thrown_out) = poll::once(evicting.as_mut()) {
            assert_eq!(thrown_out.expect("an answer").holder.and_then(|holder| holder.token), Some(guard.token()));
            return;
        }
    }
    panic!("no answer");
}

#[test]
fn a_release_by_force_names_the_nodes_that_did_not_confirm_it() {
    let (clock, nodes) = world(5, Faults::default());
    let (first, operator) = (locks(&clock, &nodes, "first"), locks(&clock, &nodes, "operator"));
    for (silent, link) in [(0, Link::Up), (2, Link::Silent), (2, Link::Refused)] {
        nodes.set_links(5, Link::Up);
        clock.turn(Duration::from_millis(1));
        let guard = first.lock("x").acquire().block().expect("free");
        nodes.set_links(silent, link);
        let mut forcing = pin!(operator.force_release("x", "test"));
        let forced = (0..100).find_map(|_| {
            let forced = poll::once(forcing.as_mut());
            clock.turn(Duration::from_millis(50));
            forced
        });
        let forced = forced.expect("in time").expect("a majority confirmed it");
        assert_eq!(forced.holder.and_then(|holder| holder.token), Some(guard.token()));
        let named: Vec<&str> = forced.unreached.iter().map(|vote| vote.node.as_str()).collect();
        let meant: Vec<&str> = guard.votes()[..silent].iter().map(|vote| vote.node.as_str()).collect();
        assert_eq!(named, meant, "{link:?}");
        drop(guard);
    }
}

/// What a hold's own nodes say decides, whichever of them answers first.
#[test]
fn a_loss_that_a_majority_knows_of_is_found_by_the_release_whoever_answers_first() {
    for reached in [[0, 1], [0, 2], [1, 2]] {
        for first_to_answer in 0..3 {
            let (clock, nodes) = world(3, Faults::default());
            let (first, operator) = (locks(&clock, &nodes, "first"), locks(&clock, &nodes, "operator"));
            let guard = first.lock("x").manual_renewal().acquire().block().expect("free");
            (0..3).filter(|node| !reached.contains(node)).for_each(|node| nodes.node(node).set_link(Link::Refused));
            operator.force_release("x", "test").block().expect("a majority");
            nodes.set_links(3, Link::Up);
            let slow = Faults { delay: 1000, delay_max: Duration::from_millis(3), ..Faults::default() };
            (0..3).filter(|node| *node != first_to_answer).for_each(|node| nodes.node(node).set_faults(slow));
            let mut releasing = pin!(guard.release());
            let outcome = (0..200).find_map(|_| {
                let outcome = poll::once(releasing.as_mut());
                clock.turn(Duration::from_millis(1));
                outcome
            });
            let outcome = outcome.expect("in time").expect("all three answer");
            assert_eq!(outcome, ReleaseOutcome::NotHeld(None), "{reached:?} knew, {first_to_answer} answered first");
        }
    }
}

/// Nodes that never had it, and one that has no answer, prove nothing.
#[test]
fn nodes_that_never_granted_prove_no_loss() {
    let (clock, nodes) = world(5, Faults::default());
    let locks = locks(&clock, &nodes, "one");
    nodes.set_links(2, Link::Refused);
    let guard = locks.lock("x").manual_renewal().acquire().block().expect("three of five");
    nodes.set_links(5, Link::Up);
    nodes.node(4).set_link(Link::Silent);
    let slow = Faults { delay: 1000, delay_max: Duration::from_millis(3), ..Faults::default() };
    [2, 3].into_iter().for_each(|node| nodes.node(node).set_faults(slow));
    let mut releasing = pin!(guard.release());
    let outcome = (0..200).find_map(|_| {
        let outcome = poll::once(releasing.as_mut());
        clock.turn(Duration::from_millis(1));
        outcome
    });
    assert_eq!(outcome.expect("in time").expect("four answer"), ReleaseOutcome::Freed);
}

/// A majority under different tokens is brought to one. Answers that were given before that must not count after it, or
/// the nodes would end up with another token than the holder.
#[test]
fn the_nodes_have_the_token_of_the_holder_whatever_came_late() {
    const SHORT: Duration = Duration::from_millis(200);
    for seed in 0..300 {
        let faults = Faults { delay: 1000, delay_max: Duration::from_millis(3), ..Faults::default() };
        let clock = VirtualClock::new();
        let nodes = Nodes::new(3, &clock.clock(), seed, Faults::default());
        let (first, second) = (locks(&clock, &nodes, "first"), locks(&clock, &nodes, "second"));
        // The third node has no holder: the next claim has its token there before it has the others'.
        nodes.set_links(1, Link::Refused);
        drop(first.lock("x").ttl(SHORT).acquire().block().expect("two of three").leak());
        nodes.set_links(1, Link::Up);
        nodes.iter().for_each(|node| node.set_faults(faults));
        let lock = second.lock("x").wait_forever();
        let mut acquiring = pin!(lock.acquire());
        let guard = loop {
            if let Some(acquired) = poll::once(acquiring.as_mut()) {
                break acquired.expect("free after the ttl");
            }
            clock.turn(Duration::from_millis(1));
        };
        while nodes.under_way() > 0 {
            clock.turn(Duration::from_millis(1));
        }
        nodes.iter().for_each(|node| node.set_faults(Faults::default()));
        let state = second.inspect("x").block().expect("read");
        let tokens: Vec<_> = state.holders.iter().map(|holder| holder.token).collect();
        assert_eq!(tokens, [Some(guard.token())], "seed {seed}");
        second.check("x", guard.token()).block().expect("the newest there is");
    }
}

/// Before it won, a claim may have asked again under a higher token, and that request may arrive at any time later: also
/// after the grants ended too early, by clocks that jumped, and another had the lock in between. The holder is told.
#[test]
fn a_late_request_of_the_holders_own_does_not_bring_back_what_another_had_since() {
    let (clock, nodes) = world(3, Faults::default());
    let (first, second) = (locks(&clock, &nodes, "first"), locks(&clock, &nodes, "second"));
    let guard = first.lock("x").acquire().block().expect("free");
    let Some(Step::Acquire { claim, .. }) = nodes.node(0).store().steps().first().cloned() else { panic!("no claim") };
    clock.turn(Duration::from_millis(1));
    for node in [1, 2] {
        let pass = Proposal::Exactly(guard.token().next());
        let ends = Step::Release { claim: claim.clone(), raise: None, pass, then: None, only: None };
        assert_eq!(steps::run(memory(nodes.node(node)), ends), Ok(Answer::Freed));
    }
    let newer = second.lock("x").acquire().block().expect("two of three").token();
    assert!(newer > guard.token());
    clock.turn(Duration::from_millis(1));
    let late = Proposal::Exactly(newer.offset(5 << 10));
    for node in [1, 2] {
        let step = Step::Acquire { claim: claim.clone(), attempt: 2, token: late, unify: false };
        assert!(matches!(steps::run(memory(nodes.node(node)), step), Ok(Answer::Granted { token }) if token > newer));
    }
    match guard.renew().block() {
        Err(RenewError::Lost(lost)) => assert_eq!(lost.reason, LossReason::TakenOver),
        other => panic!("{newer} was granted since: {other:?}"),
    }
}

/// A node that never answers costs a question a quarter of a second, and only if the others do not agree.
#[test]
fn a_silent_node_is_waited_for_only_while_the_others_do_not_agree() {
    let (clock, nodes) = world(5, Faults::default());
    let locks = locks(&clock, &nodes, "one");
    let token = locks.lock("x").acquire().block().expect("free").token();
    clock.turn(Duration::from_millis(1));
    nodes.set_links(1, Link::Silent);
    // Time stands still: four agree.
    assert_eq!(locks.inspect("x").block().expect("read").last_token, Some(token));
    nodes.set_links(2, Link::Silent);
    memory(nodes.node(4)).forget(Duration::ZERO);
    let mut looking = pin!(locks.inspect("x"));
    assert!(poll::once(looking.as_mut()).is_none());
    clock.turn(Duration::from_millis(250));
    let Some(Ok(state)) = poll::once(looking.as_mut()) else { panic!("not in time") };
    assert_eq!(state.last_token, Some(token), "the silent ones may have it");
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

/// The token and the ticket of a claim that was granted.
fn granted(feed: &mut Feed<Event>) -> (FencingToken, FencingToken) {
    match wait_for(feed, "x", |kind| matches!(kind, EventKind::Acquired { .. })) {
        EventKind::Acquired { token, ticket, .. } => (token, ticket.expect("it waited")),
        other => panic!("{other:?}"),
    }
}

/// Tickets and tokens tell it. The first in line was cut off from a majority until that forgot its places.
#[test]
fn one_that_was_overtaken_can_be_told_from_the_events() {
    let (clock, nodes) = world(3, Faults::default());
    let links: Vec<_> =
        nodes.iter().map(|node| Faulty::new(node.store().clone(), clock.clock(), 1, Faults::default())).collect();
    let own = links.clone();
    let early = store::connect(move |_| Ok(own)).clock(&clock).ttl(TTL).seed(1).block().expect("memory is there");
    let (holder, late) = (locks(&clock, &nodes, "holder"), locks(&clock, &nodes, "late"));
    let mut events = [early.events(), late.events()];
    for overtaken in [false, true] {
        let guard = holder.lock("x").acquire().block().expect("free");
        let [first, second] = [&early, &late].map(|locks| locks.lock("x").wait_forever());
        let (mut first, mut second) = (pin!(first.acquire()), pin!(second.acquire()));
        assert!(poll::once(first.as_mut()).is_none());
        clock.turn(Duration::from_millis(1));
        assert!(poll::once(second.as_mut()).is_none());
        if overtaken {
            links[..2].iter().for_each(|link| link.set_link(Link::Silent));
            clock.turn(Duration::from_millis(3500));
        }
        guard.release().block().expect("released");
        clock.turn(ANSWER_WITHIN);
        links.iter().for_each(|link| link.set_link(Link::Up));
        let (one, other) = (poll::once(first.as_mut()), poll::once(second.as_mut()));
        assert_eq!((one.is_some(), other.is_some()), (!overtaken, overtaken));
        drop((one, other));
        clock.turn(TTL);
        let [first, second] = events.each_mut().map(granted);
        assert!(first.1 < second.1, "in order of arrival");
        assert_eq!(first.0 > second.0, overtaken);
    }
}
