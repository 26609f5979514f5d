//! What goes wrong with servers: a leader that is stopped or killed, sessions that end, connections that are cut.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use common::kazoo::Kazoo;
use common::takeover::end_sessions;
use common::{Host, Place};
use fencepost_core::{AcquireError, Blocking, EventKind, Lease, Locks, LossReason, ReleaseOutcome, RenewError};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::proxy::{Direction, Flow, Proxy};
use fencepost_testkit::turns::{History, Kind, Turn, now};
use fencepost_testkit::wait::until;
use fencepost_testkit::zookeeper::{Ensemble, ZooKeeper};

const CONTENDERS: u32 = 4;
/// How long a leader is stopped: for longer than the others wait for it.
const PAUSE: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(30);

/// Takes turns with a lock until told to stop, and tells of each.
fn contend(locks: &Locks, ttl: Duration, process: u32, stop: &AtomicBool, tell: &Sender<Turn>) {
    while !stop.load(Ordering::SeqCst) {
        let asked = now();
        // Trouble is no turn: a claim that rode out the outage for long enough gives up.
        let Ok(guard) = locks.lock("x").ttl(ttl).wait_at_most(LONG).acquire().block() else { continue };
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

/// Runs contenders on an ensemble of their own while something happens to it. Answers all turns.
fn under_load(ttl: Duration, happens: impl FnOnce(&mut Ensemble, &dyn Fn(usize))) -> History {
    let mut ensemble = Ensemble::start();
    let place = ensemble.place();
    let connect = |number: u32| {
        fencepost_zookeeper::connect("zk", &format!("//{place}")).label(number.to_string()).block().expect("it is up")
    };
    let connections: Vec<Locks> = (0..CONTENDERS).map(connect).collect();
    let (stop, (tell, turns)) = (AtomicBool::new(false), mpsc::channel());
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        for (number, locks) in (0..).zip(&connections) {
            let (tell, stop) = (tell.clone(), &stop);
            scope.spawn(move || contend(locks, ttl, number, stop, &tell));
        }
        let collected = std::cell::RefCell::new(Vec::new());
        let more = |count| collected.borrow_mut().extend(take(&turns, count));
        more(20);
        happens(&mut ensemble, &more);
        more(20);
        stop.store(true, Ordering::SeqCst);
        seen = collected.into_inner();
    });
    drop(tell);
    seen.extend(turns.iter());
    History::new(seen)
}

/// S-15: sessions begin anew with each leader, and a leader that comes back is none any more.
#[test]
fn a_leader_that_is_stopped_costs_neither_exclusion_nor_order() {
    let history = under_load(Duration::from_secs(3), |ensemble, more| {
        let old = ensemble.leader(None);
        let began = Instant::now();
        ensemble.servers[old].pause();
        ensemble.leader(Some(old));
        more(20);
        while began.elapsed() < PAUSE {
            more(1);
        }
        ensemble.servers[old].resume();
        ensemble.until_whole();
    });
    assert_eq!(history.violations(0), Vec::<String>::new());
}

#[test]
fn a_leader_that_is_killed_costs_neither_exclusion_nor_order() {
    let history = under_load(LONG, |ensemble, more| {
        for _ in 0..2 {
            let old = ensemble.leader(None);
            ensemble.servers[old].kill();
            ensemble.leader(Some(old));
            more(20);
            ensemble.servers[old].restart();
            ensemble.until_whole();
        }
    });
    assert_eq!(history.violations(0), Vec::<String>::new());
}

/// Through the loss of the leader, by its renewals at another server; and so does a place in line.
#[test]
fn a_hold_and_a_place_in_line_outlive_the_leader_that_granted_them() {
    let mut ensemble = Ensemble::start();
    let connect = || fencepost_zookeeper::connect("zk", &format!("//{}", ensemble.place())).block().expect("it is up");
    let (locks, waiting) = (connect(), connect());
    let mut events = locks.events();
    let guard = locks.lock("x").ttl(LONG).acquire().block().expect("free");
    let old = ensemble.leader(None);
    let mut waits = waiting.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| waiting.lock("x").ttl(LONG).wait_forever().acquire().block());
        wait_for(&mut waits, "x", |kind| *kind == EventKind::Waiting);
        ensemble.servers[old].kill();
        guard.renew().block().ok();
        wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Renewed { .. }));
        assert!(guard.is_held());
        until("it answers", || locks.inspect("x").block().is_ok_and(|state| state.waiters.len() == 1));
        assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
        assert!(waiter.join().expect("no panic").expect("its turn").is_held());
    });
}

/// S-17: whoever cannot reach the servers is told before anybody else can have the lock. kazoo's lock is not told at all.
#[test]
fn a_holder_that_is_cut_off_is_told_before_the_next_has_the_lock_and_kazoo_is_not() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let cut_off = place.connect_to(&proxy.address()).label("cut off").block().expect("it is up");
    let other = place.locks("other");
    let guard = cut_off.lock("x").ttl(Duration::from_secs(6)).acquire().block().expect("free");
    proxy.requests(Flow::Held);
    let next = other.lock("x").wait_forever().acquire().block().expect("free after the session");
    assert!(!guard.is_held(), "both believe that they hold it");
    assert_eq!(guard.lost().block().reason, LossReason::Unreachable);
    assert!(next.token() > guard.token());
    next.release().block().expect("released");
    proxy.requests(Flow::Pass);

    // The control: the same fault, another client.
    let theirs = Proxy::before(place.servers());
    let mut kazoo = Kazoo::start_with(&theirs.address(), &place.root, Duration::from_secs(8));
    assert_eq!(kazoo.ask("acquire"), "held");
    theirs.close();
    let next = other.lock("x").wait_forever().acquire().block().expect("free after the session");
    assert_eq!(kazoo.ask("believes"), "held", "kazoo has learnt to tell");
    assert!(next.is_held());
}

/// S-14: its session ends while it waits, and the lock becomes free. That the node before its own is gone says nothing.
#[test]
fn a_waiter_whose_session_has_ended_never_has_the_lock_by_its_old_node() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let (holding, later) = (place.locks("holding"), place.locks("later"));
    let waiting = place.connect_to(&proxy.address()).label("waiting").block().expect("it is up");
    let guard = holding.lock("x").ttl(LONG).acquire().block().expect("free");
    let mut raw = Kazoo::start(&place.servers(), &place.root);
    let (mut events, mut later_events) = (waiting.events(), later.events());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| waiting.lock("x").ttl(LONG).wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        let [first, dead] = &raw.names()[..] else { panic!("two claims") };
        let after = scope.spawn(|| later.lock("x").ttl(LONG).wait_forever().acquire().block());
        wait_for(&mut later_events, "x", |kind| *kind == EventKind::Waiting);
        end_sessions(&proxy, &place.servers(), 2);
        assert!(!raw.names().contains(dead), "its session is over");
        guard.release().block().expect("released");
        // The wrong way: its own node was the second, and the first is gone.
        until("the first is gone", || !raw.names().contains(first));
        let after = after.join().expect("no panic").expect("its turn");
        assert!(!waiter.is_finished(), "it has the lock by the node that was gone");
        let token = after.token();
        after.release().block().expect("released");
        let next = waiter.join().expect("no panic").expect("in the end, by another node");
        assert!(next.token() > token && next.is_held());
    });
}

/// What happens to a holder whose session was ended by somebody else: it hears of it with its next renewal, stays out,
/// and a new session does not bring it back.
#[test]
fn a_session_that_ends_behind_its_holders_back_is_told_with_the_next_renewal() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let (holding, other) = (place.connect_to(&proxy.address()).block().expect("it is up"), place.locks("other"));
    let guard = holding.lock("x").ttl(LONG).acquire().block().expect("free");
    end_sessions(&proxy, &place.servers(), 2);
    let next = other.lock("x").wait_at_most(LONG).acquire().block().expect("free");
    assert!(guard.renew().block().is_err());
    assert_eq!(guard.lost().block().reason, LossReason::TakenOver);
    assert!(next.token() > guard.token());
    guard.release().block().expect("an answer");
    assert!(next.renew().block().is_ok(), "a late release freed another's lock");
    assert!(holding.lock("x").try_acquire().block().expect("an answer").is_none());
}

/// The server closes the connection when the session is over, and the client asks at once what became of it. This lock is
/// renewed by hand, so no renewal would tell, and its lease would last for most of its ttl.
#[test]
fn a_session_that_ends_is_told_when_the_server_closes_the_connection() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let holding = place.connect_to(&proxy.address()).block().expect("it is up");
    let (waited, other) = (place.locks("waited for"), place.locks("other"));
    let guard = holding.lock("x").ttl(LONG).manual_renewal().acquire().block().expect("free");
    let before = waited.lock("y").ttl(LONG).acquire().block().expect("free");
    let mut events = holding.events();
    std::thread::scope(|scope| {
        let line = scope.spawn(|| holding.lock("y").ttl(LONG).manual_renewal().wait_forever().acquire().block());
        wait_for(&mut events, "y", |kind| *kind == EventKind::Waiting);
        before.release().block().expect("released");
        let second = line.join().expect("no panic").expect("its turn");
        end_sessions(&proxy, &place.servers(), 2);
        for (guard, name) in [(guard, "x"), (second, "y")] {
            assert_eq!(guard.lost().block().reason, LossReason::TakenOver, "{name}: told by the end of its lease only");
            assert!(other.lock(name).try_acquire().block().expect("an answer").is_some(), "it is free");
        }
    });
}

/// S-16: a new session sees a node with its own name that another session has made. By its name it would be ours.
#[test]
fn a_node_with_our_name_that_ends_with_another_session_is_not_ours() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let (holding, other) = (place.connect_to(&proxy.address()).block().expect("it is up"), place.locks("other"));
    let guard = holding.lock("x").ttl(LONG).acquire().block().expect("free");
    let (owner, token) = (guard.expose_owner(), guard.token());
    let mut raw = Kazoo::start(&place.servers(), &place.root);
    let [name] = &raw.names()[..] else { panic!("one claim") };
    let name = name.clone();
    end_sessions(&proxy, &place.servers(), 2);
    until("it ended with its session", || raw.names().is_empty());
    assert_eq!(raw.ask(&format!("plant {name}")), "planted");
    // The wrong way: the first in line has our name.
    assert_eq!(raw.names().first().map(|first| first[3..11].to_owned()), Some(owner[..8].to_owned()));
    assert!(guard.renew().block().is_err(), "it was taken for our own");
    assert_eq!(guard.lost().block().reason, LossReason::TakenOver);
    assert!(other.lock("x").try_acquire().block().expect("an answer").is_none(), "it is somebody's");
    let lease: Lease = guard.leak().expose().parse().expect("its own text");
    match other.adopt(&lease).block() {
        Err(RenewError::Lost(lost)) => assert_eq!(lost.reason, LossReason::TakenOver),
        unexpected => panic!("{token:?} was taken for our own: {unexpected:?}"),
    }
    assert_eq!(raw.names(), [name], "what is not ours was deleted");
}

/// The node was made, and nobody heard of it: it is gone long before its ttl ends.
#[test]
fn an_acquire_whose_answer_was_cut_off_leaves_nothing_behind() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let cut_off = place.connect_to(&proxy.address()).answer_within(Duration::from_secs(2)).block().expect("it is up");
    let other = place.locks("other");
    // So that it has a session, and the next request is the one that makes the node.
    cut_off.lock("x").ttl(LONG).acquire().block().expect("free").release().block().expect("released");
    proxy.replies(Flow::Lost);
    match cut_off.lock("x").ttl(LONG).wait_at_most(Duration::from_secs(3)).acquire().block() {
        Err(AcquireError::Store(error)) => assert!(error.outcome_unknown(), "{error}"),
        unexpected => panic!("{unexpected:?}"),
    }
    assert_eq!(other.inspect("x").block().expect("an answer").holders.len(), 1, "its node was made");
    proxy.replies(Flow::Pass);
    proxy.cut();
    let began = Instant::now();
    let next = other.lock("x").ttl(LONG).wait_at_most(LONG).acquire().block().expect("cleaned up");
    assert!(began.elapsed() < LONG - Duration::from_secs(5), "only its end has freed it");
    assert!(next.is_held());
}

/// At any byte of the answers to an acquire: it has the lock in the end, by one node, and leaves none.
#[test]
fn an_acquire_whose_connection_is_cut_at_any_byte_makes_one_node() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let cut_off = place.connect_to(&proxy.address()).block().expect("it is up");
    let other = place.locks("other");
    let lock = cut_off.lock("x").ttl(LONG).wait_at_most(LONG);
    lock.acquire().block().expect("free").release().block().expect("released");
    let mut cuts = 0;
    for bytes in (0..260).step_by(20) {
        for direction in [Direction::Replies, Direction::Requests] {
            proxy.reset_after(direction, bytes);
            let guard = lock.acquire().block().expect("in the end");
            cuts += u32::from(!proxy.take_reset());
            let state = other.inspect("x").block().expect("an answer");
            assert_eq!(state.holders.iter().map(|holder| holder.token).collect::<Vec<_>>(), [Some(guard.token())]);
            assert!(state.waiters.is_empty(), "another node was left behind: {state:?}");
            assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
            assert!(other.inspect("x").block().expect("an answer").holders.is_empty());
        }
    }
    assert!(cuts > 20, "only {cuts} connections were cut");
}

/// The same for one that was under way while its claim was given up.
#[test]
fn an_acquire_that_arrives_after_its_release_leaves_no_node() {
    let place = Place::on_a_server();
    let proxy = Proxy::before(place.servers());
    let late = place.connect_to(&proxy.address()).answer_within(Duration::from_secs(1)).block().expect("it is up");
    late.lock("x").ttl(LONG).acquire().block().expect("free").release().block().expect("released");
    proxy.requests(Flow::Held);
    let waited = late.lock("x").ttl(LONG).wait_at_most(Duration::from_secs(2)).acquire().block();
    assert!(waited.is_err(), "nobody answers");
    proxy.requests(Flow::Pass);
    assert_eq!(late.shutdown(LONG).block(), Vec::<String>::new());
    let other = place.locks("other");
    until("nothing is left", || other.inspect("x").block().is_ok_and(|state| state.holders.is_empty()));
    assert!(other.lock("x").try_acquire().block().expect("an answer").is_some());
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
    let mut place = Place::on(Host::Server(Arc::new(ZooKeeper::new().start())));
    let (holding, other) = (place.locks("holding"), place.locks("other"));
    let guard = holding.lock("x").ttl(LONG).acquire().block().expect("free");
    let Host::Server(server) = &mut place.host else { unreachable!("BUG: made above") };
    Arc::get_mut(server).expect("its own").restart();
    until("it answers", || other.inspect("x").block().is_ok());
    assert!(other.lock("x").try_acquire().block().expect("an answer").is_none(), "it has forgotten");
    guard.renew().block().expect("kept");
    assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
}

/// Its session lives on, by the other lock: it ends by the hand of its own client.
#[test]
fn a_lease_that_nobody_renews_ends_though_its_session_lives_on() {
    let place = Place::on_a_server();
    let (holding, other) = (place.locks("holding"), place.locks("other"));
    let ttl = Duration::from_secs(8);
    let kept = holding.lock("kept").ttl(ttl).acquire().block().expect("free");
    let leaked = holding.lock("leaked").ttl(ttl).acquire().block().expect("free").leak();
    let next = other.lock("leaked").wait_at_most(LONG).acquire().block().expect("free after its ttl");
    assert!(next.is_held() && kept.is_held());
    drop(leaked);
}

/// Whoever had it in between put it under a session of its own; the first one must not go on with its old node.
#[test]
fn a_hold_that_went_to_another_and_came_back_is_renewed_where_it_is() {
    let place = Place::on_a_server();
    let (one, two, third) = (place.locks("one"), place.locks("two"), place.locks("third"));
    let ttl = Duration::from_secs(8);
    let lease = one.lock("x").ttl(ttl).acquire().block().expect("free").leak();
    let lease = two.adopt(&lease).block().expect("still there").leak();
    let guard: fencepost_core::Guard = one.adopt(&lease).block().expect("still there");
    // Longer than the time that the second one gave it.
    let waited = third.lock("x").ttl(ttl).wait_at_most(ttl * 2).acquire().block();
    assert!(matches!(waited, Err(AcquireError::Busy { .. })), "{waited:?}");
    assert!(guard.is_held());
    assert_eq!(guard.release().block().expect("an answer"), ReleaseOutcome::Freed);
}
