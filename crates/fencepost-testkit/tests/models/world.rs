//! One connection after another to one place, on virtual time, and what is held there.

use std::pin::pin;
use std::time::Duration;

use fencepost_core::{Blocking, Guard, Locks, ReleaseOutcome, SharedToken, VirtualClock};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::faulty::Faults;
use fencepost_testkit::nodes::Nodes;
use fencepost_testkit::poll;

use crate::TTL;

pub(crate) struct World {
    pub(crate) clock: VirtualClock,
    pub(crate) nodes: Nodes,
    pub(crate) dice: Dice,
    pub(crate) seed: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self::of(seed, 1)
    }

    pub(crate) fn of(seed: u64, count: usize) -> Self {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(count, &clock.clock(), seed, Faults::default());
        Self { clock, nodes, dice: Dice::new(seed), seed }
    }

    pub(crate) fn connect(&mut self, number: u64) -> Locks {
        let connect = self.nodes.connect().clock(&self.clock).seed(self.seed * 8 + number).ttl(TTL);
        connect.label(number.to_string()).block().expect("memory is there")
    }

    /// An answer that needs no waiting.
    pub(crate) fn now<T>(&self, future: impl Future<Output = T>) -> T {
        poll::once(pin!(future)).unwrap_or_else(|| panic!("memory answers at once, seed {}", self.seed))
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.dice.below(limit as u64) as usize
    }

    pub(crate) fn lets_time_pass(&mut self) {
        let span = Duration::from_millis(self.dice.below(9_000));
        self.clock.turn(span);
    }

    /// Nothing is left, and nothing goes on.
    pub(crate) fn ends_clean(&self) {
        self.clock.turn(TTL * 3);
        assert_eq!(self.nodes.rows_in_use(), 0, "left behind, seed {}", self.seed);
        assert_eq!(self.clock.next_alarm(), None, "something goes on for ever, seed {}", self.seed);
    }
}

/// A writer's hold or a reader's.
pub(crate) enum Hold {
    Writer(Guard),
    Reader(Guard<SharedToken>),
}

impl Hold {
    pub(crate) fn number(&self) -> String {
        match self {
            Self::Writer(guard) => guard.token().to_string(),
            Self::Reader(guard) => guard.token().to_string().trim_start_matches('r').to_owned(),
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        match self {
            Self::Writer(guard) => guard.is_held(),
            Self::Reader(guard) => guard.is_held(),
        }
    }

    pub(crate) fn release(self, world: &World) -> ReleaseOutcome {
        match self {
            Self::Writer(guard) => world.now(guard.release()).expect("memory answers"),
            Self::Reader(guard) => world.now(guard.release()).expect("memory answers"),
        }
    }
}
