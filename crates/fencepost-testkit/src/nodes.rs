//! Memory nodes that vote: Redlock without Redis.

use fencepost_core::Connect;
use fencepost_core::store::{self, Clock, Memory};

use crate::faulty::{Faults, Faulty, Link};
use crate::recorder::Recorded;

/// A node whose steps are written down as they arrive, behind a network that may be bad.
pub type Node = Faulty<Recorded<Memory>>;

/// Some nodes. Every connection made here shares them.
#[derive(Clone, Debug)]
pub struct Nodes {
    nodes: Vec<Node>,
}

impl Nodes {
    /// So many nodes, all of one clock. One node mints its tokens, several are proposed to.
    pub fn new(count: usize, clock: &Clock, seed: u64, faults: Faults) -> Self {
        let node = |number: usize| {
            let memory = match count {
                1 => Memory::new(clock.clone()),
                _ => Memory::node(clock.clone(), &format!("node-{number}")),
            };
            Faulty::new(Recorded::new(memory), clock.clone(), seed.wrapping_add(number as u64), faults)
        };
        Self { nodes: (0..count).map(node).collect() }
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
