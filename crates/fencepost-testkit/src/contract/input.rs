//! Bad input is refused, by name, and nothing is locked.

use std::time::Duration;

use fencepost_core::{AcquireError, Blocking, Invalid, Lock};

use super::{Subject, long_ttl};

fn refused(lock: &Lock) -> Invalid {
    match lock.acquire().block() {
        Err(AcquireError::Invalid(invalid)) => invalid,
        other => panic!("{lock:?} was not refused: {other:?}"),
    }
}

/// Empty, too long, control characters.
pub fn bad_names_are_refused_and_nothing_is_locked(subject: &impl Subject) {
    let locks = subject.locks("one");
    for name in ["", "\0", "a\nb", "\u{1b}[31m", &"x".repeat(256), &"x".repeat(10_000)] {
        assert_eq!(refused(&locks.lock(name)).field, "name");
        assert!(locks.inspect(name).block().is_err());
    }
    assert!(locks.list("").next().block().transpose().expect("an answer").is_none());
}

/// Times out of range.
pub fn bad_limits_are_refused_and_nothing_is_locked(subject: &impl Subject) {
    let locks = subject.locks("one");
    let lock = locks.lock("x");
    let years = Duration::from_secs(10 * 366 * 24 * 3600);
    for ttl in [Duration::ZERO, Duration::from_nanos(1), years, Duration::MAX] {
        assert_eq!(refused(&lock.clone().ttl(ttl)).field, "ttl");
    }
    assert_eq!(refused(&lock.clone().wait_at_most(years)).field, "wait_at_most");
    assert_eq!(refused(&lock.clone().loss_margin(Duration::from_secs(29))).field, "loss_margin");
    assert_eq!(refused(&lock.clone().max_hold(Duration::ZERO)).field, "max_hold");
    assert_eq!(refused(&lock.clone().lock_delay(years)).field, "lock_delay");
    assert_eq!(refused(&lock.clone().label("two\nlines")).field, "label");
    assert!(locks.list("").next().block().transpose().expect("an answer").is_none());
}

/// No character of a name has a meaning of its own.
pub fn every_valid_name_is_a_lock_of_its_own(subject: &impl Subject) {
    let locks = subject.locks("one");
    let long = "n".repeat(255);
    let names = [long.as_str(), "'; DROP TABLE locks; --", "%", "_", "*", "a?b", "名前", "{a}b", "..", "\"", "\\"];
    for name in names {
        let guard = locks.lock(name).ttl(long_ttl(&locks)).acquire().block().expect("free");
        let state = locks.inspect(name).block().expect("an answer");
        assert_eq!((state.name.as_str(), state.holders.len()), (name, 1));
        let listed = locks.list(name).next().block().expect("listed").expect("an answer");
        assert_eq!(listed.name, name);
        guard.release().block().expect("released");
    }
}
