//! Planted bugs: what clients do wrong, so that everybody can see that it is found.

use std::time::Duration;

use fencepost::Blocking;

use super::client::{Client, nap};
use super::talk::{Word, nanos, now};
use crate::args::Bug;

/// A piece of wrong work.
const WORK: (Duration, Duration) = (Duration::from_millis(8), Duration::from_millis(12));
/// How far ahead of the token that it was granted a made-up one is: few grants, so that others are not kept out for long.
const AHEAD: u64 = 7;

/// A turn of a client that does it wrong. `false`: this one is to be done right.
pub(super) fn turn(client: &mut Client, lock: u32) -> bool {
    let Some(bug) = client.job.bug else { return false };
    match bug {
        Bug::LeavesLock => return false,
        Bug::IgnoresLoss => ignore_loss(client, lock),
        Bug::ReleasesForeign => release_foreign(client, lock),
        Bug::ReleasesTwice => release_twice(client, lock),
        Bug::NoLock => take_none(client, lock),
        Bug::OldToken => show_the_old_token(client, lock),
        Bug::MadeUpToken => make_up_a_token(client, lock),
        Bug::ReadsEarly => read_early(client, lock),
        Bug::NoFence => write_late(client, lock),
        Bug::StaysAfterRelease => stay(client, lock),
    }
    true
}

/// When a lock that nobody renews is surely with somebody else: some stores let go late.
fn long_after(client: &Client) -> u64 {
    now() + nanos(2 * client.job.ttl + Duration::from_secs(5))
}

fn ignore_loss(client: &mut Client, lock: u32) {
    let wanted = client.lock(lock).manual_renewal();
    let Some((guard, token)) = client.hold(lock, wanted) else { return };
    let (mut taken, mut version) = client.read(lock, token);
    let end = long_after(client);
    // It stops only when the fence has told it, and not even then at once.
    while taken && now() < end && !client.stopped() {
        client.believe(lock, now());
        nap(WORK);
        (taken, version) = client.write(lock, token, version);
    }
    nap(WORK);
    client.believe(lock, now());
    client.release(lock, guard);
}

fn release_foreign(client: &mut Client, lock: u32) {
    nap(WORK);
    let _ = client.locks.force_release(client.name(lock), "a planted bug").block();
}

fn release_twice(client: &mut Client, lock: u32) {
    let Some((guard, token)) = client.hold(lock, client.lock(lock)) else { return };
    client.work(lock, token, &guard);
    client.release(lock, guard);
    let _ = client.locks.force_release(client.name(lock), "a planted bug").block();
}

fn take_none(client: &mut Client, lock: u32) {
    client.ask(lock);
    let Some(token) = client.newest_token(lock).map(|token| token.as_u64()) else { return nap(WORK) };
    client.say(lock, Word::Acquired { token, until: now() + nanos(WORK.0) });
    let (_, version) = client.read(lock, token);
    nap(WORK);
    client.believe(lock, now());
    client.write(lock, token, version);
    client.say(lock, Word::Releasing);
}

fn show_the_old_token(client: &mut Client, lock: u32) {
    let before = client.last.filter(|(of, _)| *of == lock).map(|(_, token)| token);
    let Some(guard) = client.acquire(lock, client.lock(lock)) else { return };
    let token = before.unwrap_or_else(|| guard.token().as_u64());
    client.acquired(lock, token, &guard);
    client.work(lock, token, &guard);
    client.release(lock, guard);
}

fn make_up_a_token(client: &mut Client, lock: u32) {
    let Some((guard, token)) = client.hold(lock, client.lock(lock)) else { return };
    client.work(lock, token + AHEAD, &guard);
    client.release(lock, guard);
}

fn read_early(client: &mut Client, lock: u32) {
    let version = client.peek(lock);
    nap(WORK);
    let Some((guard, token)) = client.hold(lock, client.lock(lock)) else { return };
    client.write(lock, token, version);
    client.release(lock, guard);
}

/// As after a long pause: it looked at its lock, slept past its lease, and writes.
fn write_late(client: &mut Client, lock: u32) {
    let wanted = client.lock(lock).manual_renewal();
    let Some((guard, token)) = client.hold(lock, wanted) else { return };
    let (_, version) = client.read(lock, token);
    let end = long_after(client);
    while client.peek(lock) == version && now() < end && !client.stopped() {
        nap(WORK);
    }
    client.write(lock, token, version);
    client.release(lock, guard);
}

fn stay(client: &mut Client, lock: u32) {
    let Some((guard, token)) = client.hold(lock, client.lock(lock)) else { return };
    client.work(lock, token, &guard);
    client.say(lock, Word::Releasing);
    client.say(lock, Word::Renews { token });
    let _ = guard.renew().block();
    nap(WORK);
    let _ = guard.release().block();
}

/// Its last act.
pub(super) fn leave_a_lock(client: &Client) {
    let longest = client.locks.guarantees().largest_ttl.unwrap_or(Duration::MAX);
    let ttl = (20 * client.job.ttl).min(longest);
    let wanted = client.locks.lock(client.name(0)).ttl(ttl).wait_at_most(client.job.ttl);
    if let Ok(guard) = wanted.acquire().block() {
        // What was handed over in line is short: it shall outlast the look at the end.
        let _ = guard.renew().block();
        let _ = guard.leak();
    }
}
