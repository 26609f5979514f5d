//! Leaders: a lock by other words, and what others see of them.

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use fencepost_core::{AcquireError, Blocking, EventKind, FencingToken, ReleaseOutcome};

use super::{Subject, long_ttl, short_ttl, wait_for};
use crate::wait::until;

/// At once: nobody waits for a lease to end.
pub fn the_next_candidate_leads_after_a_resignation_in_a_higher_term(subject: &impl Subject) {
    let (one, two) = (subject.locks("one"), subject.locks("two"));
    let mut events = two.events();
    let first = one.election("x").ttl(long_ttl(&one)).campaign().block().expect("nobody leads");
    let candidate = two.election("x").ttl(long_ttl(&two));
    thread::scope(|scope| {
        let campaign = scope.spawn(|| candidate.campaign().block().expect("in the end"));
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        let term = first.term();
        assert_eq!(first.resign().block().expect("an answer"), ReleaseOutcome::Freed);
        let second = campaign.join().expect("no panic");
        assert!(second.term() > term, "{} after {term}", second.term());
    });
}

/// Tells that the work of a leader was dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The work of whoever lost its leadership is gone when the next one starts; later it leads again, in a higher term: the
/// line has it behind the other.
pub fn a_leader_stops_before_the_next_one_starts_and_campaigns_again(subject: &impl Subject) {
    let (one, two) = (subject.locks("one"), subject.locks("two"));
    let mut events = two.events();
    // Nobody renews: it will be lost. A busy machine runs whoever has to stop within the margin.
    let ttl = short_ttl(&one).max(Duration::from_secs(2));
    let first = one.election("x").ttl(ttl).loss_margin(ttl / 2).manual_renewal();
    let [started, stopped, second_led] = [const { AtomicBool::new(false) }; 3];
    let turns = AtomicU32::new(0);
    thread::scope(|scope| {
        let leads = scope.spawn(|| {
            let work = async |leadership: &fencepost_core::Leadership| {
                turns.fetch_add(1, Ordering::SeqCst);
                if second_led.load(Ordering::SeqCst) {
                    return Ok::<FencingToken, Infallible>(leadership.term());
                }
                stopped.store(false, Ordering::SeqCst);
                let _stops = Stops(&stopped);
                started.store(true, Ordering::SeqCst);
                pending().await
            };
            first.lead(work).block().expect("it ends by itself")
        });
        // Also if something fails here: the first shall not campaign for ever.
        let _ended = Stops(&second_led);
        until("the first leads", || started.load(Ordering::SeqCst));
        let second = two.election("x").ttl(long_ttl(&two)).campaign().block().expect("in the end");
        assert!(stopped.load(Ordering::SeqCst), "two lead at once");
        second_led.store(true, Ordering::SeqCst);
        wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Acquired { .. }));
        let term = second.term();
        second.resign().block().expect("an answer");
        let again = leads.join().expect("no panic");
        assert!(again > term, "{again} after {term}");
    });
    assert!(turns.into_inner() > 1, "it led once only");
    until("it resigned in the end", || two.election("x").leader().block().expect("an answer").is_none());
}

/// For a readiness check: by our own clock, without asking the store.
pub fn standing_follows_the_leadership(subject: &impl Subject) {
    let locks = subject.locks("one");
    let election = locks.election("x").ttl(long_ttl(&locks));
    let standing = election.standing();
    assert_eq!((standing.is_leading(), standing.term()), (false, None));
    let leadership = election.clone().campaign().block().expect("nobody leads");
    assert_eq!((standing.is_leading(), standing.term()), (true, Some(leadership.term())));
    drop(leadership);
    assert!(!standing.is_leading(), "it gave up");
    until("it is free", || election.leader().block().expect("an answer").is_none());
    let lost = election.ttl(short_ttl(&locks)).manual_renewal().campaign().block().expect("nobody leads");
    assert_eq!(standing.term(), Some(lost.term()));
    let _ = lost.lost().block();
    assert!(!standing.is_leading(), "it was lost");
}

/// Nothing is locked by a bad payload.
pub fn what_cannot_be_published_is_refused(subject: &impl Subject) {
    let locks = subject.locks("one");
    for bad in ["tab\t", "a\u{1f}b", &"x".repeat(256)] {
        match locks.election("x").payload(bad).campaign().block() {
            Err(AcquireError::Invalid(invalid)) => assert_eq!(invalid.field, "payload"),
            other => panic!("{other:?}"),
        }
    }
    assert!(locks.election("x").leader().block().expect("an answer").is_none());
}

/// What others need to find the leader, and who would come next.
pub fn a_leader_is_seen_with_its_term_and_payload_and_the_candidates_behind_it(subject: &impl Subject) {
    let (one, two) = (subject.locks("one"), subject.locks("two"));
    let mut events = two.events();
    let election = one.election("x").ttl(long_ttl(&one)).payload("10.0.0.7:8080 ✓");
    let leadership = election.campaign().block().expect("nobody leads");
    let leader = two.election("x").leader().block().expect("an answer").expect("one leads");
    assert_eq!((leader.label.as_str(), leader.token), ("one", Some(leadership.term())));
    assert_eq!(leader.payload.as_deref(), Some("10.0.0.7:8080 ✓"));
    let candidate = two.election("x").ttl(long_ttl(&two)).payload("y".repeat(255)).label("z".repeat(255));
    thread::scope(|scope| {
        let campaign = scope.spawn(|| candidate.campaign().block().expect("in the end"));
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        until("the candidate is in line", || {
            let state = one.inspect("x").block().expect("an answer");
            state.waiters.iter().any(|waiter| waiter.label == "z".repeat(255))
        });
        leadership.resign().block().expect("an answer");
        let second = campaign.join().expect("no panic");
        let leader = election.leader().block().expect("an answer").expect("one leads");
        assert_eq!((leader.token, leader.payload), (Some(second.term()), Some("y".repeat(255))));
    });
}

/// The leader now, then each change.
pub fn whoever_observes_sees_each_leader_and_when_there_is_none(subject: &impl Subject) {
    let (leading, watching) = (subject.locks("leading"), subject.locks("watching"));
    // As often as possible.
    let mut leaders = watching.election("x").ttl(short_ttl(&watching)).observe();
    let mut next = || leaders.next().block().expect("it does not end").expect("an answer");
    assert_eq!(next(), None);
    for payload in ["a", "b"] {
        let election = leading.election("x").ttl(long_ttl(&leading)).payload(payload);
        let leadership = election.campaign().block().expect("nobody leads");
        let leader = next().expect("one leads");
        assert_eq!((leader.token, leader.payload.as_deref()), (Some(leadership.term()), Some(payload)));
        leadership.resign().block().expect("an answer");
        assert_eq!(next(), None);
    }
}
