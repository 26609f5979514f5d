//! Connections that are reset in the middle of a command, or of its reply.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use fencepost_core::{AcquireError, Blocking, FencingToken, Locks};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::proxy::Direction;
use fencepost_testkit::proxy::Proxy;
use fencepost_testkit::redis::Redis;

use crate::common::{PATIENCE, Place, is_clean, once_reachable, until};

/// Longer than the test is patient: what is left behind is seen.
const TTL: Duration = Duration::from_secs(300);
/// The replies of a turn are at least so many bytes.
const REPLIES: usize = 32;
/// How many places in each direction; with `FENCEPOST_LONG` it is every byte.
const PLACES: usize = 40;

/// One turn, which may be broken off. `Ok` if it got the lock.
fn turn(locks: &Locks) -> Result<FencingToken, AcquireError> {
    let guard = locks.lock("x").ttl(TTL).acquire().block()?;
    let token = guard.token();
    // Unknown: the releaser goes on by itself.
    let _ = guard.release().block();
    Ok(token)
}

fn broken_off_anywhere(direction: Direction) {
    let place = Place::one().behind_proxies();
    let (locks, server, proxy) = (place.locks("first"), &place.servers[0], &place.proxies[0]);
    turn(&locks).expect("free");
    proxy.take_forwarded();
    turn(&locks).expect("free");
    let length = if direction == Direction::Requests { proxy.take_forwarded().len() } else { REPLIES };
    let step = if std::env::var_os("FENCEPOST_LONG").is_some() { 1 } else { length / PLACES };
    let (mut last, mut granted, mut broken) = (None, 0, 0);
    for bytes in (0..length).step_by(step.max(1)) {
        proxy.reset_after(direction, bytes);
        match turn(&locks) {
            Ok(token) => {
                assert!(Some(token) > last, "tokens rise");
                last = Some(token);
                granted += 1;
            }
            Err(AcquireError::Store(error)) if error.is_retryable() => {}
            Err(other) => panic!("after {bytes} bytes: {other}"),
        }
        broken += usize::from(!proxy.take_reset());
        let lock = locks.lock("y").ttl(TTL).wait_at_most(PATIENCE);
        let linked = once_reachable(|| lock.acquire().block()).expect("linked again");
        drop(linked);
        until("nothing is left", || is_clean(server, "x") && is_clean(server, "y"));
    }
    println!("{direction:?}: {broken} turns broken off, {granted} granted, over {length} bytes");
    assert!(broken >= 5 && granted > 0, "the test shows little: {broken} broken off, {granted} granted");
}

#[test]
fn a_turn_whose_requests_are_reset_at_any_byte_leaves_nothing_behind() {
    broken_off_anywhere(Direction::Requests);
}

#[test]
fn a_turn_whose_replies_are_reset_at_any_byte_leaves_nothing_behind() {
    broken_off_anywhere(Direction::Replies);
}

/// The control: a plain command whose reply is reset. The client has an error, and the lock is there all the same.
#[test]
fn a_plain_set_whose_reply_is_reset_is_a_lock_of_nobody() {
    let server = Redis::new().start();
    let proxy = Proxy::before(server.address());
    let mut stream = TcpStream::connect(proxy.address()).expect("it is up");
    proxy.reset_after(Direction::Replies, 0);
    stream.write_all(b"SET control somebody NX PX 60000\r\n").expect("sent");
    assert!(!matches!(stream.read(&mut [0; 5]), Ok(1..)), "no answer");
    assert!(server.word(&["GET", "control"]).is_some());
}
