//! Work that goes on while masters change, ten times in a row.

mod fleets;

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost_core::{AcquireError, Blocking, Connect, Locks};
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::sentinels::Sentinels;
use fencepost_testkit::wait::{PATIENCE, until};

const FAILOVERS: usize = 10;
/// One of them by a master that is killed.
const KILLED: usize = 4;
const CLIENTS: usize = 4;
const LOCKS: usize = 6;
/// So many grants after each failover show that work goes on.
const PROGRESS: u64 = 60;
const TTL: Duration = Duration::from_secs(5);

/// What clients that contend for a few locks have seen.
struct Work {
    /// The highest token that was granted, per lock.
    floors: Vec<AtomicU64>,
    tokens: Mutex<HashSet<(usize, u64)>>,
    grants: AtomicU64,
    stop: AtomicBool,
}

impl Work {
    fn new() -> Self {
        let floors = (0..LOCKS).map(|_| AtomicU64::new(0)).collect();
        Self { floors, tokens: Mutex::default(), grants: AtomicU64::new(0), stop: AtomicBool::new(false) }
    }

    /// Takes one lock after the other until told to stop. Trouble that passes is no failure; anything else is.
    fn run(&self, locks: &Locks, client: usize) {
        for turn in client.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let number = turn % LOCKS;
            let floor = self.floors[number].load(Ordering::SeqCst);
            match locks.lock(format!("job{number}")).ttl(TTL).wait_at_most(PATIENCE).acquire().block() {
                Ok(guard) => {
                    let token = guard.token().as_u64();
                    assert!(token > floor, "token {token} of job{number} after {floor}");
                    assert!(self.tokens.lock().expect("no panic").insert((number, token)), "{token} came twice");
                    self.floors[number].fetch_max(token, Ordering::SeqCst);
                    self.grants.fetch_add(1, Ordering::SeqCst);
                    let _ = guard.release().block();
                }
                Err(AcquireError::Store(error)) if error.is_retryable() => {}
                Err(other) => panic!("client {client}: {other}"),
            }
        }
    }

    fn until_it_goes_on(&self) {
        let before = self.grants.load(Ordering::SeqCst);
        until("work goes on", || self.grants.load(Ordering::SeqCst) >= before + PROGRESS);
    }
}

/// Runs the work while `fail_over` is called ten times.
fn goes_on(connect: impl Fn() -> Connect, mut fail_over: impl FnMut(usize)) {
    let work = Work::new();
    let clients: Vec<Locks> = (0..CLIENTS).map(|_| connect().block().expect("it is up")).collect();
    std::thread::scope(|scope| {
        let ended = Ended(&work);
        for (number, locks) in clients.iter().enumerate() {
            let work = &work;
            scope.spawn(move || work.run(locks, number));
        }
        work.until_it_goes_on();
        for number in 0..FAILOVERS {
            fail_over(number);
            work.until_it_goes_on();
        }
        drop(ended);
    });
    for locks in &clients {
        assert_eq!(locks.shutdown(PATIENCE).block(), Vec::<String>::new(), "every release was confirmed");
    }
    // Nothing is left behind: whoever comes next gets every lock at once.
    let locks = connect().block().expect("it is up");
    for (number, floor) in work.floors.iter().enumerate() {
        let guard = locks.lock(format!("job{number}")).acquire().block().expect("free");
        assert!(guard.token().as_u64() > floor.load(Ordering::SeqCst), "tokens rise");
    }
}

/// Ends the work, also when the test fails.
struct Ended<'a>(&'a Work);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

#[test]
fn work_goes_on_over_ten_failovers_behind_sentinels_and_tokens_rise() {
    let mut set = Sentinels::start();
    let rest = format!("//{}", set.place());
    goes_on(
        || fencepost_redis::connect("redis+sentinel", &rest),
        |number| {
            let before = set.master();
            if number == KILLED {
                set.servers[before].kill();
                set.until_moved_from(before);
                set.servers[before].restart();
            } else {
                set.fail_over();
            }
            set.until_whole();
        },
    );
}

#[test]
fn work_goes_on_over_ten_failovers_of_a_cluster_and_tokens_rise() {
    let mut cluster = Cluster::start();
    let rest = format!("//{}", cluster.place());
    goes_on(
        || fencepost_redis::connect("redis+cluster", &rest),
        |number| {
            let master = cluster.owner(&format!("lock:job{}", number % LOCKS));
            let replica = cluster.replica_of(master);
            if number == KILLED {
                cluster.servers[master].kill();
                until("the replica is the master", || cluster.is_master(replica));
                cluster.servers[master].restart();
            } else {
                cluster.fail_over(replica);
            }
            cluster.until_whole();
        },
    );
}

/// Nobody who waits is told of a failover: it is ridden out, in every request that such an acquisition is made of.
#[test]
fn who_waits_for_permits_or_several_names_rides_out_failovers_behind_sentinels() {
    const FAILOVERS: usize = 6;
    let mut set = Sentinels::start();
    let rest = format!("//{}", set.place());
    let connect = || fencepost_redis::connect("redis+sentinel", &rest).block().expect("it is up");
    let clients: Vec<Locks> = (0..6).map(|_| connect()).collect();
    let (work, failures) = (Work::new(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let ended = Ended(&work);
        for (number, locks) in clients.iter().enumerate() {
            let (work, failures) = (&work, &failures);
            scope.spawn(move || {
                while !work.stop.load(Ordering::SeqCst) {
                    let answer = match number % 3 {
                        0 => locks.semaphore("s", 2).ttl(TTL).wait_at_most(PATIENCE).acquire().block().map(drop),
                        1 => {
                            locks.semaphore("s", 2).take(2).ttl(TTL).wait_at_most(PATIENCE).acquire().block().map(drop)
                        }
                        _ => locks.all_of(["a", "b"]).ttl(TTL).wait_at_most(PATIENCE).acquire().block().map(drop),
                    };
                    match answer {
                        Ok(()) => drop(work.grants.fetch_add(1, Ordering::SeqCst)),
                        Err(error) => failures.lock().expect("no panic").push(format!("client {number}: {error}")),
                    }
                }
            });
        }
        work.until_it_goes_on();
        for number in 0..FAILOVERS {
            let (before, began) = (set.master(), Instant::now());
            if number % 3 == 1 {
                set.servers[before].kill();
                set.until_moved_from(before);
                set.servers[before].restart();
            } else {
                set.fail_over();
            }
            set.until_whole();
            work.until_it_goes_on();
            // On a busy machine sentinels may take longer than anybody rides out: that is to be told.
            if began.elapsed() > TTL {
                println!("a failover took {:?}: {:?}", began.elapsed(), failures.lock().expect("no panic").drain(..));
            }
        }
        drop(ended);
    });
    assert_eq!(failures.into_inner().expect("no panic"), Vec::<String>::new());
}
