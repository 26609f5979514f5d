//! Several names at once, in virtual time: how many requests they take, what a bad network leaves of them, and who holds
//! what while waiting.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::time::Duration;

use fencepost_core::store::{Answer, LockName, Part, Proposal, Step};
use fencepost_core::{AcquireError, Actor, Blocking, FencingToken, Guard, Locks, VirtualClock};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::faulty::{Faults, Link};
use fencepost_testkit::nodes::{Node, Nodes};
use fencepost_testkit::poll;
use fencepost_testkit::steps::{claim, run};

const TTL: Duration = Duration::from_secs(10);
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Longer than a request and its release take with every retry, much shorter than the ttl.
const CLEAN_UP: Duration = Duration::from_secs(3);

struct World {
    clock: VirtualClock,
    nodes: Nodes,
}

impl World {
    fn new(count: usize, seed: u64) -> Self {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(count, &clock.clock(), seed, Faults::default());
        Self { clock, nodes }
    }

    fn locks(&self, seed: u64) -> Locks {
        self.nodes.connect().clock(&self.clock).seed(seed).ttl(TTL).block().expect("memory is there")
    }

    /// How many steps each node has had.
    fn steps(&self) -> Vec<usize> {
        self.nodes.iter().map(|node| node.store().steps().len()).collect()
    }
}

fn everywhere(test: impl Fn(&World)) {
    [1, 3, 5].into_iter().for_each(|count| test(&World::new(count, 1)));
}

fn together(node: &Node) -> usize {
    node.store().count(|step| matches!(step, Step::AcquireAll { .. }))
}

#[test]
fn free_names_take_one_request_per_node() {
    everywhere(|world| {
        let all = world.locks(1).all_of(NAMES).acquire().block().expect("free");
        assert!(world.steps().iter().all(|steps| *steps == 1), "{:?}", world.steps());
        assert_eq!(all.tokens().len(), NAMES.len());
        all.release().block().expect("released");
        assert_eq!(world.nodes.rows_in_use(), 0);
    });
}

#[test]
fn names_that_the_actor_has_are_not_asked_for() {
    everywhere(|world| {
        let (locks, me) = (world.locks(1), Actor::new());
        let _b = locks.lock("b").by(&me).acquire().block().expect("free");
        let before = world.steps();
        let all = locks.all_of(["a", "b", "c"]).by(&me).acquire().block().expect("free");
        assert!(world.steps().iter().zip(before).all(|(after, before)| *after == before + 1));
        let asked = |step: &Step| matches!(step, Step::AcquireAll { parts } if parts.len() == 2);
        assert!(world.nodes.iter().all(|node| node.store().count(asked) == 1));
        assert!(all.is_held());
    });
}

/// The others are not touched: nobody ever sees them taken.
#[test]
fn a_held_name_keeps_the_step_from_changing_anything() {
    everywhere(|world| {
        let _b = world.locks(1).lock("b").acquire().block().expect("free");
        let rows = world.nodes.rows_in_use();
        // What the nodes answer to the step itself: they are asked for each alone only then.
        let seen = world.nodes.node(0).store().inner().clone();
        let parts = ["a", "b", "c"].map(|name| {
            let mut one = (*claim("one", None)).clone();
            one.name = LockName::new(name).expect("valid");
            let token = Proposal::Exactly(FencingToken::at(world.clock.clock().wall()).plus(Duration::from_secs(6)));
            let token = if world.nodes.iter().count() == 1 { Proposal::Next } else { token };
            Part { claim: one.into(), attempt: 1, token }
        });
        let answer = run(&seen, Step::AcquireAll { parts: parts.into() });
        assert_eq!(answer, Ok(Answer::NotAll));
        assert_eq!(world.nodes.rows_in_use(), rows);
        let other = world.locks(2);
        assert!(other.all_of(["a", "b", "c"]).try_acquire().block().expect("an answer").is_none());
        assert!(world.nodes.iter().all(|node| together(node) == 1));
        assert_eq!(world.nodes.rows_in_use(), rows, "the try went back");
    });
}

#[test]
fn a_lost_answer_leaves_nothing_behind() {
    for (count, link) in [1, 3, 5].into_iter().flat_map(|count| [(count, Link::Deaf), (count, Link::Silent)]) {
        let world = World::new(count, 1);
        let locks = world.locks(1);
        world.nodes.set_links(count, link);
        let lock = locks.all_of(NAMES);
        let mut acquiring = pin!(lock.acquire());
        assert!(poll::once(acquiring.as_mut()).is_none());
        let rows = if link == Link::Deaf { NAMES.len() * count } else { 0 };
        assert_eq!(world.nodes.rows_in_use(), rows, "{count} nodes, {link:?}");
        world.clock.turn(TTL / 2);
        assert!(matches!(poll::once(acquiring.as_mut()), Some(Err(AcquireError::Store(_)))));
        world.nodes.set_links(count, Link::Up);
        world.clock.turn(CLEAN_UP);
        assert_eq!(world.nodes.rows_in_use(), 0, "{count} nodes, {link:?}");
    }
}

/// Requests, answers and releases overtake each other; the ttl is far away.
#[test]
fn a_late_step_after_its_own_release_leaves_no_ghost() {
    for (count, seed) in [1, 3, 5].into_iter().flat_map(|count| (0..200).map(move |seed| (count, seed))) {
        let world = World::new(count, seed);
        let locks = world.locks(seed);
        let delay_max = Duration::from_millis(400);
        let late = Faults { delay: 1000, delay_max, in_order: count == 1, ..Faults::default() };
        world.nodes.iter().for_each(|node| node.set_faults(late));
        let lock = locks.all_of(NAMES);
        {
            let mut acquiring = pin!(lock.acquire());
            assert!(poll::once(acquiring.as_mut()).is_none());
            world.clock.turn(Duration::from_millis(seed % 60));
        }
        world.clock.turn(CLEAN_UP);
        assert_eq!((world.nodes.rows_in_use(), world.nodes.under_way()), (0, 0), "{count} nodes, seed {seed}");
    }
}

type All = Guard<BTreeMap<String, FencingToken>>;

/// One acquisition that waits.
struct Waiting {
    label: String,
    names: Vec<&'static str>,
    future: Pin<Box<dyn Future<Output = Result<All, AcquireError>>>>,
}

/// The model of waiting: whoever waits has the names before the one it waits for, and no other; and that one is another's.
/// So nobody waits in a circle, and everybody is served when all have let go. Whoever loses a name on the way starts over.
#[test]
fn who_waits_holds_lower_names_only_and_is_served_in_the_end() {
    let (mut waited, mut revoked) = (0, 0);
    for seed in 0..2_000 {
        let world = World::new(1, seed);
        let mut dice = Dice::new(seed);
        let connections: Vec<Locks> = (0..4).map(|number| world.locks(seed * 8 + number)).collect();
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut held: Vec<All> = Vec::new();
        let revoked_before = revoked;
        for number in 0..25 {
            match dice.below(10) {
                0..5 if waiting.len() < 4 => {
                    let names: Vec<&str> = NAMES.into_iter().filter(|_| dice.per_mille(600)).collect();
                    let lock = connections[dice.below(4) as usize].all_of(names.iter().rev().copied());
                    let label = number.to_string();
                    let lock = lock.label(&label).wait_forever();
                    if !names.is_empty() {
                        let future = Box::pin(async move { lock.acquire().await });
                        waiting.push(Waiting { label, names, future });
                    }
                }
                5..8 if !held.is_empty() => drop(held.swap_remove(dice.below(held.len() as u64) as usize)),
                8 if !waiting.is_empty() => drop(waiting.swap_remove(dice.below(waiting.len() as u64) as usize)),
                9 if dice.per_mille(300) => {
                    let name = NAMES[dice.below(4) as usize];
                    revoked += usize::from(
                        connections[0].force_release(name, "a test").block().expect("one").holder.is_some(),
                    );
                    // Until every client has tried to renew.
                    world.clock.turn(TTL);
                }
                _ => world.clock.turn(Duration::from_millis(dice.below(9_000))),
            }
            serve(&world, &mut waiting, &mut held, seed);
            held.retain(All::is_held);
            waited += waiting.len();
            // One that lost a name has a gap until it starts over.
            if revoked == revoked_before {
                check(&connections[0], &waiting, seed);
            }
        }
        for _ in 0..100 {
            held.clear();
            serve(&world, &mut waiting, &mut held, seed);
        }
        assert!(waiting.is_empty(), "{} wait for each other, seed {seed}", waiting.len());
        held.clear();
        world.clock.turn(TTL * 2);
        assert_eq!((world.nodes.rows_in_use(), world.clock.next_alarm()), (0, None), "left behind, seed {seed}");
    }
    assert!(waited > 10_000 && revoked > 200, "{waited} waited, {revoked} were revoked: it shows little");
}

/// Everybody who can be served is.
fn serve(world: &World, waiting: &mut Vec<Waiting>, held: &mut Vec<All>, seed: u64) {
    for _ in 0..2 * waiting.len() + 2 {
        waiting.retain_mut(|one| match poll::once(one.future.as_mut()) {
            None => true,
            Some(answer) => {
                let all = answer.expect("its turn");
                assert!(all.is_held(), "a part of it was lost before, seed {seed}");
                assert_eq!(all.tokens().keys().collect::<Vec<_>>(), one.names, "seed {seed}");
                held.push(all);
                false
            }
        });
        world.clock.turn(Duration::from_millis(1));
    }
}

fn check(locks: &Locks, waiting: &[Waiting], seed: u64) {
    let holder = |name: &str| {
        let state = locks.inspect(name).block().expect("an answer");
        state.holders.first().map(|holder| holder.label.clone())
    };
    for one in waiting {
        let mine = |name: &&str| holder(name).as_ref() == Some(&one.label);
        let lower = one.names.iter().take_while(|name| mine(name)).count();
        let higher = one.names[lower..].iter().filter(|name| mine(name)).count();
        assert_eq!(higher, 0, "{} of {:?} waits and holds a higher name, seed {seed}", one.label, one.names);
        assert!(holder(one.names[lower]).is_some(), "{} of {:?} waits for nobody, seed {seed}", one.label, one.names);
    }
}
