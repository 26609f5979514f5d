//! Holders that are stopped for longer than their lease, or killed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fencepost_core::fence::redis_set;
use fencepost_core::{Blocking, FencingToken};
use fencepost_testkit::process::{Other, await_leave, hear, say};
use fencepost_testkit::redis;
use fencepost_testkit::turns;

use crate::common::{PATIENCE, Place, once_reachable};
use crate::connect;

/// How many holders are paused at a time, each with a lock of its own, and how often each: on one server, and on three
/// that vote. Two hundred in all.
const HOLDERS: usize = 10;
const PAUSES_EACH: usize = 10;
/// Short, so that two hundred pauses past it do not take long.
const TTL: Duration = Duration::from_millis(500);

/// Something in Redis that is written with a check and without, side by side.
struct Resource {
    address: String,
    name: String,
}

impl Resource {
    /// Whether the resource took it.
    fn write_checked(&self, token: FencingToken, value: &str) -> bool {
        let script = redis_set(&format!("checked {}", self.name), value.as_bytes(), token);
        let (keys, count) = (script.keys.iter().map(String::as_str), script.keys.len().to_string());
        let arguments = script.arguments.iter().map(|bytes| std::str::from_utf8(bytes).expect("text"));
        let words: Vec<&str> = ["EVAL", script.text, &count].into_iter().chain(keys).chain(arguments).collect();
        let seen = redis::ask(&self.address, &words).expect("the resource answers");
        assert!(!seen.starts_with('-'), "{seen}");
        seen.ends_with(&token.to_string())
    }

    fn write_unchecked(&self, value: &str) {
        let reply = redis::ask(&self.address, &["SET", &format!("unchecked {}", self.name), value]);
        assert_eq!(reply.expect("the resource answers"), "+OK");
    }

    fn read(&self, which: &str) -> String {
        redis::ask(&self.address, &["GET", &format!("{which} {}", self.name)]).expect("the resource answers")
    }
}

/// The holder: it holds, is stopped between its look at the guard and its write, and writes.
pub(crate) fn is_paused(place: &str) {
    let (place, rest) = place.split_once('|').expect("the locks, then the resource");
    let (address, name) = rest.split_once('|').expect("its address and the lock");
    let (locks, resource) = (connect(place), Resource { address: address.into(), name: name.into() });
    while let Some(round) = hear() {
        // On a busy machine so short a lease may be over before it is there.
        let guard = loop {
            let lock = locks.lock(name).ttl(TTL).wait_at_most(PATIENCE);
            let guard = once_reachable(|| lock.acquire().block()).expect("free in the end");
            if guard.is_held() {
                break guard;
            }
        };
        say(&format!("holds {}", guard.token()));
        hear();
        let accepted = resource.write_checked(guard.token(), &format!("old {round}"));
        resource.write_unchecked(&format!("old {round}"));
        say(&format!("accepted {accepted}, still held {}", guard.is_held()));
        drop(guard);
    }
}

/// Two hundred times: a holder is stopped, its lease ends, another gets the lock and writes, the first goes on and writes.
#[test]
fn of_two_hundred_paused_holders_no_stale_write_is_accepted_and_without_the_check_every_one_is() {
    for place in [Place::one(), Place::quorum(3)] {
        let resource_server = redis::Redis::new().start();
        let (stale, overwritten, pauses) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let locks = place.linked("second");
        let scheme = if place.quorum { "redlock" } else { "redis" };
        let pause_often = |number: usize| {
            let (name, address) = (format!("lock {number}"), resource_server.address());
            let mut holder = Other::start("is paused", &format!("{scheme} {}|{address}|{name}", place.rest()));
            let resource = Resource { address, name };
            for round in 0..PAUSES_EACH {
                holder.tell(&round.to_string());
                let old: FencingToken = holder.says("holds ").parse().expect("a token");
                holder.stop();
                let lock = locks.lock(&resource.name).ttl(PATIENCE).wait_at_most(PATIENCE);
                let next = once_reachable(|| lock.acquire().block()).expect("the first one's lease is over");
                assert!(next.token() > old, "{} after {old}", next.token());
                let new = format!("new {round}");
                assert!(resource.write_checked(next.token(), &new), "the newest token is accepted");
                resource.write_unchecked(&new);
                holder.resume();
                holder.tell("write");
                let said = holder.says("accepted ");
                assert!(said.ends_with("still held false"), "a holder that slept past its lease knows it: {said}");
                pauses.fetch_add(1, Ordering::SeqCst);
                stale.fetch_add(usize::from(said.starts_with("true")), Ordering::SeqCst);
                stale.fetch_add(usize::from(!resource.read("checked").ends_with(&new)), Ordering::SeqCst);
                overwritten.fetch_add(usize::from(!resource.read("unchecked").ends_with(&new)), Ordering::SeqCst);
                next.release().block().expect("released");
            }
            holder.finish();
        };
        thread::scope(|scope| {
            let pause_often = &pause_often;
            (0..HOLDERS).for_each(|number| drop(scope.spawn(move || pause_often(number))));
        });
        let (pauses, stale, overwritten) = (pauses.into_inner(), stale.into_inner(), overwritten.into_inner());
        println!("{pauses} pauses: {stale} stale writes accepted, {overwritten} without the check");
        assert_eq!((pauses, stale), (HOLDERS * PAUSES_EACH, 0));
        assert_eq!(
            overwritten, pauses,
            "the control: without the check each of them destroys what the next holder wrote"
        );
    }
}

/// The holder that is killed.
pub(crate) fn is_killed(place: &str) {
    let locks = connect(place);
    let lock = locks.lock("x").ttl(Duration::from_secs(2)).manual_renewal();
    let guard = once_reachable(|| lock.acquire().block()).expect("free");
    let until = turns::now() + u64::try_from(guard.remaining().as_nanos()).expect("not for centuries");
    say(&format!("holds {} until {until}", guard.token()));
    await_leave();
}

#[test]
fn the_lock_of_a_killed_holder_is_free_when_its_lease_ends_and_not_before() {
    for place in [Place::one(), Place::quorum(3)] {
        let locks = place.linked("second");
        let scheme = if place.quorum { "redlock" } else { "redis" };
        let mut holder = Other::start("is killed", &format!("{scheme} {}", place.rest()));
        let said = holder.says("holds ");
        let (token, until_then) = said.split_once(" until ").expect("a token and a time");
        let (token, end): (FencingToken, u64) = (token.parse().expect("a token"), until_then.parse().expect("a time"));
        holder.kill();
        let next = once_reachable(|| locks.lock("x").ttl(PATIENCE).wait_at_most(PATIENCE).acquire().block());
        let (next, now) = (next.expect("free in the end"), turns::now());
        assert!(now >= end, "granted {} ns before the lease was over", end - now);
        assert!(next.token() > token);
        next.release().block().expect("released");
    }
}

/// The control: the lock first and its end with a second command. Whoever is killed between the two holds for ever.
#[test]
fn a_lock_whose_end_is_set_by_a_second_command_is_never_free_when_its_holder_is_killed() {
    let server = redis::Redis::new().start();
    assert_eq!(server.ask(&["SETNX", "control", "dead"]), ":1");
    assert_eq!(server.number(&["PTTL", "control"]), -1, "it has no end");
}
