//! One set of nodes takes the place of another: two sets of three that share one node, or one node that becomes three, with a
//! client of each set, and one that needs both. The lock itself is a name at a node: who came first has it there until its
//! lease is over. Each client asks once.

use crate::{System, say};

const NODES: usize = 5;
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
    /// Where nobody votes in that set, only if clients of no other ask for the node.
    pub asks: bool,
}

impl Rules {
    /// All of them.
    pub const ALL: Self =
        Self { both: true, signs: true, closes: true, everywhere: true, waits: true, vouches: true, asks: true };
}

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Sets {
    /// The rules that are kept.
    pub rules: Rules,
    /// The sets.
    pub lists: Lists,
    /// How many nodes forget everything.
    pub forgets: u8,
    /// How many of them are on probation at a time: the next one forgets when one before has got over it.
    pub at_once: u8,
    /// Whoever lets a node in again may not hear those who vote elsewhere: they are down, or not waited for.
    pub unheard: bool,
}

/// The nodes of the old set, and of the new.
#[derive(Clone, Copy, Debug)]
pub struct Lists {
    old: &'static [usize],
    new: &'static [usize],
}

impl Lists {
    /// Three and three that share one.
    pub const THREE: Self = Self { old: &[0, 1, 2], new: &[2, 3, 4] };
    /// One becomes three.
    pub const GROWING: Self = Self { old: &[0], new: &[0, 1, 2] };

    /// Whether a client asks this node.
    fn asks(self, client: Client, node: usize) -> bool {
        match client {
            Client::Old => self.old.contains(&node),
            Client::New => self.new.contains(&node),
            Client::Both => self.old.contains(&node) || self.new.contains(&node),
        }
    }

    /// Whether these nodes are enough for a client.
    fn elect(self, client: Client, rules: Rules, has: impl Fn(usize) -> bool) -> bool {
        let majority = |set: &[usize]| 2 * set.iter().filter(|node| has(**node)).count() > set.len();
        match client {
            Client::Old => majority(self.old),
            Client::New => majority(self.new),
            Client::Both if rules.both => majority(self.old) && majority(self.new),
            Client::Both => majority(&(0..NODES).filter(|node| self.asks(client, *node)).collect::<Vec<_>>()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    Old,
    Both,
    New,
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
    /// The sets that nodes have ever voted in.
    used: [bool; 3],
    /// A client of the old set may have asked, or hold, from before it was closed on enough nodes.
    old_leases: bool,
}

impl Sets {
    /// All rules, good memories.
    pub const CHANGE: Self = Self { rules: Rules::ALL, lists: Lists::THREE, forgets: 0, at_once: 1, unheard: true };

    fn is_closed(&self, state: &State) -> bool {
        let old = self.lists.old;
        let open = old.iter().filter(|node| state.nodes[**node].votes_for[0] || state.nodes[**node].forgot).count();
        if self.rules.everywhere { open == 0 } else { 2 * open <= old.len() }
    }

    /// What the command does next at one node.
    fn reconfigure(&self, state: &State, node: usize, next: &mut Vec<(String, State)>) {
        let mut step = |what: &str, change: &dyn Fn(&mut State)| {
            let mut after = *state;
            change(&mut after);
            (0..CLIENTS.len()).for_each(|client| after.used[client] |= after.nodes[node].votes_for[client]);
            if after != *state {
                next.push((say!("node {node}: {what}"), after));
            }
        };
        let known = state.nodes[node];
        if known.forgot {
            return;
        }
        let Lists { old, new } = self.lists;
        let (in_old, in_new) = (old.contains(&node), new.contains(&node));
        // The new ones first; of the old ones each tells that they were.
        let enters = match in_old {
            true => known.votes_for[0] && new.iter().all(|node| old.contains(node) || state.nodes[*node].votes_for[1]),
            false => in_new && known.votes_for == [false; 3],
        };
        if enters {
            step("votes for both, too", &|state| state.nodes[node].votes_for[1] = true);
        }
        let prepared = 2 * old.iter().filter(|node| state.nodes[**node].votes_for[1]).count() > old.len();
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
        let opened = new.iter().all(|node| state.nodes[*node].votes_for[2]);
        if known.votes_for[1] && opened {
            step("votes for both no more", &|state| state.nodes[node].votes_for[1] = false);
        }
    }

    /// A node that forgot is let in again by a client, when its probation is over.
    fn let_in(&self, state: &State, client: usize, node: usize) -> bool {
        let is_marked = |other: &Node| other.votes_for != [false; 3] || other.left;
        let elsewhere = |other: &Node| !other.forgot && !other.votes_for[client] && is_marked(other);
        let who = CLIENTS[client];
        let listed = |who: Client| (0..NODES).filter(move |node| self.lists.asks(who, *node));
        let votes = |client: usize| listed(CLIENTS[client]).any(|node| state.nodes[node].votes_for[client]);
        // Some majority of them was heard.
        let heard = |node: usize| !elsewhere(&state.nodes[node]);
        let waited = || self.unheard || listed(who).all(heard);
        // Clients of a set that votes ask all of its nodes.
        let others =
            || (0..CLIENTS.len()).any(|other| other != client && self.lists.asks(CLIENTS[other], node) && votes(other));
        // Nodes that no set has used are a new cluster to who lists them: that is not looked at here.
        let remembered = || votes(client) || (state.used[client] && (!self.rules.asks || !others()));
        let vouched = || self.lists.elect(who, Rules::ALL, heard) && waited() && remembered();
        // Probation: nobody relies on what it forgot.
        let relied_on = state.leases.iter().any(|lease| matches!(lease, Lease::Asking | Lease::Holds));
        self.lists.asks(who, node) && state.nodes[node].forgot && !relied_on && (!self.rules.vouches || vouched())
    }
}

impl System for Sets {
    type State = State;

    fn first(&self) -> State {
        let mut nodes = [Node::default(); NODES];
        self.lists.old.iter().for_each(|node| nodes[*node].votes_for[0] = true);
        State { nodes, leases: [Lease::None; 3], forgot: 0, used: [true, false, false], old_leases: false }
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
            for node in (0..NODES).filter(|node| self.lists.asks(client, *node)) {
                let known = state.nodes[node];
                let asks = state.leases[number] == Lease::Asking && known.holder.is_none() && !known.forgot;
                if asks && (known.votes_for[number] || !self.rules.signs) {
                    let mut after = *state;
                    after.nodes[node].holder = Some(number as u8);
                    let has = |node: usize| after.nodes[node].holder == Some(number as u8);
                    if self.lists.elect(client, self.rules, has) {
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
        let on_probation = state.nodes.iter().filter(|node| node.forgot).count();
        if state.forgot < self.forgets && on_probation < usize::from(self.at_once) {
            for node in (0..NODES).filter(|node| self.lists.asks(Client::Both, *node) && !state.nodes[*node].forgot) {
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
