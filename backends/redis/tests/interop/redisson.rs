//! A port of Redisson's RLock, the real one, on the same hash and the same channel. What its Java original does beyond it
//! is in the tests of the layout itself.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_core::{AcquireError, Blocking, Locks, LossReason, ReleaseOutcome, VirtualClock};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::poll;

use crate::client::{Client, Library};
use crate::common::{PATIENCE, Place, until};
use crate::{OUR_TTL, THEIR_TTL_MS};

const CHANNEL: &str = "redisson_lock__channel:{x}";

fn meeting() -> (Place, Locks, Client) {
    let place = Place::one().settings(Library::Redisson.our_settings());
    let theirs = Client::start(Library::Redisson, &place.servers);
    let locks = place.locks("ours");
    (place, locks, theirs)
}

fn fields(place: &Place) -> Vec<String> {
    place.servers[0].words(&["HGETALL", "x"])
}

fn listeners(place: &Place) -> String {
    place.servers[0].words(&["PUBSUB", "NUMSUB", CHANNEL]).remove(1)
}

#[test]
fn keeps_ours_out_and_is_kept_out() {
    let (place, locks, mut theirs) = meeting();
    let lock = locks.lock("x").ttl(OUR_TTL);
    let mut before = None;
    for _ in 0..3 {
        assert!(theirs.lock("x", THEIR_TTL_MS), "it is free");
        let field = fields(&place).remove(0);
        match lock.acquire().block() {
            Err(AcquireError::Busy { holder: Some(holder), .. }) => {
                assert_eq!(holder.label, format!("Redisson {field}"));
            }
            other => panic!("they hold it: {other:?}"),
        }
        assert!(theirs.gives_up());
        let guard = lock.acquire().block().expect("they gave it up");
        assert!(before.is_none_or(|before| guard.token() > before), "tokens rise over their holds");
        before = Some(guard.token());
        assert!(!theirs.lock("x", THEIR_TTL_MS), "it is ours");
        assert!(!theirs.gives_up(), "it is not theirs to end");
        guard.renew().block().expect("still ours");
        assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
    }
}

/// What they entered twice is theirs until they left it twice.
#[test]
fn counts_for_itself() {
    let (place, locks, mut theirs) = meeting();
    let lock = locks.lock("x").ttl(OUR_TTL);
    assert!(theirs.lock("x", THEIR_TTL_MS) && theirs.lock("x", THEIR_TTL_MS));
    assert_eq!(fields(&place)[1], "2");
    assert!(theirs.gives_up());
    assert!(lock.try_acquire().block().expect("an answer").is_none(), "once more to go");
    assert!(theirs.gives_up());
    let guard = lock.acquire().block().expect("free");
    assert_eq!(fields(&place)[1], "1");
    drop(guard);
}

/// In still time: whoever goes on was told.
#[test]
fn wakes_ours() {
    let (place, _, mut theirs) = meeting();
    let clock = VirtualClock::new();
    let locks = place.connect().clock(&clock).block().expect("it is up");
    assert!(theirs.lock("x", THEIR_TTL_MS));
    let lock = locks.lock("x").ttl(OUR_TTL).wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    until("ours listens", || listeners(&place) == "1");
    assert!(theirs.gives_up());
    waiting.block().expect("they gave it up").release().block().expect("released");
}

/// Without a word it would look again when our lease is over, in a day.
#[test]
fn is_woken_by_ours() {
    let (place, locks, mut theirs) = meeting();
    let guard = locks.lock("x").ttl(Duration::from_secs(24 * 3600)).acquire().block().expect("free");
    theirs.wait("x", THEIR_TTL_MS);
    until("theirs listens", || listeners(&place) == "1");
    guard.renew().block().expect("held");
    guard.release().block().expect("released");
    theirs.has_it();
    assert!(locks.lock("x").ttl(OUR_TTL).try_acquire().block().expect("an answer").is_none());
    assert!(theirs.gives_up());
}

/// Its watchdog keeps its lock from ours, until its process is killed; then its ttl ends.
#[test]
fn is_kept_by_its_watchdog_and_free_when_it_was_killed() {
    let (place, locks, mut theirs) = meeting();
    assert!(theirs.keep("x"));
    let mut renewals = 0;
    let (server, mut before) = (&place.servers[0], i64::MAX);
    until("it was renewed three times", || {
        let left = server.number(&["PTTL", "x"]);
        renewals += i64::from(left > before);
        before = left;
        renewals >= 3
    });
    assert!(locks.lock("x").ttl(OUR_TTL).try_acquire().block().expect("an answer").is_none());
    theirs.kill();
    let guard = locks.lock("x").ttl(OUR_TTL).wait_at_most(PATIENCE).acquire().block().expect("its ttl is over");
    guard.release().block().expect("released");
}

#[test]
fn ends_ours_by_force_and_ours_ends_theirs() {
    let (_place, locks, mut theirs) = meeting();
    let guard = locks.lock("x").ttl(OUR_TTL).acquire().block().expect("free");
    assert!(theirs.force("x"));
    assert!(guard.renew().block().is_err());
    assert_eq!(guard.lost().block().reason, LossReason::TakenOver);
    drop(guard);
    assert!(theirs.lock("x", THEIR_TTL_MS));
    locks.force_release("x", "test").block().expect("an answer").holder.expect("it was held");
    assert!(!theirs.extend(THEIR_TTL_MS), "its watchdog finds nothing");
    assert!(!theirs.gives_up());
}

/// Several of each, as fast as they can: never two at once, and tokens of ours only rise.
#[test]
fn takes_turns_with_ours() {
    const TURNS: u32 = 25;
    let (place, first, theirs) = meeting();
    let (second, server) = (place.locks("second"), &place.servers[0]);
    let clients = [theirs, Client::start(Library::Redisson, &place.servers)];
    let alone = || {
        assert_eq!(server.number(&["INCR", "inside"]), 1, "two hold it");
        assert_eq!(server.number(&["DECR", "inside"]), 0, "two hold it");
    };
    let highest = AtomicU64::new(0);
    let ours = |locks: &Locks| {
        for _ in 0..TURNS {
            let guard = locks.lock("x").ttl(OUR_TTL).wait_forever().acquire().block().expect("its turn");
            alone();
            assert!(highest.fetch_max(guard.token().as_u64(), Ordering::SeqCst) < guard.token().as_u64());
            guard.release().block().expect("released");
        }
    };
    std::thread::scope(|scope| {
        for locks in [&first, &first, &second, &second] {
            scope.spawn(|| ours(locks));
        }
        for mut client in clients {
            scope.spawn(move || {
                for _ in 0..TURNS {
                    while !client.lock("x", THEIR_TTL_MS) {}
                    alone();
                    assert!(client.gives_up());
                }
            });
        }
    });
    assert!(fields(&place).is_empty(), "nobody holds it any more");
}
