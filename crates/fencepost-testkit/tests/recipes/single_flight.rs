//! Single flight.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use fencepost_core::fence::FenceError;
use fencepost_core::{Blocking, Boxed, Locks, RunError, Values};
use fencepost_testkit::poll;

use crate::{Gate, HOUR, MS, SECOND, TTL, World, memory};

#[test]
fn of_many_readers_one_rebuilds_and_each_failure_is_its_own_callers() {
    for failures in [0, 3] {
        let (locks, rebuilt, start) = (memory(), AtomicU32::new(0), Barrier::new(64));
        let errors: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..64)
                .map(|_| {
                    let cache = locks.single_flight("k").wait_at_most(HOUR);
                    let (rebuilt, start) = (&rebuilt, &start);
                    scope.spawn(move || {
                        start.wait();
                        let rebuild = async || match rebuilt.fetch_add(1, Ordering::SeqCst) {
                            nth if nth < failures => Err("no"),
                            nth => Ok(nth),
                        };
                        match cache.get(rebuild).block() {
                            Ok(value) => assert_eq!(value, failures),
                            Err(RunError::Work("no")) => return 1,
                            Err(other) => panic!("{other:?}"),
                        }
                        0
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!((rebuilt.into_inner(), errors), (failures + 1, failures as usize));
    }
}

#[test]
fn the_old_value_is_served_while_one_rebuilds_and_for_no_longer_than_told() {
    let (world, gate) = (World::of(1), Gate::default());
    let cache = || world.locks().single_flight("k").fresh_for(60 * SECOND).stale_for(30 * SECOND);
    let unused = async || -> Result<u8, &str> { panic!("it rebuilt") };
    assert_eq!(cache().get(async || Ok::<_, &str>(1)).block().expect("built"), 1);
    world.clock.turn(59 * SECOND);
    assert_eq!(cache().get(unused).block().expect("fresh"), 1);
    world.clock.turn(SECOND);
    let rebuilder = cache();
    let mut rebuilding = pin!(rebuilder.get(async || {
        gate.pass().await;
        Ok::<_, &str>(2)
    }));
    assert!(poll::once(rebuilding.as_mut()).is_none());
    assert_eq!(cache().get(unused).block().expect("stale"), 1);
    world.clock.turn(30 * SECOND);
    let reader = cache();
    let mut reading = pin!(reader.get(unused));
    assert!(poll::once(reading.as_mut()).is_none(), "it is too old: it waits");
    gate.open();
    assert_eq!(world.soon(rebuilding).expect("rebuilt"), 2);
    assert_eq!(world.soon(reading).expect("fresh"), 2);
}

#[test]
fn a_rebuilder_that_died_is_taken_over_and_cannot_put_an_old_value_back() {
    let world = World::of(1);
    let cache = || world.locks().single_flight("k");
    let slow = cache();
    let late = slow.get(async || {
        world.clock.stall(TTL + SECOND);
        assert_eq!(cache().get(async || Ok::<_, &str>("new".to_owned())).block().expect("its turn"), "new");
        Ok::<_, &str>("old".to_owned())
    });
    let late = late.block();
    assert!(matches!(&late, Err(RunError::Unrecorded(why)) if matches!(**why, FenceError::Stale(_))), "{late:?}");
    let unused = async || -> Result<String, &str> { panic!("it rebuilt") };
    assert_eq!(cache().get(unused).block().expect("fresh"), "new");
}

#[derive(Default)]
struct Shelf(Mutex<HashMap<String, Vec<u8>>>);

impl Values for &'static Shelf {
    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Option<Vec<u8>>> {
        Box::pin(async move { Ok(self.0.lock().expect("no panic").get(key).cloned()) })
    }

    fn put<'a>(&'a self, key: &'a str, value: &'a [u8], _: Duration) -> Boxed<'a, ()> {
        Box::pin(async move {
            self.0.lock().expect("no panic").insert(key.to_owned(), value.to_owned());
            Ok(())
        })
    }
}

#[test]
fn values_may_live_elsewhere() {
    // The locks are where nodes vote: no record is needed.
    let (world, shelf) = (World::of(5), &*Box::leak(Box::<Shelf>::default()));
    let cache = || world.locks().single_flight("k").fresh_for(60 * SECOND).stale_for(SECOND).values(shelf);
    assert_eq!(cache().get(async || Ok::<_, &str>(1)).block().expect("built"), 1);
    assert_eq!(shelf.0.lock().expect("no panic").len(), 1);
    world.clock.turn(59 * SECOND);
    assert_eq!(cache().get(async || -> Result<u8, &str> { panic!("fresh") }).block().expect("fresh"), 1);
    world.clock.turn(2 * SECOND);
    assert_eq!(cache().get(async || Ok::<_, &str>(2)).block().expect("rebuilt"), 2);
}

#[test]
fn who_was_told_that_one_rebuilds_serves_the_old_value_and_asks_again_in_a_moment() {
    let (world, gate) = (World::of(1), Gate::default());
    let cache = |locks: &Locks| locks.single_flight("k").fresh_for(60 * SECOND).stale_for(30 * SECOND);
    let (rebuilder, reader) = (cache(&world.locks()), cache(&world.locks()));
    assert_eq!(rebuilder.get(async || Ok::<_, &str>(1)).block().expect("built"), 1);
    world.clock.turn(60 * SECOND);
    let mut dying = Box::pin(rebuilder.get(async || {
        gate.pass().await;
        Ok::<_, &str>(2)
    }));
    assert!(poll::once(dying.as_mut()).is_none());
    let unused = async || -> Result<u8, &str> { panic!("it rebuilt") };
    assert_eq!(reader.get(unused).block().expect("stale"), 1);
    // Nobody rebuilds now, and the reader does not know.
    drop(dying);
    world.clock.turn(99 * MS);
    assert_eq!(reader.get(unused).block().expect("stale"), 1);
    world.clock.turn(MS);
    assert_eq!(reader.get(async || Ok::<_, &str>(3)).block().expect("rebuilt"), 3);
}
