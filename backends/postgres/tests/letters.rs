//! Wake-up by NOTIFY: what an idle waiter costs, and what happens where letters do not arrive.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::Place;
use fencepost_core::{Blocking, EventKind, Locks};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::pgbouncer::PgBouncer;
use fencepost_testkit::postgres::Postgres;
use fencepost_testkit::sql::SqlPlace;
use fencepost_testkit::wait::until;

/// A step begins with these words, and a look on behalf of waiters has the others.
const STEP: &str = "BEGIN ISOLATION LEVEL";
const LOOK: &str = "AS wanted (name, owner)";

fn logging() -> Place {
    Place::on(Arc::new(Postgres::new().with("log_statement=all").start()))
}

#[test]
fn an_idle_waiter_sends_nothing_between_its_keep_alives() {
    let place = logging();
    let (holding, waiting) = (place.locks("holding"), place.locks("waiting"));
    let guard = holding.lock("x").ttl(Duration::from_secs(600)).acquire().block().expect("free");
    let mut events = waiting.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| waiting.lock("x").wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        let log = || place.server.log();
        until("it listens, and heard itself", || log().contains("LISTEN fp_") && log().contains("hello"));
        // What was under way while it learned to hear.
        let steps = log().matches(STEP).count();
        until("its next keep-alive", || log().matches(STEP).count() > steps + 1);
        let (looks, steps, began) = (log().matches(LOOK).count(), log().matches(STEP).count(), Instant::now());
        until("three more", || log().matches(STEP).count() >= steps + 3);
        // A place lasts for 3 s and is renewed each third of that.
        assert!(began.elapsed() > Duration::from_millis(1800), "three keep-alives in {:?}", began.elapsed());
        assert_eq!(log().matches(LOOK).count(), looks, "it looks although it hears");
        guard.release().block().expect("released");
        assert!(waiter.join().expect("no panic").expect("its turn").is_held());
    });
}

#[test]
fn a_release_wakes_the_waiter_of_another_connection_without_a_look() {
    let place = logging();
    let (one, other) = (place.locks("one"), place.locks("other"));
    let mut guard = one.lock("x").ttl(Duration::from_secs(600)).acquire().block().expect("free");
    for round in 0..6 {
        let waiting: &Locks = if round % 2 == 0 { &other } else { &one };
        let mut events = waiting.events();
        guard = std::thread::scope(|scope| {
            let waiter =
                scope.spawn(|| waiting.lock("x").ttl(Duration::from_secs(600)).wait_forever().acquire().block());
            wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
            guard.release().block().expect("released");
            waiter.join().expect("no panic").expect("its turn")
        });
    }
    assert!(place.server.log().contains("pg_notify"), "nobody was written to");
}

/// S-24: no session lock, so none is stranded when the pooler gives the next transaction another connection.
#[test]
fn a_transaction_pooler_strands_no_lock_and_the_store_says_that_waiters_poll() {
    let place = Place::alone();
    let pooler = PgBouncer::before(place.server.port());
    let behind = || place.connect_with(&pooler.address(), "").block().expect("the pooler is up");
    let (one, other, direct) = (behind(), behind(), place.locks("direct"));
    for round in 0..50 {
        let (locks, next) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let name = format!("x{}", round % 5);
        let guard = locks.lock(name.as_str()).acquire().block().expect("free");
        assert!(next.lock(name.as_str()).try_acquire().block().expect("an answer").is_none());
        guard.release().block().expect("released");
        assert!(direct.inspect(name.as_str()).block().expect("an answer").holders.is_empty(), "stranded");
    }
    let guard = direct.lock("x").ttl(Duration::from_secs(600)).acquire().block().expect("free");
    let mut events = one.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| one.lock("x").wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        until("the store says so", || format!("{one:?}").contains("waiters poll"));
        guard.release().block().expect("released");
        assert!(waiter.join().expect("no panic").expect("its turn").is_held());
    });
}

#[test]
fn letters_can_be_switched_off() {
    let place = logging();
    let locks = place.connect_with(&place.address(), "&listen=off").block().expect("the server is up");
    let guard = place.locks("holding").lock("x").ttl(Duration::from_secs(600)).acquire().block().expect("free");
    let mut events = locks.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| locks.lock("x").wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        until("it looks", || place.server.log().contains(LOOK));
        guard.release().block().expect("released");
        assert!(waiter.join().expect("no panic").expect("its turn").is_held());
    });
    assert!(!place.server.log().contains("LISTEN fp_"));
}
