//! Other lock libraries on the same keys, the real ones: each keeps ours out and is kept out by ours, waits for it and
//! is waited for, and neither ends or prolongs what the other holds. On one server, and over three where it is Redlock.

mod client;
#[path = "../common/mod.rs"]
mod common;
mod crowd;
mod redisson;
mod unannounced;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::time::Duration;

use client::{Client, Library};
use common::{PATIENCE, Place, until};
use fencepost_core::{AcquireError, Blocking, EventKind, Grant, Guard, Lock, Locks};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::poll;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

const OUR_TTL: Duration = Duration::from_secs(10);
const THEIR_TTL_MS: u32 = 20_000;
/// Of one that waits. npm's redlock does not take back what it won at a minority before it tries again, and is then
/// refused by its own key until that expires.
const WAITING_TTL_MS: u32 = 5_000;
/// What nobody's lease is.
const LONG_MS: u32 = 50_000;

/// A library, servers, and one of each kind of client.
struct Meeting {
    library: Library,
    place: Place,
    locks: Locks,
    theirs: Client,
}

impl Meeting {
    /// On each number of servers that this library knows.
    fn each(library: Library) -> impl Iterator<Item = Self> {
        library.sizes().iter().map(move |size| {
            let place = if *size == 1 { Place::one() } else { Place::quorum(*size) };
            let place = place.settings(library.our_settings());
            let locks = place.locks("ours");
            let theirs = Client::start(library, &place.servers);
            Self { library, place, locks, theirs }
        })
    }

    /// Ours; with a token to show, unless it is made another kind.
    fn fenced(&self) -> Lock {
        self.locks.lock("x").ttl(OUR_TTL)
    }

    /// What is at the key, as a digest: some libraries write bytes that are no text.
    fn value(&self, server: &Server<Redis>) -> Option<String> {
        let digest = "local value = redis.call('GET', KEYS[1]) return value and redis.sha1hex(value)";
        server.word(&["EVAL", digest, "1", &self.library.key("x")])
    }

    fn left_ms(&self, server: &Server<Redis>) -> i64 {
        server.number(&["PTTL", &self.library.key("x")])
    }

    fn values(&self) -> Vec<Option<String>> {
        self.place.servers.iter().map(|server| self.value(server)).collect()
    }

    /// Waits until the key is, or is not, on every server: both libraries go on when a majority has answered.
    fn until_everywhere(&self, is_there: bool) {
        until("all servers have followed", || self.values().iter().all(|value| value.is_some() == is_there));
    }

    /// What nobody does on purpose: an operator, a failover.
    fn delete(&self) {
        self.place.servers.iter().for_each(|server| drop(server.ask(&["DEL", &self.library.key("x")])));
    }

    fn keeps_out<G: Grant>(&mut self, lock: Lock<G>) {
        assert!(self.theirs.lock("x", THEIR_TTL_MS), "it is free");
        self.until_everywhere(true);
        match lock.acquire().block() {
            Err(AcquireError::Busy { .. }) => {}
            other => panic!("{:?} holds it: {other:?}", self.library),
        }
        let state = self.locks.inspect("x").block().expect("an answer");
        assert_eq!(state.holders[0].label, "another library's lock");
        self.theirs.unlock();
        self.until_everywhere(false);

        let guard = lock.acquire().block().expect("they gave it up");
        self.until_everywhere(true);
        assert!(!self.theirs.lock("x", THEIR_TTL_MS), "{:?} was let in", self.library);
        self.until_everywhere(true);
        guard.renew().block().expect("still ours");
        self.release(guard);
        assert!(self.theirs.lock("x", THEIR_TTL_MS), "we gave it up");
        self.theirs.unlock();
        self.until_everywhere(false);
    }

    fn ours_waits<G: Grant>(&mut self, lock: Lock<G>) {
        assert!(self.theirs.lock("x", THEIR_TTL_MS), "it is free");
        let mut events = self.locks.events();
        let lock = lock.wait_at_most(PATIENCE);
        let mut waiting = pin!(lock.acquire());
        assert!(poll::once(waiting.as_mut()).is_none());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        assert!(poll::once(waiting.as_mut()).is_none(), "they hold it");
        self.theirs.unlock();
        let guard = waiting.block().expect("they gave it up");
        self.release(guard);
    }

    fn theirs_waits<G: Grant>(&mut self, lock: Lock<G>) {
        let guard = lock.acquire().block().expect("free");
        self.until_everywhere(true);
        let mut tries = Tries::of(&self.place.servers[0], self.library.key("x"));
        self.theirs.wait("x", WAITING_TTL_MS);
        tries.next();
        tries.next();
        guard.renew().block().expect("still ours");
        self.release_at_once(guard);
        self.theirs.has_it();
        assert!(matches!(lock.acquire().block(), Err(AcquireError::Busy { .. })), "they hold it now");
        self.theirs.unlock();
        self.until_everywhere(false);
    }

    /// A client whose lock was deleted behind its back must not touch that of the next.
    fn leaves_alone<G: Grant>(&mut self, lock: Lock<G>) {
        assert!(self.theirs.lock("x", THEIR_TTL_MS), "it is free");
        self.until_everywhere(true);
        self.delete();
        let guard = lock.acquire().block().expect("deleted");
        self.until_everywhere(true);
        let ours = self.values();
        assert!(!self.theirs.extend(LONG_MS), "{:?} extended our lock", self.library);
        self.theirs.unlock();
        assert_eq!(self.values(), ours, "{:?} changed our lock", self.library);
        let ttl = i64::try_from(OUR_TTL.as_millis()).expect("few");
        assert!(self.place.servers.iter().all(|server| self.left_ms(server) <= ttl), "prolonged");
        guard.renew().block().expect("still ours");

        self.delete();
        assert!(self.theirs.lock("x", THEIR_TTL_MS), "deleted");
        self.until_everywhere(true);
        let theirs = self.values();
        assert!(guard.renew().block().is_err(), "it is theirs now");
        assert!(!guard.is_held(), "we are told");
        drop(guard);
        assert_eq!(self.locks.shutdown(PATIENCE).block(), Vec::<String>::new());
        assert_eq!(self.values(), theirs, "we changed their lock");
        let ttl = i64::from(THEIR_TTL_MS);
        assert!(self.place.servers.iter().all(|server| self.left_ms(server) <= ttl), "prolonged");
        assert!(self.theirs.extend(THEIR_TTL_MS), "still theirs");
        self.theirs.unlock();
        self.until_everywhere(false);
    }

    fn release<G: Grant>(&self, guard: Guard<G>) {
        self.release_at_once(guard);
        self.until_everywhere(false);
    }

    fn release_at_once<G: Grant>(&self, guard: Guard<G>) {
        guard.release().block().expect("released");
    }
}

/// What a server is told to do, as it happens: the attempts to set a key.
struct Tries {
    commands: BufReader<TcpStream>,
    key: String,
}

impl Tries {
    fn of(server: &Server<Redis>, key: String) -> Self {
        let mut stream = TcpStream::connect(server.address()).expect("it is up");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(b"MONITOR\r\n").expect("it listens");
        let mut tries = Self { commands: BufReader::new(stream), key: format!(" \"{key}\"") };
        assert_eq!(tries.line(), "+OK\r\n");
        tries
    }

    /// Waits for one. Some look before they set, in a script.
    fn next(&mut self) {
        loop {
            let line = self.line().to_lowercase();
            if ["\"set\"", "\"exists\""].iter().any(|word| line.contains(&format!("{word}{}", self.key))) {
                return;
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.commands.read_line(&mut line).expect("somebody tries");
        line
    }
}

macro_rules! libraries {
    ($($name:ident: $library:expr),+ $(,)?) => {$(
        mod $name {
            use crate::{Library, Meeting};

            #[test]
            fn keeps_ours_out_and_is_kept_out() {
                for mut meeting in Meeting::each($library) {
                    meeting.keeps_out(meeting.fenced());
                    meeting.keeps_out(meeting.fenced().unfenced());
                    meeting.keeps_out(meeting.fenced().shared());
                }
            }

            #[test]
            fn is_waited_for_by_ours() {
                for mut meeting in Meeting::each($library) {
                    meeting.ours_waits(meeting.fenced());
                    meeting.ours_waits(meeting.fenced().unfenced());
                }
            }

            #[test]
            fn waits_for_ours() {
                for mut meeting in Meeting::each($library) {
                    meeting.theirs_waits(meeting.fenced());
                    meeting.theirs_waits(meeting.fenced().unfenced());
                }
            }

            #[test]
            fn leaves_ours_alone_and_is_left_alone() {
                for mut meeting in Meeting::each($library) {
                    meeting.leaves_alone(meeting.fenced());
                }
            }

            #[test]
            fn leaves_ours_without_a_token_alone_and_is_left_alone() {
                for mut meeting in Meeting::each($library) {
                    meeting.leaves_alone(meeting.fenced().unfenced());
                }
            }
        }
    )+};
}

libraries!(
    node_redlock_5: Library::NodeRedlock5,
    node_redlock_4: Library::NodeRedlock4,
    redis_py: Library::RedisPy,
    pottery: Library::Pottery,
    rslock: Library::Rslock,
);
