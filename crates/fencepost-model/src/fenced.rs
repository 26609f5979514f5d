//! The votes: attempts at one lock, on three nodes that remember the last token.

use crate::{System, say};

const NODES: usize = 3;
const NEED: usize = 2;
/// The most attempts of one search.
pub const ATTEMPTS_MAX: usize = 3;

/// Which rules are kept.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// R1: a node stores owner and token, and frees nobody else's.
    pub owner: bool,
    /// R2: a release raises the last token.
    pub raise: bool,
    /// R3: a renewal re-creates a missing grant only if no later token was seen.
    pub recreate: bool,
    /// R4: a node that forgot keeps still until all that it may have forgotten is over.
    pub quarantine: bool,
    /// R5: a node grants no token from before its own clock.
    pub floor: bool,
    /// R5: nor one from far ahead of it.
    pub ceiling: bool,
    /// R6: the last token is remembered for longer than the grant.
    pub fence_stays: bool,
}

impl Rules {
    /// All of them.
    pub const ALL: Self = Self {
        owner: true,
        raise: true,
        recreate: true,
        quarantine: true,
        floor: true,
        ceiling: true,
        fence_stays: true,
    };
}

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Fenced {
    /// The rules that are kept.
    pub rules: Rules,
    /// How many attempts there are.
    pub attempts: usize,
    /// The highest token; every attempt chooses any, whatever the time: no client's clock is trusted.
    pub tokens: u8,
    /// How many grants may end, at any moment: clocks that jump. `false`: only when their holder knows that they may.
    pub expiries: u8,
    /// See `expiries`.
    pub jumps: bool,
    /// How many nodes forget.
    pub forgets: u8,
    /// The nodes' clocks run, and tokens have a window.
    pub window: bool,
    /// The first holder renews.
    pub renews: bool,
    /// The tokens of the attempts, if they are not any.
    pub directed: Option<[u8; ATTEMPTS_MAX]>,
}

impl Fenced {
    /// Order alone: expiry at any moment.
    pub const ORDER: Self = Self {
        rules: Rules::ALL,
        attempts: 2,
        tokens: 3,
        expiries: 2,
        jumps: true,
        forgets: 0,
        window: false,
        renews: false,
        directed: None,
    };
    /// Exclusion: clocks that can be trusted.
    pub const EXCLUSION: Self = Self { jumps: false, ..Self::ORDER };
    /// A node forgets, and the nodes' clocks run.
    pub const MEMORY: Self = Self { forgets: 1, window: true, tokens: 7, expiries: 1, ..Self::ORDER };
}

/// How far a token may be ahead of a node's clock, and how far a tick moves that clock.
const WINDOW: u8 = 2;
const TICK: u8 = 2;
const CLOCK_MAX: u8 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Way {
    #[default]
    Unsent,
    Sent,
    Arrived,
}

/// What one node knows, and what is on its way to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Node {
    holder: Option<u8>,
    last: u8,
    quarantined_until: u8,
    acquire: [Way; ATTEMPTS_MAX],
    release: [Way; ATTEMPTS_MAX],
    renewal: Way,
    /// The attempt has read that it was granted.
    granted: [bool; ATTEMPTS_MAX],
    /// The first attempt has read that it was renewed.
    kept: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    New,
    Asking,
    Holds,
    /// Paused past its validity: it believes what it believed.
    Zombie,
    Gone,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Attempt {
    phase: Phase,
    token: u8,
    won: bool,
    /// Who had won when it began.
    before: u8,
    /// One of its grants ended before it had a majority: by its clock that is too late.
    late: bool,
    renewing: bool,
    /// Somebody with a higher token had won when the renewal began.
    outdated: bool,
}

/// Where everything stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: [Node; NODES],
    attempts: [Attempt; ATTEMPTS_MAX],
    clock: u8,
    expired: u8,
    forgot: u8,
    wrong: Option<&'static str>,
}

impl System for Fenced {
    type State = State;

    fn first(&self) -> State {
        let (nodes, attempts) = ([Node::default(); NODES], [Attempt::default(); ATTEMPTS_MAX]);
        State { nodes, attempts, clock: 0, expired: 0, forgot: 0, wrong: None }
    }

    fn wrong(&self, state: &State) -> Option<&'static str> {
        state.wrong.or_else(|| self.ghost(state))
    }

    fn steps(&self, state: &State) -> Vec<(String, State)> {
        let mut steps = Vec::new();
        for attempt in 0..self.attempts {
            self.steps_of_attempt(state, attempt, &mut steps);
        }
        for node in 0..NODES {
            self.steps_of_node(state, node, &mut steps);
        }
        if self.window && state.clock < CLOCK_MAX {
            steps.push((say!("a tick of the nodes' clocks"), State { clock: state.clock + 1, ..*state }));
        }
        // Nodes are alike: one order of them stands for all.
        steps.iter_mut().for_each(|(_, state)| state.nodes.sort_unstable());
        steps
    }
}

impl Fenced {
    fn steps_of_attempt(&self, state: &State, number: usize, steps: &mut Vec<(String, State)>) {
        let attempt = state.attempts[number];
        let name = (b'A' + u8::try_from(number).unwrap_or_default()) as char;
        match attempt.phase {
            Phase::New if number == 0 || state.attempts[number - 1].phase != Phase::New => {
                let before =
                    (0..self.attempts).filter(|other| state.attempts[*other].won).map(|other| 1 << other).sum();
                let any: Vec<u8> =
                    self.directed.map_or_else(|| (1..=self.tokens).collect(), |tokens| vec![tokens[number]]);
                for token in any {
                    let mut next = *state;
                    next.attempts[number] = Attempt { phase: Phase::Asking, token, before, ..attempt };
                    next.nodes.iter_mut().for_each(|node| node.acquire[number] = Way::Sent);
                    steps.push((say!("{name} asks all nodes for the lock under {token}"), next));
                }
            }
            Phase::Asking => {
                let votes = state.nodes.iter().filter(|node| node.granted[number]).count();
                if votes >= NEED && !attempt.late {
                    steps.push((say!("{name} has a majority: it holds"), self.win(state, number)));
                }
                steps.push((say!("{name} gives up, and releases everywhere"), release(state, number)));
            }
            Phase::Holds => {
                steps.push((say!("{name} releases"), release(state, number)));
                let mut next = *state;
                next.attempts[number].phase = Phase::Zombie;
                steps.push((say!("{name} stands still past its validity"), next));
            }
            _ => {}
        }
        let may_renew = self.renews && number == 0 && !attempt.renewing;
        if may_renew && matches!(attempt.phase, Phase::Holds | Phase::Zombie) {
            let mut next = *state;
            let newer = |other: &Attempt| other.won && other.token > attempt.token;
            let outdated = state.attempts.iter().any(newer);
            next.attempts[number] = Attempt { renewing: true, outdated, ..attempt };
            next.nodes.iter_mut().for_each(|node| node.renewal = Way::Sent);
            steps.push((say!("{name} renews"), next));
        }
        let kept = state.nodes.iter().filter(|node| node.kept).count();
        if number == 0 && attempt.renewing && attempt.outdated && kept >= NEED {
            let wrong = Some("a renewal succeeds although a later holder was granted before it began");
            steps.push((say!("{name} is told that it still holds"), State { wrong, ..*state }));
        }
    }

    fn win(&self, state: &State, number: usize) -> State {
        let mut next = *state;
        let me = state.attempts[number];
        next.attempts[number] = Attempt { phase: Phase::Holds, won: true, ..me };
        // What was read no longer matters.
        next.nodes.iter_mut().for_each(|node| node.granted[number] = false);
        for (other, that) in state.attempts.iter().enumerate().filter(|(other, that)| *other != number && that.won) {
            if that.token == me.token {
                next.wrong = Some("two winners have the same token");
            } else if me.before >> other & 1 == 1 && me.token < that.token {
                next.wrong = Some("who asked after another had won has a lower token");
            } else if !self.jumps && that.phase == Phase::Holds {
                next.wrong = Some("two hold at a time");
            }
        }
        next
    }

    fn steps_of_node(&self, state: &State, number: usize, steps: &mut Vec<(String, State)>) {
        let node = state.nodes[number];
        for attempt in 0..self.attempts {
            let name = (b'A' + u8::try_from(attempt).unwrap_or_default()) as char;
            let me = u8::try_from(attempt).unwrap_or_default();
            let token = state.attempts[attempt].token;
            if node.acquire[attempt] == Way::Sent {
                let mut next = *state;
                next.nodes[number].acquire[attempt] = Way::Arrived;
                let free = node.holder.is_none_or(|holder| holder == me);
                if free && token > node.last && self.in_window(state, &node, token) && !self.is_still(state, &node) {
                    (next.nodes[number].holder, next.nodes[number].last) = (Some(me), token);
                    steps.push((say!("node {number} grants {name} {token}; the answer is lost"), next));
                    if state.attempts[attempt].phase == Phase::Asking {
                        next.nodes[number].granted[attempt] = true;
                        steps.push((say!("node {number} grants {name} {token}"), next));
                    }
                } else {
                    steps.push((say!("node {number} refuses {name}"), next));
                }
            }
            if node.release[attempt] == Way::Sent {
                let mut next = *state;
                let there = &mut next.nodes[number];
                there.release[attempt] = Way::Arrived;
                if node.holder == Some(me) || (!self.rules.owner && node.holder.is_some()) {
                    there.holder = None;
                }
                if self.rules.raise && self.below_ceiling(state, &node, token) {
                    there.last = there.last.max(token);
                }
                steps.push((say!("the release of {name} reaches node {number}"), next));
            }
        }
        if node.renewal == Way::Sent {
            let mut next = *state;
            let (there, token) = (&mut next.nodes[number], state.attempts[0].token);
            there.renewal = Way::Arrived;
            let recreates = node.holder.is_none() && (node.last <= token || !self.rules.recreate);
            if node.holder == Some(0) || (recreates && !self.is_still(state, &node)) {
                there.holder = Some(0);
                there.last = there.last.max(token);
                there.kept = true;
            }
            steps.push((say!("the renewal of A reaches node {number}"), next));
        }
        self.mishaps(state, number, steps);
    }

    /// A grant ends, a node forgets, a quarantine is over.
    fn mishaps(&self, state: &State, number: usize, steps: &mut Vec<(String, State)>) {
        let node = state.nodes[number];
        if let Some(holder) = node.holder.filter(|_| state.expired < self.expiries) {
            let phase = state.attempts[usize::from(holder)].phase;
            if self.jumps || phase != Phase::Holds {
                let mut next = *state;
                next.expired += 1;
                next.nodes[number].holder = None;
                if !self.rules.fence_stays {
                    next.nodes[number].last = 0;
                }
                next.attempts[usize::from(holder)].late |= !self.jumps && phase == Phase::Asking;
                steps.push((say!("the grant of node {number} is over"), next));
            }
        }
        if state.forgot < self.forgets && node.last > 0 {
            let mut next = *state;
            next.forgot += 1;
            let there = &mut next.nodes[number];
            (there.holder, there.last) = (None, 0);
            there.quarantined_until = if self.rules.quarantine { state.clock + WINDOW } else { 0 };
            steps.push((say!("node {number} restarts empty"), next));
        }
    }

    fn is_still(&self, state: &State, node: &Node) -> bool {
        node.quarantined_until > state.clock
    }

    fn in_window(&self, state: &State, node: &Node, token: u8) -> bool {
        let above = token >= state.clock * TICK || !self.rules.floor;
        !self.window || (above && self.below_ceiling(state, node, token))
    }

    fn below_ceiling(&self, state: &State, node: &Node, token: u8) -> bool {
        !self.window || !self.rules.ceiling || token <= state.clock * TICK + WINDOW || token <= node.last + 1
    }

    /// All have let go, everything has arrived, and a node is still taken.
    fn ghost(&self, state: &State) -> Option<&'static str> {
        let ended = |attempt: &Attempt| matches!(attempt.phase, Phase::New | Phase::Gone);
        let all_gone = state.attempts[0].phase == Phase::Gone && state.attempts.iter().all(ended);
        let arrived = |node: &Node| {
            let mut ways = node.acquire.iter().chain(&node.release);
            node.renewal != Way::Sent && ways.all(|way| *way != Way::Sent)
        };
        let taken = state.nodes.iter().any(|node| node.holder.is_some());
        // With a window a late request may find its time again; then its lease ends it.
        let ghost = !self.renews && !self.window && all_gone && state.nodes.iter().all(arrived) && taken;
        ghost.then_some("everybody has let go, and a node is still taken")
    }
}

fn release(state: &State, number: usize) -> State {
    let mut next = *state;
    next.attempts[number].phase = Phase::Gone;
    for node in &mut next.nodes {
        node.release[number] = Way::Sent;
        node.granted[number] = false;
    }
    next
}
