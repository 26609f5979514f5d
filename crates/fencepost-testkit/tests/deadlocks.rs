//! Who gives way in a deadlock, and when: in virtual time, over one store and over nodes that vote.

use std::pin::{Pin, pin};
use std::time::Duration;

use fencepost_core::store::{ActorId, Step};
use fencepost_core::{AcquireError, Actor, Blocking, Guard, Lock, Locks, VirtualClock};
use fencepost_testkit::faulty::Faults;
use fencepost_testkit::nodes::Nodes;
use fencepost_testkit::poll;

const TTL: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

struct World {
    clock: VirtualClock,
    nodes: Nodes,
}

impl World {
    fn locks(&self) -> Locks {
        self.nodes.connect().clock(&self.clock).ttl(TTL).block().expect("memory is there")
    }

    fn listings(&self) -> usize {
        self.nodes.iter().map(|node| node.store().count(|step| matches!(step, Step::List { .. }))).sum()
    }
}

fn both(test: impl Fn(&World)) {
    for count in [1, 5] {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(count, &clock.clock(), 1, Faults::default());
        test(&World { clock, nodes });
    }
}

fn lock(locks: &Locks, name: &str, actor: &Actor) -> Lock {
    locks.lock(name).wait_forever().by(actor)
}

type Acquiring<'a> = Pin<&'a mut dyn Future<Output = Result<Guard, AcquireError>>>;

/// Polls both every tenth of a second until one ends; answers which, after how long.
fn first_to_end<'a>(world: &World, mut one: Acquiring<'a>, mut other: Acquiring<'a>) -> (usize, Duration) {
    let step = SECOND / 10;
    for round in 0..100 {
        for (which, acquiring) in [&mut one, &mut other].into_iter().enumerate() {
            match poll::once(acquiring.as_mut()) {
                None => {}
                Some(Err(AcquireError::Deadlock { .. })) => return (which, step * round),
                Some(unexpected) => panic!("{unexpected:?}"),
            }
        }
        world.clock.turn(step);
    }
    panic!("nobody gave way");
}

/// `a` holds x and waits for y since a second; `b` holds y and begins to wait for x.
fn story(world: &World, a: &Actor, b: &Actor) -> (usize, Duration) {
    let (one, other) = (world.locks(), world.locks());
    let _x = lock(&one, "x", a).acquire().block().expect("free");
    let _y = lock(&other, "y", b).acquire().block().expect("free");
    let (for_y, for_x) = (lock(&one, "y", a), lock(&other, "x", b));
    let (mut a_waits, b_waits) = (pin!(for_y.acquire()), pin!(for_x.acquire()));
    assert!(poll::once(a_waits.as_mut()).is_none());
    world.clock.turn(SECOND);
    first_to_end(world, a_waits, b_waits)
}

#[test]
fn of_two_that_asked_the_one_that_began_to_wait_last_fails_at_once() {
    both(|world| {
        let (a, b) = (Actor::new().fail_on_deadlock(), Actor::new().fail_on_deadlock());
        assert_eq!(story(world, &a, &b), (1, Duration::ZERO));
    });
}

#[test]
fn if_the_last_one_did_not_ask_the_other_fails_after_a_grace() {
    both(|world| {
        let (who, after) = story(world, &Actor::new().fail_on_deadlock(), &Actor::new());
        assert_eq!(who, 0);
        assert!((2 * SECOND..=3 * SECOND + SECOND / 5).contains(&after), "after {after:?}");
    });
}

#[test]
fn whoever_holds_nothing_does_not_look() {
    both(|world| {
        let (one, other) = (world.locks(), world.locks());
        let (a, b) = (Actor::new().fail_on_deadlock(), Actor::new().fail_on_deadlock());
        let x = lock(&one, "x", &a).acquire().block().expect("free");
        let for_x = lock(&other, "x", &b);
        let mut waits = pin!(for_x.acquire());
        for _ in 0..50 {
            assert!(poll::once(waits.as_mut()).is_none());
            world.clock.turn(SECOND / 10);
        }
        assert_eq!(world.listings(), 0);
        x.release().block().expect("released");
        assert!(poll::once(waits.as_mut()).expect("its turn").is_ok());
    });
}

#[test]
fn a_child_that_acts_for_an_actor_elsewhere_closes_the_cycle_too() {
    both(|world| {
        let (parent, child, other) = (world.locks(), world.locks(), world.locks());
        let (a, b) = (Actor::new(), Actor::new());
        let _x = lock(&parent, "x", &a).acquire().block().expect("free");
        let _y = lock(&other, "y", &b).acquire().block().expect("free");
        let for_x = lock(&other, "x", &b);
        let mut b_waits = pin!(for_x.acquire());
        assert!(poll::once(b_waits.as_mut()).is_none());
        world.clock.turn(SECOND);
        let of_child = Actor::of_another_process(a.id()).fail_on_deadlock();
        let ended = lock(&child, "y", &of_child).acquire().block();
        assert!(matches!(ended, Err(AcquireError::Deadlock { .. })), "{ended:?}");
    });
}

/// What is seen by one whose answers are under way for longer than two claims are apart, so that ages alone tell their
/// order by chance.
fn seen_late(world: &World, locks: &Locks) -> Vec<Vec<String>> {
    let late = Faults { delay: 1000, delay_max: Duration::from_millis(20), ..Faults::default() };
    world.nodes.iter().for_each(|node| node.set_faults(late));
    let mut looking = pin!(locks.deadlocks());
    let cycles = loop {
        if let Some(answer) = poll::once(looking.as_mut()) {
            break answer.expect("memory answers");
        }
        world.clock.turn(Duration::from_millis(1));
    };
    cycles.into_iter().map(|cycle| cycle.into_iter().map(|state| state.name).collect()).collect()
}

fn over_seeds(test: impl Fn(&World, &str)) {
    for (count, seed) in [1, 5].into_iter().flat_map(|count| (0..200).map(move |seed| (count, seed))) {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(count, &clock.clock(), seed, Faults::default());
        test(&World { clock, nodes }, &format!("{count} nodes, seed {seed}"));
    }
}

#[test]
fn a_deadlock_behind_another_of_the_process_is_seen_however_late_the_answers_are() {
    over_seeds(|world, place| {
        let (one, other) = (world.locks(), world.locks());
        // The first in the order of actors is where a search for cycles begins.
        let bystander = Actor::of_another_process(ActorId(0));
        let (a, b) = (Actor::new(), Actor::new());
        let _x = lock(&one, "x", &a).acquire().block().expect("free");
        let _y = lock(&other, "y", &b).acquire().block().expect("free");
        let (before, behind, closing) = (lock(&one, "y", &bystander), lock(&one, "y", &a), lock(&other, "x", &b));
        let (mut before, mut behind, mut closing) =
            (pin!(before.acquire()), pin!(behind.acquire()), pin!(closing.acquire()));
        assert!(poll::once(before.as_mut()).is_none());
        world.clock.turn(Duration::from_millis(5));
        assert!(poll::once(behind.as_mut()).is_none() && poll::once(closing.as_mut()).is_none());
        assert_eq!(seen_late(world, &one), [["x", "y"]], "{place}");
    });
}

/// Here the cycle itself goes through the line: `b` reads behind a writer of its own process.
#[test]
fn a_deadlock_through_the_line_of_a_process_is_seen_however_late_the_answers_are() {
    over_seeds(|world, place| {
        let (one, other) = (world.locks(), world.locks());
        let (a, b, writer) = (Actor::new(), Actor::new(), Actor::new());
        let _x = lock(&other, "x", &a).shared().acquire().block().expect("free");
        let _y = lock(&one, "y", &b).acquire().block().expect("free");
        let (before, behind, closing) = (lock(&one, "x", &writer), lock(&one, "x", &b), lock(&other, "y", &a));
        let behind = behind.shared();
        let (mut before, mut behind, mut closing) =
            (pin!(before.acquire()), pin!(behind.acquire()), pin!(closing.acquire()));
        assert!(poll::once(before.as_mut()).is_none());
        world.clock.turn(Duration::from_millis(5));
        assert!(poll::once(behind.as_mut()).is_none() && poll::once(closing.as_mut()).is_none());
        assert_eq!(seen_late(world, &one), [["x", "y"]], "{place}");
    });
}

/// Of two who have a permit, one waits for what `a` has; whether the other does too decides.
#[test]
fn a_wait_for_any_permit_is_a_deadlock_only_if_no_permit_can_come_free() {
    for other_waits in [false, true] {
        both(|world| {
            let connections = [world.locks(), world.locks(), world.locks()];
            let actors = [Actor::new().fail_on_deadlock(), Actor::new(), Actor::new()];
            let permit = |number: usize| connections[number].semaphore("s", 2).by(&actors[number]).wait_forever();
            let _x = lock(&connections[0], "x", &actors[0]).acquire().block().expect("free");
            let _one = permit(1).acquire().block().expect("two are free");
            let other = permit(2).acquire().block().expect("one is left");
            let waits = [1, 2].map(|number| lock(&connections[number], "x", &actors[number]));
            let mut waits = waits.each_ref().map(|lock| Box::pin(lock.acquire()));
            let count = if other_waits { 2 } else { 1 };
            assert!(waits.iter_mut().take(count).all(|wait| poll::once(wait.as_mut()).is_none()));
            world.clock.turn(SECOND);
            let wanted = permit(0);
            let mut wanted = pin!(wanted.acquire());
            let mut told = None;
            for _ in 0..50 {
                told = told.or_else(|| poll::once(wanted.as_mut()));
                world.clock.turn(SECOND / 10);
            }
            match told {
                None => assert!(!other_waits, "nobody was told of it"),
                Some(answer) => {
                    assert!(other_waits && matches!(answer, Err(AcquireError::Deadlock { .. })), "{answer:?}");
                    return;
                }
            }
            drop(other);
            world.clock.turn(SECOND / 10);
            let permit = poll::once(wanted.as_mut()).expect("one came free").expect("its turn");
            assert!(permit.is_held());
        });
    }
}
