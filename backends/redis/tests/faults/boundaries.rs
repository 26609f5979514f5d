//! Numbers and names at their limits: tokens next to 2^53, and names that look like something else.

use std::time::Duration;

use fencepost_core::fence::redis_set;
use fencepost_core::{Blocking, FencingToken};
use fencepost_testkit::redis::Redis;

use crate::common::{Place, until};

const TTL: Duration = Duration::from_secs(60);

/// A server compares tokens as floating-point numbers: all that there can be are exact.
#[test]
fn tokens_next_to_the_greatest_are_told_apart_by_a_server_and_greater_numbers_are_not() {
    let server = Redis::new().start();
    let write = |token: FencingToken| {
        let script = redis_set("thing", b"value", token);
        let argument = |at: usize| String::from_utf8(script.arguments[at].clone()).expect("text");
        let words = ["EVAL", script.text, "2", &script.keys[0], &script.keys[1], &argument(0), &argument(1)];
        server.word(&words).expect("an answer") == token.to_string()
    };
    let below = |by: u64| format!("{}", FencingToken::MAX.as_u64() - by).parse::<FencingToken>().expect("a token");
    for by in (0..64).rev() {
        assert!(write(below(by)), "{} is the newest", below(by));
        assert!(!write(below(by + 1)), "{} is older", below(by + 1));
    }
    // The control: beyond 2^53 neighbours are equal to a script, and no such number is a token.
    let greater = "return tonumber('9007199254740993') > tonumber('9007199254740992') and 1 or 0";
    assert_eq!(server.number(&["EVAL", greater, "0"]), 0);
    assert!("9007199254740993".parse::<FencingToken>().is_err());
}

/// Two by two: each of them is held while all others are, and frees nothing but itself.
#[test]
fn names_that_look_like_the_keys_of_other_locks_are_locks_of_their_own() {
    let names = [
        "x",
        "x:fence",
        "fp:fence:{lock:x}",
        "fp:line:{lock:x}",
        "lock:x",
        "{lock:x}",
        "{x",
        "x}",
        "{}",
        "}{",
        "x x",
        "fp:marker",
        "fp:probation",
        "fp:inbox:x",
        "*",
        "x*",
        "x?",
        "[x]",
        "x|y",
        "x#1",
        "é",
        "e\u{301}",
    ];
    for place in [Place::one(), Place::quorum(3)] {
        let (locks, other) = (place.linked("first"), place.linked("second"));
        let guards: Vec<_> =
            names.iter().map(|name| locks.lock(*name).ttl(TTL).acquire().block().expect(name)).collect();
        for (name, guard) in names.iter().zip(guards) {
            assert!(other.lock(*name).ttl(TTL).try_acquire().block().expect("an answer").is_none(), "{name} is held");
            assert_eq!(locks.inspect(name).block().expect("an answer").holders.len(), 1, "{name}");
            guard.renew().block().expect(name);
            guard.release().block().expect(name);
            let next = other.lock(*name).ttl(TTL).acquire().block().expect("free");
            next.release().block().expect(name);
        }
        for server in &place.servers {
            let stays = |key: &String| key.starts_with("fp:fence:") || key.starts_with("fp:marker");
            until("nothing is left but fences", || server.keys().iter().all(stays));
        }
    }
    // The control: a companion beside the lock, under its name and an ending, is somebody else's lock.
    let server = Redis::new().start();
    assert_eq!(server.ask(&["INCR", "lock:x:fence"]), ":1");
    assert_ne!(server.ask(&["SET", "lock:x:fence", "who locks `x:fence`", "NX", "PX", "60000"]), "+OK");
}
