//! Locks without a token.

use fencepost_core::{Blocking, ReleaseOutcome};

use super::{Subject, long_ttl, short_ttl};

/// One key, whoever asks for it.
pub fn a_lock_without_a_token_excludes_one_with_a_token_and_the_other_way_round(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let ttl = long_ttl(&one);
    let (fenced, plain) = (one.lock("x").ttl(ttl), other.lock("x").ttl(ttl).unfenced());
    let guard = plain.acquire().block().expect("free");
    assert!(fenced.try_acquire().block().expect("an answer").is_none());
    assert!(plain.try_acquire().block().expect("an answer").is_none());
    assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
    let guard = fenced.acquire().block().expect("free");
    assert!(plain.try_acquire().block().expect("an answer").is_none());
    guard.release().block().expect("released");
    assert!(plain.acquire().block().expect("free").is_held());
}

/// Renewed, lost and waited for like any other.
pub fn a_lock_without_a_token_is_renewed_and_waited_for(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let guard = one.lock("x").ttl(long_ttl(&one)).unfenced().acquire().block().expect("free");
    guard.renew().block().expect("kept");
    let lease = guard.leak();
    let guard = one.adopt(&lease).block().expect("still there");
    guard.release().block().expect("released");
    let gone = one.lock("x").ttl(short_ttl(&one)).unfenced().acquire().block().expect("free").leak();
    let next = other.lock("x").unfenced().wait_forever().acquire().block().expect("free after the ttl");
    assert!(one.adopt(&gone).block().is_err(), "another has it");
    assert!(next.is_held());
}
