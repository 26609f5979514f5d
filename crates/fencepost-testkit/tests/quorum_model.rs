//! Readers and writers on nodes that vote, as a small model whose states are all visited: two readers and two writers on
//! three nodes, each asking once. Requests may arrive at any later time or never, grants end whenever they may, writers
//! become readers. It knows nothing of tokens, lines and renewal in time: the `voting`, `chaos` and `downgrade` tests run
//! the code itself.
//!
//! What makes it safe: a node has readers or one writer, every majority of a writer meets every majority of anybody else,
//! and a holder stops before the first of its grants can end.

use std::collections::HashSet;

const NODES: usize = 3;
/// The first two read, the others write.
const CLIENTS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Phase {
    Idle,
    Asking,
    Holding,
    /// A writer that reads on.
    Downgraded,
    Done,
    DoneAfterDowngrade,
}

/// What is between one client and one node. An answer needs no place of its own: a client may learn of a grant at any
/// time while that lasts, or never.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Tie {
    Nothing,
    UnderWay,
    Writes,
    Reads,
    /// Refused, or over.
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Client {
    phase: Phase,
    ties: [Tie; NODES],
}

type State = [Client; CLIENTS];

/// What the model is told; the controls break one of them each.
#[derive(Clone, Copy, Debug)]
struct Rules {
    reader_needs: usize,
    writer_needs: usize,
    /// A holder stops before its grants end, because it dates them from before its request left.
    grants_outlive_holds: bool,
    /// Who is downgraded counts as a reader at once, not only when a majority has confirmed it.
    reads_at_once: bool,
    /// A node that has a writer refuses readers.
    writers_keep_readers_out: bool,
}

const SAFE: Rules = Rules {
    reader_needs: 2,
    writer_needs: 2,
    grants_outlive_holds: true,
    reads_at_once: true,
    writers_keep_readers_out: true,
};

fn is_live(tie: Tie) -> bool {
    matches!(tie, Tie::Writes | Tie::Reads)
}

fn reads(client: usize) -> bool {
    client < 2
}

impl Rules {
    fn admits(self, state: &State, client: usize, node: usize, reading: bool) -> bool {
        let others = state.iter().enumerate().filter(|(other, _)| *other != client).map(|(_, other)| other.ties[node]);
        others.into_iter().all(|tie| match tie {
            Tie::Writes => reading && !self.writers_keep_readers_out,
            Tie::Reads => reading,
            Tie::Nothing | Tie::UnderWay | Tie::Gone => true,
        })
    }

    fn needs(self, client: usize) -> usize {
        if reads(client) { self.reader_needs } else { self.writer_needs }
    }

    /// Everything that may happen next.
    fn steps(self, state: &State, mut visit: impl FnMut(State)) {
        for client in 0..CLIENTS {
            let Client { phase, ties } = state[client];
            let mut then = |phase: Phase, change: Option<(usize, Tie)>| {
                let mut next = *state;
                next[client].phase = phase;
                if let Some((node, tie)) = change {
                    next[client].ties[node] = tie;
                }
                visit(next);
            };
            match phase {
                Phase::Idle => {
                    let mut next = *state;
                    next[client] = Client { phase: Phase::Asking, ties: [Tie::UnderWay; NODES] };
                    visit(next);
                    continue;
                }
                Phase::Asking => {
                    if ties.iter().filter(|tie| is_live(**tie)).count() >= self.needs(client) {
                        then(Phase::Holding, None);
                    }
                    then(Phase::Done, None);
                }
                Phase::Holding => {
                    if !reads(client) {
                        then(Phase::Downgraded, None);
                    }
                    then(Phase::Done, None);
                }
                Phase::Downgraded => then(Phase::DoneAfterDowngrade, None),
                Phase::Done | Phase::DoneAfterDowngrade => {}
            }
            let holds = matches!(phase, Phase::Holding | Phase::Downgraded);
            for (node, tie) in ties.into_iter().enumerate() {
                let grant = if reads(client) { Tie::Reads } else { Tie::Writes };
                match tie {
                    Tie::UnderWay => {
                        let granted = self.admits(state, client, node, reads(client));
                        then(phase, Some((node, if granted { grant } else { Tie::Gone })));
                    }
                    // A renewal re-creates what is missing.
                    Tie::Gone if holds => {
                        let reading = reads(client) || phase == Phase::Downgraded;
                        if self.admits(state, client, node, reading) {
                            then(phase, Some((node, if reading { Tie::Reads } else { Tie::Writes })));
                        }
                    }
                    Tie::Writes if matches!(phase, Phase::Downgraded | Phase::DoneAfterDowngrade) => {
                        then(phase, Some((node, Tie::Reads)));
                    }
                    _ => {}
                }
                if is_live(tie) && (!holds || !self.grants_outlive_holds) {
                    // Whoever still asks is too late from here on: its validity would have been over before.
                    let late = if phase == Phase::Asking && self.grants_outlive_holds { Phase::Done } else { phase };
                    then(late, Some((node, Tie::Gone)));
                }
            }
        }
    }

    fn writes(self, client: usize, of: &Client) -> bool {
        let unheard = || of.ties.iter().filter(|tie| **tie == Tie::Reads).count() < self.writer_needs;
        match of.phase {
            Phase::Holding => !reads(client),
            Phase::Downgraded => !self.reads_at_once && unheard(),
            _ => false,
        }
    }
}

/// One client as a number.
fn code(client: &Client) -> u16 {
    client.ties.iter().fold(client.phase as u16, |code, tie| code * 5 + *tie as u16)
}

/// How many numbers there are for one client.
const CODES: usize = 6 * 5 * 5 * 5;

/// What the numbers of clients become when the nodes change their names; in every way that they can.
struct Names([[u16; CODES]; 6]);

impl Names {
    fn new() -> Self {
        const ORDERS: [[usize; NODES]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let renamed = |order: [usize; NODES], code: usize| {
            let (phase, ties) = (code / 125, [code / 25 % 5, code / 5 % 5, code % 5]);
            order.into_iter().fold(phase, |renamed, node| renamed * 5 + ties[node]) as u16
        };
        Self(ORDERS.map(|order| std::array::from_fn(|code| renamed(order, code))))
    }

    /// Nodes are alike, readers are alike, and so are writers: states that differ in names only have one key.
    fn key(&self, state: &State) -> u64 {
        let codes = state.map(|client| code(&client));
        let keys = self.0.iter().map(|renamed| {
            let [a, b, c, d] = codes.map(|code| u64::from(renamed[usize::from(code)]));
            [a.min(b), a.max(b), c.min(d), c.max(d)].into_iter().fold(0, |key, code| key << 16 | code)
        });
        keys.min().expect("there are six")
    }
}

#[derive(Default, Debug)]
struct Found {
    states: usize,
    /// A writer beside another holder.
    violation: Option<State>,
    /// What shows that the model can move: two readers, a writer, a downgraded writer beside a reader.
    two_readers: bool,
    a_writer: bool,
    downgraded_beside_a_reader: bool,
}

/// Visits every state that can be reached, or stops at the first violation.
fn search(rules: Rules, start: State) -> Found {
    let names = Names::new();
    let mut found = Found::default();
    let mut seen = HashSet::from([names.key(&start)]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        found.states += 1;
        let holders = state.iter().filter(|client| matches!(client.phase, Phase::Holding | Phase::Downgraded)).count();
        let writers = state.iter().enumerate().filter(|(number, client)| rules.writes(*number, client)).count();
        if writers > 0 && holders > 1 {
            found.violation = Some(state);
            return found;
        }
        let readers = state[..2].iter().filter(|client| client.phase == Phase::Holding).count();
        let downgraded = state.iter().any(|client| client.phase == Phase::Downgraded);
        found.two_readers |= readers == 2;
        found.a_writer |= writers == 1;
        found.downgraded_beside_a_reader |= downgraded && readers > 0;
        rules.steps(&state, |next| {
            if seen.insert(names.key(&next)) {
                open.push(next);
            }
        });
    }
    found
}

const IDLE: Client = Client { phase: Phase::Idle, ties: [Tie::Nothing; NODES] };
const NOT_THERE: Client = Client { phase: Phase::Done, ties: [Tie::Gone; NODES] };

#[test]
fn no_state_has_a_writer_beside_another_holder() {
    let found = search(SAFE, [IDLE; CLIENTS]);
    assert_eq!(found.violation, None);
    assert!(found.two_readers && found.a_writer && found.downgraded_beside_a_reader, "{found:?}");
    assert!(found.states > 100_000, "{} states: the model shows little", found.states);
}

/// Exactly those sizes are safe whose writers meet everybody.
#[test]
fn sizes_that_do_not_meet_let_a_writer_in_beside_another() {
    for reader_needs in 1..=NODES {
        for writer_needs in 1..=NODES {
            let meet = reader_needs + writer_needs > NODES && 2 * writer_needs > NODES;
            let rules = Rules { reader_needs, writer_needs, ..SAFE };
            // One reader is enough to see it.
            let found = search(rules, [NOT_THERE, IDLE, IDLE, IDLE]);
            assert_eq!(found.violation.is_none(), meet, "{rules:?}");
        }
    }
}

/// The controls: without any one of the rules there is a state that should not be.
#[test]
fn each_rule_is_needed() {
    let broken = [
        Rules { reader_needs: 1, ..SAFE },
        Rules { grants_outlive_holds: false, ..SAFE },
        Rules { reads_at_once: false, ..SAFE },
        Rules { writers_keep_readers_out: false, ..SAFE },
    ];
    for rules in broken {
        assert!(search(rules, [IDLE; CLIENTS]).violation.is_some(), "{rules:?}");
    }
}
