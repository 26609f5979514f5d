//! Loss and renewal to the millisecond, in virtual time, over one store and over nodes that vote.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_core::store::Step;
use fencepost_core::{
    AcquireError, Blocking, Event, EventKind, LossReason, RenewError, RunError, StoreErrorKind, VirtualClock,
};
use fencepost_testkit::faulty::{Faults, Link};
use fencepost_testkit::nodes::{Nodes, memory};
use fencepost_testkit::poll::{self, Flag};

const TTL: Duration = Duration::from_secs(10);
const MARGIN: Duration = Duration::from_secs(1);
/// A ttl of 10 s, less one percent and 2 ms.
const VALIDITY: Duration = Duration::from_millis(9_898);

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

struct World {
    clock: VirtualClock,
    nodes: Nodes,
}

impl World {
    fn new(count: usize) -> Self {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(count, &clock.clock(), 1, Faults::default());
        Self { clock, nodes }
    }

    fn locks(&self) -> fencepost_core::Locks {
        self.nodes.connect().clock(&self.clock).ttl(TTL).block().expect("memory is there")
    }

    fn renewals(&self) -> usize {
        self.nodes.iter().map(|node| node.store().count(|step| matches!(step, Step::Renew { .. }))).sum()
    }
}

fn both(test: impl Fn(&World)) {
    test(&World::new(1));
    test(&World::new(5));
}

#[test]
fn loss_is_told_a_margin_before_validity_ends_and_not_earlier() {
    both(|world| {
        let guard = world.locks().lock("x").manual_renewal().acquire().block().expect("free");
        assert_eq!(guard.remaining(), VALIDITY);
        let (flag, waker) = Flag::new();
        let mut lost = pin!(guard.lost());
        assert!(lost.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        world.clock.turn(VALIDITY - MARGIN - ms(1));
        assert!(guard.is_held() && !flag.take(), "too early");
        world.clock.turn(ms(1));
        assert!(flag.take(), "nobody was woken");
        assert_eq!(poll::once(lost.as_mut()).expect("lost").reason, LossReason::Expired);
        assert!(guard.remaining().is_zero());
    });
}

#[test]
fn the_watchdog_renews_at_a_third_of_the_ttl_and_dates_from_the_request() {
    both(|world| {
        let guard = world.locks().lock("x").acquire().block().expect("free");
        let nodes = world.nodes.iter().count();
        for third in 1..=30 {
            world.clock.turn(TTL / 3);
            assert_eq!(world.renewals(), third * nodes);
            assert!(guard.remaining() >= VALIDITY - ms(1));
        }
    });
}

#[test]
fn unknown_renewal_keeps_the_old_deadline() {
    both(|world| {
        let guard = world.locks().lock("x").acquire().block().expect("free");
        world.nodes.set_links(5, Link::Silent);
        world.clock.turn(TTL / 2);
        assert_eq!(guard.remaining(), VALIDITY - TTL / 2, "an unknown renewal moved the deadline");
        assert!(guard.is_held());
        world.nodes.set_links(5, Link::Up);
        world.clock.turn(ms(1000));
        assert!(guard.remaining() > VALIDITY - ms(1000), "it is renewed as soon as the store is back");
    });
}

#[test]
fn a_store_out_of_reach_is_loss_in_time_with_that_reason() {
    for link in [Link::Silent, Link::Refused, Link::Deaf] {
        both(|world| {
            let guard = world.locks().lock("x").acquire().block().expect("free");
            world.nodes.set_links(5, link);
            world.clock.turn(VALIDITY - MARGIN - ms(1));
            assert!(guard.is_held());
            world.clock.turn(ms(1));
            assert_eq!(guard.ensure_held().expect_err("lost").reason, LossReason::Unreachable);
        });
    }
}

#[test]
fn a_minority_out_of_reach_costs_nothing() {
    let world = World::new(5);
    let guard = world.locks().lock("x").acquire().block().expect("free");
    world.nodes.set_links(2, Link::Silent);
    world.clock.turn(TTL * 20);
    assert!(guard.is_held());
    world.nodes.set_links(3, Link::Silent);
    world.clock.turn(TTL);
    assert!(!guard.is_held());
}

#[test]
fn a_lost_guard_sends_no_renewal_and_does_not_come_back() {
    both(|world| {
        let guard = world.locks().lock("x").acquire().block().expect("free");
        world.nodes.set_links(5, Link::Silent);
        world.clock.turn(TTL);
        assert!(!guard.is_held());
        world.nodes.set_links(5, Link::Up);
        let sent = world.renewals();
        world.clock.turn(TTL * 3);
        assert!(!guard.is_held());
        assert!(matches!(guard.renew().block(), Err(RenewError::Lost(_))));
        assert_eq!(world.renewals(), sent);
    });
}

#[test]
fn nothing_is_renewed_after_release_drop_or_leak() {
    for end in 0..3 {
        both(|world| {
            let locks = world.locks();
            let guard = locks.lock("x").acquire().block().expect("free");
            world.clock.turn(TTL);
            match end {
                0 => drop(guard.release().block().expect("released")),
                1 => drop(guard),
                _ => drop(guard.leak()),
            }
            let sent = world.renewals();
            world.clock.turn(TTL * 5);
            assert_eq!(world.renewals(), sent);
            assert_eq!(world.nodes.rows_in_use(), 0);
            assert_eq!(world.clock.next_alarm(), None, "something goes on for ever");
        });
    }
}

#[test]
fn the_hold_limit_is_24_hours_unless_told() {
    both(|world| {
        let guard = world.locks().lock("x").acquire().block().expect("free");
        world.clock.turn(Duration::from_secs(24 * 3600 - 1));
        assert!(guard.is_held());
        world.clock.turn(Duration::from_secs(1));
        assert_eq!(guard.ensure_held().expect_err("lost").reason, LossReason::HoldLimit);
    });
}

#[test]
fn nodes_that_forgot_are_told_as_such() {
    let world = World::new(3);
    let guard = world.locks().lock("x").acquire().block().expect("free");
    for node in world.nodes.iter() {
        memory(node).forget(Duration::from_secs(60));
    }
    world.clock.turn(TTL);
    assert_eq!(guard.ensure_held().expect_err("lost").reason, LossReason::NodeRestarted);
}

#[test]
fn a_wait_ends_at_its_limit_to_the_millisecond() {
    both(|world| {
        let (locks, others) = (world.locks(), world.locks());
        let _guard = locks.lock("x").acquire().block().expect("free");
        let lock = others.lock("x").wait_at_most(ms(2_500));
        let mut waiting = pin!(lock.acquire());
        assert!(poll::once(waiting.as_mut()).is_none());
        world.clock.turn(ms(2_499));
        assert!(poll::once(waiting.as_mut()).is_none());
        world.clock.turn(ms(1));
        match poll::once(waiting.as_mut()).expect("over") {
            Err(AcquireError::Busy { waited, .. }) => assert_eq!(waited, ms(2_500)),
            other => panic!("{other:?}"),
        }
        assert_eq!(world.nodes.rows_in_use(), world.nodes.iter().count(), "only the holder is left");
    });
}

#[test]
fn the_next_in_line_has_the_lock_when_a_dead_holders_ttl_is_over() {
    both(|world| {
        let (locks, others) = (world.locks(), world.locks());
        drop(locks.lock("x").acquire().block().expect("free").leak());
        let lock = others.lock("x").wait_forever();
        let mut waiting = pin!(lock.acquire());
        assert!(poll::once(waiting.as_mut()).is_none());
        // Not in step with the waiter's own rounds.
        world.clock.turn(ms(333));
        assert_eq!(world.nodes.iter().count() * 2, world.nodes.rows_in_use(), "a holder and a place in line");
        world.clock.turn(TTL - ms(334));
        assert!(poll::once(waiting.as_mut()).is_none(), "before the ttl was over");
        world.clock.turn(ms(11));
        let guard = poll::once(waiting.as_mut()).expect("within 10 ms after the ttl").expect("granted");
        assert!(guard.is_held());
    });
}

#[test]
fn run_stops_the_work_in_time_and_says_lost() {
    both(|world| {
        let locks = world.locks();
        let lock = locks.lock("x").manual_renewal();
        let steps = Mutex::new(0);
        let mut run = pin!(lock.run(async |_| {
            std::future::poll_fn(|_| {
                *steps.lock().expect("not poisoned") += 1;
                std::task::Poll::<()>::Pending
            })
            .await;
            Ok::<(), ()>(())
        }));
        assert!(poll::once(run.as_mut()).is_none());
        assert_eq!(*steps.lock().expect("not poisoned"), 1);
        world.clock.turn(TTL);
        match poll::once(run.as_mut()).expect("stopped") {
            Err(RunError::Lost(lost)) => assert_eq!(lost.reason, LossReason::Expired),
            other => panic!("{other:?}"),
        }
        assert_eq!(*steps.lock().expect("not poisoned"), 1, "one more step after the loss");
    });
}

#[test]
fn run_gives_the_works_own_error_back_whatever_the_release_says() {
    both(|world| {
        let locks = world.locks();
        let lock = locks.lock("x");
        let failed = lock.run(async |_| {
            world.nodes.set_links(5, Link::Refused);
            Err::<(), _>("card declined")
        });
        match failed.block() {
            Err(RunError::Work(error)) => assert_eq!(error, "card declined"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_release_that_nobody_confirms_is_an_error_and_goes_on_until_the_store_is_back() {
    both(|world| {
        let locks = world.locks();
        let guard = locks.lock("x").ttl(Duration::from_secs(3600)).acquire().block().expect("free");
        world.nodes.set_links(5, Link::Refused);
        let error = guard.release().block().expect_err("nobody confirmed it");
        assert_eq!(error.kind, StoreErrorKind::Unreachable);
        assert_eq!(error.votes.len(), world.nodes.iter().count());
        let mut left = pin!(locks.shutdown(ms(1)));
        assert!(poll::once(left.as_mut()).is_none());
        world.clock.turn(ms(1));
        assert_eq!(poll::once(left.as_mut()).expect("in time"), ["x"]);
        world.nodes.set_links(5, Link::Up);
        // A refusal is an answer: there is none to wait for before it is tried again.
        world.clock.turn(ms(100));
        assert_eq!(world.nodes.rows_in_use(), 0, "free at once, not after its ttl of an hour");
    });
}

#[test]
fn an_observer_sees_both_ends_of_everything_and_a_panic_of_its_own_harms_nobody() {
    let world = World::new(3);
    let seen: Arc<Mutex<Vec<EventKind>>> = Arc::default();
    let tell = seen.clone();
    let connect = world.nodes.connect().clock(&world.clock).ttl(TTL);
    let connect = connect.observer(|_: &Event| panic!("a bad observer"));
    let locks = connect.observer(move |event: &Event| tell.lock().expect("not poisoned").push(event.kind.clone()));
    let locks = locks.block().expect("memory is there");
    let guard = locks.lock("x").acquire().block().expect("free");
    world.clock.turn(TTL / 3);
    guard.release().block().expect("released");
    let words: Vec<&str> = seen
        .lock()
        .expect("not poisoned")
        .iter()
        .filter_map(|kind| match kind {
            EventKind::Asked => Some("asked"),
            EventKind::Acquired { .. } => Some("acquired"),
            EventKind::Renewed { .. } => Some("renewed"),
            EventKind::Releasing => Some("releasing"),
            EventKind::Released(_) => Some("released"),
            EventKind::Voted(_) => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(words, ["asked", "acquired", "renewed", "releasing", "released"]);
}
