//! Recipes in memory: to the millisecond in virtual time, and with many threads at once.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use fencepost_core::fence::FenceError;
use fencepost_core::store::{self, Memory};
use fencepost_core::{
    AcquireError, Blocking, Boxed, FencingToken, Guard, Locks, LossReason, Once, OnceError, Ran, RunError, Settled,
    StoreErrorKind, Values, VirtualClock,
};
use fencepost_testkit::faulty::{Faults, Link};
use fencepost_testkit::nodes::Nodes;
use fencepost_testkit::poll;

const TTL: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// One store in memory, or several nodes that vote, and their time.
struct World {
    clock: VirtualClock,
    nodes: Nodes,
}

impl World {
    fn of(nodes: usize) -> Self {
        let clock = VirtualClock::new();
        Self { nodes: Nodes::new(nodes, &clock.clock(), 1, Faults::default()), clock }
    }

    /// A connection as another process would have it.
    fn locks(&self) -> Locks {
        self.nodes.connect().clock(&self.clock).ttl(TTL).block().expect("memory is there")
    }

    /// Polls by hand, a millisecond apart.
    fn soon<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        for _ in 0..1000 {
            if let Some(done) = poll::once(future.as_mut()) {
                return done;
            }
            self.clock.turn(MS);
        }
        panic!("not within a second of its time");
    }
}

/// One store in memory, in real time, for threads.
fn memory() -> Locks {
    store::connect(|at| Ok(vec![Memory::new(at.clock)])).block().expect("memory is there")
}

/// Work that is not done before somebody opens this.
#[derive(Default)]
struct Gate(AtomicBool);

impl Gate {
    fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    async fn pass(&self) {
        poll_fn(|_| if self.0.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// Work that never ends by itself.
async fn endless<T>(_: &Guard) -> Result<T, &'static str> {
    std::future::pending().await
}

/// Work that must not be begun.
async fn never<T>(_: &Guard) -> Result<T, &'static str> {
    panic!("it ran")
}

fn is_stale<E>(outcome: &RunError<E>, of: FencingToken) -> bool {
    let RunError::Unrecorded(why) = outcome else { return false };
    matches!(&**why, FenceError::Stale(stale) if stale.token == of && stale.seen > of)
}

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

#[test]
fn a_job_runs_once_per_window_and_a_slow_clock_repeats_none() {
    let world = World::of(1);
    let runs = AtomicU32::new(0);
    let job = || world.locks().once_per_window("job", HOUR);
    let run = || job().run(async |_| Ok::<_, &str>(runs.fetch_add(1, Ordering::SeqCst))).block().expect("an answer");
    assert_eq!((run(), run()), (Some(0), None));
    world.clock.turn(HOUR - MS);
    assert_eq!(run(), None, "the same hour");
    world.clock.turn(MS);
    assert_eq!((run(), run()), (Some(1), None));
    let noon = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    world.clock.set_wall(noon + HOUR - 5 * SECOND);
    assert_eq!(run(), None, "a clock that is slow is in an older window");
    let state = job().inspect().block().expect("an answer");
    assert_eq!(state.last_window, Some(Ran::Since(noon + HOUR)));
    assert_eq!((state.last_run, state.failed, state.running), (Some(noon + HOUR), None, None));
    assert_eq!(state.next, Some(noon + HOUR));
    world.clock.set_wall(noon + 2 * HOUR);
    assert_eq!((run(), run()), (Some(2), None));
}

#[test]
fn a_named_window_runs_once_and_others_skip_while_it_runs() {
    let world = World::of(1);
    let job = |window: &str| world.locks().once_per_window("job", window);
    let first = job("2026-11-15T02");
    let mut running = Box::pin(first.run(endless::<()>));
    assert!(poll::once(running.as_mut()).is_none());
    assert!(job("2026-11-15T02").run(never::<()>).block().expect("an answer").is_none(), "somebody runs it");
    assert!(job("").inspect().block().expect("an answer").running.is_some());
    drop(running);
    for (window, runs) in [("2026-11-15T02", true), ("2026-11-15T03", true), ("2026-11-15T02", false)] {
        let ran = job(window).run(async |_| Ok::<_, &str>(())).block().expect("an answer");
        assert_eq!(ran.is_some(), runs, "{window}");
    }
    assert_eq!(job("x").inspect().block().expect("an answer").last_window, Some(Ran::Named("2026-11-15T03".into())));
    let bad = job("").run(never::<()>).block();
    assert!(matches!(bad, Err(RunError::Acquire(AcquireError::Invalid(bad))) if bad.field == "window"));
}

#[test]
fn a_failed_run_counts_and_a_dead_runner_does_not() {
    let world = World::of(1);
    let job = || world.locks().once_per_window("job", HOUR);
    let (dead, next) = (job(), job());
    let mut dying = Box::pin(dead.run(endless::<u8>));
    assert!(poll::once(dying.as_mut()).is_none());
    world.clock.stall(TTL - MS);
    assert_eq!(next.run(never::<u8>).block().expect("an answer"), None, "it may live");
    world.clock.stall(SECOND);
    let failed = next.run(async |_| Err::<u8, _>("disk full")).block();
    assert!(matches!(failed, Err(RunError::Work("disk full"))), "{failed:?}");
    assert!(matches!(poll::once(dying.as_mut()), Some(Err(RunError::Lost(_)))));
    assert_eq!(job().run(never::<u8>).block().expect("an answer"), None, "it has run");
    assert_eq!(job().inspect().block().expect("an answer").failed.as_deref(), Some("disk full"));
}

#[test]
fn a_runner_that_slept_through_its_lease_notes_nothing() {
    let world = World::of(1);
    let job = || world.locks().once_per_window("job", HOUR);
    let mut token = None;
    let slow = job();
    let late = slow.run(async |mine| {
        token = Some(mine.token());
        world.clock.stall(TTL + SECOND);
        let theirs = job().run(async |_| Err::<u8, _>("theirs")).block();
        assert!(matches!(theirs, Err(RunError::Work("theirs"))));
        Ok::<_, &str>(1)
    });
    let late = late.block().expect_err("overtaken");
    assert!(is_stale(&late, token.expect("it ran")), "{late:?}");
    assert_eq!(job().inspect().block().expect("an answer").failed.as_deref(), Some("theirs"));
}

#[test]
fn nobody_starts_again_before_the_least_time_nor_runs_past_the_most() {
    let world = World::of(1);
    let job = || world.locks().once_per_window("job", SECOND).at_least_for(60 * SECOND);
    let quick = async |_: &Guard| Ok::<_, &str>(());
    assert!(job().run(quick).block().expect("an answer").is_some());
    for after in [2 * SECOND, 57 * SECOND, 999 * MS] {
        world.clock.turn(after);
        assert_eq!(job().run(never::<()>).block().expect("an answer"), None);
    }
    world.clock.turn(MS);
    assert!(job().run(quick).block().expect("an answer").is_some(), "60 s after the start");

    // Longer than any lease: it is renewed, and ends all the same.
    let limited = world.locks().once_per_window("long", HOUR).at_most_for(600 * SECOND);
    let mut running = pin!(limited.run(endless::<()>));
    assert!(poll::once(running.as_mut()).is_none());
    for _ in 0..590 {
        world.clock.turn(SECOND);
        assert!(poll::once(running.as_mut()).is_none());
    }
    world.clock.turn(11 * SECOND);
    match world.soon(running) {
        Err(RunError::Lost(lost)) => assert_eq!(lost.reason, LossReason::HoldLimit),
        other => panic!("{other:?}"),
    }
    let state = limited.inspect().block().expect("an answer");
    assert_eq!(state.failed.as_deref(), Some("stopped after 600s"));
    assert_eq!(limited.run(never::<()>).block().expect("an answer"), None, "it counts as failed");
}

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
fn a_stock_is_never_oversold_by_many_threads() {
    let (locks, sold) = (memory(), AtomicU32::new(0));
    let seats = locks.stock("seats").wait_at_most(HOUR);
    seats.set(20).block().expect("set");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (seats, sold) = (&seats, &sold);
            scope.spawn(move || {
                for buyer in 0..10 {
                    let Some(mine) = seats.reserve(1, HOUR).block().expect("an answer") else { continue };
                    // Every third one changes its mind.
                    let settled = match (thread + buyer) % 3 {
                        0 => seats.cancel(&mine.id).block(),
                        _ => seats.confirm(&mine.id).block(),
                    };
                    if settled.expect("an answer") == Settled::Confirmed {
                        sold.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let (sold, left) = (sold.into_inner(), seats.left().block().expect("an answer"));
    assert_eq!(sold + left, 20, "{sold} sold and {left} left");
}

#[test]
fn a_reservation_ends_once_by_whoever_ends_it_first() {
    let world = World::of(1);
    let stock = || world.locks().stock("seats");
    stock().set(3).block().expect("set");
    let reserve = || stock().reserve(1, 60 * SECOND).block().expect("an answer").expect("there is one").id;
    let (sold, returned, expired) = (reserve(), reserve(), reserve());
    assert_eq!(stock().reserve(1, SECOND).block().expect("an answer"), None);
    for (id, first, second, settled) in [
        (&sold, Settled::Confirmed, Settled::Cancelled, Settled::Confirmed),
        (&returned, Settled::Cancelled, Settled::Confirmed, Settled::Cancelled),
    ] {
        for how in [first, second] {
            let ended = match how {
                Settled::Confirmed => stock().confirm(id).block(),
                _ => stock().cancel(id).block(),
            };
            assert_eq!(ended.expect("an answer"), settled);
        }
    }
    assert_eq!(stock().left().block().expect("an answer"), 1);
    world.clock.turn(60 * SECOND - MS);
    assert_eq!(stock().left().block().expect("an answer"), 1);
    world.clock.turn(MS);
    assert_eq!(stock().left().block().expect("an answer"), 2);
    for _ in 0..2 {
        assert_eq!(stock().confirm(&expired).block().expect("an answer"), Settled::Expired);
    }
    assert_eq!(stock().confirm("nobody's").block().expect("an answer"), Settled::Expired);
    assert_eq!(stock().left().block().expect("an answer"), 2);
}

#[test]
fn time_goes_on_for_a_stock_that_changes_all_the_time() {
    let world = World::of(1);
    let stock = world.locks().stock("seats");
    stock.set(1).block().expect("set");
    let _held = stock.reserve(1, 20 * MS).block().expect("an answer").expect("there is one");
    // A store tells time by the millisecond or finer, and never loses or gains one per change.
    for _ in 0..190 {
        world.clock.turn(MS / 10);
        assert_eq!(stock.reserve(1, MS).block().expect("an answer"), None);
    }
    for _ in 0..10 {
        world.clock.turn(MS / 10);
        let _ = stock.reserve(2, MS).block().expect("an answer");
    }
    assert!(stock.reserve(1, MS).block().expect("an answer").is_some(), "after 20 ms");
}

#[test]
fn nodes_that_vote_keep_no_records_and_work_with_a_store_that_does() {
    let (voting, keeping) = (World::of(5), World::of(1));
    let refused = |said: String| assert!(said.contains("keep_records_in"), "{said}");
    let all = |locks: &Locks| {
        let work = async |_: &Guard| Ok::<_, &str>(1);
        [
            locks.once_per_key("k", b"p").run(work).block().map(drop).map_err(|error| error.to_string()),
            locks.once_per_window("k", HOUR).run(work).block().map(drop).map_err(|error| error.to_string()),
            locks
                .single_flight("k")
                .get(async || Ok::<_, &str>(1))
                .block()
                .map(drop)
                .map_err(|error| error.to_string()),
            locks.stock("k").set(1).block().map_err(|error| error.to_string()),
        ]
    };
    all(&voting.locks()).into_iter().for_each(|answer| refused(answer.expect_err("no records there")));
    let both = voting.locks().keep_records_in(&keeping.locks());
    all(&both).into_iter().for_each(|answer| answer.expect("a store that keeps records"));
    assert_eq!(both.once_per_key("k", b"p").run(never::<i32>).block().expect("there"), Once::Replayed(1));
}

#[test]
fn a_name_that_leaves_no_room_is_refused_by_its_own_field() {
    let locks = World::of(1).locks();
    for (name, cure) in [(String::new(), "it has 0 bytes"), ("x".repeat(251), "it has 251 bytes")] {
        let says = |said: String, field: &str| {
            assert!(said.contains(&format!("invalid {field} ")) && said.contains(cure), "{said}");
        };
        says(locks.once_per_key(&name, b"p").run(never::<u8>).block().expect_err("refused").to_string(), "key");
        says(locks.once_per_window(&name, HOUR).run(never::<u8>).block().expect_err("refused").to_string(), "name");
        says(locks.once_per_window(&name, HOUR).inspect().block().expect_err("refused").to_string(), "name");
        let unused = async || -> Result<u8, &str> { panic!("it rebuilt") };
        says(locks.single_flight(&name).get(unused).block().expect_err("refused").to_string(), "key");
        let refused = locks.stock(&name).reserve(1, HOUR).block().expect_err("refused");
        assert_eq!(refused.kind, StoreErrorKind::Misconfigured);
        says(refused.to_string(), "item");
        says(locks.stock(&name).left().block().expect_err("refused").to_string(), "item");
    }
    let longest = "x".repeat(249);
    let work = async |_: &Guard| Ok::<_, &str>(1);
    locks.once_per_key(&longest, b"p").run(work).block().expect("fits");
    locks.once_per_window(&longest, HOUR).run(work).block().expect("fits");
    locks.single_flight(&longest).get(async || Ok::<_, &str>(1)).block().expect("fits");
    locks.stock(&longest).set(1).block().expect("fits");
}

#[test]
fn spans_that_make_no_sense_are_refused() {
    let locks = World::of(1).locks();
    let field = |outcome: RunError<&str>| match outcome {
        RunError::Acquire(AcquireError::Invalid(invalid)) => invalid.field,
        other => panic!("{other:?}"),
    };
    let window = |every| locks.once_per_window("w", every);
    assert_eq!(field(window(Duration::ZERO).run(never::<u8>).block().expect_err("no span")), "window");
    let none = window(HOUR).at_most_for(Duration::ZERO);
    assert_eq!(field(none.run(never::<u8>).block().expect_err("no span")), "at_most_for");
    let long = window(HOUR).at_least_for(Duration::MAX);
    assert_eq!(field(long.run(never::<u8>).block().expect_err("too long")), "at_least_for");
    let unused = async || -> Result<u8, &'static str> { panic!("it rebuilt") };
    let stale = locks.single_flight("k").fresh_for(Duration::ZERO);
    assert_eq!(field(stale.get(unused).block().expect_err("no span")), "fresh_for");
    for (count, hold_for, field) in
        [(0, HOUR, "count"), (1, Duration::ZERO, "hold_for"), (1, Duration::MAX, "hold_for")]
    {
        let refused = locks.stock("s").reserve(count, hold_for).block().expect_err("refused").to_string();
        assert!(refused.contains(field), "{refused}");
    }
}
