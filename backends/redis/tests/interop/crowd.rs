//! Another library beside many of ours. Our release hands the lock to the next in line in the same step, so a client that polls
//! finds it free by chance only.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fencepost_core::{Blocking, Locks};
use fencepost_testkit::contract::Subject;

use crate::client::{Client, Library};
use crate::common::Place;
use crate::{LONG_MS, OUR_TTL};

const OURS: usize = 4;
/// How long each of them works under the lock.
const WORK: Duration = Duration::from_millis(20);

/// Says how many turns each had: `FENCEPOST_LONG` makes figures of it.
#[test]
fn redis_py_beside_a_busy_line_of_ours_has_its_turn_when_the_line_ends() {
    let span = Duration::from_secs(if std::env::var_os("FENCEPOST_LONG").is_some() { 30 } else { 3 });
    let place = Place::one();
    let connections: Vec<Locks> = (0..OURS).map(|number| place.locks(&format!("ours {number}"))).collect();
    let mut theirs = Client::start(Library::RedisPy, &place.servers);
    let (inside, ours, mut beside) = (AtomicBool::new(false), AtomicU32::new(0), 0);
    let work = || {
        assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
        thread::sleep(WORK);
        inside.store(false, Ordering::SeqCst);
    };
    let began = Instant::now();
    thread::scope(|scope| {
        for locks in &connections {
            scope.spawn(|| {
                while began.elapsed() < span {
                    let guard = locks.lock("x").ttl(OUR_TTL).wait_forever().acquire().block().expect("its turn");
                    work();
                    guard.release().block().expect("released");
                    ours.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while began.elapsed() < span {
            theirs.wait("x", LONG_MS);
            theirs.has_it();
            beside += u32::from(began.elapsed() < span);
            work();
            theirs.unlock();
        }
    });
    let ours = ours.into_inner();
    println!("in {span:?} redis-py had {beside} turns beside {ours} of ours, and one when they had ended");
    assert!(ours > 0);
}
