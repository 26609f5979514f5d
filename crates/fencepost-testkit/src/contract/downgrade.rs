//! From writer to reader without letting go.

use std::time::Duration;

use fencepost_core::{Actor, Blocking, EventKind, FencingToken, Guard, Locks, ReleaseOutcome, SharedToken};

use super::{Subject, long_ttl, short_ttl, wait_for};

fn reader(locks: &Locks) -> Option<Guard<SharedToken>> {
    locks.lock("x").ttl(long_ttl(locks)).shared().try_acquire().block().expect("an answer")
}

fn writer(locks: &Locks) -> Option<Guard> {
    locks.lock("x").ttl(long_ttl(locks)).try_acquire().block().expect("an answer")
}

/// Under the number that it had, which is good for no write any more.
pub fn a_downgraded_writer_reads_on_and_keeps_writers_out(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let first = writer(&one).expect("free");
    let token = first.token();
    assert!(reader(&other).is_none(), "a writer keeps readers out");
    let first = first.downgrade().block().expect("held");
    assert_eq!(first.token().to_string(), format!("r{token}"));
    assert!(first.token().to_string().parse::<FencingToken>().is_err(), "no fence takes it");
    let second = reader(&other).expect("readers share");
    assert!(writer(&one).is_none() && writer(&other).is_none(), "two readers");
    let state = other.inspect("x").block().expect("an answer");
    assert!(state.holders.iter().all(|holder| holder.shared), "{:?}", state.holders);
    second.release().block().expect("released");
    assert!(writer(&other).is_none(), "one reader is left");
    assert_eq!(first.release().block().expect("released"), ReleaseOutcome::Freed);
    assert!(writer(&other).expect("free").token() > token);
}

/// Each of them, and nobody has to ask again in vain.
pub fn readers_in_line_come_in_when_the_writer_is_downgraded(subject: &impl Subject) {
    let (one, others) = (subject.locks("one"), [subject.locks("second"), subject.locks("third")]);
    let ttl = long_ttl(&one);
    let first = writer(&one).expect("free");
    std::thread::scope(|scope| {
        let readers = others.each_ref().map(|locks| {
            let mut events = locks.events();
            let lock = locks.lock("x").ttl(ttl).shared().wait_forever();
            let reader = scope.spawn(move || lock.acquire().block());
            wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
            reader
        });
        let first = first.downgrade().block().expect("held");
        let readers = readers.map(|reader| reader.join().expect("no panic").expect("its turn"));
        assert!(first.is_held() && readers.iter().all(|reader| reader.is_held()));
        assert!(writer(&one).is_none());
    });
}

/// And no reader overtakes it.
pub fn a_writer_in_line_waits_until_the_downgraded_hold_ends(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let ttl = long_ttl(&one);
    let first = writer(&one).expect("free");
    let mut events = other.events();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| other.lock("x").ttl(ttl).wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        let first = first.downgrade().block().expect("held");
        assert!(reader(&one).is_none(), "it overtook");
        let state = one.inspect("x").block().expect("an answer");
        assert_eq!((state.holders.len(), state.waiters.len()), (1, 1), "nobody wrote in between");
        first.release().block().expect("released");
        assert!(next.join().expect("no panic").expect("its turn").is_held());
    });
}

/// For longer than its ttl.
pub fn a_downgraded_hold_is_renewed_as_a_readers(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let mut events = one.events();
    let lock = one.lock("x").ttl(long_ttl(&one) / 2);
    let first = lock.acquire().block().expect("free").downgrade().block().expect("held");
    wait_for(&mut events, "x", |kind| *kind == EventKind::Downgraded);
    for _ in 0..4 {
        wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Renewed { .. }));
    }
    assert!(first.is_held() && writer(&other).is_none());
    assert!(reader(&other).is_some());
    first.renew().block().expect("still ours");
}

/// They waited behind it, inside.
pub fn readers_of_the_same_process_come_in_when_its_writer_is_downgraded(subject: &impl Subject) {
    let locks = subject.locks("one");
    let ttl = long_ttl(&locks);
    let first = locks.lock("x").ttl(ttl).wait_forever().acquire().block().expect("free");
    let mut events = locks.events();
    std::thread::scope(|scope| {
        let acquire = || locks.lock("x").ttl(ttl).shared().wait_forever().acquire().block();
        let readers = [scope.spawn(acquire), scope.spawn(acquire)];
        for _ in 0..2 {
            wait_for(&mut events, "x", |kind| *kind == EventKind::Asked);
        }
        let first = first.downgrade().block().expect("held");
        let readers = readers.map(|reader| reader.join().expect("no panic").expect("its turn"));
        assert!(first.is_held() && readers.iter().all(|reader| reader.is_held()));
    });
}

/// Whether that ends or is downgraded, too.
pub fn a_lease_stays_a_writers_while_another_hold_of_its_actor_writes(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let me = Actor::new();
    let lock = one.lock("x").ttl(long_ttl(&one)).by(&me);
    let mut events = one.events();
    for ends in [true, false] {
        let (outer, inner) = (lock.acquire().block().expect("free"), lock.acquire().block().expect("its own"));
        let inner = inner.downgrade().block().expect("held");
        assert!(outer.is_held() && reader(&other).is_none(), "the outer hold writes");
        let outer = if ends {
            assert_eq!(outer.release().block().expect("counted"), ReleaseOutcome::StillHeld { count: 1 });
            None
        } else {
            Some(outer.downgrade().block().expect("held"))
        };
        wait_for(&mut events, "x", |kind| *kind == EventKind::Downgraded);
        wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Renewed { .. }));
        assert!(lock.acquire().block().is_err(), "its actor reads, and would wait for itself");
        drop(reader(&other).expect("readers share"));
        assert!(writer(&other).is_none());
        drop((inner, outer));
        let lock = other.lock("x").ttl(long_ttl(&other)).wait_at_most(Duration::from_secs(60));
        lock.acquire().block().expect("free").release().block().expect("released");
    }
}

/// It says so.
pub fn a_lost_hold_cannot_be_downgraded(subject: &impl Subject) {
    let locks = subject.locks("one");
    let ttl = short_ttl(&locks);
    let guard = locks.lock("x").ttl(ttl).manual_renewal().acquire().block().expect("free");
    let lost = guard.lost().block();
    assert_eq!(guard.downgrade().block().expect_err("lost"), lost);
}

/// By another process, say.
pub fn a_downgraded_lease_is_adopted_as_a_readers(subject: &impl Subject) {
    let (one, other) = (subject.locks("one"), subject.locks("other"));
    let lease = writer(&one).expect("free").downgrade().block().expect("held").leak();
    let adopted = other.adopt(&lease).block().expect("still there");
    assert!(reader(&one).is_some() && writer(&one).is_none());
    assert_eq!(adopted.release().block().expect("released"), ReleaseOutcome::Freed);
}
