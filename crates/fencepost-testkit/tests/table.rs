//! What single steps mean: the rules of the table, one by one, on a memory node that is proposed to.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::store::{Answer, Claim, Event, LockName, Loss, Memory, Mode, Proposal, Repair, Step, Then, table};
use fencepost_core::{FencingToken, VirtualClock};
use fencepost_testkit::steps::{claim, listen, run};

fn node() -> (VirtualClock, Memory, FencingToken) {
    let clock = VirtualClock::new();
    let now = FencingToken::at(clock.clock().wall());
    let node = Memory::node(clock.clock(), "node");
    (clock, node, now)
}

fn acquire(claim: &Arc<Claim>, token: FencingToken) -> Step {
    Step::Acquire { claim: claim.clone(), attempt: 1, token: Proposal::Exactly(token), unify: false }
}

fn release(claim: &Arc<Claim>, raise: Option<FencingToken>, pass: FencingToken) -> Step {
    Step::Release { claim: claim.clone(), raise, pass: Proposal::Exactly(pass), then: None, only: None }
}

#[test]
fn a_give_back_of_another_token_frees_nothing() {
    let (_, node, now) = node();
    let mine = claim("mine", None);
    assert_eq!(run(&node, acquire(&mine, now.offset(10))), Ok(Answer::Granted { token: now.offset(10) }));
    let pass = Proposal::Exactly(now.offset(20));
    let old = Step::GiveBack { claim: mine.clone(), attempt: 2, token: now.offset(9), pass };
    assert_eq!(run(&node, old), Ok(Answer::NotHeld));
    assert_eq!(node.rows_in_use(), 1, "a late give-back freed a newer grant");
    let exact = Step::GiveBack { claim: mine, attempt: 2, token: now.offset(10), pass };
    assert_eq!(run(&node, exact), Ok(Answer::Freed));
}

#[test]
fn a_minted_token_is_above_the_last_and_not_below_the_clock() {
    let clock = VirtualClock::new();
    let store = Memory::new(clock.clock());
    let mut last = FencingToken::from_number(1).expect("a token");
    for pause in [0, 0, 1, 3600, 86_400] {
        clock.turn(Duration::from_secs(pause));
        let mine = claim("mine", None);
        let step = Step::Acquire { claim: mine.clone(), attempt: 1, token: Proposal::Next, unify: false };
        let Ok(Answer::Granted { token }) = run(&store, step) else { panic!("free") };
        assert!(token > last && token >= FencingToken::at(clock.clock().wall()));
        last = token;
        let step = Step::Release { claim: mine, raise: None, pass: Proposal::Next, then: None, only: None };
        assert_eq!(run(&store, step), Ok(Answer::Freed));
    }
}

#[test]
fn a_proposal_fits_above_the_last_and_within_the_window_of_the_stores_clock() {
    let (clock, node, now) = node();
    let far = now.plus(table::WINDOW);
    for (token, fits) in
        [(far.next(), false), (far, true), (far, false), (far.offset(16), true), (far.offset(33), false)]
    {
        let mine = claim("mine", None);
        let granted = matches!(run(&node, acquire(&mine, token)), Ok(Answer::Granted { .. }));
        assert_eq!(granted, fits, "{token:?}");
        let _ = run(&node, release(&mine, None, far));
    }
    clock.turn(Duration::from_secs(3600));
    let behind = acquire(&claim("behind", None), far.offset(20));
    assert!(matches!(run(&node, behind), Ok(Answer::Stale { .. })), "older than the clock");
}

#[test]
fn an_acquire_that_arrives_after_its_own_release_is_refused() {
    let (_, node, now) = node();
    let late = claim("late", Some(now));
    assert_eq!(run(&node, release(&late, Some(now.offset(10)), now.offset(11))), Ok(Answer::NotHeld));
    assert!(matches!(run(&node, acquire(&late, now.offset(10))), Ok(Answer::Stale { .. })));
    assert_eq!(node.rows_in_use(), 0, "neither a grant nor a place in line");
}

#[test]
fn a_renewal_re_creates_a_missing_grant_only_if_no_later_token_was_seen() {
    let (clock, node, now) = node();
    let mine = claim("mine", None);
    let token = now.offset(10);
    assert!(matches!(run(&node, acquire(&mine, token)), Ok(Answer::Granted { .. })));
    clock.turn(Duration::from_secs(31));
    let renew = Step::Renew { claim: mine.clone(), token, pass: None, repair: Repair::NotLater };
    assert_eq!(run(&node, renew.clone()), Ok(Answer::Kept), "nobody had it since");
    clock.turn(Duration::from_secs(31));
    let other = claim("other", None);
    let later = FencingToken::at(clock.clock().wall()).offset(10);
    assert!(matches!(run(&node, acquire(&other, later)), Ok(Answer::Granted { .. })));
    assert_eq!(run(&node, release(&other, None, later.next())), Ok(Answer::Freed));
    assert_eq!(run(&node, renew), Ok(Answer::Lost(Loss::TakenOver)), "somebody had it since");
}

/// A request of the holder's own that was late, under a token that it proposed before it had won: it takes the lock anew,
/// after another. That is not the hold which is renewed.
#[test]
fn a_renewal_keeps_no_grant_that_is_newer_than_its_token() {
    for evicted in [false, true] {
        let (_, node, now) = node();
        let (mine, other) = (claim("mine", None), claim("other", None));
        let token = now.offset(10);
        assert!(matches!(run(&node, acquire(&mine, token)), Ok(Answer::Granted { .. })));
        let renew = Step::Renew { claim: mine.clone(), token, pass: None, repair: Repair::NotLater };
        assert_eq!(run(&node, renew.clone()), Ok(Answer::Kept));
        // A clock that jumped ends it without a word, an operator leaves a note.
        let end = match evicted {
            false => release(&mine, None, now.offset(11)),
            true => Step::Evict { name: mine.name.clone(), above: Proposal::Exactly(now.offset(11)) },
        };
        assert!(run(&node, end).is_ok());
        assert!(matches!(run(&node, acquire(&other, now.offset(20))), Ok(Answer::Granted { .. })));
        assert_eq!(run(&node, release(&other, None, now.offset(21))), Ok(Answer::Freed));
        assert_eq!(run(&node, acquire(&mine, now.offset(30))), Ok(Answer::Granted { token: now.offset(30) }));
        let why = if evicted { Loss::Revoked } else { Loss::TakenOver };
        assert_eq!(run(&node, renew), Ok(Answer::Lost(why)));
        let lower = Step::Renew { claim: mine, token: now.offset(31), pass: None, repair: Repair::NotLater };
        assert_eq!(run(&node, lower), Ok(Answer::Kept), "an older grant of the same hold");
    }
}

/// The same claim, as a reader's.
fn reader_of(claim: &Claim) -> Arc<Claim> {
    Arc::new(Claim { mode: Mode::Shared, ..claim.clone() })
}

/// By token.
fn holders(node: &Memory) -> Vec<(FencingToken, bool)> {
    let Ok(Answer::State(state)) = run(node, Step::Inspect { name: LockName::new("x").expect("valid") }) else {
        panic!("a state")
    };
    let mut holders: Vec<_> = state.holders.iter().map(|held| (held.token.expect("ours"), held.shared)).collect();
    holders.sort_unstable();
    holders
}

#[test]
fn a_downgrade_hands_over_to_the_reader_that_comes_next_and_once_only() {
    let (_, node, now) = node();
    let (mine, second) = (claim("mine", None), reader_of(&claim("second", Some(now))));
    let third = reader_of(&claim("third", Some(now.offset(1))));
    let (_ears, pushed) =
        [&second, &third].map(|claim| listen(&node, claim)).into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    let token = now.offset(10);
    assert!(matches!(run(&node, acquire(&mine, token)), Ok(Answer::Granted { .. })));
    for (claim, token) in [(&second, now.offset(20)), (&third, now.offset(21))] {
        assert!(matches!(run(&node, acquire(claim, token)), Ok(Answer::Held { .. })));
    }
    let pass = Some(Proposal::Exactly(now.offset(30)));
    let downgrade = Step::Renew { claim: reader_of(&mine), token, pass, repair: Repair::NotLater };
    // The second is a repeat, the third a repeat whose token would fit.
    for pass in [now.offset(30), now.offset(30), now.offset(31)] {
        let downgrade = Step::Renew {
            claim: reader_of(&mine),
            token,
            pass: Some(Proposal::Exactly(pass)),
            repair: Repair::NotLater,
        };
        assert_eq!(run(&node, downgrade), Ok(Answer::Kept));
        assert_eq!(holders(&node), [(token, true), (now.offset(30), true)]);
    }
    assert_eq!(pushed[0].try_recv(), Ok(Event::HandedOver { token: now.offset(30), attempt: 1 }));
    assert_eq!(pushed[1].try_recv(), Ok(Event::MayPay), "the next reader asks for a token of its own");
    assert!(pushed.iter().all(|pushed| pushed.try_recv().is_err()), "told once");
    // It arrives once more, after the release.
    assert_eq!(run(&node, release(&mine, Some(token.next()), now.offset(40))), Ok(Answer::Freed));
    assert_eq!(run(&node, downgrade), Ok(Answer::Lost(Loss::TakenOver)));
    assert!(!holders(&node).contains(&(token, true)));
}

#[test]
fn whatever_of_the_writer_arrives_after_its_downgrade_leaves_it_a_reader() {
    let (_, node, now) = node();
    let mine = claim("mine", None);
    let token = now.offset(10);
    assert!(matches!(run(&node, acquire(&mine, token)), Ok(Answer::Granted { .. })));
    let downgrade = Step::Renew {
        claim: reader_of(&mine),
        token,
        pass: Some(Proposal::Exactly(now.offset(11))),
        repair: Repair::NotLater,
    };
    assert_eq!(run(&node, downgrade), Ok(Answer::Kept));
    let other = reader_of(&claim("other", None));
    assert!(matches!(run(&node, acquire(&other, now.offset(20))), Ok(Answer::Granted { .. })));
    let unify = Proposal::Exactly(now.offset(30));
    let late = [
        Step::Renew { claim: mine.clone(), token, pass: None, repair: Repair::NotLater },
        acquire(&mine, token),
        Step::Acquire { claim: mine.clone(), attempt: 2, token: unify, unify: true },
    ];
    for step in late {
        assert!(matches!(run(&node, step), Ok(Answer::Kept | Answer::Granted { .. })));
        let holders = holders(&node);
        assert!(holders.len() == 2 && holders.iter().all(|(_, shared)| *shared), "{holders:?}");
    }
}

#[test]
fn an_eviction_raises_the_fence_so_that_the_holder_cannot_come_back() {
    let (_, node, now) = node();
    let mine = claim("mine", None);
    assert!(matches!(run(&node, acquire(&mine, now.offset(10))), Ok(Answer::Granted { .. })));
    let evict = Step::Evict { name: mine.name.clone(), above: Proposal::Exactly(now.offset(50)) };
    assert!(matches!(run(&node, evict), Ok(Answer::Evicted(out)) if out.len() == 1));
    assert_eq!(
        run(&node, Step::Renew { claim: mine, token: now.offset(10), pass: None, repair: Repair::NotLater }),
        Ok(Answer::Lost(Loss::Revoked))
    );
    assert!(matches!(run(&node, acquire(&claim("next", None), now.offset(50))), Ok(Answer::Stale { .. })));
}

/// The claim gave that one back before it won under a higher token, and the give-back is still under way.
#[test]
fn what_a_renewal_kept_is_not_freed_by_a_late_give_back_of_an_older_grant() {
    let (_, node, now) = node();
    let mine = claim("mine", None);
    assert!(matches!(run(&node, acquire(&mine, now.offset(10))), Ok(Answer::Granted { .. })));
    let renew = Step::Renew { claim: mine.clone(), token: now.offset(20), pass: None, repair: Repair::NotLater };
    assert_eq!(run(&node, renew), Ok(Answer::Kept));
    let pass = Proposal::Exactly(now.offset(30));
    let late = Step::GiveBack { claim: mine.clone(), attempt: 2, token: now.offset(10), pass };
    assert_eq!(run(&node, late), Ok(Answer::NotHeld));
    assert!(matches!(run(&node, acquire(&claim("other", None), now.offset(40))), Ok(Answer::Held { .. })));
    let far = Step::Renew { claim: mine, token: now.plus(table::WINDOW * 2), pass: None, repair: Repair::NotLater };
    assert_eq!(run(&node, far), Ok(Answer::Lost(Loss::TakenOver)), "it would poison the fence");
}

#[test]
fn a_relay_keeps_the_order_of_tickets() {
    let (_, node, now) = node();
    let (first, early, late) = (claim("first", None), claim("early", Some(now)), claim("late", Some(now.offset(5))));
    let (_ear, pushed) = listen(&node, &early);
    assert!(matches!(run(&node, acquire(&first, now.offset(10))), Ok(Answer::Granted { .. })));
    assert!(matches!(run(&node, acquire(&early, now.offset(20))), Ok(Answer::Held { .. })));
    let then = Some(Then { claim: late, attempt: 7 });
    let pass = Proposal::Exactly(now.offset(30));
    let relay = Step::Release { claim: first, raise: None, pass, then, only: None };
    match run(&node, relay) {
        Ok(Answer::Relayed { freed: true, then }) => assert!(matches!(*then, Answer::Held { .. }), "it overtook"),
        other => panic!("{other:?}"),
    }
    assert_eq!(pushed.recv(), Ok(Event::HandedOver { token: now.offset(30), attempt: 1 }));
    let then = claim("next", Some(now.offset(1)));
    let relay = Step::Release {
        claim: early,
        raise: None,
        pass: Proposal::Exactly(now.offset(40)),
        then: Some(Then { claim: then, attempt: 1 }),
        only: None,
    };
    let granted = Answer::Granted { token: now.offset(40) };
    assert_eq!(run(&node, relay), Ok(Answer::Relayed { freed: true, then: Box::new(granted) }));
}

fn bounded(claim: &Arc<Claim>, bound: FencingToken) -> Step {
    Step::Acquire { claim: claim.clone(), attempt: 1, token: Proposal::Bounded(bound), unify: false }
}

fn end(claim: &Arc<Claim>, raise: Option<FencingToken>, pass: FencingToken) -> Step {
    Step::Release { claim: claim.clone(), raise, pass: Proposal::Bounded(pass), then: None, only: None }
}

fn granted(answer: Result<Answer, fencepost_core::store::Trouble>) -> FencingToken {
    match answer {
        Ok(Answer::Granted { token }) => token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bound_has_no_influence_on_the_token() {
    let clock = VirtualClock::new();
    let store = Memory::bounded(clock.clock());
    let now = FencingToken::at(clock.clock().wall());
    let mut last = None;
    for bound in [now, now.offset(1), now.plus(Duration::from_secs(5)), now.plus(table::WINDOW)] {
        let mine = claim("mine", None);
        let token = granted(run(&store, bounded(&mine, bound)));
        assert!(Some(token) > last && token < now.offset(16), "{token} after {last:?}, asked for with {bound}");
        last = Some(token);
        assert_eq!(run(&store, end(&mine, None, bound)), Ok(Answer::Freed));
    }
    let far = now.plus(table::WINDOW);
    for bound in [far.offset(17), FencingToken::from_number(1).expect("a token")] {
        let stale = Ok(Answer::Stale { last: Some(far), clock: now });
        assert_eq!(run(&store, bounded(&claim("mine", None), bound)), stale, "{bound} is far from the store's clock");
    }
}

#[test]
fn what_comes_late_or_twice_is_stale_and_others_go_on() {
    let clock = VirtualClock::new();
    let store = Memory::bounded(clock.clock());
    let now = FencingToken::at(clock.clock().wall());
    let (mine, other) = (claim("mine", None), claim("other", None));
    // Three requests: an early one is still under way, one is answered, and the release knows of one that is not.
    let token = granted(run(&store, bounded(&mine, now.offset(2))));
    let spent = |bound| Ok(Answer::Stale { last: Some(bound), clock: now });
    assert_eq!(run(&store, end(&mine, None, now.offset(3))), Ok(Answer::Freed));
    assert_eq!(run(&store, bounded(&mine, now.offset(1))), spent(now.offset(2)), "late");
    assert_eq!(run(&store, bounded(&mine, now.offset(2))), spent(now.offset(2)), "twice");
    assert_eq!(run(&store, end(&mine, Some(now.offset(3)), now.offset(4))), Ok(Answer::NotHeld));
    assert_eq!(run(&store, bounded(&mine, now.offset(3))), spent(now.offset(3)), "after its release");
    // A client with such a bound asks again.
    assert_eq!(run(&store, bounded(&other, now.offset(3))), spent(now.offset(3)));
    assert!(granted(run(&store, bounded(&other, now.offset(4)))) > token);
    // A give-back that comes late brings nobody into the line again.
    let late = claim("late", Some(now.offset(1)));
    let _ear = listen(&store, &late);
    let pass = Proposal::Bounded(now.offset(3));
    assert_eq!(run(&store, Step::GiveBack { claim: late, attempt: 1, token, pass }), Ok(Answer::NotHeld));
    assert_eq!(store.rows_in_use(), 1, "the other's grant");
}

#[test]
fn a_lease_that_has_ended_is_made_again_only_where_all_is_forgotten() {
    let clock = VirtualClock::new();
    let store = Memory::bounded(clock.clock());
    let now = FencingToken::at(clock.clock().wall());
    let renew = |claim: &Arc<Claim>, token| {
        run(&store, Step::Renew { claim: claim.clone(), token, pass: None, repair: Repair::Forgotten })
    };
    let mine = claim("mine", None);
    let token = granted(run(&store, bounded(&mine, now)));
    clock.turn(Duration::from_secs(31));
    assert_eq!(renew(&mine, token), Ok(Answer::Lost(Loss::TakenOver)), "over, though nobody took it");
    store.forget(Duration::ZERO);
    assert_eq!(renew(&mine, token), Ok(Answer::Kept), "all is forgotten");
    let later = granted(run(&store, bounded(&mine, now.plus(Duration::from_secs(31)))));
    assert_eq!(later, token, "it is held under its own token");
    store.forget(Duration::ZERO);
    let (other, now) = (claim("other", None), now.plus(Duration::from_secs(31)));
    assert!(granted(run(&store, bounded(&other, now))) > token);
    assert_eq!(renew(&mine, token), Ok(Answer::Lost(Loss::TakenOver)), "another has it");
}
