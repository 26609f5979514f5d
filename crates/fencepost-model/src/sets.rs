//! One set of nodes takes the place of another: two sets of three that share one node, a client of each, and one that
//! needs both. The lock itself is a name at a node: who came first has it there until its lease is over.

use crate::{System, say};

const NODES: usize = 5;
const OLD: [usize; 3] = [0, 1, 2];
const NEW: [usize; 3] = [2, 3, 4];
/// A client of the old set, one of both, one of the new.
const CLIENTS: [Client; 3] = [Client::Old, Client::Both, Client::New];

/// Which rules are kept.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Clients in between need a majority of both sets, not of all their nodes.
    pub both: bool,
    /// Nodes refuse the clients of a set that they do not vote in.
    pub signs: bool,
    /// The new set votes only when the old one is closed on so many nodes that the rest are no majority.
    pub closes: bool,
    /// On all of them, even.
    pub everywhere: bool,
    /// And when the leases that it granted are over.
    pub waits: bool,
    /// A node that forgot is let into a set only by who has heard of nobody who votes elsewhere.
    pub vouches: bool,
}

impl Rules {
    /// All of them.
    pub const ALL: Self = Self { both: true, signs: true, closes: true, everywhere: true, waits: true, vouches: true };
}

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Sets {
    /// The rules that are kept.
    pub rules: Rules,
    /// How many nodes forget everything, one after the other.
    pub forgets: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    Old,
    Both,
    New,
}

impl Client {
    /// Whether these nodes are enough.
    fn wins(self, rules: Rules, has: impl Fn(usize) -> bool) -> bool {
        let majority = |set: &[usize]| 2 * set.iter().filter(|node| has(**node)).count() > set.len();
        match self {
            Self::Old => majority(&OLD),
            Self::New => majority(&NEW),
            Self::Both if rules.both => majority(&OLD) && majority(&NEW),
            Self::Both => majority(&[0, 1, 2, 3, 4]),
        }
    }

    fn asks(self, node: usize) -> bool {
        match self {
            Self::Old => OLD.contains(&node),
            Self::New => NEW.contains(&node),
            Self::Both => true,
        }
    }
}

/// What one node knows: the sets it votes in, by client, and who has the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    votes_for: [bool; 3],
    holder: Option<u8>,
    /// On probation: it votes in nothing until somebody lets it in.
    forgot: bool,
    /// It knows that it has left the old set.
    left: bool,
}

/// A client's lease, dated from when it asked first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Lease {
    #[default]
    None,
    Asking,
    Holds,
    /// Its lease is over, or it gave up.
    Over,
}

/// Where all stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: [Node; NODES],
    leases: [Lease; 3],
    forgot: u8,
    /// A client of the old set may have asked, or hold, from before it was closed on enough nodes.
    old_leases: bool,
}

impl Sets {
    /// All rules, good memories.
    pub const CHANGE: Self = Self { rules: Rules::ALL, forgets: 0 };

    fn is_closed(&self, state: &State) -> bool {
        let open = OLD.iter().filter(|node| state.nodes[**node].votes_for[0] || state.nodes[**node].forgot).count();
        if self.rules.everywhere { open == 0 } else { 2 * open <= OLD.len() }
    }

    /// What the command does next at one node.
    fn reconfigure(&self, state: &State, node: usize, next: &mut Vec<(String, State)>) {
        let mut step = |what: &str, change: &dyn Fn(&mut State)| {
            let mut after = *state;
            change(&mut after);
            if after != *state {
                next.push((say!("node {node}: {what}"), after));
            }
        };
        let known = state.nodes[node];
        if known.forgot {
            return;
        }
        let (in_old, in_new) = (OLD.contains(&node), NEW.contains(&node));
        // The new ones first; of the old ones each tells that they were.
        let enters = match in_old {
            true => known.votes_for[0] && [3, 4].iter().all(|node| state.nodes[*node].votes_for[1]),
            false => known.votes_for == [false; 3],
        };
        if enters {
            step("votes for both, too", &|state| state.nodes[node].votes_for[1] = true);
        }
        let prepared = OLD.iter().filter(|node| state.nodes[**node].votes_for[1]).count() >= 2;
        if known.votes_for[0] && known.votes_for[1] && prepared {
            step("leaves the old set", &|state| {
                state.nodes[node].votes_for[0] = false;
                state.nodes[node].left = true;
            });
        }
        let closed = self.is_closed(state) || (prepared && !self.rules.closes);
        let over = !self.rules.waits || !state.old_leases;
        if in_new && known.votes_for[1] && closed && over {
            step("votes in the new set", &|state| state.nodes[node].votes_for[2] = true);
        }
        let opened = NEW.iter().all(|node| state.nodes[*node].votes_for[2]);
        if known.votes_for[1] && opened {
            step("votes for both no more", &|state| state.nodes[node].votes_for[1] = false);
        }
    }

    /// A node that forgot is let in again by a client, when its probation is over.
    fn let_in(&self, state: &State, client: usize, node: usize) -> bool {
        let is_marked = |other: &Node| other.votes_for != [false; 3] || other.left;
        let elsewhere = |other: &Node| !other.forgot && !other.votes_for[client] && is_marked(other);
        let who = CLIENTS[client];
        // Some majority of them was heard: those who vote elsewhere may be cut off.
        let heard = |node: usize| !elsewhere(&state.nodes[node]);
        // Nodes of which none knows of a set are a new cluster to who lists them: that is not looked at here.
        let known = || (0..NODES).any(|node| who.asks(node) && state.nodes[node].votes_for[client]);
        let vouched = || known() && who.wins(Rules::ALL, heard);
        // Probation: nobody relies on what it forgot.
        let relied_on = state.leases.iter().any(|lease| matches!(lease, Lease::Asking | Lease::Holds));
        who.asks(node) && state.nodes[node].forgot && !relied_on && (!self.rules.vouches || vouched())
    }
}

impl System for Sets {
    type State = State;

    fn first(&self) -> State {
        let mut nodes = [Node::default(); NODES];
        OLD.iter().for_each(|node| nodes[*node].votes_for[0] = true);
        State { nodes, leases: [Lease::None; 3], forgot: 0, old_leases: false }
    }

    fn steps(&self, state: &State) -> Vec<(String, State)> {
        let mut next = Vec::new();
        (0..NODES).for_each(|node| self.reconfigure(state, node, &mut next));
        for (number, client) in CLIENTS.into_iter().enumerate() {
            match state.leases[number] {
                Lease::None => {
                    let mut after = *state;
                    after.leases[number] = Lease::Asking;
                    after.old_leases |= number == 0 && !self.is_closed(state);
                    next.push((say!("{client:?} asks"), after));
                }
                Lease::Asking | Lease::Holds => {
                    let mut after = *state;
                    after.leases[number] = Lease::Over;
                    for node in &mut after.nodes {
                        node.holder = node.holder.filter(|holder| usize::from(*holder) != number);
                    }
                    after.old_leases &= number != 0;
                    next.push((say!("the lease of {client:?} is over"), after));
                }
                Lease::Over => {}
            }
            for node in (0..NODES).filter(|node| client.asks(*node)) {
                let known = state.nodes[node];
                let asks = state.leases[number] == Lease::Asking && known.holder.is_none() && !known.forgot;
                if asks && (known.votes_for[number] || !self.rules.signs) {
                    let mut after = *state;
                    after.nodes[node].holder = Some(number as u8);
                    let has = |node: usize| after.nodes[node].holder == Some(number as u8);
                    if client.wins(self.rules, has) {
                        after.leases[number] = Lease::Holds;
                    }
                    next.push((say!("node {node} grants it to {client:?}"), after));
                }
                if self.let_in(state, number, node) {
                    let mut after = *state;
                    after.nodes[node].forgot = false;
                    after.nodes[node].votes_for = [false; 3];
                    after.nodes[node].votes_for[number] = true;
                    next.push((say!("{client:?} lets node {node} in again"), after));
                }
            }
        }
        // One at a time: the next one forgets when the one before has got over it.
        if state.forgot < self.forgets && !state.nodes.iter().any(|node| node.forgot) {
            for node in 0..NODES {
                let mut after = *state;
                after.nodes[node] = Node { forgot: true, ..Node::default() };
                after.forgot += 1;
                next.push((say!("node {node} forgets everything"), after));
            }
        }
        next
    }

    fn wrong(&self, state: &State) -> Option<&'static str> {
        let holders = state.leases.iter().filter(|lease| **lease == Lease::Holds).count();
        (holders > 1).then_some("two holders")
    }
}
