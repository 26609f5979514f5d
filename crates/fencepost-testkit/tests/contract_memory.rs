//! The contract on memory: one store, and three, four and five nodes that vote, also with some of them gone.

use std::time::Duration;

use fencepost_core::Connect;
use fencepost_core::store::Clock;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::faulty::{Faults, Link};
use fencepost_testkit::nodes::Nodes;

struct InMemory(Nodes);

impl InMemory {
    fn new(count: usize) -> Self {
        Self(Nodes::new(count, &Clock::system().expect("a clock"), 7, Faults::default()))
    }

    fn without(self, gone: usize, link: Link) -> Self {
        self.0.set_links(gone, link);
        self
    }
}

impl Subject for InMemory {
    fn connect(&self) -> Connect {
        // A busy machine may keep a thread waiting for longer than a node's answer takes.
        self.0.connect().answer_within(Duration::from_secs(1))
    }
}

mod one_store {
    fencepost_testkit::contract!(super::InMemory::new(1), within one process);
}

mod three_nodes {
    fencepost_testkit::contract!(super::InMemory::new(3), within one process);
}

mod four_nodes {
    fencepost_testkit::contract!(super::InMemory::new(4), within one process);
}

mod five_nodes {
    fencepost_testkit::contract!(super::InMemory::new(5), within one process);
}

mod five_nodes_two_dead {
    fencepost_testkit::contract!(super::InMemory::new(5).without(2, super::Link::Refused), within one process);
}

mod five_nodes_two_silent {
    fencepost_testkit::contract!(super::InMemory::new(5).without(2, super::Link::Silent), within one process);
}
