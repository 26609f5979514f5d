//! Once per key.

use std::pin::pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fencepost_core::{AcquireError, Blocking, Guard, Once, OnceError, RunError};
use fencepost_testkit::faulty::Link;
use fencepost_testkit::poll;

use crate::{Gate, HOUR, MS, SECOND, TTL, World, endless, is_stale, memory, never};

#[test]
fn whoever_comes_while_one_works_gets_its_result() {
    let (world, gate) = (World::of(1), Gate::default());
    let (first, second) = (world.locks().once_per_key("k", b"p"), world.locks().once_per_key("k", b"p"));
    let mut working = pin!(first.run(async |_| {
        gate.pass().await;
        Ok::<_, &str>(7)
    }));
    assert!(poll::once(working.as_mut()).is_none());
    let mut waiting = pin!(second.run(never::<i32>));
    assert!(poll::once(waiting.as_mut()).is_none(), "it waits");
    let other = world.locks().once_per_key("k", b"q");
    assert!(matches!(other.run(never::<i32>).block(), Err(OnceError::OtherPayload)), "while it works");
    let hasty = world.locks().once_per_key("k", b"p").wait_at_most(Duration::ZERO);
    let busy = hasty.run(never::<i32>).block();
    assert!(matches!(busy, Err(OnceError::Run(RunError::Acquire(AcquireError::Busy { .. })))), "{busy:?}");
    gate.open();
    assert_eq!(world.soon(working).expect("it works"), Once::Ran(7));
    assert_eq!(world.soon(waiting).expect("the same"), Once::Replayed(7));
    assert!(matches!(other.run(never::<i32>).block(), Err(OnceError::OtherPayload)), "when it is done");
    world.clock.turn(24 * HOUR);
    let later = other.run(async |_| Ok::<_, &str>(8)).block().expect("forgotten by then");
    assert_eq!(later, Once::Ran(8));
}

#[test]
fn many_threads_with_one_key_do_the_work_once() {
    let (locks, ran, start) = (memory(), AtomicU32::new(0), Barrier::new(32));
    let results: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..32)
            .map(|_| {
                let call = locks.once_per_key("k", b"p").wait_at_most(HOUR);
                scope.spawn(|| {
                    start.wait();
                    let work = async |_: &Guard| Ok::<_, &str>(ran.fetch_add(1, Ordering::SeqCst));
                    { call }.run(work).block().expect("a result").into_inner()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!((ran.into_inner(), results), (1, vec![0; 32]));
}

#[test]
fn a_worker_that_slept_through_its_lease_is_taken_over_and_its_late_result_is_refused() {
    let world = World::of(1);
    let call = || world.locks().once_per_key("k", b"p");
    let mut token = None;
    // It never awaits, so nobody can stop it.
    let slow = call();
    let late = slow.run(async |mine| {
        token = Some(mine.token());
        world.clock.stall(TTL + SECOND);
        let work = async |theirs: &Guard| {
            assert!(theirs.token() > mine.token());
            Ok::<_, &str>("theirs".to_owned())
        };
        assert_eq!(call().run(work).block().expect("the lease is over"), Once::Ran("theirs".to_owned()));
        Ok::<_, &str>("mine".to_owned())
    });
    match late.block() {
        Err(OnceError::Run(why)) => assert!(is_stale(&why, token.expect("it ran")), "{why:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(call().run(never).block().expect("there"), Once::Replayed("theirs".to_owned()));
}

#[test]
fn a_worker_that_died_is_taken_over_when_its_lease_is_over_and_one_that_was_dropped_at_once() {
    let world = World::of(1);
    let (dead, next) = (world.locks().once_per_key("k", b"p"), world.locks().once_per_key("k", b"p"));
    let mut dying = Box::pin(dead.run(endless::<u8>));
    assert!(poll::once(dying.as_mut()).is_none());
    world.clock.stall(TTL - MS);
    let hasty = next.clone().wait_at_most(Duration::ZERO);
    assert!(matches!(hasty.run(never::<u8>).block(), Err(OnceError::Run(RunError::Acquire(_)))), "too early");
    world.clock.stall(SECOND);
    let mut taking_over = Box::pin(next.run(endless::<u8>));
    assert!(poll::once(taking_over.as_mut()).is_none(), "it works");
    assert!(matches!(poll::once(dying.as_mut()), Some(Err(OnceError::Run(RunError::Lost(_))))), "stopped");
    drop(taking_over);
    assert_eq!(dead.run(async |_| Ok::<_, &str>(1)).block().expect("free at once"), Once::Ran(1));
}

#[test]
fn failures_are_tried_again_or_kept_as_told() {
    let world = World::of(1);
    let fails = async |_: &Guard| Err::<u8, _>("no funds");
    let again = world.locks().once_per_key("again", b"p");
    assert!(matches!(again.run(fails).block(), Err(OnceError::Run(RunError::Work("no funds")))));
    assert_eq!(again.run(async |_| Ok::<u8, &str>(1)).block().expect("tried again"), Once::Ran(1));
    let kept = world.locks().once_per_key("kept", b"p").keep_failures();
    assert!(matches!(kept.run(fails).block(), Err(OnceError::Run(RunError::Work("no funds")))));
    assert!(matches!(kept.run(never::<u8>).block(), Err(OnceError::FailedBefore(said)) if said == "no funds"));
}

#[test]
fn a_result_is_noted_when_the_store_is_back_within_the_lease() {
    for link in [Link::Silent, Link::Refused, Link::Deaf] {
        let world = World::of(1);
        let call = world.locks().once_per_key("k", b"p");
        let mut working = pin!(call.run(async |_| {
            world.nodes.node(0).set_link(link);
            Ok::<_, &str>(7)
        }));
        assert!(poll::once(working.as_mut()).is_none(), "{link:?}");
        for _ in 0..2000 {
            world.clock.turn(MS);
            assert!(poll::once(working.as_mut()).is_none(), "{link:?}");
        }
        world.nodes.node(0).set_link(Link::Up);
        let ran = (0..5000).find_map(|_| {
            world.clock.turn(MS);
            poll::once(working.as_mut())
        });
        assert_eq!(ran.expect("in time").expect("noted"), Once::Ran(7), "{link:?}");
        assert_eq!(world.locks().once_per_key("k", b"p").run(never).block().expect("there"), Once::Replayed(7));
    }
}
