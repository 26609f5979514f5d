//! Fencing tokens, and the check at the resource.

use fencepost_core::fence::{FenceError, FencedCell, Stale};
use fencepost_core::{Blocking, FencingToken};

use super::{Subject, short_ttl};

/// By release, by drop, by expiry, by force: the next token is higher.
pub fn tokens_rise_with_every_grant_whoever_holds(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let mut last: Option<FencingToken> = None;
    for round in 0..12 {
        let locks = if round % 2 == 0 { &one } else { &other };
        let lock = locks.lock("x").ttl(short_ttl(locks)).wait_forever();
        let guard = lock.acquire().block().expect("free in the end");
        assert!(last < Some(guard.token()), "{:?} after {last:?}", guard.token());
        assert!(guard.token() < FencingToken::MAX);
        last = Some(guard.token());
        match round % 4 {
            0 => drop(guard.release().block().expect("released")),
            1 => drop(guard),
            2 => drop(guard.leak()),
            _ => {
                let thrown_out = other.force_release("x", "test").block().expect("an answer");
                assert_eq!(thrown_out.holder.and_then(|holder| holder.token), last);
            }
        }
    }
}

/// The story everyone knows: the first holder sleeps through its lease and writes afterwards.
pub fn a_write_after_the_lease_is_over_is_rejected_by_the_fence(subject: &impl Subject) {
    let (first, second) = (subject.locks("first"), subject.locks("second"));
    let cell = FencedCell::new("empty");
    let asleep = first.lock("x").ttl(short_ttl(&first)).manual_renewal().acquire().block().expect("free");
    let awake = second.lock("x").wait_forever().acquire().block().expect("free after the ttl");
    cell.write(awake.token(), "second").expect("the newest");
    let (token, seen) = (asleep.token(), awake.token());
    assert_eq!(cell.write(token, "first"), Err(Stale { token, seen }));
    cell.write(awake.token(), "second again").expect("an equal token is accepted");
    assert_eq!(cell.read(), "second again");
}

/// For a resource that keeps no mark of its own.
pub fn the_newest_token_is_current_and_an_older_one_is_not(subject: &impl Subject) {
    let locks = subject.locks("one");
    let old = locks.lock("x").acquire().block().expect("free");
    let (token, _) = (old.token(), old.release().block().expect("released"));
    locks.check("x", token).block().expect("still the newest");
    let new = locks.lock("x").acquire().block().expect("free");
    locks.check("x", new.token()).block().expect("the newest");
    match locks.check("x", token).block() {
        Err(FenceError::Stale(stale)) => assert_eq!((stale.token, stale.seen), (token, new.token())),
        other => panic!("{other:?}"),
    }
}
