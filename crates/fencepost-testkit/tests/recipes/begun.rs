//! Recipes in two halves: begun for somebody elsewhere, and finished by a token.

use std::time::Duration;

use fencepost_core::fence::FenceError;
use fencepost_core::{Blocking as _, FencingToken, Finished, Locks, Once, OnceError, Ran};
use serde_json::json;

use super::{HOUR, World};

const DIGEST: [u8; 32] = [7; 32];

/// Takes the lock and gives it back: nobody has this token any more, and nobody an older one.
fn token(locks: &Locks, name: &str) -> FencingToken {
    let guard = locks.lock(name).acquire().block().expect("free");
    let token = guard.token();
    guard.release().block().expect("released");
    token
}

#[test]
fn a_run_is_finished_once_by_the_token_that_began_it() {
    let locks = World::of(1).locks();
    let job = locks.once_per_window("j", "w").at_most_for(HOUR);
    let finish = |token, error: Option<&str>| {
        locks.finish_window("j", token, error.map(ToOwned::to_owned), Duration::ZERO).block()
    };
    let first = token(&locks, "cron/j");
    assert!(!finish(first, None).expect("read"), "it was never begun");
    let which = Some(Ran::Named("w".into()));
    assert_eq!(job.begin(first).block().expect("noted"), which);
    assert_eq!(job.begin(first).block().expect("the same run"), which);
    assert_eq!(locks.window_limit("j", first).block().expect("read"), Some(HOUR));
    let second = token(&locks, "cron/j");
    assert!(job.begin(second).block().expect("the first has died").is_some());
    assert!(matches!(finish(first, None), Err(FenceError::Stale(_))));
    assert!(!locks.window_finished_by("j", second).block().expect("read"));
    assert!(finish(second, Some("no disk")).expect("noted"));
    assert!(finish(second, None).expect("the first end counts"));
    assert!(locks.window_finished_by("j", second).block().expect("read"));
    assert_eq!(job.inspect().block().expect("read").failed.as_deref(), Some("no disk"));
    assert!(!job.is_due().block().expect("read"));
    assert_eq!(job.begin(token(&locks, "cron/j")).block().expect("read"), None, "it has run");
}

#[test]
fn a_run_that_was_begun_and_left_is_run_by_the_library_and_the_other_way_round() {
    let locks = World::of(1).locks();
    let job = locks.once_per_window("j", "w");
    assert!(job.begin(token(&locks, "cron/j")).block().expect("noted").is_some());
    let work = async |_: &_| Ok::<_, std::io::Error>(());
    assert_eq!(job.run(work).block().expect("noted"), Some(()));
    let late = token(&locks, "cron/j");
    assert_eq!(job.begin(late).block().expect("read"), None);
    assert!(!locks.finish_window("j", late, None, Duration::ZERO).block().expect("read"));
    assert!(!locks.window_finished_by("j", late).block().expect("read"));
}

#[test]
fn a_job_rests_from_its_start_by_the_age_of_its_note() {
    let world = World::of(1);
    let locks = world.locks();
    let minute = Duration::from_secs(60);
    let job = |window: &str| locks.once_per_window("j", window).at_least_for(3 * minute);
    let first = token(&locks, "cron/j");
    assert!(job("a").begin(first).block().expect("noted").is_some());
    world.clock.turn(2 * minute);
    assert!(job("a").begin(first).block().expect("begun before").is_some(), "asked again, it does not begin anew");
    assert!(locks.finish_window("j", first, None, Duration::ZERO).block().expect("noted"));
    assert!(!job("b").is_due().block().expect("read"));
    world.clock.turn(minute + Duration::from_secs(1));
    assert!(job("b").is_due().block().expect("read"), "three minutes after its start");
}

#[test]
fn work_for_a_key_is_finished_once_by_the_token_that_began_it() {
    let locks = World::of(1).locks();
    let once = locks.once_per_digest("k", DIGEST);
    let finish = |token, outcome| locks.finish_key("k", token, outcome, Duration::ZERO).block();
    let first = token(&locks, "once/k");
    assert!(!finish(first, Finished::Failed).expect("read"), "it was never begun");
    assert_eq!(once.begin(first).block().expect("noted"), None);
    assert!(finish(first, Finished::Failed).expect("forgotten"));
    let second = token(&locks, "once/k");
    assert_eq!(once.begin(second).block().expect("tried again"), None);
    assert!(matches!(finish(first, Finished::Done(json!(1))), Err(FenceError::Stale(_))));
    let other = locks.once_per_digest("k", [8; 32]);
    assert!(matches!(other.replayed().block(), Err(OnceError::OtherPayload)));
    assert!(finish(second, Finished::Done(json!([2]))).expect("noted"));
    assert!(finish(second, Finished::Done(json!(3))).expect("the first end counts"));
    assert!(locks.key_finished_by("k", second).block().expect("read"));
    // A start that comes late under the same token undoes nothing.
    assert_eq!(once.begin(second).block().expect("read"), Some(json!([2])));
    assert_eq!(once.replayed().block().expect("read"), Some(json!([2])));
}

#[test]
fn a_payload_by_its_digest_is_the_payload() {
    let locks = World::of(1).locks();
    let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let mut digest = [0; 32];
    for (byte, place) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&hello[place..place + 2], 16).expect("digits");
    }
    let work = async |_: &_| Ok::<_, std::io::Error>(json!(1));
    assert_eq!(locks.once_per_key("k", "hello").run(work).block().expect("done"), Once::Ran(json!(1)));
    assert_eq!(locks.once_per_digest("k", digest).replayed().block().expect("read"), Some(json!(1)));
}
