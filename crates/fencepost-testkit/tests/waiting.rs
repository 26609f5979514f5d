//! Waiting outlives every failure that passes, and nothing else: in virtual time, on nodes that say what the test wants.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_core::store::{
    self, Abilities, Claim, Listening, Memory, Moment, Reply, Step, Store, StoreError, StoreErrorKind, Trouble,
};
use fencepost_core::*;
use fencepost_testkit::poll;

const TTL: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(10);

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// What a node says to every step.
#[derive(Clone, Debug)]
enum Mood {
    Well,
    /// Nothing at all: a stopped process.
    Silent,
    /// The same trouble each time.
    Says(StoreErrorKind),
    /// Not before this moment.
    QuarantinedUntil(Moment),
}

/// A node with a mood.
#[derive(Clone)]
struct Moody {
    inner: Memory,
    clock: VirtualClock,
    mood: Arc<Mutex<Mood>>,
}

impl Moody {
    fn mood(&self) -> Mood {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap_or_else(PoisonError::into_inner) = mood;
    }
}

impl Store for Moody {
    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    fn label(&self) -> String {
        self.inner.label()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        let now = self.clock.clock().now();
        match self.mood() {
            Mood::Silent => {}
            Mood::Says(kind) => reply.answer(Err(Trouble::new(kind, "as the test says"))),
            Mood::QuarantinedUntil(end) if now < end => {
                let kind = StoreErrorKind::Quarantined { left: end.since(now) };
                reply.answer(Err(Trouble::new(kind, "it lost its memory")));
            }
            Mood::Well | Mood::QuarantinedUntil(_) => self.inner.submit(step, deadline, reply),
        }
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.inner.listen(claim, reply)
    }

    fn clock(&self) -> Option<FencingToken> {
        self.inner.clock()
    }
}

struct World {
    clock: VirtualClock,
    nodes: Vec<Moody>,
}

type Acquiring = Pin<Box<dyn Future<Output = Result<(), AcquireError>>>>;

impl World {
    fn new(nodes: usize) -> Self {
        let clock = VirtualClock::new();
        let memory = |number: usize| match nodes {
            1 => Memory::new(clock.clock()),
            _ => Memory::node(clock.clock(), &format!("node-{number}")),
        };
        let node =
            |number| Moody { inner: memory(number), clock: clock.clone(), mood: Arc::new(Mutex::new(Mood::Well)) };
        Self { nodes: (0..nodes).map(node).collect(), clock }
    }

    /// The same nodes for a client whose links have moods of their own.
    fn seen_by_another(&self) -> Self {
        let node = |node: &Moody| Moody { mood: Arc::new(Mutex::new(Mood::Well)), ..node.clone() };
        Self { nodes: self.nodes.iter().map(node).collect(), clock: self.clock.clone() }
    }

    fn connect(&self) -> Connect {
        let nodes = self.nodes.clone();
        store::connect(move |_| Ok(nodes)).clock(&self.clock).ttl(TTL)
    }

    fn locks(&self) -> Locks {
        self.connect().block().expect("stores that are there already")
    }

    fn moods<const N: usize>(&self, moods: [Mood; N]) {
        self.nodes.iter().zip(moods).for_each(|(node, mood)| node.is(mood));
    }

    fn quarantined_for(&self, span: Duration) -> Mood {
        Mood::QuarantinedUntil(self.clock.clock().now().plus(span))
    }

    /// Turns time until the call ends, and answers how long that took.
    fn time<F: Future>(&self, call: F) -> (Duration, F::Output) {
        let mut call = pin!(call);
        let mut passed = Duration::ZERO;
        loop {
            if let Some(outcome) = poll::once(call.as_mut()) {
                return (passed, outcome);
            }
            assert!(passed < seconds(600), "it never ends");
            self.clock.turn(TICK);
            passed += TICK;
        }
    }
}

/// One lock, several, and a permit.
fn kinds(locks: &Locks, wait: Duration) -> Vec<(&'static str, Acquiring)> {
    let one = locks.lock("a").wait_at_most(wait);
    let all = locks.all_of(["a", "b"]).wait_at_most(wait);
    let permit = locks.semaphore("s", 2).wait_at_most(wait);
    vec![
        ("one", Box::pin(async move { one.acquire().await.map(drop) })),
        ("all of several", Box::pin(async move { all.acquire().await.map(drop) })),
        ("a permit", Box::pin(async move { permit.acquire().await.map(drop) })),
    ]
}

fn trouble(answer: Result<(), AcquireError>) -> StoreError {
    match answer {
        Err(AcquireError::Store(error)) => error,
        other => panic!("not the store's trouble: {other:?}"),
    }
}

#[test]
fn one_quarantined_node_does_not_decide_for_all() {
    for kind in 0..3 {
        let world = World::new(3);
        let locks = world.locks();
        let long = world.quarantined_for(seconds(300));
        world.moods([Mood::Says(StoreErrorKind::Unreachable), long, Mood::Silent]);
        let (name, mut acquiring) = kinds(&locks, seconds(20)).swap_remove(kind);
        for _ in 0..250 {
            assert!(poll::once(acquiring.as_mut()).is_none(), "{name} gave up at {:?}", world.clock);
            world.clock.turn(TICK);
        }
        world.moods([Mood::Well, world.quarantined_for(seconds(300)), Mood::Well]);
        let (took, answer) = world.time(acquiring);
        assert!(answer.is_ok() && took < seconds(2), "{name}: {answer:?} after {took:?}");
    }
}

#[test]
fn a_quarantine_that_ends_in_time_is_waited_for() {
    for (nodes, kind) in [1, 3].into_iter().flat_map(|nodes| (0..3).map(move |kind| (nodes, kind))) {
        let world = World::new(nodes);
        let locks = world.locks();
        let quarantine = world.quarantined_for(seconds(12));
        world.nodes.iter().for_each(|node| node.is(quarantine.clone()));
        let (name, acquiring) = kinds(&locks, seconds(20)).swap_remove(kind);
        let (took, answer) = world.time(acquiring);
        assert!(answer.is_ok(), "{name} on {nodes}: {answer:?}");
        assert!((seconds(12)..seconds(13)).contains(&took), "{name} on {nodes}: {took:?}");
    }
}

#[test]
fn a_quarantine_that_ends_too_late_is_said_at_once() {
    for kind in 0..3 {
        let world = World::new(3);
        let locks = world.locks();
        let late = world.quarantined_for(seconds(25));
        world.moods([late.clone(), Mood::Well, late]);
        let (name, acquiring) = kinds(&locks, seconds(20)).swap_remove(kind);
        let (took, answer) = world.time(acquiring);
        assert!(took < seconds(1), "{name}: {took:?}");
        assert!(matches!(trouble(answer).kind, StoreErrorKind::Quarantined { .. }), "{name}");
    }
}

/// Each node from its own end on: the second of three decides, not the first and not the last.
#[test]
fn the_last_node_of_the_earliest_majority_decides() {
    let world = World::new(3);
    let locks = world.locks();
    world.moods([5, 15, 300].map(|end| world.quarantined_for(seconds(end))));
    let short = locks.lock("a").wait_at_most(seconds(14));
    let (took, answer) = world.time(async move { short.acquire().await.map(drop) });
    assert!(took < seconds(1) && answer.is_err(), "{answer:?} after {took:?}");
    let long = locks.lock("a").wait_at_most(seconds(16));
    let (took, answer) = world.time(async move { long.acquire().await.map(drop) });
    assert!(answer.is_ok() && (seconds(14)..seconds(16)).contains(&took), "{answer:?} after {took:?}");
}

#[test]
fn what_waiting_cannot_cure_fails_at_once_where_it_leaves_no_majority() {
    use StoreErrorKind::{Denied, Misconfigured, Unreachable, Unsupported};
    for hopeless in [Denied, Misconfigured, Unsupported] {
        for kind in 0..3 {
            let world = World::new(3);
            let locks = world.locks();
            world.moods([Mood::Says(hopeless.clone()), Mood::Says(hopeless.clone()), Mood::Says(Unreachable)]);
            let (name, acquiring) = kinds(&locks, seconds(20)).swap_remove(kind);
            let (took, answer) = world.time(acquiring);
            assert!(took < seconds(1), "{name}: {took:?}");
            assert_eq!(trouble(answer).kind, hopeless, "{name}");
        }
    }
}

#[test]
fn one_node_that_denies_us_does_not_decide_for_those_that_may_come_back() {
    for kind in 0..3 {
        let world = World::new(3);
        let locks = world.locks();
        world.moods([Mood::Says(StoreErrorKind::Denied), Mood::Says(StoreErrorKind::Unreachable), Mood::Silent]);
        let (name, mut acquiring) = kinds(&locks, seconds(20)).swap_remove(kind);
        for _ in 0..1_500 {
            assert!(poll::once(acquiring.as_mut()).is_none(), "{name} gave up at {:?}", world.clock);
            world.clock.turn(TICK);
        }
        world.moods([Mood::Says(StoreErrorKind::Denied), Mood::Well, Mood::Well]);
        let (_, answer) = world.time(acquiring);
        assert!(answer.is_ok(), "{name}: {answer:?}");
    }
}

#[test]
fn a_waiter_with_a_limit_waits_until_that_limit() {
    for (nodes, mood) in [(1, Mood::Silent), (3, Mood::Silent), (3, Mood::Says(StoreErrorKind::Unreachable))] {
        for kind in 0..3 {
            let world = World::new(nodes);
            let locks = world.locks();
            world.nodes.iter().for_each(|node| node.is(mood.clone()));
            let (name, acquiring) = kinds(&locks, seconds(100)).swap_remove(kind);
            let (took, answer) = world.time(acquiring);
            assert!((seconds(99)..=seconds(101)).contains(&took), "{name} on {nodes}, {mood:?}: {took:?}");
            let error = trouble(answer);
            assert!(error.kind != StoreErrorKind::Unexpected, "{name} on {nodes}, {mood:?}: {error}");
        }
    }
}

/// The cause at the end is what the nodes said last, also where the limit ends in the middle of a round.
#[test]
fn the_limit_names_what_each_node_said_last() {
    for more in (0..300).step_by(10) {
        let world = World::new(3);
        let locks = world.locks();
        world.moods([Mood::Says(StoreErrorKind::Denied), Mood::Silent, Mood::Silent]);
        let lock = locks.lock("a").wait_at_most(seconds(3) + Duration::from_millis(more));
        let (_, answer) = world.time(async move { lock.acquire().await.map(drop) });
        let error = trouble(answer);
        let said =
            |kind: &StoreErrorKind| error.votes.iter().filter(|vote| vote.vote == Vote::Failed(kind.clone())).count();
        assert_eq!(said(&StoreErrorKind::Denied), 1, "after {more} ms: {error}: {:?}", error.votes);
        assert_eq!(said(&StoreErrorKind::TooSlow), 2, "after {more} ms: {error}: {:?}", error.votes);
    }
}

#[test]
fn a_wait_without_limit_gives_up_after_an_outage_of_a_minute_or_a_ttl() {
    for (ttl, patience) in [(10, 60), (90, 90)] {
        let world = World::new(3);
        let locks = world.locks();
        world.moods([Mood::Silent, Mood::Silent, Mood::Well]);
        let lock = locks.lock("a").ttl(seconds(ttl)).wait_forever();
        let (took, answer) = world.time(async move { lock.acquire().await.map(drop) });
        assert!((seconds(patience)..seconds(patience + 2)).contains(&took), "ttl {ttl} s: {took:?}");
        trouble(answer);
    }
}

/// A quarantine whose end is known is no outage.
#[test]
fn a_wait_without_limit_outlasts_a_quarantine_whose_end_is_known() {
    let world = World::new(3);
    let locks = world.locks();
    let quarantine = world.quarantined_for(seconds(130));
    world.nodes.iter().for_each(|node| node.is(quarantine.clone()));
    let lock = locks.lock("a").wait_forever();
    let (took, answer) = world.time(async move { lock.acquire().await.map(drop) });
    assert!(answer.is_ok() && (seconds(130)..seconds(131)).contains(&took), "{answer:?} after {took:?}");
}

#[test]
fn who_does_not_wait_fails_at_once() {
    let world = World::new(3);
    let locks = world.locks();
    world.moods([world.quarantined_for(seconds(1)), world.quarantined_for(seconds(1)), Mood::Well]);
    let lock = locks.lock("a");
    let (took, answer) = world.time(async move { lock.try_acquire().await.map(drop) });
    assert!(took < Duration::from_millis(100), "{took:?}");
    trouble(answer);
}

#[test]
fn the_cause_of_a_wait_is_told_when_it_begins_and_whenever_it_changes() {
    let world = World::new(3);
    let told: Arc<Mutex<Vec<StoreErrorKind>>> = Arc::default();
    let book = told.clone();
    let observer = move |event: &fencepost_core::Event| {
        if let EventKind::WaitingForStore(error) = &event.kind {
            book.lock().unwrap_or_else(PoisonError::into_inner).push(error.kind.clone());
        }
    };
    let locks = world.connect().observer(observer).block().expect("stores that are there already");
    let told = || std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
    let turn = |seconds: u64| (0..seconds * 100).for_each(|_| world.clock.turn(TICK));
    let lock = locks.lock("a").wait_at_most(seconds(60));
    let mut acquiring = pin!(lock.acquire());
    world.moods([Mood::Says(StoreErrorKind::Unreachable), Mood::Says(StoreErrorKind::Unreachable), Mood::Well]);
    assert!(poll::once(acquiring.as_mut()).is_none());
    turn(5);
    assert_eq!(told(), [StoreErrorKind::Unreachable], "once, however often it is tried");
    let quarantined = world.quarantined_for(seconds(20));
    world.moods([Mood::Says(StoreErrorKind::Unreachable), quarantined, Mood::Well]);
    turn(5);
    assert!(matches!(told()[..], [StoreErrorKind::Quarantined { .. }]), "the time that is left is no new cause");
    world.moods([Mood::Well, Mood::Well, Mood::Well]);
    turn(1);
    assert!(poll::once(acquiring.as_mut()).expect("all are well").is_ok());
    assert_eq!(told(), []);
}

/// Opens after so many failures.
fn opens_after(world: &World, failures: u32, kind: StoreErrorKind) -> Connect {
    let (nodes, mut left) = (world.nodes.clone(), failures);
    let opened = store::connect_again(move |_| {
        let refused = left > 0;
        left = left.saturating_sub(1);
        let stores = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn Store>).collect::<Vec<_>>();
        let answer = if refused { Err(StoreError::new(kind.clone(), "connect", "it is down")) } else { Ok(stores) };
        Box::pin(std::future::ready(answer))
    });
    opened.clock(&world.clock).ttl(TTL)
}

#[test]
fn connecting_waits_for_a_store_that_is_down_as_long_as_told() {
    let world = World::new(1);
    let once = world.time(opens_after(&world, 1, StoreErrorKind::Unreachable).into_future());
    assert!(once.0.is_zero() && once.1.is_err(), "not told to wait");
    let (_, patient) =
        world.time(opens_after(&world, 5, StoreErrorKind::Unreachable).wait_for_store(seconds(10)).into_future());
    assert!(patient.is_ok(), "{:?}", patient.err());
    let (took, given_up) =
        world.time(opens_after(&world, 5_000, StoreErrorKind::TooSlow).wait_for_store(seconds(10)).into_future());
    assert!((seconds(9)..=seconds(11)).contains(&took), "{took:?}");
    assert_eq!(given_up.expect_err("down").message, "it is down");
    let (took, denied) =
        world.time(opens_after(&world, 5, StoreErrorKind::Denied).wait_for_store(seconds(10)).into_future());
    assert!(took.is_zero() && denied.is_err(), "waiting cures nothing: {took:?}");
}

#[test]
fn an_attempt_to_connect_that_never_ends_ends_with_the_wait() {
    let world = World::new(1);
    let never = store::connect_again(|_| Box::pin(std::future::pending::<Result<Vec<Arc<dyn Store>>, StoreError>>()));
    let (took, answer) = world.time(never.clock(&world.clock).wait_for_store(seconds(5)).into_future());
    assert!((seconds(4)..=seconds(6)).contains(&took), "{took:?}");
    assert_eq!(answer.expect_err("nobody answers").kind, StoreErrorKind::TooSlow);
}

/// Two of five nodes are away for everybody, a third for one client only. What that client is granted is no majority, and it
/// keeps another from one that it could have.
#[test]
fn a_waiter_without_a_majority_does_not_keep_the_lock_from_one_that_has_it() {
    let here = World::new(5);
    let there = here.seen_by_another();
    let away = || Mood::Says(StoreErrorKind::Unreachable);
    let quarantined = || here.quarantined_for(seconds(60));
    for third in [away(), Mood::Silent] {
        there.moods([quarantined(), away(), third, Mood::Well, Mood::Well]);
        here.moods([quarantined(), away(), Mood::Well, Mood::Well, Mood::Well]);
        let cut_off = there.locks().lock("x").wait_forever();
        let mut cut_off = pin!(cut_off.acquire());
        for _ in 0..100 {
            assert!(poll::once(cut_off.as_mut()).is_none());
            here.clock.turn(TICK);
        }
        let lock = here.locks().lock("x").wait_at_most(seconds(30));
        let (took, answer) = here.time(async move { lock.acquire().await });
        assert!(answer.is_ok() && took <= seconds(2), "{took:?}: {answer:?}");
    }
}
