//! Asking a holder to let go.

use std::pin::pin;

use fencepost_core::{Blocking, EventKind, Guard, ReleaseOutcome};

use super::{Subject, long_ttl, wait_for};
use crate::poll;

/// With the next renewal, once; and the holder decides.
pub fn a_holder_hears_who_asks_for_its_lock_and_why(subject: &impl Subject) {
    let (holding, asking) = (subject.locks("holding"), subject.locks("asking"));
    let mut events = holding.events();
    let guard = holding.lock("x").ttl(long_ttl(&holding)).manual_renewal().acquire().block().expect("free");
    let asked = asking.ask_to_yield("x", "the disk is full").block().expect("an answer").expect("it is held");
    assert_eq!((asked.label.as_str(), asked.token), ("holding", Some(guard.token())));
    assert!(poll::once(pin!(guard.yield_requested())).is_none(), "nobody told it yet");
    guard.renew().block().expect("kept");
    let request = guard.yield_requested().block();
    assert_eq!((request.by.as_str(), request.note.as_str()), ("asking", "the disk is full"));
    wait_for(&mut events, "x", |kind| *kind == EventKind::YieldRequested(request.clone()));
    guard.renew().block().expect("kept");
    assert!(poll::once(pin!(guard.yield_requested())).is_none(), "told twice");
    asking.ask_to_yield("x", "still").block().expect("an answer").expect("it is held");
    guard.renew().block().expect("kept");
    assert_eq!(guard.yield_requested().block().note, "still");
    assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
}

/// The next owner is not asked for what the one before it was.
pub fn a_request_ends_with_the_hold_that_it_was_meant_for(subject: &impl Subject) {
    let (holding, asking) = (subject.locks("holding"), subject.locks("asking"));
    assert!(asking.ask_to_yield("x", "").block().expect("an answer").is_none(), "nobody to ask");
    let lock = holding.lock("x").ttl(long_ttl(&holding)).manual_renewal();
    let hears_nothing = |guard: &Guard| {
        guard.renew().block().expect("kept");
        poll::once(pin!(guard.yield_requested())).is_none()
    };
    let first = lock.acquire().block().expect("free");
    assert!(hears_nothing(&first), "asked while it was free");
    asking.ask_to_yield("x", "").block().expect("an answer").expect("it is held");
    first.release().block().expect("released");
    let second = lock.acquire().block().expect("free");
    assert!(hears_nothing(&second), "it was meant for the one before");
    second.release().block().expect("released");
}

/// Each of them.
pub fn readers_are_asked_and_so_is_one_without_a_token(subject: &impl Subject) {
    let (holding, asking) = (subject.locks("holding"), subject.locks("asking"));
    let ttl = long_ttl(&holding);
    let shared = holding.lock("x").ttl(ttl).manual_renewal().shared();
    let readers = [shared.acquire().block().expect("free"), shared.acquire().block().expect("readers share")];
    let plain = holding.lock("y").ttl(ttl).manual_renewal().unfenced().acquire().block().expect("free");
    for name in ["x", "y"] {
        asking.ask_to_yield(name, name).block().expect("an answer").expect("it is held");
    }
    for reader in readers {
        reader.renew().block().expect("kept");
        assert_eq!(reader.yield_requested().block().note, "x");
    }
    plain.renew().block().expect("kept");
    assert_eq!(plain.yield_requested().block().note, "y");
}
