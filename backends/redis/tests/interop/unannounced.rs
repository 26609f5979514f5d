//! Another library frees its lock without a word to us: the first of ours in line looks at least once a second. Time is
//! virtual, so that "a second" is exact: nothing happens before it is turned.

use std::pin::{Pin, pin};
use std::time::Duration;

use fencepost_core::{Blocking, Event, EventKind, Feed, Grant, Lock, Locks, VirtualClock};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::poll;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

use crate::client::{Client, Library};
use crate::common::{Place, until};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);
/// Longer than any pause between two looks, so that the next alarm tells whether an answer is awaited.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A client of ours waits for a lock that another holds without an end, which `free` ends.
fn notices<G: Grant>(place: &Place, lock: impl FnOnce(&Locks) -> Lock<G>, free: impl FnOnce()) {
    let clock = VirtualClock::new();
    let locks = place.connect().answer_within(ANSWER_WITHIN).clock(&clock).block().expect("it is up");
    // Whoever connects while time is turned is given up, and time does not go on by itself.
    place.reach_all(&locks, "ours");
    until("only the test is left", || clock.next_alarm().is_none());
    let mut time = Time { clock, events: locks.events(), servers: place.servers.len(), votes: 0 };
    let lock = lock(&locks).wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(time.look(waiting.as_mut()).is_none(), "they hold it");
    for _ in 0..3 {
        let before: Vec<u64> = place.servers.iter().map(looks).collect();
        assert!(time.pass_a_second(waiting.as_mut()).is_none(), "they hold it");
        assert!(place.servers.iter().zip(before).all(|(server, before)| looks(server) > before), "it has looked");
    }
    free();
    let outcome = time.pass_a_second(waiting).expect("it has noticed");
    outcome.expect("it is free").release().block().expect("released");
    until("it is free everywhere", || time.clock.next_alarm().is_none());
}

/// Time that goes from look to look and stands still while servers answer.
struct Time {
    clock: VirtualClock,
    events: Feed<Event>,
    servers: usize,
    votes: usize,
}

impl Time {
    /// Until a look ends the waiting, or a second is over.
    fn pass_a_second<F: Future>(&mut self, mut waiting: Pin<&mut F>) -> Option<F::Output> {
        let mut left = SECOND;
        while let Some(next) = self.clock.next_alarm().filter(|next| *next <= left) {
            left -= next;
            self.clock.turn(next);
            let outcome = self.look(waiting.as_mut());
            if outcome.is_some() {
                return outcome;
            }
        }
        self.clock.turn(left);
        None
    }

    /// Waits until every server has answered: the waiting is over, or the next look is due.
    fn look<F: Future>(&mut self, mut waiting: Pin<&mut F>) -> Option<F::Output> {
        let mut outcome = None;
        until("the servers have answered", || {
            outcome = poll::once(waiting.as_mut());
            let is_due = self.clock.next_alarm().is_some_and(|next| next < ANSWER_WITHIN);
            outcome.is_some() || (is_due && self.all_have_voted())
        });
        outcome
    }

    /// A majority decides, but an answer that comes after time went on would seem to have taken so long.
    fn all_have_voted(&mut self) -> bool {
        while let Some(Some(Ok(event))) = poll::once(pin!(self.events.next())) {
            self.votes += usize::from(matches!(event.kind, EventKind::Voted(_)));
        }
        self.votes.is_multiple_of(self.servers)
    }
}

/// How often scripts were called on a server: with one client of ours, how often it looked.
fn looks(server: &Server<Redis>) -> u64 {
    let stats = server.ask(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// redis-py's default: no timeout.
#[test]
fn the_end_of_a_lock_without_expiry_is_noticed_within_a_second() {
    let place = Place::one();
    let mut theirs = Client::start(Library::RedisPy, &place.servers);
    assert!(theirs.lock("x", 0));
    assert_eq!(place.servers[0].number(&["PTTL", "lock:x"]), -1, "it never expires");
    notices(&place, ours, || theirs.unlock());
    assert!(theirs.lock("x", 0));
    notices(&place, |locks| ours(locks).unfenced(), || theirs.unlock());
    assert!(theirs.lock("x", 0));
    notices(&place, |locks| ours(locks).shared(), || theirs.unlock());
}

/// An operator, or a library that compares nothing.
#[test]
fn a_plain_delete_is_noticed_within_a_second() {
    for place in [Place::one(), Place::quorum(3)] {
        let take = || {
            for server in &place.servers {
                assert_eq!(server.word(&["SET", "lock:x", "theirs", "NX"]).as_deref(), Some("OK"));
            }
        };
        let delete = || place.servers.iter().for_each(|server| assert_eq!(server.number(&["DEL", "lock:x"]), 1));
        take();
        notices(&place, ours, delete);
        take();
        notices(&place, |locks| ours(locks).unfenced(), delete);
    }
}

fn ours(locks: &Locks) -> Lock {
    locks.lock("x").ttl(TTL)
}
