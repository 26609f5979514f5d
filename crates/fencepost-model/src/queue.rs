//! The line: claims that wait on three nodes, hand-over by pushed grants, yielding, unifying, renewal.

use crate::{System, say};

const NODES: usize = 3;
const CLAIMS: usize = 2;

/// Which rules are kept.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// (a): a give-back names the exact token.
    pub exact: bool,
    /// (b): after a give-back neither grants nor renewals of that node count up to that token.
    pub void: bool,
    /// (c): a release carries the highest token ever proposed.
    pub highest: bool,
    /// (d): a pushed grant is dated from the attempt that it names.
    pub dated: bool,
    /// Of a majority under different tokens none is taken, not even the highest.
    pub same: bool,
}

impl Rules {
    /// All of them.
    pub const ALL: Self = Self { exact: true, void: true, highest: true, dated: true, same: true };
}

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// The rules that are kept.
    pub rules: Rules,
    /// How often each claim may ask.
    pub asks: [u8; CLAIMS],
    /// How often each may yield.
    pub yields: [u8; CLAIMS],
    /// Holders renew.
    pub renews: bool,
    /// Who comes first in line.
    pub first: u8,
    /// Where the search begins.
    pub start: Start,
}

/// Where a search begins: at the beginning, or on the way to what it looks for, where that is far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// Nobody has asked.
    Fresh,
    /// A was granted by one node, asked again, and has yielded what it had: the give-back is under way, and so is an
    /// answer to what it asked before.
    Yielded,
    /// A was granted by two nodes, and asked again before it read that.
    AskedTwice,
    /// A was granted under 1 by one node and under 2 by another, and has not read it.
    TwoTokens,
    /// A holds under 1, and proposed 2 before it knew.
    ProposedMore,
}

impl Queue {
    /// Two claims, of which the first asks twice and yields once.
    pub const SMALL: Self =
        Self { rules: Rules::ALL, asks: [2, 1], yields: [1, 0], renews: false, first: 0, start: Start::Fresh };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Acquire,
    Unify,
    GiveBack,
    Release,
    Renew,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Request {
    kind: Kind,
    claim: u8,
    token: u8,
    attempt: u8,
    pass: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Grant {
    claim: u8,
    attempt: u8,
    token: u8,
}

/// A node, what is on its way to it and from it, and what each claim knows of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Node {
    held: Option<Grant>,
    last: u8,
    /// The attempt with which each claim is in line; 0: it is not.
    line: [u8; CLAIMS],
    requests: Vec<Request>,
    grants: Vec<Grant>,
    /// What each claim counts: token and attempt.
    votes: [(u8, u8); CLAIMS],
    void: [u8; CLAIMS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    New,
    Waits,
    Holds,
    /// Its validity is over.
    Zombie,
    Ended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Claim {
    phase: Phase,
    attempt: u8,
    highest: u8,
    token: u8,
    /// The attempt that dates its validity.
    dated: u8,
    /// Grants of attempts up to here are over by its own clock.
    over: u8,
    /// Who had won when it began.
    before: u8,
    yields: u8,
    renewed: bool,
}

/// Where everything stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: [Node; NODES],
    claims: [Claim; CLAIMS],
    wrong: Option<&'static str>,
}

impl State {
    fn highest_token(&self) -> u8 {
        let nodes = self.nodes.iter().flat_map(|node| {
            let requests = node.requests.iter().map(|request| request.token.max(request.pass));
            requests.chain([node.last]).chain(node.grants.iter().map(|grant| grant.token))
        });
        nodes.chain(self.claims.iter().map(|claim| claim.highest)).max().unwrap_or_default()
    }

    fn send_all(&mut self, request: Request) {
        self.nodes.iter_mut().for_each(|node| node.send(request));
    }
}

impl Node {
    fn send(&mut self, request: Request) {
        if let Err(at) = self.requests.binary_search(&request) {
            self.requests.insert(at, request);
        }
    }

    fn grant(&mut self, grant: Grant) {
        if let Err(at) = self.grants.binary_search(&grant) {
            self.grants.insert(at, grant);
        }
    }
}

impl System for Queue {
    type State = State;

    fn first(&self) -> State {
        let mut state = State { nodes: Default::default(), claims: Default::default(), wrong: None };
        let ask = |token, attempt| Request { kind: Kind::Acquire, claim: 0, token, attempt, pass: 0 };
        let grant = |token, attempt| Grant { claim: 0, attempt, token };
        let claim = Claim { phase: Phase::Waits, attempt: 2, highest: 2, ..Claim::default() };
        let has = |node: &mut Node, token, attempt| (node.held, node.last) = (Some(grant(token, attempt)), token);
        match self.start {
            Start::Fresh => return state,
            Start::Yielded => {
                state.claims[0] = Claim { attempt: 3, yields: 1, ..claim };
                let [one, others @ ..] = &mut state.nodes;
                has(one, 1, 2);
                one.void[0] = 1;
                one.send(Request { kind: Kind::GiveBack, attempt: 3, pass: 2, ..ask(1, 3) });
                one.grant(grant(1, 2));
                others.iter_mut().for_each(|node| node.send(ask(1, 2)));
            }
            Start::AskedTwice => {
                state.claims[0] = Claim { highest: 1, ..claim };
                for node in &mut state.nodes[..2] {
                    has(node, 1, 1);
                    node.grant(grant(1, 1));
                }
            }
            Start::TwoTokens => {
                state.claims[0] = claim;
                for (token, node) in (1..=2).zip(&mut state.nodes) {
                    has(node, token, token);
                    node.grant(grant(token, token));
                }
            }
            Start::ProposedMore => {
                state.claims[0] = Claim { phase: Phase::Holds, token: 1, dated: 1, ..claim };
                state.nodes[..2].iter_mut().for_each(|node| has(node, 1, 1));
                state.send_all(ask(2, 2));
            }
        }
        state.nodes.sort_unstable();
        state
    }

    fn wrong(&self, state: &State) -> Option<&'static str> {
        state.wrong.or_else(|| ghost(state))
    }

    fn steps(&self, state: &State) -> Vec<(String, State)> {
        let mut steps = Vec::new();
        for claim in 0..CLAIMS {
            self.steps_of_claim(state, claim, &mut steps);
        }
        for node in 0..NODES {
            self.steps_of_node(state, node, &mut steps);
        }
        for (_, next) in &mut steps {
            forget_what_is_over(next);
            next.nodes.sort_unstable();
        }
        steps
    }
}

impl Queue {
    /// Tokens that a claim may propose: the next, or the same as somebody else's.
    fn choices(&self, state: &State, above: u8) -> Vec<u8> {
        let top = state.highest_token();
        if top > above { vec![top + 1, top] } else { vec![top + 1] }
    }

    fn steps_of_claim(&self, state: &State, number: usize, steps: &mut Vec<(String, State)>) {
        let claim = state.claims[number];
        let me = u8::try_from(number).unwrap_or_default();
        let name = (b'A' + me) as char;
        let attempt = claim.attempt + 1;
        let request = |kind, token| Request { kind, claim: me, token, attempt, pass: 0 };
        match claim.phase {
            Phase::New if number == 0 || state.claims[number - 1].phase != Phase::New => {
                let won = |other: &usize| state.claims[*other].token > 0;
                let before = (0..CLAIMS).filter(won).map(|other| 1 << other).sum();
                for token in self.choices(state, 0) {
                    let mut next = state.clone();
                    next.claims[number] = Claim { phase: Phase::Waits, attempt: 1, highest: token, before, ..claim };
                    next.send_all(request(Kind::Acquire, token));
                    steps.push((say!("{name} asks under {token}"), next));
                }
            }
            Phase::Waits => {
                if claim.attempt < self.asks[number] {
                    self.ask_again(state, number, steps);
                }
                self.release(state, number, steps);
            }
            Phase::Holds => {
                self.release(state, number, steps);
                let mut next = state.clone();
                next.claims[number].phase = Phase::Zombie;
                steps.push((say!("the validity of {name} ends"), next));
                if self.renews && claim.attempt < self.asks[number] {
                    let mut next = state.clone();
                    next.claims[number] = Claim { attempt, renewed: true, ..claim };
                    next.send_all(request(Kind::Renew, claim.token));
                    steps.push((say!("{name} renews, attempt {attempt}"), next));
                }
            }
            Phase::Zombie => self.release(state, number, steps),
            _ => {}
        }
    }

    fn ask_again(&self, state: &State, number: usize, steps: &mut Vec<(String, State)>) {
        let claim = state.claims[number];
        let me = u8::try_from(number).unwrap_or_default();
        let name = (b'A' + me) as char;
        let attempt = claim.attempt + 1;
        let mut again = state.clone();
        again.claims[number].attempt = attempt;
        again.send_all(Request { kind: Kind::Acquire, claim: me, token: claim.highest, attempt, pass: 0 });
        steps.push((say!("{name} asks again under {}", claim.highest), again));
        let votes = state.nodes.iter().filter(|node| node.votes[number].0 > 0).count();
        for token in self.choices(state, claim.highest) {
            let kind = if votes >= 2 { Kind::Unify } else { Kind::Acquire };
            let mut next = state.clone();
            (next.claims[number].attempt, next.claims[number].highest) = (attempt, token);
            next.send_all(Request { kind, claim: me, token, attempt, pass: 0 });
            steps.push((say!("{name} asks again ({kind:?}) under {token}"), next));
            if votes == 0 || claim.yields >= self.yields[number] {
                continue;
            }
            let mut next = state.clone();
            let yields = claim.yields + 1;
            next.claims[number] = Claim { attempt, highest: token, yields, ..claim };
            for node in next.nodes.iter_mut().filter(|node| node.votes[number].0 > 0) {
                let given = node.votes[number].0;
                node.votes[number] = (0, 0);
                node.void[number] = node.void[number].max(given);
                node.send(Request { kind: Kind::GiveBack, claim: me, token: given, attempt, pass: token });
            }
            steps.push((say!("{name} yields what it has, pass {token}"), next));
        }
    }

    fn release(&self, state: &State, number: usize, steps: &mut Vec<(String, State)>) {
        let claim = state.claims[number];
        let me = u8::try_from(number).unwrap_or_default();
        let carried = if self.rules.highest || claim.token == 0 { claim.highest } else { claim.token };
        let raise = if claim.renewed && self.rules.highest { carried.max(claim.token + 1) } else { carried };
        let others_wait =
            state.claims.iter().enumerate().any(|(other, that)| other != number && that.phase == Phase::Waits);
        let passes = if others_wait { self.choices(state, raise.max(claim.highest)) } else { vec![0] };
        for pass in passes {
            let mut next = state.clone();
            next.claims[number].phase = Phase::Ended;
            next.send_all(Request { kind: Kind::Release, claim: me, token: raise, attempt: 0, pass });
            steps.push((say!("{} releases, raise {raise}, pass {pass}", (b'A' + me) as char), next));
        }
    }

    fn steps_of_node(&self, state: &State, number: usize, steps: &mut Vec<(String, State)>) {
        let node = &state.nodes[number];
        for (at, request) in node.requests.iter().enumerate() {
            let mut next = state.clone();
            next.nodes[number].requests.remove(at);
            self.arrive(&mut next.nodes[number], *request);
            let name = (b'A' + request.claim) as char;
            let Request { kind, token, attempt, pass, .. } = request;
            let what = say!("node {number}: {kind:?} of {name} arrives, {token}, attempt {attempt}, pass {pass}");
            steps.push((what, next));
        }
        for (at, grant) in node.grants.iter().enumerate() {
            let mut next = state.clone();
            next.nodes[number].grants.remove(at);
            self.read(&mut next, number, *grant);
            let Grant { claim, attempt, token } = grant;
            let name = (b'A' + claim) as char;
            steps.push((say!("{name} reads from node {number}: granted {token}, attempt {attempt}"), next));
        }
        if let Some(held) = node.held {
            let claim = state.claims[usize::from(held.claim)];
            // A holder's grant lasts for at least as long as its validity is dated.
            if claim.phase != Phase::Holds || held.attempt < claim.dated {
                let mut next = state.clone();
                next.nodes[number].held = None;
                if claim.phase == Phase::Waits {
                    let over = claim.over.max(held.attempt);
                    next.claims[usize::from(held.claim)].over = over;
                    for node in &mut next.nodes {
                        let vote = &mut node.votes[usize::from(held.claim)];
                        if vote.1 <= over {
                            *vote = (0, 0);
                        }
                    }
                }
                steps.push((say!("node {number}: the grant of {} is over", (b'A' + held.claim) as char), next));
            }
        }
    }

    fn arrive(&self, node: &mut Node, request: Request) {
        let Request { kind, claim, token, attempt, pass } = request;
        let me = usize::from(claim);
        let mine = node.held.filter(|held| held.claim == claim);
        match kind {
            Kind::Acquire | Kind::Unify => match mine {
                Some(held) => {
                    let unifies = kind == Kind::Unify && token > node.last;
                    let held = if unifies {
                        Grant { claim, attempt, token }
                    } else {
                        Grant { attempt: held.attempt.max(attempt), ..held }
                    };
                    node.held = Some(held);
                    node.last = node.last.max(held.token);
                    node.grant(Grant { attempt, ..held });
                }
                None if token > node.last => {
                    node.line[me] = node.line[me].max(attempt);
                    self.hand_over(node, token);
                }
                None => {}
            },
            Kind::GiveBack => {
                if mine.is_some_and(|held| held.token == token || !self.rules.exact) {
                    node.held = None;
                }
                node.last = node.last.max(token);
                let holds = node.held.is_some_and(|held| held.claim == claim);
                if pass > node.last && !holds {
                    node.line[me] = node.line[me].max(attempt);
                }
                self.hand_over(node, pass);
            }
            Kind::Release => {
                if mine.is_some() {
                    node.held = None;
                }
                node.last = node.last.max(token);
                node.line[me] = 0;
                self.hand_over(node, pass);
            }
            Kind::Renew => {
                let kept = match node.held {
                    Some(held) if held.claim == claim => Some(Grant { attempt: held.attempt.max(attempt), ..held }),
                    None if node.last <= token => Some(Grant { claim, attempt, token }),
                    _ => None,
                };
                if let Some(kept) = kept {
                    node.held = Some(kept);
                    node.last = node.last.max(kept.token);
                    node.grant(Grant { claim, attempt, token });
                }
            }
        }
    }

    fn hand_over(&self, node: &mut Node, pass: u8) {
        if node.held.is_some() || pass == 0 || pass <= node.last {
            return;
        }
        let first = usize::from(self.first);
        let order = [first, 1 - first];
        let Some(head) = order.into_iter().find(|claim| node.line[*claim] > 0) else { return };
        let grant = Grant { claim: u8::try_from(head).unwrap_or_default(), attempt: node.line[head], token: pass };
        node.line[head] = 0;
        (node.held, node.last) = (Some(grant), pass);
        node.grant(grant);
    }

    /// A claim reads a grant.
    fn read(&self, state: &mut State, node: usize, grant: Grant) {
        let me = usize::from(grant.claim);
        let claim = state.claims[me];
        let attempt = if self.rules.dated { grant.attempt } else { claim.attempt };
        let voided = self.rules.void && grant.token <= state.nodes[node].void[me];
        if voided {
            return;
        }
        match claim.phase {
            Phase::Waits if attempt > claim.over => {
                let vote = &mut state.nodes[node].votes[me];
                *vote = (*vote).max((grant.token, attempt));
                self.count(state, me);
            }
            Phase::Holds => {
                let vote = &mut state.nodes[node].votes[me];
                *vote = (grant.token, vote.1.max(attempt));
                let same = state.nodes.iter().map(|node| node.votes[me]).filter(|vote| vote.0 == claim.token);
                let mut attempts: Vec<u8> = same.map(|vote| vote.1).collect();
                attempts.sort_unstable();
                if let [.., second, _] = attempts[..] {
                    state.claims[me].dated = claim.dated.max(second);
                }
            }
            _ => {}
        }
    }

    /// Whether a claim that waits has a majority now.
    fn count(&self, state: &mut State, me: usize) {
        let votes: Vec<(u8, u8)> = state.nodes.iter().map(|node| node.votes[me]).filter(|vote| vote.0 > 0).collect();
        let token = votes
            .iter()
            .map(|vote| vote.0)
            .filter(|token| votes.iter().filter(|vote| vote.0 == *token || !self.rules.same).count() >= 2);
        let Some(token) = token.max() else { return };
        let counted = votes.iter().filter(|vote| vote.0 == token || !self.rules.same);
        let mut attempts: Vec<u8> = counted.map(|vote| vote.1).collect();
        attempts.sort_unstable();
        let dated = attempts[attempts.len() - 2];
        let claim = state.claims[me];
        let highest = claim.highest.max(token);
        state.claims[me] = Claim { phase: Phase::Holds, token, dated, highest, ..claim };
        for (other, that) in state.claims.iter().enumerate().filter(|(other, that)| *other != me && that.token > 0) {
            if that.token == token {
                state.wrong = Some("two winners have the same token");
            } else if claim.before >> other & 1 == 1 && that.token > token {
                state.wrong = Some("who asked after another had won has a lower token");
            } else if that.phase == Phase::Holds {
                state.wrong = Some("two hold at a time");
            }
        }
    }
}

/// What no longer matters is forgotten, so that fewer states are told apart.
fn forget_what_is_over(state: &mut State) {
    for (number, claim) in state.claims.iter_mut().enumerate() {
        if claim.phase == Phase::Waits || claim.phase == Phase::Holds {
            continue;
        }
        for node in &mut state.nodes {
            node.votes[number] = (0, 0);
            node.void[number] = 0;
            node.grants.retain(|grant| usize::from(grant.claim) != number);
        }
        if claim.phase == Phase::Ended {
            *claim = Claim { phase: Phase::Ended, token: claim.token, ..Claim::default() };
        }
    }
}

/// All have let go, everything has arrived, and a node is still taken or waited for.
fn ghost(state: &State) -> Option<&'static str> {
    let ended = |claim: &Claim| matches!(claim.phase, Phase::New | Phase::Ended);
    let over = state.claims[0].phase == Phase::Ended && state.claims.iter().all(ended);
    let arrived = state.nodes.iter().all(|node| node.requests.is_empty());
    let taken = |node: &Node| node.held.is_some() || node.line.iter().any(|place| *place > 0);
    let ghost = over && arrived && state.nodes.iter().any(taken);
    ghost.then_some("everybody has let go, and a node is still taken")
}
