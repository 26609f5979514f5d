//! The edges of a process: how it ends, stands still or is blocked. Each promise is put to the test with programs of
//! their own, which this test program plays: see `SCENARIOS`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::time::Duration;

use fencepost_core::{AcquireError, Blocking, Connect, Event, EventKind, Feed, Guard, Locks};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use super::{Subject, long_ttl, short_ttl, strangers};
use crate::process::{Other, await_leave, hear, role, say};
use crate::wait::PATIENCE;

/// The lock of every scenario.
const NAME: &str = "edge";
/// What a program ends with whose `main` panics.
const PANICKED: i32 = 101;

/// A place that other processes can reach, too.
pub trait Reachable: Subject {
    /// What another process needs to connect, in one line.
    fn address(&self) -> String;

    /// Connects to the place with this address, from another process.
    fn reach(address: &str) -> Connect;

    /// The finest lines that a `log` logger may take which blocks or panics. A driver that logs in the middle of its
    /// work bears no more.
    fn finest_log() -> log::LevelFilter {
        log::LevelFilter::Trace
    }

    /// What is held or waited for anywhere at this place. Nothing, once every process that used it has ended well.
    fn left_behind(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut states = self.locks("looks").list("");
        while let Some(state) = states.next().block() {
            let state = state.expect("the store answers");
            if !state.holders.is_empty() || !state.waiters.is_empty() {
                found.push(format!("{state:?}"));
            }
        }
        found
    }
}

/// A program by its name: what stands between the braces of its `main`. It connects by itself, and when it returns or
/// panics the process ends at once.
pub(super) type Scenario = (&'static str, fn(Connect));

const SCENARIOS: &[Scenario] = &[
    ("drops its guard, then its connection", |connect| {
        let locks = open(connect);
        let guard = hold(&locks);
        drop(guard);
        drop(locks);
    }),
    ("has nothing left but its guard", |connect| {
        let guard = hold(&open(connect));
        drop(guard);
    }),
    ("drops its guard inside a runtime", |connect| {
        runtime().block_on(async {
            let locks = connect.await.expect("the store can be reached");
            drop(locks.lock(NAME).ttl(long_ttl(&locks)).acquire().await.expect("free"));
        });
    }),
    ("panics with a guard", |connect| {
        let _guard = hold(&open(connect));
        resume_unwind(Box::new("the work failed"));
    }),
    ("tries in vain", |connect| {
        let lock = open(connect).lock(NAME);
        assert!(lock.try_acquire().block().expect("an answer").is_none());
    }),
    ("tries without a majority", |connect| {
        let locks = open(connect.answer_within(Duration::from_millis(50)));
        say("connected");
        await_leave();
        match locks.lock(NAME).try_acquire().block() {
            Err(AcquireError::Store(_)) => {}
            other => panic!("no majority is there: {other:?}"),
        }
    }),
    ("gives up waiting when told", |connect| wait_until(connect, || async { await_leave() })),
    ("gives up waiting by SIGTERM", |connect| {
        wait_until(connect, || {
            let mut terminate = signal(SignalKind::terminate()).expect("a handler");
            async move {
                let _ = terminate.recv().await;
            }
        });
    }),
    ("writes when told", |connect| {
        let locks = open(connect);
        let guard = locks.lock(NAME).ttl(short_ttl(&locks)).acquire().block().expect("free");
        say("holds");
        while hear().is_some() {
            match guard.ensure_held() {
                Ok(()) => say("answer: written"),
                Err(lost) => say(&format!("answer: refused, {:?}", lost.reason)),
            }
        }
    }),
    ("blocks its runtime", |connect| {
        runtime().block_on(async {
            let locks = connect.await.expect("the store can be reached");
            let ttl = short_ttl(&locks) * 3;
            let guard = locks.lock(NAME).ttl(ttl).acquire().await.expect("free");
            say("holds");
            // Blocks the only thread that the runtime has.
            await_leave();
            say(&format!("answer: {:?}", guard.ensure_held()));
        });
    }),
];

/// Plays the scenario that this process was started for, and ends the process as its `main` would.
pub fn in_another_process<S: Reachable>(_: impl FnOnce() -> S) {
    let Some((scenario, address)) = role() else { return };
    strangers::log_up_to(S::finest_log());
    let named = |scenarios: &[Scenario]| scenarios.iter().find(|(name, _)| *name == scenario).map(|(_, main)| *main);
    let connect = S::reach(&address);
    // Who misbehaves for ever is not worth more patience than a program has by default.
    let (main, connect) = match named(SCENARIOS) {
        Some(main) => (main, patient(connect)),
        None => (named(strangers::SCENARIOS).unwrap_or_else(|| unreachable!("BUG: no scenario {scenario:?}")), connect),
    };
    let ended = catch_unwind(AssertUnwindSafe(|| main(connect)));
    // Not by way of the test harness: its last words would give threads time that those of a program do not have.
    std::process::exit(if ended.is_ok() { 0 } else { PANICKED })
}

fn open(connect: Connect) -> Locks {
    connect.block().expect("the store can be reached")
}

fn hold(locks: &Locks) -> Guard {
    locks.lock(NAME).ttl(long_ttl(locks)).acquire().block().expect("free")
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Waits in the queue until it is told to end, and says so once it does wait.
fn wait_until<F: Future<Output = ()>>(connect: Connect, told: impl FnOnce() -> F) {
    runtime().block_on(async {
        let locks = connect.await.expect("the store can be reached");
        let (lock, mut events) = (locks.lock(NAME).ttl(long_ttl(&locks)).wait_forever(), locks.events());
        let mut acquiring = pin!(lock.acquire());
        tokio::select! {
            answer = &mut acquiring => panic!("it should wait: {answer:?}"),
            () = waits(&mut events) => {}
        }
        let told = told();
        say("waits");
        told.await;
    });
}

async fn waits(events: &mut Feed<Event>) {
    while events.next().await.expect("the connection is open").expect("a feed of events has no errors").kind
        != EventKind::Waiting
    {}
}

/// Starts a scenario at this place, in a process of its own.
fn start(subject: &impl Reachable, module: &str, scenario: &str) -> Other {
    Other::start_in(module, scenario, &subject.address())
}

/// A connection of the test itself, which leaves nothing behind either when its last handle is dropped.
fn beside(subject: &impl Reachable) -> Locks {
    open(subject.connect().label("beside").drain_within(PATIENCE))
}

/// With `FENCEPOST_LONG` all is as users have it, and often, on a machine that does nothing else.
fn is_long() -> bool {
    std::env::var_os("FENCEPOST_LONG").is_some()
}

/// How often each ending is tried.
fn times() -> usize {
    if is_long() { 40 } else { 3 }
}

/// A busy machine may keep a server waiting for longer than a program waits at its end by default.
fn patient(connect: Connect) -> Connect {
    if is_long() { connect } else { connect.drain_within(PATIENCE) }
}

/// A scenario that ends by itself leaves nothing behind.
fn ends_clean(subject: &impl Reachable, module: &str, scenario: &str, code: i32) {
    for _ in 0..times() {
        assert_eq!(start(subject, module, scenario).ends(), Some(code), "{scenario}");
        assert_eq!(subject.left_behind(), Vec::<String>::new(), "a program that {scenario}");
    }
}

/// A scenario that waits behind a holder is not in the queue any more once it has ended.
fn waits_clean(subject: &impl Reachable, module: &str, scenario: &str, end: impl Fn(&mut Other)) {
    for _ in 0..times() {
        let guard = hold(&beside(subject));
        let mut other = start(subject, module, scenario);
        end(&mut other);
        assert_eq!(other.ends(), Some(0), "{scenario}");
        drop(guard);
        assert_eq!(subject.left_behind(), Vec::<String>::new(), "a program that {scenario}");
    }
}

/// Whatever is dropped first, and whether or not there is a runtime.
pub fn a_guard_dropped_at_the_end_of_main_leaves_nothing_behind(subject: &impl Reachable, module: &str) {
    ends_clean(subject, module, "drops its guard, then its connection", 0);
    ends_clean(subject, module, "has nothing left but its guard", 0);
    ends_clean(subject, module, "drops its guard inside a runtime", 0);
}

/// The guard is dropped while `main` unwinds.
pub fn a_main_that_panics_leaves_nothing_behind(subject: &impl Reachable, module: &str) {
    ends_clean(subject, module, "panics with a guard", PANICKED);
}

/// A try leaves no claim behind at any node.
pub fn a_try_in_vain_leaves_nothing_behind(subject: &impl Reachable, module: &str) {
    waits_clean(subject, module, "tries in vain", |_| {});
}

/// The future of the acquisition is dropped at the end of `main`.
pub fn a_program_that_ends_while_it_waits_leaves_the_queue(subject: &impl Reachable, module: &str) {
    waits_clean(subject, module, "gives up waiting when told", |other| {
        other.says("waits");
        other.give_leave();
    });
}

/// A program that handles the signal and returns from `main`.
pub fn a_waiter_that_is_told_to_end_by_sigterm_leaves_the_queue(subject: &impl Reachable, module: &str) {
    waits_clean(subject, module, "gives up waiting by SIGTERM", |other| {
        other.says("waits");
        other.terminate();
    });
}

/// SIGSTOP for longer than the lease: another has the lock by then, and the first thing that is known is the loss.
pub fn a_process_that_stood_still_beyond_its_lease_writes_nothing_more(subject: &impl Reachable, module: &str) {
    let mut holder = start(subject, module, "writes when told");
    holder.says("holds");
    let locks = beside(subject);
    holder.stop();
    let next = locks.lock(NAME).ttl(long_ttl(&locks)).wait_at_most(PATIENCE).acquire().block().expect("its turn");
    holder.tell("write");
    holder.resume();
    assert_eq!(holder.says("answer: "), "refused, Expired");
    holder.give_leave();
    assert_eq!(holder.ends(), Some(0));
    assert!(next.is_held(), "the holder before it took it away");
    drop((next, locks));
    assert_eq!(subject.left_behind(), Vec::<String>::new());
}

/// Renewals do not need the user's runtime, and neither does the release at the end.
pub fn a_blocked_runtime_keeps_its_lock_and_frees_it_at_the_end(subject: &impl Reachable, module: &str) {
    let mut holder = start(subject, module, "blocks its runtime");
    holder.says("holds");
    let locks = beside(subject);
    let beyond: Duration = short_ttl(&locks) * 6;
    match locks.lock(NAME).wait_at_most(beyond).acquire().block() {
        Err(AcquireError::Busy { .. }) => {}
        other => panic!("{other:?}"),
    }
    drop(locks);
    holder.give_leave();
    assert_eq!(holder.says("answer: "), "Ok(())");
    assert_eq!(holder.ends(), Some(0));
    assert_eq!(subject.left_behind(), Vec::<String>::new());
}
