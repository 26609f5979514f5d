//! Each kind of lock against a simple sequential model, over random operations on virtual time.

mod readers_and_writers;
mod world;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use fencepost_core::{AcquireError, Actor, FencingToken, Grant, Guard, Lock, Locks, Permit, ReleaseOutcome};
use fencepost_testkit::poll;

use world::{Hold, World};

/// Sequences per kind; there are four kinds.
const SEQUENCES: u64 = 3_000;
const OPERATIONS: u32 = 25;
const TTL: Duration = Duration::from_secs(10);

/// The model: who has a lock, how, how often.
#[derive(Clone)]
struct Lease {
    actor: usize,
    shared: bool,
    count: u32,
    number: String,
}

#[test]
fn re_entry_is_a_count_per_actor() {
    for seed in 0..SEQUENCES {
        let mut world = World::new(seed);
        let connections = [world.connect(0), world.connect(1)];
        let actors = [0, 0, 1].map(|connection: usize| (Actor::new(), connections[connection].clone()));
        let mut leases: Vec<Vec<Lease>> = vec![Vec::new(); 2];
        let mut holds: Vec<(usize, usize, Hold)> = Vec::new();
        let mut newest = [0_u64; 2];
        for _ in 0..OPERATIONS {
            let (name, actor) = (world.below(2), world.below(3));
            let text = ["x", "y"][name];
            match world.below(10) {
                0..=5 => {
                    let shared = world.dice.per_mille(400);
                    let lock = actors[actor].1.lock(text).by(&actors[actor].0);
                    let answer = if shared {
                        world.now(lock.shared().try_acquire()).map(|guard| guard.map(Hold::Reader))
                    } else {
                        world.now(lock.try_acquire()).map(|guard| guard.map(Hold::Writer))
                    };
                    let free = leases[name].iter().all(|lease| lease.shared && shared);
                    match leases[name].iter_mut().find(|lease| lease.actor == actor) {
                        Some(mine) if mine.shared && !shared => {
                            assert!(matches!(answer, Err(AcquireError::Invalid(_))), "seed {seed}");
                        }
                        Some(mine) => {
                            let hold = answer.expect("an answer").expect("its own");
                            assert_eq!(hold.number(), mine.number, "seed {seed}");
                            mine.count += 1;
                            holds.push((name, actor, hold));
                        }
                        None => {
                            let hold = answer.expect("an answer");
                            assert_eq!(hold.is_some(), free, "seed {seed}");
                            let Some(hold) = hold else { continue };
                            let number = hold.number();
                            let value: u64 = number.parse().expect("digits");
                            assert!(value > newest[name], "a token fell, seed {seed}");
                            newest[name] = value;
                            leases[name].push(Lease { actor, shared, count: 1, number });
                            holds.push((name, actor, hold));
                        }
                    }
                }
                6..=8 if !holds.is_empty() => {
                    let at = world.below(holds.len());
                    let (name, actor, hold) = holds.swap_remove(at);
                    let number = hold.number();
                    let at = leases[name].iter().position(|lease| lease.actor == actor && lease.number == number);
                    let expected = at.map(|at| {
                        leases[name][at].count -= 1;
                        match leases[name][at].count {
                            0 => {
                                leases[name].remove(at);
                                ReleaseOutcome::Freed
                            }
                            count => ReleaseOutcome::StillHeld { count },
                        }
                    });
                    if world.dice.per_mille(500) {
                        drop(hold);
                    } else {
                        match (hold.release(&world), expected) {
                            (ReleaseOutcome::NotHeld(_), None) => {}
                            (outcome, expected) => assert_eq!(Some(outcome), expected, "seed {seed}"),
                        }
                    }
                }
                9 if world.dice.per_mille(300) => {
                    world.now(connections[0].force_release(text, "a test")).expect("an answer");
                    // Until every client has tried to renew.
                    world.clock.turn(TTL);
                    leases[name].clear();
                }
                _ => world.lets_time_pass(),
            }
            for (name, actor, hold) in &holds {
                let lives = leases[*name].iter().any(|lease| lease.actor == *actor && lease.number == hold.number());
                assert_eq!(hold.is_held(), lives, "seed {seed}");
            }
            for (name, leases) in ["x", "y"].into_iter().zip(&leases) {
                let held = world.now(connections[1].inspect(name)).expect("an answer").holders.len();
                assert_eq!(held, leases.len(), "seed {seed}");
            }
        }
        drop(holds);
        world.ends_clean();
    }
}

#[test]
fn several_names_are_a_set_that_is_free_or_not() {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    for seed in 0..SEQUENCES {
        let mut world = World::new(seed);
        let connections = [world.connect(0), world.connect(1)];
        let mut guards: Vec<Guard<BTreeMap<String, FencingToken>>> = Vec::new();
        let mut newest: BTreeMap<String, FencingToken> = BTreeMap::new();
        for _ in 0..OPERATIONS {
            match world.below(10) {
                0..=4 => {
                    let wanted: Vec<&str> = NAMES.into_iter().filter(|_| world.dice.per_mille(400)).collect();
                    let connection = world.below(2);
                    let lock = connections[connection].all_of(wanted.iter().rev().copied());
                    let taken = |name: &&str| guards.iter().any(|guard| guard.tokens().contains_key(*name));
                    let free = !wanted.iter().any(taken);
                    match world.now(lock.try_acquire()) {
                        Err(AcquireError::Invalid(invalid)) => assert!(wanted.is_empty(), "{invalid}, seed {seed}"),
                        Err(error) => panic!("{error}, seed {seed}"),
                        Ok(guard) => {
                            assert_eq!(guard.is_some(), free, "seed {seed}");
                            let Some(guard) = guard else { continue };
                            assert_eq!(guard.tokens().keys().collect::<Vec<_>>(), wanted, "seed {seed}");
                            for (name, token) in guard.tokens() {
                                let before = newest.insert(name.clone(), *token);
                                assert!(before < Some(*token), "a token fell, seed {seed}");
                            }
                            guards.push(guard);
                        }
                    }
                }
                5..=8 if !guards.is_empty() => {
                    let at = world.below(guards.len());
                    let guard = guards.swap_remove(at);
                    if world.dice.per_mille(500) {
                        drop(guard);
                    } else {
                        assert_eq!(world.now(guard.release()).expect("an answer"), ReleaseOutcome::Freed);
                    }
                }
                _ => world.lets_time_pass(),
            }
            assert!(guards.iter().all(Guard::is_held), "seed {seed}");
            for name in NAMES {
                let held = world.now(connections[0].inspect(name)).expect("an answer").holders.len();
                let expected = guards.iter().filter(|guard| guard.tokens().contains_key(name)).count();
                assert_eq!(held, expected, "{name}, seed {seed}");
            }
        }
        drop(guards);
        world.ends_clean();
    }
}

type Acquiring<G> = Pin<Box<dyn Future<Output = Result<Guard<G>, AcquireError>>>>;

/// A line: so many units in all, and whoever comes first is served first.
struct Line<G: Grant> {
    units: u32,
    held: Vec<(u32, Guard<G>)>,
    waiting: Vec<(u32, Acquiring<G>)>,
}

impl<G: Grant> Line<G> {
    fn new(units: u32) -> Self {
        Self { units, held: Vec::new(), waiting: Vec::new() }
    }

    fn free(&self) -> u32 {
        self.units - self.held.iter().map(|(units, _)| units).sum::<u32>()
    }

    fn tries(&mut self, world: &World, units: u32, lock: &Lock<G>) {
        let guard = world.now(lock.try_acquire()).expect("an answer");
        let expected = self.waiting.is_empty() && units <= self.free();
        assert_eq!(guard.is_some(), expected, "{units} of {}, seed {}", self.free(), world.seed);
        self.held.extend(guard.map(|guard| (units, guard)));
    }

    fn waits(&mut self, world: &World, units: u32, lock: Lock<G>) {
        self.waiting.push((units, Box::pin(async move { lock.wait_forever().acquire().await })));
        self.serve(world);
    }

    fn leaves(&mut self, world: &World, at: usize) {
        drop(self.held.swap_remove(at));
        self.serve(world);
    }

    fn gives_up(&mut self, world: &World, at: usize) {
        drop(self.waiting.remove(at));
        self.serve(world);
    }

    /// Everybody whose turn it is gets it, in order; nobody else does.
    fn serve(&mut self, world: &World) {
        // Each gets its turn as often as it takes: what is passed on arrives by itself.
        let mut served: Vec<Option<Guard<G>>> = self.waiting.iter().map(|_| None).collect();
        for _ in 0..2 * self.waiting.len() + 2 {
            for ((_, future), served) in self.waiting.iter_mut().zip(&mut served).filter(|(_, done)| done.is_none()) {
                *served = poll::once(future.as_mut()).map(|answer| answer.expect("its turn"));
            }
            world.clock.turn(Duration::from_millis(1));
        }
        let mut expected = 0;
        let mut free = self.free();
        while let Some((units, _)) = self.waiting.get(expected).filter(|(units, _)| *units <= free) {
            free -= units;
            expected += 1;
        }
        let order: Vec<bool> = served.iter().map(Option::is_some).collect();
        let wanted: Vec<bool> = (0..order.len()).map(|place| place < expected).collect();
        assert_eq!(order, wanted, "seed {}", world.seed);
        for (guard, (units, _)) in served.into_iter().flatten().zip(self.waiting.drain(..expected)) {
            self.held.push((units, guard));
        }
    }

    fn is_sound(&self, seed: u64) {
        assert!(self.held.iter().all(|(_, guard)| guard.is_held()), "seed {seed}");
    }
}

#[test]
fn a_semaphore_is_a_number_and_a_line() {
    for seed in 0..SEQUENCES {
        let mut world = World::new(seed);
        let permits = 1 + world.below(4) as u32;
        let connections: Vec<Locks> = (0..5).map(|number| world.connect(number)).collect();
        let mut line: Line<Vec<Permit>> = Line::new(permits);
        for _ in 0..OPERATIONS {
            // No two arrive at the same moment: then the order would be by chance.
            world.clock.turn(Duration::from_millis(1));
            let take = 1 + world.below(permits as usize) as u32;
            let connection = world.below(connections.len());
            let lock = connections[connection].semaphore("s", permits).take(take);
            match world.below(10) {
                0..=2 => line.tries(&world, take, &lock),
                3..=5 if line.waiting.len() < 4 => line.waits(&world, take, lock),
                6..=7 if !line.held.is_empty() => {
                    let at = world.below(line.held.len());
                    line.leaves(&world, at);
                }
                8 if !line.waiting.is_empty() => {
                    let at = world.below(line.waiting.len());
                    line.gives_up(&world, at);
                }
                _ => world.lets_time_pass(),
            }
            line.is_sound(seed);
            let mut slots: Vec<u32> =
                line.held.iter().flat_map(|(_, guard)| guard.permits()).map(|permit| permit.slot).collect();
            let count = slots.len();
            slots.sort_unstable();
            slots.dedup();
            assert!(slots.len() == count && count <= permits as usize, "one slot twice, seed {seed}");
        }
        drop(line);
        world.ends_clean();
    }
}

/// Why a semaphore on a quorum is so many locks and not a count per node: every node obeys its limit of two, and three
/// hold all the same.
#[test]
fn nodes_that_count_members_let_three_hold_two_permits() {
    const PERMITS: usize = 2;
    const MAJORITY: u32 = 3;
    let majorities: Vec<u32> = (0..32_u32).filter(|nodes| nodes.count_ones() == MAJORITY).collect();
    let mut broken = 0;
    for &one in &majorities {
        for &two in &majorities {
            for &three in &majorities {
                let counted = |node: u32| [one, two, three].iter().filter(|nodes| *nodes >> node & 1 == 1).count();
                broken += u32::from((0..5).all(|node| counted(node) <= PERMITS));
                // A permit that is a lock lets one in per node: then two majorities never pass side by side.
                assert!((0..5).any(|node| (one >> node & 1) + (two >> node & 1) > 1), "two majorities share a node");
            }
        }
    }
    assert!(broken > 0, "no counterexample: then counting would do");
}
