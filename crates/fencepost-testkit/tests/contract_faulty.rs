//! The contract of every kind of lock where answers come late, twice and in another order, and those of a minority of
//! nodes often not at all. Lost requests, outages, and one store that loses answers are what `faulty_kinds` is about.

use std::time::Duration;

use fencepost_core::Connect;
use fencepost_core::store::Clock;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::faulty::Faults;
use fencepost_testkit::nodes::Nodes;

struct Behind(Nodes);

impl Behind {
    fn bad_network(count: usize) -> Self {
        let nodes = Nodes::new(count, &Clock::system().expect("a clock"), 7, Faults::default());
        nodes.iter().enumerate().for_each(|(node, faulty)| faulty.set_faults(Faults::in_answers(node, count)));
        Self(nodes)
    }
}

impl Subject for Behind {
    fn connect(&self) -> Connect {
        // A busy machine may keep a thread waiting for longer than a node's answer takes.
        self.0.connect().answer_within(Duration::from_secs(1))
    }
}

mod one_store {
    fencepost_testkit::contract!(super::Behind::bad_network(1), within one process);
}

mod three_nodes {
    fencepost_testkit::contract!(super::Behind::bad_network(3), within one process);
}

mod five_nodes {
    fencepost_testkit::contract!(super::Behind::bad_network(5), within one process);
}
