//! Edges of holding and letting go: moments at which two things happen at once, and answers that come at odd times.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::time::Duration;

use fencepost_core::store::{self, Clock, Memory, Step};
use fencepost_core::*;
use fencepost_testkit::faulty::{Faults, Link};
use fencepost_testkit::nodes::Nodes;
use fencepost_testkit::poll::{self, Flag};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn world(n: usize, ttl: Duration) -> (VirtualClock, Nodes, impl Fn() -> Locks) {
    let clock = VirtualClock::new();
    let nodes = Nodes::new(n, &clock.clock(), 1, Faults::default());
    let (c, m) = (clock.clone(), nodes.clone());
    (clock, nodes, move || m.connect().clock(&c).ttl(ttl).block().expect("as set up"))
}

#[test]
fn a_cancelled_adoption_renews_nothing() {
    let ttl = ms(10_000);
    let (clock, nodes, locks) = world(1, ttl);
    let lease = locks().lock("x").acquire().block().expect("as set up").leak();
    let taker = locks();
    nodes.node(0).set_link(Link::Silent);
    {
        let mut adopting = pin!(taker.adopt(&lease));
        assert!(poll::once(adopting.as_mut()).is_none());
    } // dropped: cancelled
    nodes.node(0).set_link(Link::Up);
    drop(taker);
    for _ in 0..3600 {
        clock.turn(ms(1000));
    }
    let free = locks().lock("x").try_acquire().block().expect("as set up");
    assert!(free.is_some(), "an hour after a cancelled adopt the lock is still renewed by nobody's guard");
}

#[test]
fn a_lease_leaked_right_after_a_hand_over_lasts_its_whole_ttl() {
    let ttl = ms(30_000);
    let (clock, _nodes, locks) = world(1, ttl);
    let (a, b) = (locks(), locks());
    let first = a.lock("x").acquire().block().expect("as set up");
    let lb = b.lock("x").wait_forever();
    let mut waiting = pin!(lb.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    first.release().block().expect("as set up");
    let second = poll::once(waiting.as_mut()).expect("handed over").expect("as set up");
    let _lease = second.leak();
    clock.turn(ms(5000));
    assert!(
        a.lock("x").try_acquire().block().expect("as set up").is_none(),
        "leaked 5 s ago with a ttl of 30 s, and free"
    );
}

#[test]
fn a_hand_over_is_renewed_before_its_margin_makes_it_lost() {
    let ttl = ms(5_000);
    let (clock, _nodes, locks) = world(1, ttl);
    let (a, b) = (locks(), locks());
    let first = a.lock("x").acquire().block().expect("as set up");
    let lb = b.lock("x").loss_margin(ms(1000)).wait_forever();
    let mut waiting = pin!(lb.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    clock.turn(ms(350));
    first.release().block().expect("as set up");
    let second = poll::once(waiting.as_mut()).expect("handed over").expect("as set up");
    clock.turn(ms(10_000));
    assert_eq!(second.ensure_held().err().map(|l| l.reason), None, "lost while the store was there all the time");
}

#[test]
fn a_hand_over_is_kept_with_every_margin() {
    for ttl in [1000, 2000, 3000, 4000, 5000, 6000, 30000] {
        for age in [0, 100, 200, 300, 400, 600, 900] {
            for tenth in [1, 2, 3, 4, 5] {
                let (clock, _nodes, locks) = world(1, ms(ttl));
                let (a, b) = (locks(), locks());
                let first = a.lock("x").acquire().block().expect("as set up");
                let lb = b.lock("x").loss_margin(ms(ttl * tenth / 10)).wait_forever();
                let mut waiting = pin!(lb.acquire());
                assert!(poll::once(waiting.as_mut()).is_none());
                clock.turn(ms(age));
                first.release().block().expect("as set up");
                let second = poll::once(waiting.as_mut()).expect("handed over").expect("as set up");
                clock.turn(ms(60_000));
                if let Err(l) = second.ensure_held() {
                    println!("ttl {ttl} age {age} margin {tenth}/10: {l}");
                }
            }
        }
    }
}

#[test]
fn twenty_thousand_claims_of_one_process_may_give_up_at_one_moment() {
    let (clock, _nodes, locks) = world(1, ms(30_000));
    let (a, b) = (locks(), locks());
    let _first = a.lock("x").acquire().block().expect("as set up");
    let lock = b.lock("x").wait_at_most(ms(1000));
    let mut waiting: Vec<Pin<Box<dyn Future<Output = _>>>> =
        (0..20_000).map(|_| Box::pin(lock.acquire()) as _).collect();
    for w in &mut waiting {
        assert!(poll::once(w.as_mut()).is_none());
    }
    clock.turn(ms(2000));
    for w in &mut waiting {
        assert!(poll::once(w.as_mut()).is_some_and(|r: Result<Guard, AcquireError>| r.is_err()));
    }
}

#[test]
fn a_loss_between_the_question_and_the_waker_is_told() {
    let memory = Memory::new(Clock::system().expect("as set up"));
    let m = memory.clone();
    let locks = store::connect(move |_| Ok(vec![m])).block().expect("as set up");
    let tries: u32 = 3_000;
    let mut missed = 0;
    let slot: Arc<Mutex<Option<Arc<Guard>>>> = Arc::default();
    let (go, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let loser = {
        let (slot, go, done) = (slot.clone(), go.clone(), done.clone());
        std::thread::spawn(move || {
            for n in 1..=tries as usize {
                while go.load(Ordering::Acquire) < n {
                    std::hint::spin_loop();
                }
                let guard = slot.lock().expect("not poisoned").take().expect("as set up");
                for _ in 0..(n % 97) {
                    std::hint::spin_loop();
                }
                let mut renewing = pin!(guard.renew());
                let _ = poll::once(renewing.as_mut());
                done.store(n, Ordering::Release);
            }
        })
    };
    for n in 1..=tries as usize {
        let guard = Arc::new(locks.lock("x").manual_renewal().acquire().block().expect("as set up"));
        locks.force_release("x", "test").block().expect("as set up");
        *slot.lock().expect("not poisoned") = Some(guard.clone());
        let (flag, waker) = Flag::new();
        let mut lost = pin!(guard.lost());
        go.store(n, Ordering::Release);
        for _ in 0..(n % 89) * 2 {
            std::hint::spin_loop();
        }
        let polled = lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
        while done.load(Ordering::Acquire) < n {
            std::hint::spin_loop();
        }
        if polled && !flag.take() && !guard.is_held() {
            missed += 1;
        }
    }
    loser.join().expect("as set up");
    assert_eq!(missed, 0, "of {tries}: pending, lost, and never woken");
}

#[test]
fn a_release_that_nobody_answered_is_an_error() {
    let clock = VirtualClock::new();
    let nodes = Nodes::new(1, &clock.clock(), 1, Faults::default());
    let locks = nodes.connect().clock(&clock).ttl(ms(1000)).answer_within(ms(10_000)).block().expect("as set up");
    let guard = locks.lock("x").acquire().block().expect("as set up");
    nodes.node(0).set_link(Link::Silent);
    let mut releasing = pin!(guard.release());
    assert!(poll::once(releasing.as_mut()).is_none());
    clock.turn(ms(20_000));
    let verdict = poll::once(releasing.as_mut()).expect("a verdict");
    assert!(verdict.is_err(), "nobody confirmed it, and it says {verdict:?}");
}

#[test]
fn a_claim_behind_its_own_process_keeps_its_place_before_later_ones_of_others() {
    let (clock, _nodes, locks) = world(1, ms(30_000));
    let (p1, p2) = (locks(), locks());
    let a = p1.lock("x").acquire().block().expect("as set up");
    let l1 = p1.lock("x").wait_forever();
    let l2 = p2.lock("x").wait_forever();
    // The holder is in line, too: held by a waiting acquire of the same process.
    drop(a);
    let a = l1.acquire().block().expect("as set up");
    let mut b = pin!(l1.acquire());
    assert!(poll::once(b.as_mut()).is_none());
    clock.turn(ms(10));
    let mut c = pin!(l2.acquire());
    assert!(poll::once(c.as_mut()).is_none());
    clock.turn(ms(10));
    a.release().block().expect("as set up");
    let c_first = poll::once(c.as_mut()).is_some();
    let b_first = poll::once(b.as_mut()).is_some();
    assert!(b_first && !c_first, "b arrived first; b has it: {b_first}, c has it: {c_first}");
}

#[test]
fn a_hand_over_with_manual_renewal_lasts_one_ttl() {
    let ttl = ms(30_000);
    let (clock, nodes, locks) = world(1, ttl);
    let (a, b) = (locks(), locks());
    let first = a.lock("x").acquire().block().expect("as set up");
    let lb = b.lock("x").manual_renewal().wait_forever();
    let mut waiting = pin!(lb.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    first.release().block().expect("as set up");
    let second = poll::once(waiting.as_mut()).expect("handed over").expect("as set up");
    // One refused request, then all is well.
    nodes.node(0).set_link(Link::Refused);
    clock.turn(ms(1));
    nodes.node(0).set_link(Link::Up);
    clock.turn(ms(5000));
    assert_eq!(second.ensure_held().err().map(|l| l.reason), None, "lost after 5 s of a ttl of 30 s");
}

#[test]
fn shutdown_gives_no_lock_to_those_who_wait() {
    let (_clock, _nodes, locks) = world(1, ms(30_000));
    let mut got = 0;
    for _ in 0..50 {
        let p1 = locks();
        let l1 = p1.lock("y").wait_forever();
        let a = l1.acquire().block().expect("as set up");
        let mut ws: Vec<Pin<Box<_>>> = (0..5).map(|_| Box::pin(l1.acquire())).collect();
        for w in &mut ws {
            assert!(poll::once(w.as_mut()).is_none());
        }
        drop(a); // the first of ws has it now, on its way
        let mut down = pin!(p1.shutdown(ms(1000)));
        let _ = poll::once(down.as_mut());
        for w in &mut ws[1..] {
            if let Some(Ok(_)) = poll::once(w.as_mut()) {
                got += 1;
            }
        }
    }
    println!("granted after shutdown: {got}");
}

#[test]
fn the_time_that_remains_knows_the_hold_limit() {
    let (_clock, _nodes, locks) = world(1, ms(30_000));
    let g = locks().lock("x").max_hold(ms(1000)).acquire().block().expect("as set up");
    assert!(g.remaining() <= ms(1000), "remaining says {:?}, the hold ends in 1 s", g.remaining());
}

/// A store whose requests the test delivers by hand.
#[derive(Clone)]
struct Gate {
    inner: Memory,
    shut: Arc<AtomicBool>,
    kept: Arc<Mutex<Vec<(Step, store::Moment, store::Reply)>>>,
}
impl Gate {
    fn new(inner: Memory) -> Self {
        Self { inner, shut: Arc::default(), kept: Arc::default() }
    }
    fn take(&self, f: impl Fn(&Step) -> bool) -> Vec<(Step, store::Moment, store::Reply)> {
        let mut kept = self.kept.lock().expect("not poisoned");
        let (mine, rest) = kept.drain(..).partition(|(s, _, _)| f(s));
        *kept = rest;
        mine
    }
}
impl store::Store for Gate {
    fn abilities(&self) -> store::Abilities {
        self.inner.abilities()
    }
    fn label(&self) -> String {
        self.inner.label()
    }
    fn submit(&self, step: Step, deadline: store::Moment, reply: store::Reply) {
        if self.shut.load(Ordering::SeqCst) {
            self.kept.lock().expect("not poisoned").push((step, deadline, reply));
        } else {
            self.inner.submit(step, deadline, reply)
        }
    }
    fn listen(&self, claim: &Arc<store::Claim>, reply: store::Reply) -> store::Listening {
        self.inner.listen(claim, reply)
    }
    fn clock(&self) -> Option<FencingToken> {
        self.inner.clock()
    }
}
use fencepost_core::store::Store as _;

#[test]
fn the_answer_to_a_give_back_confirms_no_release() {
    let clock = VirtualClock::new();
    let memories: Vec<Memory> = (0..3).map(|n| Memory::node(clock.clock(), &format!("n{n}"))).collect();
    let connect =
        |gates: Vec<Gate>| store::connect(move |_| Ok(gates)).clock(&clock).ttl(ms(30_000)).block().expect("as set up");
    let h: Vec<Gate> = memories.iter().cloned().map(Gate::new).collect();
    h[2].shut.store(true, Ordering::SeqCst);
    let holder = connect(h.clone());
    let acq_lock = holder.lock("x");
    let mut acq = pin!(acq_lock.acquire());
    let _g = poll::once(acq.as_mut()).expect("a majority").expect("as set up");
    let w: Vec<Gate> = memories.iter().cloned().map(Gate::new).collect();
    clock.turn(ms(10));
    let waiter = connect(w.clone());
    let lock = waiter.lock("x").wait_forever();
    let mut waiting = Box::pin(lock.acquire());
    w[2].shut.store(true, Ordering::SeqCst);
    assert!(poll::once(waiting.as_mut()).is_none());
    for (s, d, r) in w[2].take(|s| matches!(s, Step::Acquire { .. })) {
        w[2].inner.submit(s, d, r);
    }
    clock.turn(ms(60));
    let back = w[2].take(|s| matches!(s, Step::GiveBack { .. }));
    assert_eq!(back.len(), 1);
    drop(waiting);
    let released = w[2].take(|s| matches!(s, Step::Release { .. }));
    assert_eq!(released.len(), 1, "the release was sent");
    drop(released); // and lost on the way
    for (s, d, r) in back {
        w[2].inner.submit(s, d, r);
    }
    clock.turn(ms(1000));
    assert!(!w[2].take(|s| matches!(s, Step::Release { .. })).is_empty(), "the lost release was never sent again");
}

#[test]
fn a_failed_renewal_is_no_failed_release() {
    let clock = VirtualClock::new();
    let gate = Gate::new(Memory::new(clock.clock()));
    let g = gate.clone();
    let locks = store::connect(move |_| Ok(vec![g])).clock(&clock).ttl(ms(30_000)).block().expect("as set up");
    let guard = locks.lock("x").acquire().block().expect("as set up");
    gate.shut.store(true, Ordering::SeqCst);
    clock.turn(ms(10_000));
    let renewals = gate.take(|s| matches!(s, Step::Renew { .. }));
    assert_eq!(renewals.len(), 1);
    let mut releasing = pin!(guard.release());
    assert!(poll::once(releasing.as_mut()).is_none());
    for (_, _, r) in renewals {
        r.answer(Err(store::Trouble::new(StoreErrorKind::TooSlow, "late")));
    }
    let early = poll::once(releasing.as_mut());
    assert!(early.is_none(), "the release is still under way, and says {early:?}");
}

fn gated(ttl: u64) -> (VirtualClock, Gate, Locks) {
    let clock = VirtualClock::new();
    let gate = Gate::new(Memory::new(clock.clock()));
    let g = gate.clone();
    let locks = store::connect(move |_| Ok(vec![g])).clock(&clock).ttl(ms(ttl)).block().expect("as set up");
    (clock, gate, locks)
}

#[test]
fn a_slow_grant_is_dated_from_its_request() {
    let (clock, gate, locks) = gated(10_000);
    gate.shut.store(true, Ordering::SeqCst);
    let lock = locks.lock("x");
    let mut acquiring = pin!(lock.acquire());
    assert!(poll::once(acquiring.as_mut()).is_none());
    clock.turn(ms(300));
    for (s, d, r) in gate.take(|_| true) {
        gate.inner.submit(s, d, r);
    }
    let guard = poll::once(acquiring.as_mut()).expect("as set up").expect("as set up");
    assert_eq!(guard.remaining(), ms(9_898 - 300));
}

#[test]
fn a_slow_renewal_is_dated_from_its_request() {
    let (clock, gate, locks) = gated(10_000);
    let guard = locks.lock("x").manual_renewal().acquire().block().expect("as set up");
    clock.turn(ms(5_000));
    gate.shut.store(true, Ordering::SeqCst);
    let mut renewing = pin!(guard.renew());
    assert!(poll::once(renewing.as_mut()).is_none());
    clock.turn(ms(300));
    for (s, d, r) in gate.take(|_| true) {
        gate.inner.submit(s, d, r);
    }
    assert_eq!(poll::once(renewing.as_mut()).expect("as set up").expect("as set up"), ms(9_898 - 300));
}

#[test]
fn a_hand_over_is_dated_from_the_last_request_of_the_waiter() {
    let (clock, gate, locks) = gated(30_000);
    let m = gate.inner.clone();
    let other = store::connect(move |_| Ok(vec![m])).clock(&clock).block().expect("as set up");
    let first = other.lock("x").acquire().block().expect("as set up");
    let lock = locks.lock("x").wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(poll::once(waiting.as_mut()).is_none());
    clock.turn(ms(700));
    gate.shut.store(true, Ordering::SeqCst);
    first.release().block().expect("as set up");
    let guard = poll::once(waiting.as_mut()).expect("as set up").expect("as set up");
    assert_eq!(guard.remaining(), ms(3_000 - 32 - 700));
}
