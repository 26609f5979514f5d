//! Many readers or one writer, who may become a reader.

use std::pin::Pin;
use std::time::Duration;

use fencepost_core::{AcquireError, Lock, Locks, ReleaseOutcome};
use fencepost_testkit::poll;

use crate::world::{Hold, World};
use crate::{OPERATIONS, SEQUENCES};

type Acquiring = Pin<Box<dyn Future<Output = Result<Hold, AcquireError>>>>;

/// Readers and writers in order of arrival. Each connection has one claim at a time: that one has its place in the store.
#[derive(Default)]
struct Crowd {
    held: Vec<(usize, Hold)>,
    /// From where, whether to read, and the wait itself.
    waiting: Vec<(usize, bool, Acquiring)>,
    newest: u64,
}

impl Crowd {
    fn is_idle(&self, connection: usize) -> bool {
        let busy = self.held.iter().map(|(other, _)| other).chain(self.waiting.iter().map(|(other, ..)| other));
        busy.into_iter().all(|other| *other != connection)
    }

    fn admits(&self, shared: bool) -> bool {
        self.held.is_empty() || (shared && self.held.iter().all(|(_, hold)| matches!(hold, Hold::Reader(_))))
    }

    /// These come in. Readers that come in together may have their tokens in any order.
    fn take_in(&mut self, seed: u64, holds: Vec<(usize, Hold)>) {
        let before = self.newest;
        for (connection, hold) in holds {
            let number: u64 = hold.number().parse().expect("digits");
            assert!(number > before, "a token fell, seed {seed}");
            self.newest = self.newest.max(number);
            self.held.push((connection, hold));
        }
    }

    fn tries(&mut self, world: &World, connection: usize, lock: Lock, shared: bool) {
        let hold = match shared {
            true => world.now(lock.shared().try_acquire()).expect("an answer").map(Hold::Reader),
            false => world.now(lock.try_acquire()).expect("an answer").map(Hold::Writer),
        };
        let expected = self.waiting.is_empty() && self.admits(shared);
        assert_eq!(hold.is_some(), expected, "shared: {shared}, seed {}", world.seed);
        self.take_in(world.seed, hold.map(|hold| (connection, hold)).into_iter().collect());
    }

    fn waits(&mut self, connection: usize, lock: Lock, shared: bool) {
        let lock = lock.wait_forever();
        let acquire = async move {
            match shared {
                true => lock.shared().acquire().await.map(Hold::Reader),
                false => lock.acquire().await.map(Hold::Writer),
            }
        };
        self.waiting.push((connection, shared, Box::pin(acquire)));
    }

    fn downgrades(&mut self, world: &World) {
        let Some(at) = self.held.iter().position(|(_, hold)| matches!(hold, Hold::Writer(_))) else { return };
        let (connection, Hold::Writer(guard)) = self.held.swap_remove(at) else { unreachable!("BUG: it writes") };
        let number = guard.token().to_string();
        let hold = Hold::Reader(world.now(guard.downgrade()).expect("held"));
        assert_eq!(hold.number(), number, "seed {}", world.seed);
        self.held.push((connection, hold));
    }

    /// Everybody whose turn it is gets it, in order; nobody else does.
    fn serve(&mut self, world: &World) {
        let mut served: Vec<Option<Hold>> = self.waiting.iter().map(|_| None).collect();
        for _ in 0..self.waiting.len() + 2 {
            for ((.., future), served) in self.waiting.iter_mut().zip(&mut served).filter(|(_, done)| done.is_none()) {
                *served = poll::once(future.as_mut()).map(|answer| answer.expect("its turn"));
            }
            world.clock.turn(Duration::from_millis(1));
        }
        let wanted: Vec<bool> = self.waiting.iter().map(|(_, shared, _)| *shared).collect();
        let expected = match wanted.first() {
            Some(shared) if !self.admits(*shared) => 0,
            Some(true) => wanted.iter().take_while(|shared| **shared).count(),
            first => usize::from(first.is_some()),
        };
        let order: Vec<bool> = served.iter().map(Option::is_some).collect();
        let model: Vec<bool> = (0..order.len()).map(|place| place < expected).collect();
        assert_eq!(order, model, "seed {}", world.seed);
        let connections = self.waiting.drain(..expected).map(|(connection, ..)| connection);
        let holds = connections.zip(served.into_iter().flatten()).collect();
        self.take_in(world.seed, holds);
    }

    fn is_sound(&self, world: &World, locks: &Locks) {
        assert!(self.held.iter().all(|(_, hold)| hold.is_held()), "seed {}", world.seed);
        let state = world.now(locks.inspect("x")).expect("an answer");
        let count = |shared| state.holders.iter().filter(|holder| holder.shared == shared).count();
        let readers = self.held.iter().filter(|(_, hold)| matches!(hold, Hold::Reader(_))).count();
        assert_eq!((count(true), count(false)), (readers, self.held.len() - readers), "seed {}", world.seed);
        assert_eq!(state.waiters.len(), self.waiting.len(), "seed {}", world.seed);
    }
}

/// On one store and on three nodes that vote, in turn.
#[test]
fn readers_and_writers_are_a_line_whose_head_comes_in_when_it_fits() {
    for seed in 0..SEQUENCES {
        let mut world = World::of(seed, [1, 3][(seed % 2) as usize]);
        let connections: Vec<Locks> = (0..6).map(|number| world.connect(number)).collect();
        let mut crowd = Crowd::default();
        for _ in 0..OPERATIONS {
            // No two arrive at the same moment: then the order would be by chance.
            world.clock.turn(Duration::from_millis(1));
            let (connection, shared) = (world.below(connections.len()), world.dice.per_mille(600));
            let (idle, lock) = (crowd.is_idle(connection), connections[connection].lock("x"));
            match world.below(10) {
                0 | 1 if idle => crowd.tries(&world, connection, lock, shared),
                2..=4 if idle => crowd.waits(connection, lock, shared),
                5 | 6 if !crowd.held.is_empty() => {
                    let at = world.below(crowd.held.len());
                    let (_, hold) = crowd.held.swap_remove(at);
                    if world.dice.per_mille(500) {
                        drop(hold);
                    } else {
                        assert_eq!(hold.release(&world), ReleaseOutcome::Freed, "seed {seed}");
                    }
                }
                7 if !crowd.waiting.is_empty() => {
                    let at = world.below(crowd.waiting.len());
                    drop(crowd.waiting.remove(at));
                }
                8 => crowd.downgrades(&world),
                _ => world.lets_time_pass(),
            }
            crowd.serve(&world);
            crowd.is_sound(&world, &connections[0]);
        }
        drop(crowd);
        world.ends_clean();
    }
}
