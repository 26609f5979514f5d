//! What goes wrong with a cluster: a leader that is stopped or killed, leases that end, connections that are cut.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use common::{Host, Place};
use fencepost_core::{AcquireError, Blocking, EventKind, Locks, LossReason, ReleaseOutcome};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::etcd::{Etcd, EtcdCluster, etcdctl};
use fencepost_testkit::proxy::{Flow, Proxy};
use fencepost_testkit::turns::{History, Kind, Turn, now};
use fencepost_testkit::wait::until;

const CONTENDERS: u32 = 4;
/// How long a leader is stopped.
const PAUSE: Duration = Duration::from_secs(10);
/// Three times that: also a leader that comes back with an old clock takes no such lease for old.
const LONG: Duration = Duration::from_secs(30);

/// Takes turns with a lock until told to stop, and tells of each.
fn contend(locks: &Locks, name: &str, ttl: Duration, process: u32, stop: &AtomicBool, tell: &Sender<Turn>) {
    while !stop.load(Ordering::SeqCst) {
        let asked = now();
        // Trouble is no turn: a claim that rode out the outage for long enough gives up.
        let Ok(guard) = locks.lock(name).ttl(ttl).wait_at_most(LONG).acquire().block() else { continue };
        let from = now();
        let (mut held, token) = (from, guard.token().as_u64());
        let until = from + 10_000_000;
        loop {
            let time = now();
            if time > until || !guard.is_held() {
                break;
            }
            held = time;
            std::thread::yield_now();
        }
        let _ = guard.release().block();
        let _ = tell.send(Turn { process, kind: Kind::Writes, asked, from, until: held, token });
    }
}

fn take(turns: &Receiver<Turn>, count: usize) -> Vec<Turn> {
    (0..count).map(|_| turns.recv().expect("they go on")).collect()
}

/// Runs contenders on a cluster of their own while something happens to it. Answers all turns.
fn under_load(ttl: Duration, happens: impl FnOnce(&mut EtcdCluster, &dyn Fn(usize))) -> History {
    let mut cluster = EtcdCluster::start();
    let place = cluster.place();
    let connect = |number: u32| {
        fencepost_etcd::connect("etcd", &format!("//{place}")).label(number.to_string()).block().expect("it is up")
    };
    let connections: Vec<Locks> = (0..CONTENDERS).map(connect).collect();
    let (stop, (tell, turns)) = (AtomicBool::new(false), mpsc::channel());
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        for (number, locks) in (0..).zip(&connections) {
            let (tell, stop) = (tell.clone(), &stop);
            scope.spawn(move || contend(locks, "x", ttl, number, stop, &tell));
        }
        let collected = std::cell::RefCell::new(Vec::new());
        let more = |count| collected.borrow_mut().extend(take(&turns, count));
        more(20);
        happens(&mut cluster, &more);
        more(20);
        stop.store(true, Ordering::SeqCst);
        seen = collected.into_inner();
    });
    drop(tell);
    seen.extend(turns.iter());
    History::new(seen)
}

/// Stops the leader for a while, under load that goes on meanwhile.
fn stop_the_leader(cluster: &mut EtcdCluster, more: &dyn Fn(usize)) {
    let old = cluster.leader(None);
    let began = Instant::now();
    cluster.servers[old].pause();
    cluster.leader(Some(old));
    more(20);
    while began.elapsed() < PAUSE {
        more(1);
    }
    cluster.servers[old].resume();
    cluster.until_whole();
}

#[test]
fn a_leader_that_is_stopped_for_ten_seconds_costs_neither_exclusion_nor_order() {
    let history = under_load(LONG, stop_the_leader);
    assert_eq!(history.violations(0), Vec::<String>::new());
}

/// S-15, etcd#15247: a leader that comes back ends leases that the new one has kept alive. Exclusion may suffer, the
/// order of tokens does not: whoever was thrown out so has an older one.
#[test]
fn a_stalled_leader_that_ends_leases_never_lowers_a_token() {
    let history = under_load(Duration::from_secs(3), stop_the_leader);
    let lowered: Vec<String> = history.violations(0).into_iter().filter(|found| found.starts_with("token")).collect();
    assert_eq!(lowered, Vec::<String>::new());
}

#[test]
fn a_leader_that_is_killed_costs_neither_exclusion_nor_order() {
    let history = under_load(LONG, |cluster, more| {
        for _ in 0..2 {
            let old = cluster.leader(None);
            cluster.servers[old].kill();
            cluster.leader(Some(old));
            more(20);
            cluster.servers[old].restart();
            cluster.until_whole();
        }
    });
    assert_eq!(history.violations(0), Vec::<String>::new());
}

/// Through the loss of the leader, by its renewals at another member.
#[test]
fn a_hold_outlives_the_leader_that_granted_it() {
    let mut cluster = EtcdCluster::start();
    let locks = fencepost_etcd::connect("etcd", &format!("//{}", cluster.place())).block().expect("it is up");
    let mut events = locks.events();
    let guard = locks.lock("x").ttl(Duration::from_secs(6)).acquire().block().expect("free");
    let old = cluster.leader(None);
    cluster.servers[old].kill();
    for _ in 0..3 {
        wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Renewed { .. }));
    }
    assert!(guard.is_held());
    assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
}

/// S-17: whoever cannot reach the cluster is told before anybody else can have the lock.
#[test]
fn a_holder_that_is_cut_off_is_told_before_the_next_has_the_lock() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let cut_off = place.connect_to(&proxy.address()).label("cut off").block().expect("it is up");
    let other = place.locks("other");
    let guard = cut_off.lock("x").ttl(Duration::from_secs(2)).acquire().block().expect("free");
    proxy.requests(Flow::Held);
    let next = other.lock("x").wait_forever().acquire().block().expect("free after the ttl");
    assert!(!guard.is_held(), "both believe that they hold it");
    assert_eq!(guard.lost().block().reason, LossReason::Unreachable);
    assert!(next.token() > guard.token());
}

/// S-14, etcd#11456: it waits under a lease that has ended, and the lock becomes free.
#[test]
fn a_waiter_whose_lease_has_ended_never_has_the_lock_by_it() {
    let place = Place::on_a_server();
    let (holding, waiting) = (place.locks("holding"), place.locks("waiting"));
    let guard = holding.lock("x").ttl(LONG).acquire().block().expect("free");
    let mut events = waiting.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| waiting.lock("x").ttl(LONG).wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        let [_, (key, dead)] = leases(&place, "x")[..] else { panic!("two claims") };
        revoke(&place, dead);
        guard.release().block().expect("released");
        let next = waiter.join().expect("no panic").expect("in the end, by another key");
        assert!(next.token().as_i64() > key, "it has the lock by the key that was gone");
        assert!(next.is_held());
    });
}

/// What a stalled leader does to a holder, done by hand: it hears of it with its next renewal, and stays out.
#[test]
fn a_lease_that_ends_behind_its_holders_back_is_told_with_the_next_renewal() {
    let place = Place::on_a_server();
    let (holding, other) = (place.locks("holding"), place.locks("other"));
    let guard = holding.lock("x").ttl(LONG).acquire().block().expect("free");
    let [(_, lease)] = leases(&place, "x")[..] else { panic!("one claim") };
    revoke(&place, lease);
    let next = other.lock("x").try_acquire().block().expect("an answer").expect("free");
    assert!(guard.renew().block().is_err());
    assert_eq!(guard.lost().block().reason, LossReason::TakenOver);
    assert!(next.token() > guard.token());
    guard.release().block().expect("an answer");
    assert!(next.renew().block().is_ok(), "a late release freed another's lock");
}

/// The key was made, and nobody heard of it: it is gone long before its ttl ends.
#[test]
fn an_acquire_whose_answer_was_cut_off_leaves_nothing_behind() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let cut_off = place.connect_to(&proxy.address()).answer_within(Duration::from_secs(2)).block().expect("it is up");
    let other = place.locks("other");
    // So that it has a lease, and the next request is the one that makes the key.
    cut_off.lock("x").ttl(LONG).acquire().block().expect("free").release().block().expect("released");
    proxy.replies(Flow::Lost);
    match cut_off.lock("x").ttl(LONG).acquire().block() {
        Err(AcquireError::Store(error)) => assert!(error.outcome_unknown(), "{error}"),
        unexpected => panic!("{unexpected:?}"),
    }
    proxy.replies(Flow::Pass);
    proxy.cut();
    let began = Instant::now();
    let next = other.lock("x").ttl(LONG).wait_at_most(LONG).acquire().block().expect("cleaned up");
    assert!(began.elapsed() < LONG - Duration::from_secs(5), "only its end has freed it");
    assert!(next.is_held());
}

/// The same for one that was under way while its claim was given up: ending its lease makes it harmless.
#[test]
fn an_acquire_that_arrives_after_its_release_makes_no_key() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let late = place.connect_to(&proxy.address()).answer_within(Duration::from_secs(1)).block().expect("it is up");
    late.lock("x").ttl(LONG).acquire().block().expect("free").release().block().expect("released");
    proxy.requests(Flow::Held);
    assert!(late.lock("x").ttl(LONG).acquire().block().is_err(), "nobody answers");
    proxy.requests(Flow::Pass);
    assert_eq!(late.shutdown(LONG).block(), Vec::<String>::new());
    until("nothing is left", || leases(&place, "x").is_empty());
    assert!(place.locks("other").lock("x").try_acquire().block().expect("an answer").is_some());
}

/// The release happened while the waiter could hear nothing.
#[test]
fn a_waiter_whose_watch_missed_the_release_has_the_lock_all_the_same() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let waiting = place.connect_to(&proxy.address()).label("waiting").block().expect("it is up");
    let holding = place.locks("holding");
    for _ in 0..3 {
        let guard = holding.lock("x").ttl(LONG).acquire().block().expect("free");
        let mut events = waiting.events();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| waiting.lock("x").ttl(LONG).wait_at_most(LONG).acquire().block());
            wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
            proxy.close();
            guard.release().block().expect("released");
            proxy.reopen();
            let next = waiter.join().expect("no panic").expect("long before a ttl ends");
            next.release().block().expect("released");
        });
    }
}

/// A server that comes back has every lock that it granted.
#[test]
fn locks_outlive_a_restart_of_the_only_server() {
    let place = Place::on(Host::Server(Arc::new(Etcd::new().start())));
    let mut place = place;
    let (holding, other) = (place.locks("holding"), place.locks("other"));
    let guard = holding.lock("x").ttl(LONG).acquire().block().expect("free");
    let Host::Server(server) = &mut place.host else { unreachable!("BUG: made above") };
    Arc::get_mut(server).expect("its own").restart();
    until("it answers", || other.inspect("x").block().is_ok());
    assert!(other.lock("x").try_acquire().block().expect("an answer").is_none(), "it has forgotten");
    guard.renew().block().expect("kept");
    assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
}

/// Create revision and lease of each claim on a lock, the oldest first.
fn leases(place: &Place, name: &str) -> Vec<(i64, i64)> {
    let folder = format!("{}{name}/", place.prefix);
    let mut command = etcdctl(&place.servers());
    let output = command.args(["get", "--prefix", &folder, "--sort-by=CREATE", "-w", "fields"]).output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let numbers = |field: &str| -> Vec<i64> {
        let start = format!("\"{field}\" : ");
        text.lines().filter_map(|line| line.strip_prefix(&start)?.parse().ok()).collect()
    };
    numbers("CreateRevision").into_iter().zip(numbers("Lease")).collect()
}

fn revoke(place: &Place, lease: i64) {
    let output = etcdctl(&place.servers()).args(["lease", "revoke", &format!("{lease:x}")]).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whoever had it in between put the key under a lease of its own; the first one must not go on with its old one.
#[test]
fn a_hold_that_went_to_another_and_came_back_is_renewed_where_it_is() {
    let place = Place::on_a_server();
    let (one, two, third) = (place.locks("one"), place.locks("two"), place.locks("third"));
    let ttl = Duration::from_secs(4);
    let lease = one.lock("x").ttl(ttl).acquire().block().expect("free").leak();
    let lease = two.adopt(&lease).block().expect("still there").leak();
    let guard = one.adopt(&lease).block().expect("still there");
    // Longer than the lease of the second, which nobody renews.
    let waited = third.lock("x").ttl(ttl).wait_at_most(ttl * 2).acquire().block();
    assert!(matches!(waited, Err(AcquireError::Busy { .. })), "{waited:?}");
    assert!(guard.is_held());
    assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
}
