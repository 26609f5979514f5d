//! Nodes that forget: restarted empty, emptied, set back; and those that do not.

mod common;

use std::pin::pin;
use std::thread::sleep;
use std::time::Duration;

use common::{
    KEEPS_EVERYTHING, PATIENCE, Place, fence, grants, once_reachable, trouble, until, until_heard, until_linked, value,
};
use fencepost_core::fence::FencedCell;
use fencepost_core::{AcquireError, Blocking, EventKind, Guard, Locks, LossReason, StoreErrorKind, Vote};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::poll;
use fencepost_testkit::preload::Clocks;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

/// The shortest probation there is: a node keeps still for the window of its clock and a second.
const SHORT: &str = "max_ttl_ms=1000";
const TTL: Duration = Duration::from_secs(1);
const PROBATION: Duration = Duration::from_secs(11);

fn acquire(locks: &Locks, name: &str) -> Result<Guard, AcquireError> {
    locks.lock(name).ttl(TTL).acquire().block()
}

/// Asks until the forgetful node was judged; answers how long it will keep still.
fn quarantine(locks: &Locks, forgetful: usize) -> Duration {
    let mut left = None;
    until("the node was judged", || {
        let error = trouble(acquire(locks, "x"));
        let Vote::Failed(StoreErrorKind::Quarantined { left: node_left }) = error.votes[forgetful].vote else {
            return false;
        };
        assert!(matches!(error.kind, StoreErrorKind::Quarantined { .. }), "{error:?}");
        assert!(error.is_retryable() && !error.outcome_unknown(), "{error:?}");
        left = Some(node_left);
        true
    });
    let left = left.expect("BUG: just found");
    // It began with the next whole millisecond.
    let longest = PROBATION + Duration::from_millis(1);
    assert!(left <= longest && left > PROBATION / 2, "{left:?}");
    left
}

/// Of three nodes one is dead; the first forgets, and grants nothing. Answers how long that lasts.
fn keeps_still(place: &mut Place, locks: &Locks, forget: impl FnOnce(&mut Place)) -> Duration {
    place.servers[2].kill();
    acquire(locks, "x").expect("two of three").release().block().expect("released");
    forget(place);
    let left = quarantine(locks, 0);
    // Nor for another client, nor for one that waits.
    quarantine(&place.locks("other"), 0);
    let waited = trouble(locks.lock("x").ttl(TTL).wait_at_most(TTL).acquire().block());
    assert!(matches!(waited.kind, StoreErrorKind::Quarantined { .. }), "{waited:?}");
    // Nor where nobody will see a token.
    let unfenced = trouble(locks.lock("unfenced").unfenced().ttl(TTL).acquire().block());
    assert!(matches!(unfenced.kind, StoreErrorKind::Quarantined { .. }), "{unfenced:?}");
    let keys = place.servers[0].keys();
    assert!(value(&place.servers[0], "x").is_none() && !keys.contains(&"fp:marker".to_owned()), "{keys:?}");
    assert!(!keys.iter().any(|key| key.starts_with("fp:line")), "no place in line either: {keys:?}");
    left
}

/// The same, until its probation is over: then it votes.
fn keeps_still_and_votes_again(mut place: Place, forget: impl FnOnce(&mut Place)) {
    let locks = place.linked("first");
    let first = acquire(&locks, "x").expect("free");
    let token = first.token();
    first.release().block().expect("released");
    let left = keeps_still(&mut place, &locks, forget);
    sleep(left);
    let guard = acquire(&locks, "x").expect("its probation is over");
    assert_eq!(grants(guard.votes()), 2);
    assert!(guard.token() > token);
    assert!(value(&place.servers[0], "x").is_some(), "it votes again");
}

#[test]
fn a_node_that_restarted_empty_grants_nothing_until_its_probation_is_over() {
    keeps_still_and_votes_again(Place::voting(vec![Redis::new(); 3], SHORT), |place| place.servers[0].restart());
}

#[test]
fn a_node_that_was_emptied_under_an_open_link_grants_nothing_until_its_probation_is_over() {
    keeps_still_and_votes_again(Place::voting(vec![Redis::new(); 3], SHORT), |place| {
        assert_eq!(place.servers[0].ask(&["FLUSHALL"]), "+OK");
    });
}

/// They have been up for long and know of nothing, as new ones would; but they have been used in this run.
#[test]
fn nodes_that_were_all_emptied_grant_a_new_client_nothing_until_their_probation_is_over() {
    let clocks = [0, 1, 2].map(|_| Clocks::new());
    let recipes = clocks.iter().map(|clocks| Redis::new().preloaded(clocks.environment()));
    let place = Place::untrusted(recipes.collect(), SHORT);
    // They say that they have been up for an hour.
    clocks.iter().for_each(|clocks| clocks.wall_ahead(Duration::from_secs(3600)));
    let first = place.locks("first");
    place.reach_all(&first, "first");
    let held = acquire(&first, "x").expect("their first use");
    for server in &place.servers {
        assert_eq!(server.ask(&["FLUSHALL"]), "+OK");
    }
    let second = place.locks("second");
    let error = trouble(acquire(&second, "x"));
    assert!(matches!(error.kind, StoreErrorKind::Quarantined { .. }), "{error:?}");
    drop(held);
}

/// What a server that decides alone cannot see: its memory of the eviction is gone. The resource turns the token away.
#[test]
fn an_evicted_holder_that_an_old_snapshot_brings_back_is_turned_away_by_the_resource() {
    let mut place = Place::one();
    let (first, second) = (place.locks("first"), place.locks("second"));
    let ttl = Duration::from_secs(60);
    let resource = FencedCell::new("empty");
    let evicted = first.lock("x").ttl(ttl).manual_renewal().acquire().block().expect("free");
    resource.write(evicted.token(), "by the first").expect("the newest token");
    assert_eq!(place.servers[0].ask(&["SAVE"]), "+OK");
    second.force_release("x", "test").block().expect("an answer").holder.expect("it was held");
    let next = once_reachable(|| second.lock("x").ttl(ttl).acquire().block()).expect("free");
    resource.write(next.token(), "by the second").expect("the newest token");
    place.servers[0].restart();
    until("the snapshot has the first one's hold", || evicted.renew().block().is_ok());
    assert!(resource.write(evicted.token(), "by the first again").is_err(), "the second has written since");
    assert_eq!(resource.read(), "by the second");
}

/// Though its disk is trusted: what was written there is gone all the same.
#[test]
fn a_node_that_keeps_everything_but_was_emptied_keeps_still() {
    let mut place = Place::voting(vec![Redis::new().with(KEEPS_EVERYTHING); 3], SHORT);
    let locks = place.linked("first");
    keeps_still(&mut place, &locks, |place| {
        assert_eq!(place.servers[0].ask(&["FLUSHALL"]), "+OK");
        place.servers[0].restart();
    });
}

/// It has a marker, of an earlier run.
#[test]
fn a_node_that_came_back_with_an_old_snapshot_keeps_still() {
    let mut place = Place::voting(vec![Redis::new(); 3], SHORT);
    let locks = place.linked("first");
    keeps_still(&mut place, &locks, |place| {
        assert_eq!(place.servers[0].ask(&["SAVE"]), "+OK");
        place.servers[0].restart();
    });
}

#[test]
fn three_of_five_that_restarted_empty_stop_all_grants_and_recover_by_themselves() {
    // Long enough that they are back before it ends, also on a busy machine; shorter than half of their probation.
    let mut place = Place::voting(vec![Redis::new(); 5], "max_ttl_ms=4000");
    let locks = place.linked("first");
    let held = locks.lock("held").ttl(4 * TTL).acquire().block().expect("free");
    assert!(grants(held.votes()) >= 3);
    place.servers[..3].iter_mut().for_each(|server| server.restart());
    let lost = held.lost().block();
    assert_eq!(lost.reason, LossReason::NodeRestarted, "a majority cannot vouch for it any more");
    let left = (0..3).map(|node| quarantine(&locks, node)).max().expect("three");
    let error = trouble(acquire(&locks, "x"));
    assert!(error.message.starts_with("3 of 5 nodes did not vote"), "{error}");
    sleep(left);
    let guard = acquire(&locks, "x").expect("all vote again");
    place.until_all_have("x");
    assert!(guard.is_held());
    assert!(acquire(&locks, "held").is_ok(), "its lease was over long ago");
}

/// Marks a node as one that remembers, after the marker of another.
fn trust_by_hand(server: &Server<Redis>, model: &Server<Redis>) {
    let marker = model.word(&["GET", "fp:marker"]).expect("it votes");
    let (sets, _) = marker.rsplit_once('|').expect("sets and a run");
    let info = server.ask(&["INFO", "server"]);
    let run = info.lines().find_map(|line| line.strip_prefix("run_id:")).expect("a run id").trim();
    let left = model.number(&["PTTL", "fp:marker"]).to_string();
    assert_eq!(server.ask(&["SET", "fp:marker", &format!("{sets}|{run}"), "PX", &left]), "+OK");
    server.ask(&["DEL", "fp:probation"]);
}

/// The danger itself: the first holder's majority and the second's share only the node that forgot.
#[test]
fn a_node_that_forgot_a_lock_does_not_grant_it_twice() {
    let (forgets, keeps) = (Redis::new(), Redis::new().with(KEEPS_EVERYTHING));
    let mut place = Place::voting(vec![keeps.clone(), forgets, keeps], "max_ttl_ms=30000");
    let (first, second) = (place.linked("first"), place.linked("second"));
    place.servers[2].kill();
    let long = Duration::from_secs(30);
    let guard = once_reachable(|| first.lock("x").ttl(long).manual_renewal().acquire().block()).expect("two of three");
    place.servers[2].restart();
    place.servers[1].restart();
    until_linked(&place.servers[2]);
    until("the node that forgot was judged", || place.servers[1].word(&["GET", "fp:probation"]).is_some());
    until_heard(&place.servers[1], 2);
    let attempt = |locks: &Locks| locks.lock("x").ttl(long).try_acquire().block();
    assert!(matches!(attempt(&second), Ok(None)), "one of three is free, one is held, one keeps still");
    assert!(guard.is_held());
    assert_eq!(second.shutdown(PATIENCE).block(), Vec::<String>::new());
    // The control: with that node trusted at once, which is what a restart without a probation means, it is granted.
    trust_by_hand(&place.servers[1], &place.servers[0]);
    let third = place.locks("third");
    let twice = attempt(&third).expect("all can vote").expect("the first client's lock was forgotten");
    assert!(guard.is_held() && twice.is_held(), "two hold it, which is why there is a probation");
    assert!(twice.token() > guard.token(), "but the fence still tells them apart");
}

#[test]
fn a_node_that_keeps_everything_votes_at_once_after_a_crash() {
    let mut place = Place::voting(vec![Redis::new().with(KEEPS_EVERYTHING); 3], SHORT);
    let locks = place.linked("first");
    place.servers[2].kill();
    let lease = locks.lock("held").ttl(TTL).acquire().block().expect("free").leak();
    let before = fence(&place.servers[0], "held");
    place.servers[0].restart();
    assert_eq!(fence(&place.servers[0], "held"), before);
    let guard = once_reachable(|| acquire(&locks, "x")).expect("never quarantined");
    assert_eq!(grants(guard.votes()), 2);
    drop(lease);
}

#[test]
fn a_rolling_restart_of_nodes_that_keep_everything_fails_no_acquisition() {
    let mut place = Place::voting(vec![Redis::new().with(KEEPS_EVERYTHING); 5], "max_ttl_ms=60000");
    // Five servers write to one disk here.
    let locks = place.connect().answer_within(Duration::from_secs(5)).block().expect("all are there");
    let long = Duration::from_secs(60);
    let blocked = locks.lock("blocked").ttl(long).acquire().block().expect("free");
    place.until_all_have("blocked");
    let held = locks.lock("held").ttl(long).acquire().block().expect("free");
    let lease = blocked.leak();
    let mut last = None;
    let mut acquire_some = |locks: &Locks| {
        for _ in 0..20 {
            let guard = locks.lock("x").ttl(long).acquire().block().expect("four of five vote");
            assert!(Some(guard.token()) > last, "tokens rise");
            last = Some(guard.token());
            guard.release().block().expect("four of five confirm it");
        }
    };
    for number in 0..place.servers.len() {
        let left = place.servers[number].number(&["PTTL", "lock:blocked"]);
        assert!(left > 0);
        place.servers[number].stop();
        acquire_some(&locks);
        place.servers[number].restart();
        until_linked(&place.servers[number]);
        acquire_some(&locks);
        let now = place.servers[number].number(&["PTTL", "lock:blocked"]);
        assert!((1..left).contains(&now), "it counts on while the server is down: {left}, then {now}");
    }
    assert!(held.renew().block().expect("a majority kept it") > Duration::ZERO);
    assert!(matches!(locks.lock("blocked").ttl(long).try_acquire().block(), Ok(None)));
    let adopted = locks.adopt(&lease).block().expect("still there");
    adopted.release().block().expect("released");
}

/// Nothing but fences, which end by themselves, and the mark that the node may vote.
#[test]
fn released_locks_leave_only_fences_that_end_by_themselves() {
    let place = Place::quorum(3);
    let (locks, other) = (place.locks("first"), place.locks("other"));
    let mut events = other.events();
    for number in 0..50 {
        let name = format!("n{number}");
        let (lock, behind) = (locks.lock(&name), other.lock(&name).wait_forever());
        let guard = lock.acquire().block().expect("free");
        let mut waiting = pin!(behind.acquire());
        assert!(poll::once(waiting.as_mut()).is_none(), "it waits");
        wait_for(&mut events, &name, |kind| *kind == EventKind::Waiting);
        guard.release().block().expect("released");
        waiting.block().expect("its turn").release().block().expect("released");
        lock.shared().acquire().block().expect("free").release().block().expect("released");
    }
    for locks in [locks, other] {
        assert_eq!(locks.shutdown(PATIENCE).block(), Vec::<String>::new());
    }
    for server in &place.servers {
        until("only fences and the marker are left", || {
            server.keys().iter().all(|key| key.starts_with("fp:marker") || key.starts_with("fp:fence:"))
        });
        let fences = server.keys().iter().filter(|key| key.starts_with("fp:fence:")).count();
        assert_eq!(fences, 50, "the fence survives the release");
        for key in server.keys().iter().filter(|key| !key.starts_with("fp:marker")) {
            let left = server.number(&["PTTL", key]);
            assert!((1..=86_400_000).contains(&left), "{key} ends in {left} ms");
        }
    }
}
