//! What becomes of events while an observer blocks, and of everything else while a waker panics.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use fencepost_core::foreign::QUEUE_MAX;
use fencepost_core::store::{Memory, connect};
use fencepost_core::{Blocking, Event, EventKind, LossReason};
use fencepost_testkit::contract::wait_for;

#[test]
fn a_slow_observer_hears_events_in_order_and_how_many_it_missed() {
    let ((open, gate), (tell, told)) = (channel::<()>(), channel());
    let gate = Mutex::new(gate);
    let observer = move |event: &Event| {
        // Until the test lets it go on; from then on it never waits.
        let _ = gate.lock().expect("not poisoned").recv();
        tell.send(event.clone()).expect("heard");
    };
    let locks = connect(|at| Ok(vec![Memory::new(at.clock)])).observer(observer).block().expect("memory");
    // Asked, granted, releasing, released, and a vote: five events each.
    let rounds = QUEUE_MAX as u64 / 5 + 1_000;
    for _ in 0..rounds {
        locks.lock("a").acquire().block().expect("free").release().block().expect("an answer");
    }
    drop((open, locks));
    let (mut heard, mut missed, mut newest) = (0, 0, (0, 0));
    for event in told {
        if let EventKind::Missed { events, .. } = event.kind {
            missed += events;
            continue;
        }
        let step = match event.kind {
            EventKind::Asked => 0,
            EventKind::Voted(_) => 1,
            EventKind::Acquired { .. } => 2,
            EventKind::Releasing => 3,
            EventKind::Released(_) => 4,
            other => panic!("{other:?}"),
        };
        assert!((event.claim, step) > newest || heard == 0, "{step} of {} after {newest:?}", event.claim);
        newest = (event.claim, step);
        heard += 1;
    }
    assert!(missed > 0 && heard >= QUEUE_MAX as u64, "{heard} heard, {missed} missed");
    assert_eq!(heard + missed, rounds * 5);
}

/// Wakes by a panic.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker");
    }
}

#[test]
fn a_waker_that_panics_stops_nobody() {
    let locks = connect(|at| Ok(vec![Memory::new(at.clock)])).block().expect("memory");
    let waker = Waker::from(Arc::new(Panics));
    let mut context = Context::from_waker(&waker);
    let held = locks.lock("a").acquire().block().expect("free");
    // Both wait for the same release, and for the clock.
    let (waiting, brief) = (locks.lock("a").wait_forever(), locks.lock("b").ttl(Duration::from_millis(300)));
    let mut badly = pin!(waiting.acquire());
    assert!(badly.as_mut().poll(&mut context).is_pending());
    let mut late = pin!(brief.acquire());
    let guard = match late.as_mut().poll(&mut context) {
        Poll::Ready(guard) => guard.expect("free"),
        Poll::Pending => late.block().expect("free"),
    };
    let mut feed = locks.events();
    let mut lost = pin!(guard.lost());
    assert!(lost.as_mut().poll(&mut context).is_pending());
    held.release().block().expect("an answer");
    // The panic of its waker does not take the grant away.
    badly.block().expect("granted").release().block().expect("an answer");
    locks.force_release("b", "a test").block().expect("an answer");
    wait_for(&mut feed, "b", |kind| matches!(kind, EventKind::Lost(LossReason::Revoked)));
    // The thread that called the waker goes on.
    let next = locks.lock("b").ttl(Duration::from_millis(300)).acquire().block().expect("free");
    wait_for(&mut feed, "b", |kind| matches!(kind, EventKind::Renewed { .. }));
    assert!(next.is_held());
}
