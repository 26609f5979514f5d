//! Nothing left to connect with: of the server's places for clients, of a process's files; and a memory that evicts.

use std::fs::File;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use fencepost_core::{Blocking, ReleaseOutcome, RenewError, StoreErrorKind};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::process::{Other, say};
use fencepost_testkit::redis::{self, Redis};

use crate::common::{PATIENCE, Place, is_clean, until, value};
use crate::connect;

const TTL: Duration = Duration::from_secs(60);

#[test]
fn a_server_without_room_for_a_client_is_said_and_those_who_are_in_go_on() {
    let place = Place::alone(Redis::new().with("--maxclients 10"));
    let locks = place.locks("first");
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    // The control: nobody else is let in.
    let full =
        || redis::ask(&place.servers[0].address(), &["PING"]).map_or(true, |reply| reply.starts_with("-ERR max"));
    let mut crowd = Vec::new();
    until("it is full", || {
        crowd.push(TcpStream::connect(place.servers[0].address()).expect("the system lets everybody in"));
        full()
    });
    let error = place.connect().block().expect_err("no room");
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error:?}");
    assert!(error.is_retryable(), "{error:?}");
    guard.renew().block().expect("it is in");
    drop(crowd);
    until("there is room", || place.connect().block().is_ok());
    assert_eq!(guard.release().block().expect("released"), ReleaseOutcome::Freed);
}

/// The process that has no files left.
pub(crate) fn is_starved(place: &str) {
    let locks = connect(place);
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    let mut files = Vec::new();
    let error = loop {
        match File::open("/dev/null") {
            Ok(file) => files.push(file),
            Err(error) => break error,
        }
    };
    // The control: there is really none left.
    say(&format!("control {error}"));
    let (scheme, rest) = place.split_once(' ').expect("a scheme and the rest");
    let error = fencepost_redis::connect(scheme, rest).block().expect_err("no files");
    say(&format!("refused {:?} {error}", error.kind));
    say(&format!("renewed {}", guard.renew().block().is_ok()));
    drop(files);
    drop(connect(place));
    say(&format!("released {:?}", guard.release().block()));
}

#[test]
fn a_process_without_files_is_told_and_keeps_its_lock_and_recovers() {
    for place in [Place::one(), Place::quorum(3)] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 40 && exec \"$0\" \"$@\""]).arg(std::env::current_exe().expect("this program"));
        let scheme = if place.quorum { "redlock" } else { "redis" };
        let mut other = Other::start_by(command, "is starved", &format!("{scheme} {}", place.rest()));
        assert!(other.says("control ").contains("Too many open files"));
        let refused = other.says("refused ");
        assert!(refused.contains("Too many open files"), "it says why: {refused}");
        assert_eq!(other.says("renewed "), "true");
        assert_eq!(other.says("released "), "Ok(Freed)");
        other.finish();
        place.servers.iter().for_each(|server| until("nothing is left", || is_clean(server, "x")));
    }
}

/// A server that was told to evict after we had looked: who lost the lock that way hears of it with the next renewal.
#[test]
fn a_lock_that_was_evicted_and_taken_is_told_as_lost_with_the_next_renewal() {
    let place = Place::one();
    let (first, second, server) = (place.locks("first"), place.locks("second"), &place.servers[0]);
    let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
    assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", "2mb"]), "+OK");
    let (junk, mut number) = ("j".repeat(10_000), 0);
    until("it was evicted", || {
        number += 1;
        server.ask(&["SET", &format!("junk{number}"), &junk]);
        value(server, "x").is_none()
    });
    assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory", "0"]), "+OK");
    let next = second.lock("x").ttl(TTL).wait_at_most(PATIENCE).acquire().block().expect("it is free");
    assert!(next.token() > guard.token());
    assert!(matches!(guard.renew().block(), Err(RenewError::Lost(_))));
    assert!(!guard.is_held());
    next.renew().block().expect("untouched");
    let theirs = value(server, "x");
    // The control: an extension that does not ask whose it is takes it from the next holder.
    assert_eq!(server.ask(&["SET", "lock:x", "the first again", "PX", "60000"]), "+OK");
    assert_ne!(value(server, "x"), theirs);
}
