//! The line: claims that wait on three nodes, hand-over by pushed grants, yielding, unifying, renewal.

use crate::{System, naming, say};

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
    /// R3: a renewal counts no grant that is newer than its token.
    pub newer: bool,
    /// R3: a renewal puts an older grant of its own under its token, so that no late give-back of that one frees it.
    pub stamp: bool,
}

impl Rules {
    /// All of them.
    pub const ALL: Self =
        Self { exact: true, void: true, highest: true, dated: true, same: true, newer: true, stamp: true };
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
    /// Grants may end at any moment: clocks that jump. Then two may hold at a time, and tokens are what is looked at.
    pub jumps: bool,
    /// The steps before the search, where what it looks for is far. They are walked by a system that keeps all rules, so
    /// whatever is found could have happened.
    pub start: &'static [&'static str],
}

impl Queue {
    /// Two claims, of which the first asks twice and yields once.
    pub const SMALL: Self =
        Self { rules: Rules::ALL, asks: [2, 1], yields: [1, 0], renews: false, first: 0, jumps: false, start: &[] };
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
    /// The attempt of a renewal that left after somebody else was granted a higher token.
    outdated: u8,
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

impl Request {
    fn is_named(&self, name: &str) -> bool {
        let Self { kind, claim, token, attempt, .. } = self;
        format!("{kind:?} of {}, {token}, attempt {attempt}", (b'A' + claim) as char) == name
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
        let right = Self { rules: Rules::ALL, ..*self };
        let fresh = State { nodes: Default::default(), claims: Default::default(), wrong: None };
        naming(|| self.start.iter().fold(fresh, |state, step| right.walk(&state, step)))
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
    /// The step of that name: at the first node for which there is one, those that hold nothing first, or at the last. Or
    /// a message is lost.
    fn walk(&self, state: &State, wanted: &str) -> State {
        if let Some(lost) = wanted.strip_prefix("lost: ") {
            let mut next = state.clone();
            let (at, place) = (0..NODES)
                .find_map(|node| Some((node, next.nodes[node].requests.iter().position(|it| it.is_named(lost))?)))
                .unwrap_or_else(|| panic!("nothing of that kind is under way: {lost}"));
            next.nodes[at].requests.remove(place);
            next.nodes.sort_unstable();
            return next;
        }
        let unnumbered =
            |name: &str| (0..NODES).fold(name.to_owned(), |name, it| name.replace(&format!("node {it}"), "a node"));
        let mut steps = self.steps(state);
        let wanted = match wanted.strip_prefix("last: ") {
            Some(wanted) => {
                steps.reverse();
                wanted
            }
            None => wanted,
        };
        let found = steps.iter().find(|(name, _)| unnumbered(name) == wanted).map(|(_, next)| next.clone());
        let names = || steps.iter().map(|(name, _)| unnumbered(name)).collect::<Vec<_>>();
        found.unwrap_or_else(|| panic!("no such step: {wanted}; there are {:?}", names()))
    }

    /// Tokens that a claim may propose: the next, or the same as somebody else's.
    fn choices(&self, state: &State, above: u8) -> Vec<u8> {
        let top = state.highest_token();
        if self.jumps {
            return (above + 1..=top + 2).collect();
        }
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
                    let newer = state.claims.iter().any(|other| other.token > claim.token);
                    let outdated = if newer && claim.outdated == 0 { attempt } else { claim.outdated };
                    next.claims[number] = Claim { attempt, renewed: true, outdated, ..claim };
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
        // Also what was given back may be there still, and be put under one token with the rest.
        let mine = state.nodes.iter().filter(|node| node.votes[number].0.max(node.void[number]) > 0).count();
        for token in self.choices(state, claim.highest) {
            let kind = if mine >= 2 { Kind::Unify } else { Kind::Acquire };
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
            if self.jumps || claim.phase != Phase::Holds || held.attempt < claim.dated {
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
                    Some(held) if held.claim == claim && (held.token <= token || !self.rules.newer) => {
                        let token = if self.rules.stamp { held.token.max(token) } else { held.token };
                        Some(Grant { claim, attempt: held.attempt.max(attempt), token })
                    }
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
                    if claim.outdated > 0 && second >= claim.outdated {
                        state.wrong = Some("a renewal succeeds although a later holder was granted before it left");
                    }
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
            } else if that.phase == Phase::Holds && !self.jumps {
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
