//! Memory nodes that vote: Redlock without Redis.

use fencepost_core::Connect;
use fencepost_core::store::{self, Clock, Memory};

use crate::faulty::{Faults, Faulty, Link};
use crate::recorder::Recorded;

/// A node whose steps are written down as they arrive, behind a network that may be bad.
pub type Node = Faulty<Recorded<Memory>>;

/// How many nodes there are, and what they ask of their links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One that mints its tokens, and is asked in order.
    InOrder,
    /// One that mints its tokens by bounds, and may hear things late.
    Bounded,
    /// Several that are proposed to, and may hear things late.
    Voting(usize),
}

impl Kind {
    /// How many nodes.
    pub fn count(self) -> usize {
        match self {
            Self::InOrder | Self::Bounded => 1,
            Self::Voting(count) => count,
        }
    }

    /// What each node has to be asked for in the order sent.
    pub fn in_order(self) -> bool {
        self == Self::InOrder
    }
}

/// Some nodes. Every connection made here shares them.
#[derive(Clone, Debug)]
pub struct Nodes {
    nodes: Vec<Node>,
}

impl Nodes {
    /// So many nodes, all of one clock. One node mints its tokens and is asked in order, several are proposed to.
    pub fn new(count: usize, clock: &Clock, seed: u64, faults: Faults) -> Self {
        Self::of(if count == 1 { Kind::InOrder } else { Kind::Voting(count) }, clock, seed, faults)
    }

    /// The nodes of this kind of store, all of one clock.
    pub fn of(kind: Kind, clock: &Clock, seed: u64, faults: Faults) -> Self {
        let memory = |number: usize| match kind {
            Kind::InOrder => Memory::new(clock.clone()),
            Kind::Bounded => Memory::bounded(clock.clone()),
            Kind::Voting(_) => Memory::node(clock.clone(), &format!("node-{number}")),
        };
        let node = |number: usize| {
            Faulty::new(Recorded::new(memory(number)), clock.clone(), seed.wrapping_add(number as u64), faults)
        };
        Self { nodes: (0..kind.count()).map(node).collect() }
    }

    /// A new connection to the same nodes.
    pub fn connect(&self) -> Connect {
        let nodes = self.nodes.clone();
        store::connect(move |_| Ok(nodes))
    }

    /// One node.
    pub fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }

    /// All nodes.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// Sets the link of the first so many nodes.
    pub fn set_links(&self, count: usize, link: Link) {
        self.nodes.iter().take(count).for_each(|node| node.set_link(link));
    }

    /// Grants and places in line on all nodes: zero when nothing is left behind.
    pub fn rows_in_use(&self) -> usize {
        self.nodes.iter().map(|node| memory(node).rows_in_use()).sum()
    }

    /// Messages under way to or from any node.
    pub fn under_way(&self) -> usize {
        self.nodes.iter().map(Faulty::under_way).sum()
    }
}

/// The memory behind a node.
pub fn memory(node: &Node) -> &Memory {
    node.store().inner()
}
