//! The drop of the last handle of a connection: what it waits for, and what not.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use fencepost_core::store::{self, Closing, Memory, Moment, Reply, Step, Store, StoreErrorKind, Trouble};
use fencepost_core::{Blocking, Connect, FencingToken, Guard, Locks};
use fencepost_testkit::wait::PATIENCE;

/// A node that keeps releases back until the test answers them.
#[derive(Clone)]
struct Node {
    inner: Memory,
    live: Option<bool>,
    keeps: Arc<AtomicBool>,
    kept: Sender<Kept>,
    /// Called once, when a release arrives that carries another claim.
    on_relay: Arc<Mutex<Option<Act>>>,
}

type Act = Box<dyn FnOnce() + Send>;

enum Kept {
    Release(Node, Step, Moment, Reply),
    Closing(Closing),
}

impl Store for Node {
    fn abilities(&self) -> store::Abilities {
        self.inner.abilities()
    }

    fn label(&self) -> String {
        self.inner.label()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        if matches!(step, Step::Release { then: Some(_), .. }) {
            let act = self.on_relay.lock().expect("not poisoned").take();
            act.into_iter().for_each(|act| act());
        }
        if matches!(step, Step::Release { .. }) && self.keeps.load(Ordering::SeqCst) {
            let kept = Kept::Release(self.clone(), step, deadline, reply);
            return self.kept.send(kept).expect("the test looks at it");
        }
        self.inner.submit(step, deadline, reply);
    }

    fn listen(&self, claim: &Arc<store::Claim>, reply: Reply) -> store::Listening {
        self.inner.listen(claim, reply)
    }

    fn clock(&self) -> Option<FencingToken> {
        self.inner.clock()
    }

    fn is_live(&self) -> Option<bool> {
        self.live
    }

    fn close(&self, closing: Closing) {
        if self.keeps.load(Ordering::SeqCst) {
            self.kept.send(Kept::Closing(closing)).expect("the test looks at it");
        }
    }
}

/// Three nodes, of which the last keeps releases back, and is live or not; and what it keeps.
fn three(live: Option<bool>) -> (Connect, Receiver<Kept>) {
    three_that_act(live, Arc::default())
}

fn three_that_act(live: Option<bool>, on_relay: Arc<Mutex<Option<Act>>>) -> (Connect, Receiver<Kept>) {
    let (kept, keeps) = channel();
    let connect = store::connect(move |at| {
        let node = |number| Node {
            inner: Memory::node(at.clock.clone(), &format!("node {number}")),
            live: live.filter(|_| number == 2),
            keeps: Arc::new(AtomicBool::new(number == 2)),
            kept: kept.clone(),
            on_relay: on_relay.clone(),
        };
        Ok((0..3).map(node).collect::<Vec<_>>())
    });
    (connect.answer_within(PATIENCE).drain_within(PATIENCE), keeps)
}

fn locks(connect: Connect) -> Locks {
    connect.block().expect("memory is there")
}

/// Held at all three nodes.
fn held(locks: &Locks) -> Guard {
    locks.lock("x").acquire().block().expect("free")
}

/// Runs what drops the last handle; answers whether the release and the end of the store were answered by then.
fn drops(kept: Receiver<Kept>, last: impl FnOnce()) -> (bool, bool) {
    let [released, closed] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let told = [released.clone(), closed.clone()];
    let answering = thread::spawn(move || {
        for kept in kept {
            // A drop that does not wait has returned before this.
            thread::yield_now();
            match kept {
                Kept::Release(node, step, deadline, reply) => {
                    told[0].store(true, Ordering::SeqCst);
                    node.inner.submit(step, deadline, reply);
                }
                Kept::Closing(closing) => {
                    told[1].store(true, Ordering::SeqCst);
                    drop(closing);
                }
            }
        }
    });
    last();
    let seen = (released.load(Ordering::SeqCst), closed.load(Ordering::SeqCst));
    answering.join().expect("no panic");
    seen
}

const BOTH: (bool, bool) = (true, true);

#[test]
fn the_guard_as_the_last_handle_waits_for_every_live_node_and_for_the_end_of_the_stores() {
    let (connect, kept) = three(None);
    let guard = held(&locks(connect));
    assert_eq!(drops(kept, || drop(guard)), BOTH);
}

#[test]
fn the_connection_and_a_lock_as_the_last_handle_wait_as_well() {
    let (connect, kept) = three(None);
    let locks_last = locks(connect);
    let guard = held(&locks_last);
    assert_eq!(drops(kept, || drop((guard, locks_last))), BOTH);

    let (connect, kept) = three(None);
    let lock = locks(connect).lock("x");
    let guard = lock.acquire().block().expect("free");
    assert_eq!(drops(kept, || drop((guard, lock))), BOTH);
}

#[test]
fn a_future_that_owns_the_last_handle_waits() {
    let (connect, kept) = three(None);
    let guard = held(&locks(connect));
    let releasing = Box::pin(guard.release());
    assert_eq!(drops(kept, || drop(releasing)), BOTH);

    let (connect, kept) = three(None);
    let lock = locks(connect).lock("x");
    let working = Box::pin(async move {
        let guard = lock.acquire().await.expect("free");
        std::future::pending::<()>().await;
        drop(guard);
    });
    let last = || {
        let mut working = working;
        assert!(working.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(working);
    };
    assert_eq!(drops(kept, last), BOTH);
}

#[test]
fn the_last_handle_waits_while_its_thread_unwinds() {
    let (connect, kept) = three(None);
    let locks = locks(connect);
    let last = || {
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _guard = held(&locks);
            resume_unwind(Box::new("the work failed"));
        }));
        assert!(panicked.is_err());
    };
    assert_eq!(drops(kept, last), BOTH);
}

#[test]
fn shutdown_waits_for_every_live_node() {
    let (connect, kept) = three(None);
    let locks = locks(connect.drain_within(PATIENCE));
    let guard = held(&locks);
    let seen = drops(kept, move || {
        drop(guard);
        assert_eq!(locks.shutdown(Duration::ZERO).block(), Vec::<String>::new());
    });
    assert_eq!(seen, BOTH);
}

/// It ends, though the answer never comes, long before its limit.
fn ends_without_an_answer(connect: Connect, kept: &Receiver<Kept>, act: impl FnOnce(&Receiver<Kept>)) {
    let guard = held(&locks(connect));
    let began = Instant::now();
    thread::scope(|scope| {
        let dropping = scope.spawn(move || drop(guard));
        act(kept);
        dropping.join().expect("no panic");
    });
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
}

#[test]
fn a_node_that_is_not_live_is_not_waited_for() {
    let (connect, kept) = three(Some(false));
    ends_without_an_answer(connect, &kept, |kept| {
        let Ok(Kept::Release(..)) = kept.recv() else { panic!("a release first") };
        let Ok(Kept::Closing(closing)) = kept.recv() else { panic!("then the end") };
        drop(closing);
    });
}

#[test]
fn a_node_that_answers_an_error_is_not_waited_for_unless_its_link_is_up_again() {
    let trouble = |kind| Err(Trouble::new(kind, "cut"));
    for (live, kind) in [(None, StoreErrorKind::Unreachable), (Some(true), StoreErrorKind::Denied)] {
        let (connect, kept) = three(live);
        ends_without_an_answer(connect, &kept, |kept| {
            let Ok(Kept::Release(_, _, _, reply)) = kept.recv() else { panic!("a release first") };
            reply.answer(trouble(kind));
            // It is sent again, and perhaps not answered.
            kept.iter().filter(|kept| matches!(kept, Kept::Closing(_))).take(1).for_each(drop);
        });
    }
    let (connect, kept) = three(Some(true));
    let guard = held(&locks(connect));
    let answered = Arc::new(AtomicBool::new(false));
    let told = answered.clone();
    let answering = thread::spawn(move || {
        let Ok(Kept::Release(_, _, _, reply)) = kept.recv() else { panic!("a release first") };
        reply.answer(trouble(StoreErrorKind::Unreachable));
        let Ok(Kept::Release(node, step, deadline, reply)) = kept.recv() else { panic!("and once more") };
        told.store(true, Ordering::SeqCst);
        node.inner.submit(step, deadline, reply);
        // It could send more.
        drop(node);
        kept.iter().for_each(drop);
    });
    drop(guard);
    assert!(answered.load(Ordering::SeqCst), "it did not wait for the second release");
    answering.join().expect("no panic");
}

#[test]
fn with_a_limit_of_zero_nothing_is_waited_for() {
    let (connect, kept) = three(None);
    let guard = held(&locks(connect.drain_within(Duration::ZERO)));
    drop(guard);
    let Ok(Kept::Release(..)) = kept.recv() else { panic!("it was sent all the same") };
}

#[test]
fn where_nothing_is_owed_nothing_is_waited_for() {
    let (connect, kept) = three(None);
    let guard = held(&locks(connect));
    assert_eq!(drops(kept, || drop(guard.leak())), (false, true), "a lease that goes on as data is not released");
}

/// A claim ends while the release of another one carries it along: it is released once more, everywhere, and no claim waits
/// for the answers. `next` gets the connection, the last of its handles.
fn releases_once_more(live: Option<bool>, next: impl FnOnce(Locks, Receiver<Kept>)) {
    let on_relay = Arc::default();
    let (connect, kept) = three_that_act(live, Arc::clone(&on_relay));
    let locks = locks(connect);
    let lock = locks.lock("x").wait_forever();
    let guard = lock.acquire().block().expect("free");
    let mut waiting: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(async move { lock.acquire().await });
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    *on_relay.lock().expect("not poisoned") = Some(Box::new(move || drop(waiting)));
    drop(guard);
    assert!(on_relay.lock().expect("not poisoned").is_none(), "no release carried the other claim along");
    next(locks, kept);
}

#[test]
fn a_silent_node_is_not_waited_for_with_a_release_that_no_claim_waits_for() {
    releases_once_more(Some(false), |locks, kept| {
        let began = Instant::now();
        drop(locks);
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        let releases = kept.try_iter().filter(|kept| matches!(kept, Kept::Release(..))).count();
        assert_eq!(releases, 3, "of the holder, of the other claim, and once more of that");
    });
}

#[test]
fn a_live_node_is_waited_for_with_a_release_that_no_claim_waits_for() {
    releases_once_more(None, |locks, kept| {
        assert_eq!(drops(kept, || drop(locks)), BOTH);
    });
}

/// A task of which only its waker is left: it is dropped when it is woken.
struct Task(Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// A waker that owns a handle, and is dropped when it is called.
struct Owns(#[allow(dead_code, reason = "held for its Drop")] Locks);

impl Wake for Owns {
    fn wake(self: Arc<Self>) {}
}

/// The store would wait for an answer that it brings itself.
#[test]
fn a_waker_that_owns_the_last_handle_does_not_wait_where_a_store_drops_a_reply() {
    releases_once_more(None, |locks, kept| {
        let mut releases: Vec<_> = (0..3).map(|_| kept.recv().expect("the releases are there")).collect();
        // Those that claims wait for are answered: the shutdown waits for the other one.
        let last = releases.pop().expect("the third");
        for kept in releases {
            let Kept::Release(node, step, deadline, reply) = kept else { panic!("a release") };
            node.inner.submit(step, deadline, reply);
        }
        let other = locks.lock("y").acquire().block().expect("free");
        let waker = Waker::from(Arc::new(Owns(locks.clone())));
        let polled = pin!(locks.shutdown(Duration::ZERO)).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        // Each release that gets further calls the wakers of the connection, but not those that wait for the third one.
        drop(other);
        drop((locks, waker));
        let began = Instant::now();
        drop(last);
        assert!(began.elapsed() < PATIENCE / 2, "it waited for {:?}", began.elapsed());
        assert!(matches!(kept.recv(), Ok(Kept::Release(..))), "of the other lock");
        assert!(matches!(kept.try_recv(), Err(TryRecvError::Empty)), "the stores were closed");
    });
}

/// The clock would wait for an answer while all other locks wait for the clock.
#[test]
fn a_task_that_ends_on_the_clocks_thread_does_not_wait_there() {
    let (connect, kept) = three(None);
    let locks = locks(connect);
    let lock = locks.lock("x").ttl(Duration::from_millis(500)).manual_renewal();
    let guard = lock.acquire().block().expect("free");
    drop((lock, locks));
    let losing = async move { drop(guard.lost().await) };
    let task = Arc::new(Task(Mutex::new(Box::pin(losing))));
    let waker = Waker::from(task.clone());
    let polled = task.0.lock().expect("no panic").as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    drop((task, waker));
    // The loss has woken it, and it was dropped there.
    let Ok(Kept::Release(..)) = kept.recv() else { panic!("a release") };
    let began = Instant::now();
    let other = store::connect(|at| Ok(vec![Memory::new(at.clock)])).block().expect("memory is there");
    let _held = other.lock("y").acquire().block().expect("free");
    let waited = other.lock("y").wait_at_most(Duration::from_millis(10)).acquire().block();
    assert!(waited.is_err() && began.elapsed() < PATIENCE / 2, "the clock stood still for {:?}", began.elapsed());
}
