//! Clocks that jump: those of the servers, and those of a client.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fencepost_core::fence::FencedCell;
use fencepost_core::{Blocking, FencingToken, LossReason, RenewError};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::preload::Clocks;
use fencepost_testkit::process::{Other, hear, say};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

use crate::common::{PATIENCE, Place, once_reachable, until, value};
use crate::connect;

const TTL: Duration = Duration::from_secs(30);
const JUMP: Duration = Duration::from_secs(40);
const HOUR: Duration = Duration::from_secs(3600);
/// From 2026 to 2100.
const AGES: Duration = Duration::from_secs(74 * 365 * 24 * 3600);

/// Servers that vote, each with clocks of its own.
fn with_clocks(count: usize) -> (Place, Vec<Clocks>) {
    let clocks: Vec<Clocks> = (0..count).map(|_| Clocks::new()).collect();
    let recipes = clocks.iter().map(|clocks| Redis::new().preloaded(clocks.environment()));
    (Place::voting(recipes.collect(), ""), clocks)
}

/// One server with clocks of its own.
fn one_with_clocks() -> (Place, Clocks) {
    let clocks = Clocks::new();
    (Place::alone(Redis::new().preloaded(clocks.environment())), clocks)
}

/// A lock as it is often written.
fn plain_set(server: &Server<Redis>, owner: &str) -> bool {
    server.ask(&["SET", "control", owner, "NX", "PX", "30000"]) == "+OK"
}

#[test]
fn one_clock_of_five_that_jumps_ahead_frees_nothing() {
    let (place, clocks) = with_clocks(5);
    let (first, second) = (place.linked("first"), place.linked("second"));
    let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
    place.until_all_have("x");
    clocks[0].wall_ahead(JUMP);
    until("its lease is over there", || value(&place.servers[0], "x").is_none());
    assert!(matches!(second.lock("x").ttl(TTL).try_acquire().block(), Ok(None)), "four of five still have it");
    guard.renew().block().expect("four of five");
    let token = guard.token();
    guard.release().block().expect("four of five");
    let next = once_reachable(|| second.lock("x").ttl(TTL).wait_at_most(PATIENCE).acquire().block()).expect("free");
    assert!(next.token() > token);
}

/// What cannot be promised, and what is: two hold, the second one's token is higher, and the first hears of it.
#[test]
fn clocks_of_a_majority_that_jump_ahead_break_exclusion_but_the_token_is_higher_and_the_holder_is_told() {
    let (place, clocks) = with_clocks(5);
    let (first, second) = (place.linked("first"), place.linked("second"));
    let guard = first.lock("x").ttl(TTL).manual_renewal().acquire().block().expect("free");
    place.until_all_have("x");
    let resource = FencedCell::new("empty");
    resource.write(guard.token(), "by the first").expect("the newest token");
    for (clocks, server) in clocks.iter().zip(&place.servers).take(3) {
        clocks.wall_ahead(JUMP);
        until("its lease is over there", || value(server, "x").is_none());
    }
    let next = once_reachable(|| second.lock("x").ttl(TTL).wait_at_most(PATIENCE).acquire().block());
    let next = next.expect("three of five are free");
    assert!(next.token() > guard.token(), "{} after {}", next.token(), guard.token());
    resource.write(next.token(), "by the second").expect("the newest token");
    assert!(resource.write(guard.token(), "by the first again").is_err(), "the resource turns the first away");
    until("the first hears of it", || matches!(guard.renew().block(), Err(RenewError::Lost(_))));
    assert_eq!(guard.lost().block().reason, LossReason::TakenOver);
    next.renew().block().expect("the second has it");
}

/// The control: what others send is granted twice, with nothing to tell one holder from the other.
#[test]
fn a_plain_set_is_granted_twice_when_a_clock_jumps_ahead() {
    let (place, clocks) = one_with_clocks();
    let server = &place.servers[0];
    assert!(plain_set(server, "first") && !plain_set(server, "second"));
    clocks.wall_ahead(JUMP);
    until("it is granted again", || plain_set(server, "second"));
}

/// The dead holder's lease is over when it is over for a majority. One server alone would keep it for an hour.
#[test]
fn one_clock_of_three_that_is_set_back_keeps_no_lock_beyond_its_ttl() {
    let (place, clocks) = with_clocks(3);
    let (first, second) = (place.linked("first"), place.linked("second"));
    // Long enough for a busy machine to set the clock within it.
    let ttl = Duration::from_secs(3);
    let lease = loop {
        let guard = once_reachable(|| first.lock("x").ttl(ttl).wait_at_most(PATIENCE).acquire().block()).expect("free");
        let lease = guard.leak();
        clocks[0].wall_behind(HOUR);
        if value(&place.servers[0], "x").is_some() {
            break lease;
        }
        clocks[0].wall_behind(Duration::ZERO);
    };
    let next = once_reachable(|| second.lock("x").ttl(TTL).wait_at_most(PATIENCE).acquire().block());
    let next = next.expect("two of three have let it go");
    let left = place.servers[0].number(&["PTTL", "lock:x"]);
    assert!(left > 1_800_000, "the control: the node whose clock was set back keeps it for {left} ms");
    next.release().block().expect("two of three");
    drop(lease);
}

/// The owner can let go, an operator can make it, and tokens rise over it.
#[test]
fn a_lock_on_a_server_whose_clock_was_set_back_can_be_released_and_taken() {
    let (place, clocks) = one_with_clocks();
    let (first, second) = (place.locks("first"), place.locks("second"));
    let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
    let left = first.lock("left").ttl(TTL).acquire().block().expect("free");
    let (token, left_token, lease) = (guard.token(), left.token(), left.leak());
    clocks.wall_behind(HOUR);
    let left = place.servers[0].number(&["PTTL", "lock:left"]);
    assert!(left > 1_800_000, "the control: left to itself it stays for {left} ms");
    guard.renew().block().expect("still mine");
    guard.release().block().expect("released");
    let next = once_reachable(|| second.lock("x").ttl(TTL).acquire().block()).expect("free at once");
    assert!(next.token() > token, "{} after {token}", next.token());
    next.release().block().expect("released");
    assert!(matches!(second.lock("left").ttl(TTL).try_acquire().block(), Ok(None)));
    let forced = second.force_release("left", "its clock was set back").block().expect("an operator's word");
    assert!(forced.holder.is_some());
    let taken = once_reachable(|| second.lock("left").ttl(TTL).acquire().block()).expect("free at once");
    assert!(taken.token() > left_token, "{} after {left_token}", taken.token());
    drop(lease);
    let new = once_reachable(|| second.lock("new").ttl(TTL).acquire().block());
    assert!(new.is_ok(), "a lock that nobody had before: {new:?}");
}

/// A process with clocks of its own.
fn start(clocks: &Clocks, role: &str, place: &Place) -> Other {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.envs(clocks.environment());
    let scheme = if place.quorum { "redlock" } else { "redis" };
    Other::start_by(command, role, &format!("{scheme} {}", place.rest()))
}

/// The holder whose machine sleeps. A deadline on the monotonic clock, which stands still meanwhile, is its control.
pub(crate) fn sleeps(place: &str) {
    let locks = connect(place);
    let started = Instant::now();
    let guard = locks.lock("x").ttl(HOUR).acquire().block().expect("free");
    say("holds");
    hear();
    say(&format!("by the boot clock: {}", guard.is_held()));
    say(&format!("by the monotonic clock: {}", started.elapsed() < HOUR));
    say(&format!("lost: {:?}", guard.lost().block().reason));
}

#[test]
fn a_holder_whose_machine_slept_past_its_lease_knows_it_at_once_and_the_monotonic_clock_does_not() {
    let (clocks, place) = (Clocks::new(), Place::one());
    let mut other = start(&clocks, "sleeps", &place);
    other.says("holds");
    other.stop();
    clocks.slept(HOUR * 2);
    other.resume();
    other.tell("wake up");
    assert_eq!(other.says("by the boot clock: "), "false");
    assert_eq!(other.says("by the monotonic clock: "), "true", "the control: it would have gone on");
    assert_eq!(other.says("lost: "), "Expired");
    other.finish();
}

/// The client whose calendar is wrong.
pub(crate) fn believes_another_time(place: &str) {
    let locks = connect(place);
    let guard = once_reachable(|| locks.lock("x").ttl(TTL).wait_at_most(PATIENCE).acquire().block()).expect("free");
    say(&format!("own time {}", FencingToken::at(SystemTime::now())));
    say(&format!("token {}", guard.token()));
    guard.release().block().expect("released");
}

#[test]
fn a_client_in_the_year_2100_or_1970_poisons_no_lock_and_its_own_clock_would_have() {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("later");
    for place in [Place::one(), Place::quorum(3)] {
        let locks = place.linked("first");
        for (ahead, behind) in [(AGES, Duration::ZERO), (Duration::ZERO, since_1970)] {
            let clocks = Clocks::new();
            if ahead > behind {
                clocks.wall_ahead(ahead)
            } else {
                clocks.wall_behind(behind)
            }
            let before = locks.lock("x").ttl(TTL).acquire().block().expect("free");
            let token = before.token();
            before.release().block().expect("released");
            let mut other = start(&clocks, "believes another time", &place);
            let by_its_clock: FencingToken = other.says("own time ").parse().expect("a token");
            let theirs: FencingToken = other.says("token ").parse().expect("a token");
            other.finish();
            let next = locks.lock("x").ttl(TTL).acquire().block().expect("free");
            let later = next.token();
            assert!(token < theirs && theirs < later, "{token}, {theirs}, {later}");
            next.release().block().expect("released");
            // The control: tokens by the clients' clocks. Either its own write is turned away, or all others' are.
            let resource = FencedCell::new(());
            let writes = [token, by_its_clock, later].map(|token| resource.write(token, ()).is_ok());
            assert!(writes == [true, true, false] || writes == [true, false, true], "{writes:?}");
        }
    }
}
