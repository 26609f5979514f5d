//! The contract while masters change, ten times in a row.
//!
//! A promise may be told that the store cannot be reached: that is an honest answer in the middle of a failover, and the
//! promise is put to the test again. So it is where a failover came in its way and may have changed what it looks at, unless
//! it is about exclusion or tokens. Any other failure is one.

mod fleets;

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::contract;
use fencepost_testkit::contract::{Promise, Subject};
use fencepost_testkit::sentinels::Sentinels;
use fencepost_testkit::wait::until;
use fleets::Place;

const FAILOVERS: usize = 10;
const WORKERS: usize = 8;
/// A promise that so many failovers in a row came in the way of is not kept.
const TRIES: usize = 8;
/// The attempt of a promise that was kept already: left out once there were enough failovers.
const ONCE_MORE: usize = 0;
/// Promises that hold in the middle of a failover, too.
const NEVER_EXCUSED: [&str; 2] = ["exclusion::", "fencing::"];
/// A lease outlives a failover, which takes up to a few seconds.
const SHORTEST_LEASE: Duration = Duration::from_secs(4);

/// All promises, while workers put them to the test.
struct Trial<S: 'static> {
    open: Mutex<VecDeque<(Promise<S>, usize)>>,
    kept: AtomicUsize,
    interrupted: AtomicUsize,
    /// Those at work that were interrupted more than once.
    overdue: AtomicUsize,
    broken: Mutex<Vec<String>>,
    /// Begun, and ended.
    failovers: AtomicUsize,
    ended: AtomicUsize,
    stop: AtomicBool,
}

impl<S: Subject> Trial<S> {
    fn new(promises: &[Promise<S>]) -> Self {
        let open = promises.iter().map(|promise| (*promise, 1)).collect();
        Self {
            open: Mutex::new(open),
            kept: AtomicUsize::new(0),
            interrupted: AtomicUsize::new(0),
            overdue: AtomicUsize::new(0),
            broken: Mutex::default(),
            failovers: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Goes through the promises, and through those that were kept once more until there were enough failovers.
    fn work(&self, subject: impl Fn() -> S) {
        while !self.stop.load(Ordering::SeqCst) {
            let Some(((name, promise), attempt)) = self.open.lock().expect("no panic").pop_front() else { return };
            let before = self.failovers.load(Ordering::SeqCst);
            if attempt == ONCE_MORE && before >= FAILOVERS {
                continue;
            }
            let seen = PANICS.lock().expect("no panic").len();
            // Some take longer than it is from one failover to the next: the next waits for one that was interrupted before.
            let overdue = usize::from(attempt > 2);
            self.overdue.fetch_add(overdue, Ordering::SeqCst);
            let tried = catch_unwind(AssertUnwindSafe(|| promise(&subject())));
            self.overdue.fetch_sub(overdue, Ordering::SeqCst);
            match tried {
                Ok(()) => {
                    self.kept.fetch_add(1, Ordering::SeqCst);
                    self.open.lock().expect("no panic").push_back(((name, promise), ONCE_MORE));
                }
                Err(panic)
                    if (was_unreachable(name, &*panic, seen) || self.was_in_the_way(name, before))
                        && attempt < TRIES =>
                {
                    self.interrupted.fetch_add(1, Ordering::SeqCst);
                    let begun = self.failovers.load(Ordering::SeqCst);
                    until("the failover is over", || self.ended.load(Ordering::SeqCst) >= begun);
                    self.open.lock().expect("no panic").push_front(((name, promise), attempt + 1));
                }
                Err(panic) => {
                    let text = format!("{name}, in failover {before} or soon after: {}", text(&*panic));
                    self.broken.lock().expect("no panic").push(text);
                }
            }
        }
    }
}

impl<S> Trial<S> {
    /// Whether a failover came in the way of something that it may change: it loses what was not copied yet, and outlasts
    /// places in line. Exclusion and the order of tokens have no such excuse.
    fn was_in_the_way(&self, promise: &str, begun: usize) -> bool {
        let began_within = begun > self.ended.load(Ordering::SeqCst);
        let is_excused = !NEVER_EXCUSED.iter().any(|group| promise.starts_with(group));
        is_excused && (began_within || self.failovers.load(Ordering::SeqCst) > begun)
    }
}

/// What was said by every thread that panicked, and in which file.
static PANICS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
/// What a thread says whose own threads panicked: the reason is theirs.
const BY_OTHERS: [&str; 2] = ["a scoped thread panicked", "no panic: Any"];

fn is_by_others(text: &str) -> bool {
    BY_OTHERS.iter().any(|start| text.starts_with(start))
}

/// Writes down what threads say that panic.
fn listen_to_panics() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let file = info.location().map(|place| place.file().to_owned()).unwrap_or_default();
        PANICS.lock().expect("no panic").push((file, text(info.payload())));
        tell(info);
    }));
}

/// Whether what went wrong with a promise is that the store could not be reached.
fn was_unreachable(promise: &str, panic: &(dyn Any + Send), seen: usize) -> bool {
    let mut reasons = vec![text(panic)];
    if is_by_others(&reasons[0]) {
        let file = promise.split("::").next().map(|file| format!("contract/{file}.rs")).unwrap_or_default();
        let panics = PANICS.lock().expect("no panic");
        let of_it = panics[seen..].iter().filter(|(place, text)| place.ends_with(&file) && !is_by_others(text));
        reasons = of_it.map(|(_, text)| text.clone()).collect();
    }
    let kinds = ["kind: Unreachable", "kind: TooSlow", "reason: Unreachable"];
    !reasons.is_empty() && reasons.iter().all(|reason| kinds.iter().any(|kind| reason.contains(kind)))
}

fn text(panic: &dyn Any) -> String {
    let literal = panic.downcast_ref::<&str>().map(ToString::to_string);
    literal.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Ends the work, also when the test fails.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn holds<S: Subject>(subject: impl Fn() -> S + Sync, promises: &[Promise<S>], mut fail_over: impl FnMut(usize)) {
    contract::lengthen_leases(SHORTEST_LEASE);
    listen_to_panics();
    let trial = Trial::new(promises);
    std::thread::scope(|scope| {
        let ended = Ended(&trial.stop);
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| trial.work(&subject))).collect();
        let is_over = || workers.iter().all(|worker| worker.is_finished());
        let kept = || trial.kept.load(Ordering::SeqCst);
        while !is_over() && trial.broken.lock().expect("no panic").is_empty() {
            fail_over(trial.failovers.fetch_add(1, Ordering::SeqCst));
            trial.ended.fetch_add(1, Ordering::SeqCst);
            let before = kept();
            let overdue = || trial.overdue.load(Ordering::SeqCst) > 0;
            until("a promise is kept after a failover", || (kept() > before && !overdue()) || is_over());
        }
        drop(ended);
    });
    let (failovers, interrupted) = (trial.failovers.into_inner(), trial.interrupted.into_inner());
    println!("{failovers} failovers, {} promises kept, {interrupted} interrupted", trial.kept.into_inner());
    assert_eq!(trial.broken.into_inner().expect("no panic"), Vec::<String>::new(), "{failovers} failovers");
    assert!(failovers >= FAILOVERS, "only {failovers} failovers");
}

#[test]
fn the_contract_holds_behind_sentinels_while_the_master_changes() {
    let place = Place::<Sentinels>::behind_sentinels("");
    let promises: [&[Promise<Place<Sentinels>>]; 3] =
        [&contract!(@names core), &contract!(@names line), &contract!(@names readers)];
    holds(
        || Place::behind_sentinels(""),
        &promises.concat(),
        |_| {
            place.set.fail_over_in_order();
            place.set.until_whole();
        },
    );
}

#[test]
fn the_contract_holds_in_a_cluster_while_masters_change() {
    let place = Place::<Cluster>::in_a_cluster("");
    let promises: [&[Promise<Place<Cluster>>]; 3] =
        [&contract!(@names core), &contract!(@names line), &contract!(@names readers)];
    holds(
        || Place::in_a_cluster(""),
        &promises.concat(),
        |number| {
            let servers = 0..place.set.servers.len();
            let masters: Vec<usize> = servers.filter(|server| place.set.is_master(*server)).collect();
            let replica = place.set.replica_of(masters[number % masters.len()]);
            place.set.fail_over(replica);
            place.set.until_whole();
        },
    );
}
