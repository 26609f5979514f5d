//! Disks that forget what was not synced, and disks that are full.

use std::time::Duration;

use fencepost_core::{Blocking, FencingToken, Locks, ReleaseOutcome, StoreErrorKind};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::preload::Disk;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

use crate::common::{KEEPS_EVERYTHING, PATIENCE, Place, is_clean, once_reachable, trouble, until, until_linked, value};

const TTL: Duration = Duration::from_secs(30);
const EVERY_SECOND: &str = "--appendonly yes --appendfsync everysec";
const CUTS: usize = 5;

fn with_disk(disk: &Disk, options: &str) -> Redis {
    Redis::new().with(options).preloaded(disk.environment())
}

/// Grants some locks, cuts the power at once; answers how many are still known.
fn known_after_a_power_cut(server: &mut Server<Redis>, cut: usize) -> usize {
    let names: Vec<String> = (0..20).map(|number| format!("control {cut} {number}")).collect();
    for name in &names {
        assert_eq!(server.ask(&["SET", name, "somebody", "NX", "PX", "600000"]), "+OK");
    }
    server.kill();
    server.restart();
    names.iter().filter(|name| server.word(&["GET", name]).is_some()).count()
}

#[test]
fn a_power_cut_takes_nothing_from_a_server_that_syncs_always() {
    let disk = Disk::new();
    let mut server = with_disk(&disk, KEEPS_EVERYTHING).start();
    for cut in 0..CUTS {
        assert_eq!(known_after_a_power_cut(&mut server, cut), 20);
    }
}

/// The control: as soon as it syncs every second only, acknowledged locks are gone.
#[test]
fn a_power_cut_takes_acknowledged_locks_from_a_server_that_syncs_every_second() {
    let disk = Disk::new();
    let mut server = with_disk(&disk, EVERY_SECOND).start();
    let mut cut = 0;
    until("acknowledged locks are lost", || {
        cut += 1;
        known_after_a_power_cut(&mut server, cut) < 20
    });
}

/// Whatever it has lost, it does not vote before every lease is over that it may have forgotten.
#[test]
fn after_a_power_cut_a_node_that_syncs_every_second_keeps_still_and_one_that_syncs_always_votes() {
    for (options, keeps_still) in [(EVERY_SECOND, true), (KEEPS_EVERYTHING, false)] {
        let disks: Vec<Disk> = (0..3).map(|_| Disk::new()).collect();
        let mut place = Place::voting(disks.iter().map(|disk| with_disk(disk, options)).collect(), "");
        let (first, second) = (place.linked("first"), place.linked("second"));
        let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
        let token = guard.token();
        place.until_all_have("x");
        for server in &mut place.servers[..2] {
            server.kill();
            server.restart();
        }
        let attempt = |locks: &Locks| trouble_or_busy(locks);
        if keeps_still {
            until("both were judged", || attempt(&second).is_some_and(|kind| is_quarantine(&kind)));
        } else {
            place.servers[..2].iter().for_each(until_linked);
            until("both vote", || attempt(&second).is_none());
            assert!(place.servers[..2].iter().all(|server| value(server, "x").is_some()), "they remember");
            until("it is renewed", || guard.renew().block().is_ok());
            guard.release().block().expect("a majority");
            let next = once_reachable(|| second.lock("x").ttl(TTL).wait_at_most(PATIENCE).acquire().block());
            assert!(next.expect("free").token() > token);
        }
    }
}

fn is_quarantine(kind: &StoreErrorKind) -> bool {
    matches!(kind, StoreErrorKind::Quarantined { .. })
}

/// Tries to get what another holds: what was the trouble, or `None` if it is simply held.
fn trouble_or_busy(locks: &Locks) -> Option<StoreErrorKind> {
    match locks.lock("x").ttl(TTL).try_acquire().block() {
        Ok(None) => None,
        Ok(Some(guard)) => panic!("granted twice: {guard:?}"),
        Err(error) => Some(trouble::<FencingToken>(Err(error)).kind),
    }
}

/// A server whose disk is full says so; what was held is released once there is room.
#[test]
fn a_full_disk_is_said_and_a_lock_is_released_once_there_is_room() {
    let disk = Disk::new();
    let place = Place::alone(with_disk(&disk, EVERY_SECOND));
    let (locks, server) = (place.locks("first"), &place.servers[0]);
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    disk.fill();
    // The control: the server itself refuses any write once it has noticed.
    until("it has noticed", || server.ask(&["SET", "control", "1"]).starts_with("-MISCONF"));
    let error = trouble(locks.lock("y").ttl(TTL).acquire().block());
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error:?}");
    assert!(error.is_retryable() && error.message.contains("No space left"), "{error}");
    let released = guard.release().block();
    assert!(released.is_err(), "the server refused it: {released:?}");
    assert!(value(server, "x").is_some(), "and has it still");
    disk.make_room();
    until("it is released", || is_clean(server, "x"));
    let next = once_reachable(|| locks.lock("y").ttl(TTL).wait_at_most(PATIENCE).acquire().block()).expect("free");
    assert_eq!(next.release().block().expect("released"), ReleaseOutcome::Freed);
}

/// One that must sync always ends itself; either way the others decide.
#[test]
fn a_minority_with_full_disks_is_out_of_reach_and_the_others_decide() {
    for options in [EVERY_SECOND, KEEPS_EVERYTHING] {
        let disk = Disk::new();
        let keeps = || Redis::new().with(options);
        let mut place = Place::voting(vec![with_disk(&disk, options), keeps(), keeps()], "");
        let locks = place.linked("first");
        let token = locks.lock("x").ttl(TTL).acquire().block().expect("free").token();
        disk.fill();
        let mut last = token;
        for _ in 0..5 {
            let lock = locks.lock("x").ttl(TTL).wait_at_most(PATIENCE);
            let guard = once_reachable(|| lock.acquire().block()).expect("two of three");
            assert!(guard.token() > last, "tokens rise");
            last = guard.token();
            guard.renew().block().expect("two of three");
            guard.release().block().expect("two of three");
        }
        disk.make_room();
        if options == KEEPS_EVERYTHING {
            place.servers[0].restart();
            until_linked(&place.servers[0]);
        }
        until("it votes again", || {
            let lock = locks.lock("x").ttl(TTL).wait_at_most(PATIENCE);
            let guard = once_reachable(|| lock.acquire().block()).expect("free");
            guard.renew().block().is_ok() && value(&place.servers[0], "x").is_some()
        });
        until("nothing is left", || place.servers.iter().all(|server| is_clean(server, "x")));
    }
}
