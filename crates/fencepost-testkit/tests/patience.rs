//! A node that is slow but at work is waited for and not asked twice; one that is silent is left behind. In virtual time, on
//! links that keep order and answer one request after the other, as a server does that has a queue.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_core::store::{
    self, Abilities, Alarm, Claim, Clock, Listening, Memory, Moment, Owed, Reply, Step, Store, StoreErrorKind, Trouble,
};
use fencepost_core::*;
use fencepost_testkit::poll;

const TTL: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(1);
const LIVE: Duration = Duration::from_secs(1);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A node behind a link that keeps order.
struct Queued {
    inner: Memory,
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    /// How long the node takes for each request.
    takes: Duration,
    paused: bool,
    /// Its link knows what it owes.
    knows: bool,
    queue: VecDeque<(Step, Moment, Reply)>,
    at_work: bool,
    up_since: Moment,
    heard_at: Moment,
    written: Vec<Step>,
    /// How long each step may wait to be sent.
    may_wait: Vec<Duration>,
}

#[derive(Clone)]
struct Node(Arc<Queued>);

impl Queued {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go_on(self: &Arc<Self>) {
        let mut state = self.state();
        if state.paused || state.at_work || state.queue.is_empty() {
            return;
        }
        state.at_work = true;
        let target: Arc<dyn Alarm> = self.clone();
        self.clock.alarm(self.clock.now().plus(state.takes), Arc::downgrade(&target));
    }
}

impl Alarm for Queued {
    fn ring(self: Arc<Self>) {
        let next = {
            let mut state = self.state();
            state.at_work = false;
            if state.paused { None } else { state.queue.pop_front() }
        };
        if let Some((step, deadline, reply)) = next {
            self.state().heard_at = self.clock.now();
            self.inner.submit(step, deadline, reply);
        }
        self.go_on();
    }
}

impl Node {
    fn takes(&self, span: Duration) {
        self.0.state().takes = span;
    }

    fn pause(&self) {
        self.0.state().paused = true;
    }

    fn resume(&self) {
        self.0.state().paused = false;
        self.0.go_on();
    }

    /// Ends the connection and makes a new one: what is owed is answered with trouble.
    fn reconnect(&self) {
        let owed = {
            let mut state = self.0.state();
            (state.up_since, state.heard_at) = (self.0.clock.now(), self.0.clock.now());
            std::mem::take(&mut state.queue)
        };
        let trouble = || Trouble::new(StoreErrorKind::Unreachable, "the connection ended");
        owed.into_iter().for_each(|(_, _, reply)| reply.answer(Err(trouble())));
    }

    fn count(&self, which: impl Fn(&Step) -> bool) -> usize {
        self.0.state().written.iter().filter(|step| which(step)).count()
    }
}

impl Store for Node {
    fn abilities(&self) -> Abilities {
        self.0.inner.abilities()
    }

    fn label(&self) -> String {
        self.0.inner.label()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        {
            let mut state = self.0.state();
            if state.queue.is_empty() {
                state.heard_at = self.0.clock.now();
            }
            state.written.push(step.clone());
            state.may_wait.push(deadline.since(self.0.clock.now()));
            state.queue.push_back((step, deadline, reply));
        }
        self.0.go_on();
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.0.inner.listen(claim, reply)
    }

    fn clock(&self) -> Option<FencingToken> {
        self.0.inner.clock()
    }

    fn owed(&self, submitted: Moment) -> Owed {
        let state = self.0.state();
        if !state.knows || state.up_since > submitted {
            return Owed::Unknown;
        }
        let patient = state.heard_at.max(submitted).plus(state.takes * 3);
        Owed::Until(patient.min(state.heard_at.plus(LIVE)))
    }
}

struct World {
    clock: VirtualClock,
    nodes: Vec<Node>,
}

impl World {
    fn new(nodes: usize) -> Self {
        let clock = VirtualClock::new();
        let now = clock.clock().now();
        let node = |number: usize| {
            let (takes, paused, at_work, written) = (ms(0), false, false, Vec::new());
            let state = State {
                takes,
                paused,
                knows: true,
                at_work,
                queue: VecDeque::new(),
                up_since: now,
                heard_at: now,
                written,
                may_wait: Vec::new(),
            };
            let inner = Memory::node(clock.clock(), &format!("node-{number}"));
            Node(Arc::new(Queued { inner, clock: clock.clock(), state: Mutex::new(state) }))
        };
        Self { nodes: (0..nodes).map(node).collect(), clock }
    }

    fn connect(&self) -> Connect {
        let nodes = self.nodes.clone();
        store::connect(move |_| Ok(nodes)).clock(&self.clock).ttl(TTL)
    }

    fn locks(&self) -> Locks {
        self.connect().block().expect("stores that are there already")
    }

    fn each_takes(&self, span: Duration) {
        self.nodes.iter().for_each(|node| node.takes(span));
    }

    fn turn(&self, span: Duration) {
        (0..span.as_millis()).for_each(|_| self.clock.turn(TICK));
    }

    /// Turns time until the call ends, and answers how long that took.
    fn time<F: Future>(&self, call: F) -> (Duration, F::Output) {
        let mut call = pin!(call);
        let mut passed = Duration::ZERO;
        loop {
            if let Some(outcome) = poll::once(call.as_mut()) {
                return (passed, outcome);
            }
            assert!(passed < Duration::from_secs(120), "it never ends");
            self.clock.turn(TICK);
            passed += TICK;
        }
    }

    /// Turns time until all of these end, and answers what they say.
    fn all<T>(&self, calls: Vec<Pin<Box<dyn Future<Output = T>>>>) -> Vec<T> {
        let mut calls: Vec<_> = calls.into_iter().map(Some).collect();
        let mut done = Vec::new();
        for _ in 0..120_000 {
            for call in &mut calls {
                if let Some(outcome) = call.as_mut().and_then(|call| poll::once(call.as_mut())) {
                    done.push(outcome);
                    *call = None;
                }
            }
            if calls.iter().all(Option::is_none) {
                return done;
            }
            self.clock.turn(TICK);
        }
        panic!("{} of {} never end", calls.iter().flatten().count(), calls.len());
    }

    fn rows_in_use(&self) -> usize {
        self.nodes.iter().map(|node| node.0.inner.rows_in_use()).sum()
    }
}

fn is_acquire(step: &Step) -> bool {
    matches!(step, Step::Acquire { .. })
}

fn is_renewal(step: &Step) -> bool {
    matches!(step, Step::Renew { .. })
}

fn is_release(step: &Step) -> bool {
    matches!(step, Step::Release { .. })
}

/// With a queue of 400 ms on every node, eight times what an answer may take on an idle one.
#[test]
fn a_slow_but_live_node_is_not_asked_twice() {
    const TASKS: usize = 400;
    for waits in [false, true] {
        let world = World::new(5);
        let locks = world.locks();
        world.each_takes(ms(1));
        let turn = |number: usize| {
            let lock = locks.lock(format!("x{number}"));
            let lock = if waits { lock.wait_forever() } else { lock };
            let turn = async move {
                let guard = lock.acquire().await.map_err(|error| error.to_string())?;
                guard.release().await.map_err(|error| error.to_string())
            };
            Box::pin(turn) as Pin<Box<dyn Future<Output = Result<ReleaseOutcome, String>>>>
        };
        let outcomes = world.all((0..TASKS).map(turn).collect());
        let wrong: Vec<_> = outcomes.iter().filter(|outcome| **outcome != Ok(ReleaseOutcome::Freed)).collect();
        assert!(wrong.is_empty(), "{} of {TASKS}: {:?}", wrong.len(), wrong[0]);
        world.turn(ms(5_000));
        for node in &world.nodes {
            assert_eq!((node.count(is_acquire), node.count(is_release)), (TASKS, TASKS), "{}", node.label());
        }
        assert_eq!(world.rows_in_use(), 0);
    }
}

/// The control: who knows nothing of its link asks again and again.
#[test]
fn a_slow_node_whose_link_knows_nothing_is_asked_again() {
    let world = World::new(3);
    let locks = world.locks();
    world.nodes.iter().for_each(|node| node.0.state().knows = false);
    let lock = locks.lock("x");
    let (_, guard) = world.time(async move { lock.acquire().await });
    world.each_takes(ms(400));
    let (_, outcome) = world.time(guard.expect("free").release());
    assert!(outcome.is_err(), "{outcome:?}");
    world.turn(ms(2_000));
    assert!(world.nodes.iter().all(|node| node.count(is_release) > 1));
}

#[test]
fn a_silent_node_is_left_behind_as_quickly_as_ever() {
    let world = World::new(5);
    let locks = world.locks();
    world.each_takes(ms(1));
    let try_it = |world: &World| {
        let lock = locks.lock("x");
        world.time(async move { lock.try_acquire().await })
    };
    let (_, first) = try_it(&world);
    drop(first);
    world.turn(ms(100));
    world.nodes[..2].iter().for_each(Node::pause);
    let (took, answer) = try_it(&world);
    assert!(matches!(answer, Ok(Some(_))) && took <= ms(10), "two of five are silent: {took:?}, {answer:?}");
    drop(answer);
    world.turn(ms(100));
    world.nodes[2].pause();
    for _ in 0..3 {
        let (took, answer) = try_it(&world);
        assert!(answer.is_err() && (ms(50)..=ms(60)).contains(&took), "three of five are silent: {took:?}, {answer:?}");
    }
    world.nodes.iter().for_each(Node::resume);
    world.turn(ms(5_000));
    assert_eq!(world.rows_in_use(), 0);
}

#[test]
fn a_release_is_written_once_per_connection_and_again_on_the_next() {
    let world = World::new(3);
    let locks = world.locks();
    world.each_takes(ms(1));
    let lock = locks.lock("x");
    let (_, guard) = world.time(async move { lock.acquire().await });
    world.turn(ms(10));
    world.nodes[0].pause();
    let (took, outcome) = world.time(guard.expect("free").release());
    assert!(outcome.is_ok_and(|outcome| outcome == ReleaseOutcome::Freed) && took < ms(10), "{took:?}");
    world.turn(ms(3_000));
    assert_eq!(world.nodes[0].count(is_release), 1, "it is silent, and its connection is up");
    world.nodes[0].resume();
    world.nodes[0].reconnect();
    world.turn(ms(2_000));
    assert_eq!(world.nodes[0].count(is_release), 2, "what was owed on the old connection may never have arrived");
    assert_eq!(world.rows_in_use(), 0);
}

#[test]
fn what_the_user_says_of_answers_is_a_hard_limit() {
    let world = World::new(3);
    let locks = world.connect().answer_within(ms(80)).block().expect("stores that are there already");
    world.each_takes(ms(200));
    let lock = locks.lock("x");
    let (took, answer) = world.time(async move { lock.try_acquire().await });
    assert!(answer.is_err() && (ms(80)..=ms(85)).contains(&took), "{took:?}, {answer:?}");
}

/// Patience has an end: a grant that comes after half of its ttl is not waited for, and what comes later is given back.
/// A link on which too much is under way keeps a step until there is room, and not beyond its deadline.
#[test]
fn a_step_may_wait_to_be_sent_for_as_long_as_its_answer_is_waited_for() {
    let may_wait = |knows: bool, limit: Option<Duration>| {
        let world = World::new(3);
        world.nodes.iter().for_each(|node| node.0.state().knows = knows);
        let connect = limit.into_iter().fold(world.connect(), Connect::answer_within);
        let locks = connect.block().expect("stores that are there already");
        let (_, guard) = world.time(locks.lock("x").acquire());
        let (_, outcome) = world.time(guard.expect("free").release());
        assert_eq!(outcome.expect("answered"), ReleaseOutcome::Freed);
        let state = world.nodes[0].0.state();
        (state.may_wait[0], *state.may_wait.last().expect("the release"))
    };
    assert_eq!(may_wait(true, None), (TTL / 2, TTL / 2), "at work on its queue");
    assert_eq!(may_wait(false, None), (ms(50), ms(50)), "nothing is known of the answer");
    assert_eq!(may_wait(true, Some(ms(80))), (ms(80), ms(80)), "as the user said");
}

#[test]
fn a_grant_that_comes_too_late_does_not_count_and_is_given_back() {
    let world = World::new(3);
    let locks = world.connect().ttl(ms(1_000)).block().expect("stores that are there already");
    world.each_takes(ms(700));
    let lock = locks.lock("x");
    let (took, answer) = world.time(async move { lock.try_acquire().await });
    assert!(answer.is_err() && (ms(500)..=ms(510)).contains(&took), "{took:?}, {answer:?}");
    world.turn(ms(10_000));
    assert_eq!(world.rows_in_use(), 0);
    for node in &world.nodes {
        assert_eq!((node.count(is_acquire), node.count(is_release)), (1, 1), "{}", node.label());
    }
}

#[test]
fn a_renewal_that_waits_in_a_queue_is_not_repeated() {
    let world = World::new(3);
    let unknown: Arc<Mutex<u32>> = Arc::default();
    let count = unknown.clone();
    let observer = move |event: &Event| {
        if matches!(event.kind, EventKind::RenewalUnknown { .. }) {
            *count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        }
    };
    let locks = world.connect().ttl(ms(3_000)).observer(observer).block().expect("stores that are there already");
    world.each_takes(ms(1));
    let lock = locks.lock("x");
    let (_, guard) = world.time(async move { lock.acquire().await });
    let guard = guard.expect("free");
    world.each_takes(ms(400));
    world.turn(ms(20_000));
    assert!(guard.is_held(), "{:?}", guard.ensure_held());
    assert_eq!(*unknown.lock().unwrap_or_else(PoisonError::into_inner), 0);
    for node in &world.nodes {
        assert!((19..=21).contains(&node.count(is_renewal)), "one per third of the ttl: {}", node.count(is_renewal));
    }
}

/// A hold whose nodes stand still until it is lost is lost in time, however patient its renewals are.
#[test]
fn patience_never_delays_a_loss() {
    let world = World::new(3);
    let locks = world.connect().ttl(ms(3_000)).block().expect("stores that are there already");
    world.each_takes(ms(400));
    let lock = locks.lock("x");
    let (_, guard) = world.time(async move { lock.acquire().await });
    let guard = guard.expect("free");
    world.nodes.iter().for_each(Node::pause);
    let (took, lost) = world.time(guard.lost());
    assert!(took < ms(3_000 - 300), "{took:?}");
    assert_eq!(lost.reason, LossReason::Unreachable);
}

/// A waiter whose answers take longer than it may wait for each goes on waiting, and does not make the queue longer.
#[test]
fn a_waiter_with_a_short_ttl_does_not_ask_again_while_an_answer_is_owed() {
    let world = World::new(3);
    let locks = world.connect().ttl(ms(1_000)).block().expect("stores that are there already");
    world.each_takes(ms(950));
    let lock = locks.lock("x").wait_forever();
    let mut acquiring = pin!(lock.acquire());
    let mut wait = |span: u32| {
        for _ in 0..span {
            assert!(poll::once(acquiring.as_mut()).is_none());
            world.clock.turn(TICK);
        }
        world.nodes.iter().map(|node| node.count(is_acquire)).collect::<Vec<_>>()
    };
    assert_eq!(wait(600), [1, 1, 1]);
    // One of them is idle again, the others still owe their answers: it alone is asked anew.
    world.nodes[0].reconnect();
    world.nodes[1..].iter().for_each(Node::pause);
    assert_eq!(wait(390), [2, 1, 1]);
    // After a ttl the answer is of no use any more.
    assert_eq!(wait(220)[1..], [2, 2]);
    world.each_takes(ms(1));
    world.nodes.iter().for_each(Node::resume);
    let (_, guard) = world.time(acquiring);
    drop(guard.expect("free"));
    world.turn(ms(3_000));
    assert_eq!(world.rows_in_use(), 0);
}

/// A renewal that waits in a queue for longer than its round is not repeated, and what it finds is not thrown away.
#[test]
fn a_loss_is_heard_from_a_renewal_that_outlasts_its_round() {
    let world = World::new(3);
    let locks = world.connect().ttl(ms(3_000)).block().expect("stores that are there already");
    world.each_takes(ms(1));
    let lock = locks.lock("x");
    let (_, guard) = world.time(async move { lock.acquire().await });
    let guard = guard.expect("free");
    let inners: Vec<Memory> = world.nodes.iter().map(|node| node.0.inner.clone()).collect();
    let operator =
        store::connect(move |_| Ok(inners)).clock(&world.clock).block().expect("stores that are there already");
    // The renewal after a second takes until 2.3 s, and its round is over by 2 s.
    world.nodes[1..].iter().for_each(|node| node.takes(ms(1_300)));
    world.turn(ms(1_100));
    operator.force_release("x", "test").block().expect("all are there");
    let (took, lost) = world.time(guard.lost());
    assert_eq!(lost.reason, LossReason::Revoked);
    assert!(took <= ms(1_250), "{took:?}");
}

/// What it gives back comes back at once where nobody else is in line.
#[test]
fn a_waiter_without_a_majority_is_not_handed_the_lock_in_a_circle() {
    let world = World::new(3);
    let locks = world.locks();
    world.each_takes(ms(1));
    world.nodes[1..].iter().for_each(Node::pause);
    let lock = locks.lock("x").wait_forever();
    let mut acquiring = pin!(lock.acquire());
    for _ in 0..3_000 {
        assert!(poll::once(acquiring.as_mut()).is_none());
        world.clock.turn(TICK);
    }
    let asked = world.nodes[0].count(|_| true);
    assert!((10..40).contains(&asked), "{asked} requests in 3 s");
}

/// The next claim of the process goes with the release; a node that does not answer it, as one that may not vote now, is asked
/// by that claim itself.
#[test]
fn a_node_that_answers_the_release_alone_is_asked_for_the_claim_behind_it() {
    let world = World::new(3);
    let locks = world.locks();
    world.each_takes(ms(1));
    let lock = locks.lock("x").wait_forever();
    let (_, guard) = world.time(lock.acquire());
    let guard = guard.expect("free");
    let mut next = pin!(lock.acquire());
    assert!(poll::once(next.as_mut()).is_none());
    // A majority may not vote when the release comes: it lets go, and leaves the claim behind it out.
    world.nodes[1..].iter().for_each(|node| node.0.inner.forget(ms(2_000)));
    drop(guard);
    let (took, guard) = world.time(next);
    drop(guard.expect("all may vote again"));
    assert!(took >= ms(2_000) && took < ms(2_500), "{took:?}");
}
