//! What other lock libraries get wrong while a lock is held and when it ends, and that it is not so here. Each name is
//! the opposite of a defect that was found in one of them.

mod common;

use std::pin::pin;
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{KEEPS_EVERYTHING, PATIENCE, Place, fence, is_clean, until, until_linked, value};
use fencepost_core::{AcquireError, Actor, Blocking, EventKind, LossReason, ReleaseOutcome, RenewError, RunError};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::poll;
use fencepost_testkit::proxy::Flow;
use fencepost_testkit::redis::Redis;

const TTL: Duration = Duration::from_secs(10);

/// One release, one answer; and what the work said is what the caller hears.
#[test]
fn a_release_of_an_expired_lock_neither_retries_nor_masks_the_users_error() {
    let place = Place::one().behind_proxies();
    let (server, proxy) = (&place.servers[0], &place.proxies[0]);
    let locks = place.locks("first");
    let lock = locks.lock("x").ttl(TTL);
    let done = lock.run(async |_| {
        server.number(&["DEL", "lock:x"]);
        proxy.take_forwarded();
        Err::<(), _>("the user's own error")
    });
    match done.block() {
        Err(RunError::Work(error)) => assert_eq!(error, "the user's own error"),
        other => panic!("{other:?}"),
    }
    assert_eq!(locks.shutdown(PATIENCE).block(), Vec::<String>::new());
    assert_eq!(proxy.forwarded(b"EVALSHA"), 1, "one release");
    // And asked for, it says what it found, without being an error.
    let locks = place.locks("second");
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    server.number(&["DEL", "lock:x"]);
    assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::NotHeld(None));
}

#[test]
fn a_failed_renewal_neither_releases_nor_loses() {
    let place = Place::quorum(3).behind_proxies();
    let locks = place.linked("first");
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    place.until_all_have("x");
    let held: Vec<_> = place.servers.iter().map(|server| value(server, "x").expect("held")).collect();
    place.proxies.iter().for_each(|proxy| proxy.replies(Flow::Held));
    assert!(matches!(guard.renew().block(), Err(RenewError::Unknown(_))), "nobody answers");
    assert!(guard.is_held() && guard.remaining() > Duration::ZERO, "the old deadline stands");
    let still: Vec<_> = place.servers.iter().map(|server| value(server, "x").expect("not released")).collect();
    assert_eq!(still, held);
    place.proxies.iter().for_each(|proxy| proxy.replies(Flow::Pass));
    until("it is renewed", || guard.renew().block().is_ok());
    assert_eq!(guard.release().block().expect("released"), ReleaseOutcome::Freed);
}

#[test]
fn a_short_ttl_does_not_underflow() {
    let place = Place::one();
    let locks = place.locks("first");
    for ttl_ms in [50, 51, 100, 499, 505] {
        let lock = locks.lock("x").ttl(Duration::from_millis(ttl_ms));
        let done = lock.run(async |guard| {
            assert!(guard.remaining() <= Duration::from_millis(ttl_ms));
            Ok::<_, ()>(())
        });
        match done.block() {
            // A machine that is busy may overrun so short a lease; then that is what is said.
            Ok(()) | Err(RunError::Lost(_) | RunError::Acquire(AcquireError::Store(_))) => {}
            other => panic!("{ttl_ms} ms: {other:?}"),
        }
    }
    for ttl_ms in [0, 1, 49] {
        let result = locks.lock("x").ttl(Duration::from_millis(ttl_ms)).acquire().block();
        assert!(matches!(result, Err(AcquireError::Invalid(_))), "{ttl_ms} ms: {result:?}");
    }
}

/// The owner is one acquisition, not one lock object.
#[test]
fn a_stale_guard_cannot_touch_the_next_hold_of_the_same_lock_object() {
    for place in [Place::one(), Place::quorum(3)] {
        let locks = place.linked("first");
        let lock = locks.lock("x").ttl(TTL).wait_at_most(PATIENCE / 2);
        let stale = lock.clone().ttl(Duration::from_millis(200)).manual_renewal().acquire().block().expect("free");
        stale.lost().block();
        let next = lock.acquire().block().expect("the first lease is over");
        assert!(next.token() > stale.token());
        assert!(matches!(stale.renew().block(), Err(RenewError::Lost(_))));
        let released = stale.release().block().expect("an answer");
        assert_eq!(released, ReleaseOutcome::NotHeld(Some(LossReason::Expired)));
        next.renew().block().expect("untouched");
        assert_eq!(next.release().block().expect("released"), ReleaseOutcome::Freed);
    }
}

/// As long as nobody had the lock since: a node that missed it, or lost it, has it again after the next renewal.
#[test]
fn renewals_repair_nodes_that_missed_the_lock() {
    let mut place = Place::voting(vec![Redis::new().with(KEEPS_EVERYTHING); 3], "max_ttl_ms=60000");
    let locks = place.linked("first");
    place.servers[0].kill();
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("two of three");
    place.servers[0].restart();
    until_linked(&place.servers[0]);
    until("the first node has it", || {
        guard.renew().block().expect("two of three");
        value(&place.servers[0], "x").is_some()
    });
    // So it outlives the loss of another.
    place.servers[1].kill();
    guard.renew().block().expect("two of three");
    assert!(guard.is_held());
}

#[test]
fn a_renewal_does_not_bring_back_a_lock_that_another_had_since() {
    for place in [Place::one(), Place::quorum(3)] {
        let (first, second) = (place.linked("first"), place.linked("second"));
        let guard = first.lock("x").ttl(Duration::from_secs(60)).acquire().block().expect("free");
        place.until_all_have("x");
        // The lease lapses early, as when a server's clock jumps; another has the lock for a moment.
        place.servers.iter().for_each(|server| drop(server.ask(&["DEL", "lock:x"])));
        let between = second.lock("x").ttl(TTL).acquire().block().expect("free");
        let token = between.token();
        between.release().block().expect("released");
        assert_eq!(second.shutdown(PATIENCE).block(), Vec::<String>::new());
        assert!(matches!(guard.renew().block(), Err(RenewError::Lost(_))));
        assert_eq!(guard.lost().block().reason, LossReason::TakenOver);
        assert!(place.servers.iter().all(|server| value(server, "x").is_none()), "it is not silently taken again");
        assert!(guard.token() < token, "and the fence tells them apart");
        // The control: to set the key if it is missing, as some do to extend, takes it back.
        let extended = place.servers[0].word(&["SET", "lock:x", "a zombie's", "NX", "PX", "60000"]);
        assert_eq!(extended.as_deref(), Some("OK"));
    }
}

/// Also when the wish to release is dropped with the task that had it.
#[test]
fn a_cancelled_release_goes_on() {
    let place = Place::quorum(3).behind_proxies();
    let locks = place.linked("first");
    for polls in 0..2 {
        let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
        place.proxies.iter().for_each(|proxy| proxy.replies(Flow::Held));
        {
            let mut releasing = pin!(guard.release());
            for _ in 0..polls {
                assert!(poll::once(releasing.as_mut()).is_none(), "nobody answers");
            }
        }
        place.servers.iter().for_each(|server| until("it is released", || is_clean(server, "x")));
        place.proxies.iter().for_each(|proxy| proxy.replies(Flow::Pass));
    }
}

#[test]
fn a_release_that_nobody_answers_ends_in_time_and_is_done_later() {
    let place = Place::quorum(3);
    let locks = place.linked("first");
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    let mut events = locks.events();
    place.pause_all();
    let error = guard.release().block().expect_err("nobody answers");
    assert!(error.outcome_unknown() && error.is_retryable(), "{error:?}");
    place.resume_all();
    let told = wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Released(_) | EventKind::ReleaseUnknown));
    assert_eq!(told, EventKind::Released(ReleaseOutcome::Freed));
    assert!(place.servers.iter().filter(|server| is_clean(server, "x")).count() >= 2);
}

/// Interrupted at any moment: no watchdog is left behind that would renew for ever.
#[test]
fn nothing_is_renewed_after_the_end_of_a_claim() {
    let place = Place::one().behind_proxies();
    let (server, proxy) = (&place.servers[0], &place.proxies[0]);
    let locks = place.locks("first");
    let ttl = Duration::from_millis(150);
    for number in 0..200 {
        let lock = locks.lock("x").ttl(ttl).wait_at_most(TTL);
        let mut acquiring = pin!(lock.acquire());
        for _ in 0..number % 7 {
            if let Some(guard) = poll::once(acquiring.as_mut()) {
                drop(guard);
                break;
            }
            std::thread::yield_now();
        }
    }
    let leaked = locks.lock("leaked").ttl(ttl).wait_at_most(TTL).acquire().block().expect("free").leak();
    assert_eq!(locks.shutdown(PATIENCE).block(), Vec::<String>::new());
    until("all is free", || is_clean(server, "x") && is_clean(server, "leaked"));
    proxy.take_forwarded();
    // Long enough for several renewals.
    sleep(ttl * 2);
    assert_eq!(proxy.forwarded(b"EVAL"), 0);
    drop(leaked);
}

/// The control: a guard that nobody drops is renewed, and that is seen on the wire.
#[test]
fn the_renewals_of_a_guard_that_was_never_dropped_are_seen_on_the_wire() {
    let place = Place::one().behind_proxies();
    let (server, proxy) = (&place.servers[0], &place.proxies[0]);
    let locks = place.locks("first");
    let guard = locks.lock("x").ttl(Duration::from_secs(1)).acquire().block().expect("free");
    std::mem::forget(guard);
    proxy.take_forwarded();
    until("it is renewed", || proxy.forwarded(b"EVAL") >= 3);
    assert!(value(server, "x").is_some(), "for ever");
}

/// For twenty times its ttl, while its actor goes in and out: it is renewed, or told as lost before another has it.
#[test]
fn the_watchdog_of_a_reentrant_lock_does_not_stop_and_without_it_the_lock_is_lost() {
    let place = Place::one();
    let (first, second, me) = (place.locks("first"), place.locks("second"), Actor::new());
    let ttl = Duration::from_millis(500);
    let lock = first.lock("x").ttl(ttl).by(&me).wait_at_most(PATIENCE);
    // On a machine that is too busy for such a lease it is lost, and told; then it is tried again.
    until("it was held for twenty times its ttl", || {
        let guard = lock.acquire().block().expect("free");
        let began = Instant::now();
        while began.elapsed() < ttl * 20 {
            let again = lock.acquire().block();
            // No answer in time is not a lock either.
            let taken = second.lock("x").ttl(ttl).try_acquire().block().ok().flatten();
            if taken.is_some() {
                let known = !guard.is_held() && again.map_or(true, |again| !again.is_held());
                assert!(known, "another has it, and its holder does not know");
                return false;
            }
            if !guard.is_held() {
                return false;
            }
            drop(again);
        }
        true
    });
    // The control: nobody renews it.
    let guard = lock.manual_renewal().acquire().block().expect("free");
    let taken = second.lock("x").ttl(TTL).wait_at_most(PATIENCE).acquire().block().expect("its ttl is over");
    assert!(!guard.is_held() && taken.token() > guard.token());
}

#[test]
fn the_ttl_in_the_store_is_the_one_that_was_asked_for() {
    let place = Place::one();
    let locks = place.locks("first");
    for (name, ttl) in [("default", None), ("short", Some(2_000)), ("long", Some(3_600_000))] {
        let lock = locks.lock(name);
        let lock = ttl.map_or(lock.clone(), |ttl| lock.ttl(Duration::from_millis(ttl)));
        let guard = lock.acquire().block().expect("free");
        let (left, asked) = (place.servers[0].number(&["PTTL", &format!("lock:{name}")]), ttl.unwrap_or(30_000));
        assert!((1..=i64::try_from(asked).expect("small")).contains(&left), "{name}: {left}");
        assert!(left > i64::try_from(asked / 4).expect("small"), "{name}: {left}");
        assert!(fence(&place.servers[0], name) == guard.token().as_u64());
    }
}
