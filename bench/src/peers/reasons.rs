//! Why a peer is ahead of ours, where it is. The page has these texts beside the rows.

use super::scenario::{Case, Scenario};
use crate::figures::{CLIENT, COMMANDS, Figure, GAP, GAP_99, P50, P99, RATE, SERVER, WAIT_99, WAIT_MAX};
use crate::kinds::{DISTRIBUTED_LOCK, Kind};

pub(super) struct Reason {
    applies: fn(Scenario, &Kind, &Figure) -> bool,
    pub(super) text: &'static str,
}

/// The first that applies counts.
pub(super) const ALL: &[Reason] = &[
    Reason {
        applies: |scenario, _, figure| matches!(scenario.case, Case::Wanted(..)) && is(figure, &[&RATE]),
        text: "The one that unlocks takes the lock back before the others ask again: no hand-over, so no time passes \
               between two holds, while the others starve (see \"to another waiter\", the waits and the Jain index). Node \
               and Python also hold for 1.1 ms where tokio's timer makes 2.1 ms of the same millisecond, so at most 900 \
               holds a second are possible there and 470 here.",
    },
    Reason {
        applies: |scenario, _, figure| {
            matches!(scenario.case, Case::Wanted(..)) && is(figure, &[&GAP, &GAP_99, &WAIT_99, &WAIT_MAX])
        },
        text: "Only those hand-overs count that happened. A poller that asks in the very moment of the release finds the \
               lock free at once, and a wait that did not end counts with what it had lasted by then, once among \
               hundreds of its rival's. With few hand-overs these figures say little; how many there were is in the \
               first column.",
    },
    Reason {
        applies: |scenario, _, figure| matches!(scenario.case, Case::Wanted(..)) && is(figure, &[&COMMANDS]),
        text: "A lock that its last holder takes again costs one step to lock and one to unlock, and those who sleep \
               between two looks send nothing.",
    },
    Reason {
        applies: |scenario, kind, figure| {
            scenario.nodes == 5 && is_kind(kind, &DISTRIBUTED_LOCK) && is(figure, &[&COMMANDS, &SERVER])
        },
        text: "It sends no release to the servers beyond the majority that answered first; their keys stay until their \
               lease ends.",
    },
    Reason {
        applies: |_, _, figure| is(figure, &[&SERVER]),
        text: "Its acquire is a plain SET NX, or a script with little more, without a fencing token and without a line of \
               waiters. A script that keeps both costs the server more; without a token ours sends the same SET.",
    },
    Reason {
        applies: |scenario, _, figure| scenario.nodes == 1 && is(figure, &[&RATE, &P50, &P99]),
        text: "On one server the server's work is the bound, and a fenced acquire is a script where the peer sends SET NX. \
               The row without a token is the same work as the peer's. With one task each answer also crosses from our \
               reading thread to the task that asked, and it decides much where the kernel puts the threads: \
               measured apart from this run, three times, a plain SET by redis-benchmark took 15 to 23 µs with server and \
               client on one core and 71 to 79 µs on two. A peer that reads where it asks can share the server's core, and \
               is then faster than the raw floor.",
    },
    Reason {
        applies: |_, _, figure| is(figure, &[&CLIENT]),
        text: "Ours reads on a thread of its own, so that it works in every runtime and without any: each answer wakes a \
               task on another thread. The peer reads where it asks. With many tasks one wake-up serves many answers, so \
               this shows most with one task.",
    },
    Reason {
        applies: |_, _, figure| is(figure, &[&COMMANDS]),
        text: "It goes on when a majority has answered and drops what it had not sent to the others by then.",
    },
    Reason {
        applies: |scenario, _, figure| scenario.nodes == 5 && is(figure, &[&RATE, &P50, &P99]),
        text: "A plain SET NX on each server costs about half of a fenced acquire, and all five servers share the \
               processors with the client here. The row without a token is the same work as the peer's.",
    },
];

/// Its number on the page, and its text.
pub(super) fn find(scenario: Scenario, kind: &Kind, figure: &Figure) -> Option<usize> {
    ALL.iter().position(|reason| (reason.applies)(scenario, kind, figure))
}

fn is(figure: &Figure, among: &[&Figure]) -> bool {
    among.iter().any(|other| other.what == figure.what)
}

fn is_kind(kind: &Kind, other: &Kind) -> bool {
    kind.name == other.name
}
