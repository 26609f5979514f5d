//! The jobs that are built on locks and records, on whatever keeps them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fencepost_core::fence::FenceError;
use fencepost_core::{Blocking, FencingToken, Guard, Locks, Once, OnceError, RunError, Settled};

use super::records::{refuses, with_records};
use super::{Subject, short_ttl};
use crate::wait::{self, PATIENCE};

const HOUR: Duration = Duration::from_secs(3600);
const CALLERS: u32 = 4;

/// One of them, run to its end; or why not.
type Recipe = fn(&Locks) -> Result<(), String>;

/// Connections as other processes have them, which keep their records in one place.
fn connections(subject: &impl Subject) -> Vec<Locks> {
    let first = with_records(subject.locks("caller 0"));
    let another = |number| {
        let locks = subject.locks(&format!("caller {number}"));
        if locks.guarantees().records { locks } else { locks.keep_records_in(&first) }
    };
    let others: Vec<Locks> = (1..CALLERS).map(another).collect();
    [first].into_iter().chain(others).collect()
}

async fn work(_: &Guard) -> Result<u8, String> {
    Ok(1)
}

/// Work that must not be begun.
async fn never<T>(_: &Guard) -> Result<T, String> {
    panic!("it ran")
}

/// A cached value that must not be rebuilt.
async fn unused<T>() -> Result<T, String> {
    panic!("it rebuilt")
}

/// What each caller got, all of them at once.
fn all_at_once<T: Send>(callers: &[Locks], call: impl Fn(&Locks) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(callers.len());
    std::thread::scope(|scope| {
        let started = callers.iter().map(|locks| {
            let (start, call) = (&start, &call);
            scope.spawn(move || {
                start.wait();
                call(locks)
            })
        });
        let threads: Vec<_> = started.collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// With records each does its job; a store that keeps none says so before anything is done, and where to keep them.
pub fn a_store_without_records_refuses_every_recipe(subject: &impl Subject) {
    let locks = subject.locks("me");
    let recipes: [Recipe; 4] = [
        |at| at.once_per_key("k", b"p").run(work).block().map(drop).map_err(|error| error.to_string()),
        |at| at.once_per_window("k", HOUR).run(work).block().map(drop).map_err(|error| error.to_string()),
        |at| {
            let value = at.single_flight("k").get(async || Ok::<_, String>(1)).block();
            value.map(drop).map_err(|error| error.to_string())
        },
        |at| at.stock("k").set(1).block().map_err(|error| error.to_string()),
    ];
    if !locks.guarantees().records {
        for recipe in recipes {
            let said = recipe(&locks).expect_err("no records here");
            assert!(said.contains("keep_records_in"), "{said}");
        }
        for name in ["once/k", "cron/k", "cache/k", "stock/k"] {
            refuses(&locks, name);
            assert!(locks.inspect(name).block().expect("an answer").holders.is_empty(), "{name}");
        }
    }
    let locks = with_records(locks);
    for recipe in recipes {
        recipe(&locks).expect("records are kept");
    }
}

/// One of them works, and its result is everybody's; the same key is not good for another request.
pub fn callers_with_one_key_get_one_result(subject: &impl Subject) {
    let (callers, ran) = (connections(subject), AtomicU32::new(0));
    let results = all_at_once(&callers, |locks| {
        let call = locks.once_per_key("k", b"p").wait_at_most(PATIENCE);
        let work = async |_: &Guard| Ok::<_, String>(ran.fetch_add(1, Ordering::SeqCst));
        call.run(work).block().expect("a result").into_inner()
    });
    assert_eq!((ran.into_inner(), results), (1, vec![0; callers.len()]));
    let other = callers[1].once_per_key("k", b"q").run(never::<u32>).block();
    assert!(matches!(other, Err(OnceError::OtherPayload)), "{other:?}");
    assert_eq!(callers[2].once_per_key("k", b"p").run(never).block().expect("there"), Once::Replayed(0));
}

/// A worker that was overtaken, and did not hear of it, changes nothing.
pub fn a_late_result_is_refused(subject: &impl Subject) {
    let callers = connections(subject);
    let call = |locks: &Locks| locks.once_per_key("k", b"p").wait_at_most(PATIENCE);
    let slow = call(&callers[0]);
    let late = slow.run(async |mine| {
        // It never awaits, so nobody can stop it.
        callers[1].force_release("once/k", "it hangs").block().expect("an answer").holder.expect("we held it");
        let theirs = async |theirs: &Guard| {
            assert!(theirs.token() > mine.token());
            Ok::<_, String>("theirs".to_owned())
        };
        assert_eq!(call(&callers[1]).run(theirs).block().expect("free"), Once::Ran("theirs".to_owned()));
        Ok::<_, String>("mine".to_owned())
    });
    match late.block() {
        Err(OnceError::Run(RunError::Unrecorded(why))) if matches!(&*why, FenceError::Stale(_)) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(call(&callers[2]).run(never).block().expect("there"), Once::Replayed("theirs".to_owned()));
}

/// Not before it, and whatever they say later is refused.
pub fn work_of_the_dead_is_taken_over_after_their_lease(subject: &impl Subject) {
    let callers = connections(subject);
    let (dead, next) = (&callers[0], &callers[1]);
    let ttl = short_ttl(dead);
    // What a worker leaves behind that dies right after its start.
    let mut left: Vec<(&str, FencingToken)> = Vec::new();
    let began = Instant::now();
    for name in ["once/k", "cron/k", "cache/k"] {
        let guard = dead.lock(name).ttl(ttl).acquire().block().expect("free");
        left.push((name, guard.token()));
        dead.records().seal(name, guard.token()).block().expect("the newest");
        let _lease = guard.leak();
    }
    let job = next.once_per_window("k", HOUR);
    wait::until("another runs the window", || match job.run(async |_| Ok::<_, String>(began.elapsed())).block() {
        Ok(ran) => ran.inspect(|after| assert!(*after >= ttl, "{after:?}")).is_some(),
        Err(error) => panic!("{error:?}"),
    });
    let work = async |_: &Guard| Ok::<_, String>(began.elapsed());
    let done = next.once_per_key("k", b"p").wait_at_most(PATIENCE).run(work).block().expect("free in the end");
    let rebuild = async || Ok::<_, String>(began.elapsed());
    let built = next.single_flight("k").wait_at_most(PATIENCE).get(rebuild).block().expect("free in the end");
    assert!(done.into_inner() >= ttl && built >= ttl, "a lease of {ttl:?} kept others out for {built:?}");
    for (name, token) in left {
        let late = dead.records().put(name, token, *b"null", HOUR).block();
        assert!(matches!(late, Err(FenceError::Stale(_))), "{name}: {late:?}");
    }
}

/// The others skip it at once, while it runs and afterwards; the next window is another one.
pub fn a_window_is_run_by_one(subject: &impl Subject) {
    let (callers, ran) = (connections(subject), AtomicU32::new(0));
    let run = |locks: &Locks, window: &str| {
        let work = async |_: &Guard| Ok::<_, String>(ran.fetch_add(1, Ordering::SeqCst));
        locks.once_per_window("job", window).run(work).block().expect("an answer")
    };
    let mut runs = Vec::new();
    // Nodes that vote may have elected none of those who came at once.
    wait::until("one runs it", || {
        runs.extend(all_at_once(&callers, |locks| run(locks, "2026-11-15T02")).into_iter().flatten());
        !runs.is_empty()
    });
    assert_eq!((runs, ran.load(Ordering::SeqCst)), (vec![0], 1));
    let next = callers[0].once_per_window("job", "2026-11-15T03");
    let working = next.run(async |_| {
        let job = callers[1].once_per_window("job", "2026-11-15T03");
        assert_eq!(job.run(never::<u32>).block().expect("an answer"), None, "it runs");
        let running = job.inspect().block().expect("an answer").running;
        assert_eq!(running.expect("somebody").label, "caller 0");
        Ok::<_, String>(())
    });
    assert_eq!(working.block().expect("an answer"), Some(()));
    for window in ["2026-11-15T02", "2026-11-15T03"] {
        assert_eq!(run(&callers[2], window), None, "{window}");
    }
}

/// Those who come meanwhile get the old value while it may be served, else they wait for the new one.
pub fn one_rebuilds_for_all_readers(subject: &impl Subject) {
    let (callers, built) = (connections(subject), AtomicU32::new(0));
    let (fresh, stale) = (Duration::from_millis(50), HOUR);
    let cache = |locks: &Locks, key: &str| locks.single_flight(key).wait_at_most(PATIENCE);
    let values = all_at_once(&callers, |locks| {
        let rebuild = async || Ok::<_, String>(built.fetch_add(1, Ordering::SeqCst));
        cache(locks, "waited for").get(rebuild).block().expect("a value")
    });
    assert_eq!((built.into_inner(), values), (1, vec![0; callers.len()]));

    let served = |locks: &Locks| cache(locks, "served").fresh_for(fresh).stale_for(stale);
    assert_eq!(served(&callers[0]).get(async || Ok::<_, String>("old".to_owned())).block().expect("built"), "old");
    wait::until("the value is stale", || {
        let rebuild = async || {
            assert_eq!(served(&callers[1]).get(unused::<String>).block().expect("stale"), "old");
            Ok::<_, String>("new".to_owned())
        };
        served(&callers[0]).get(rebuild).block().expect("a value") == "new"
    });
}

/// However many want it at once; and what nobody confirmed is for sale again.
pub fn a_stock_is_never_oversold_and_what_expired_returns(subject: &impl Subject) {
    let callers = connections(subject);
    let seats = |locks: &Locks| locks.stock("seats").wait_at_most(PATIENCE);
    seats(&callers[0]).set(CALLERS - 1).block().expect("set");
    let reserved = all_at_once(&callers, |locks| seats(locks).reserve(1, HOUR).block().expect("an answer"));
    let reserved: Vec<String> = reserved.into_iter().flatten().map(|mine| mine.id).collect();
    assert_eq!(reserved.len(), callers.len() - 1, "{reserved:?}");
    let [sold, returned, ..] = &reserved[..] else { panic!("{reserved:?}") };
    for _ in 0..2 {
        assert_eq!(seats(&callers[1]).confirm(sold).block().expect("an answer"), Settled::Confirmed);
        assert_eq!(seats(&callers[2]).cancel(returned).block().expect("an answer"), Settled::Cancelled);
        assert_eq!(seats(&callers[1]).cancel(sold).block().expect("an answer"), Settled::Confirmed, "it is sold");
    }
    let soon = seats(&callers[0]).reserve(1, Duration::from_millis(50)).block().expect("an answer").expect("one");
    wait::until("it is back", || seats(&callers[1]).left().block().expect("an answer") == 1);
    assert_eq!(seats(&callers[0]).confirm(&soon.id).block().expect("an answer"), Settled::Expired);
    assert_eq!(seats(&callers[2]).left().block().expect("an answer"), 1, "one sold, one back, one reserved");
}
