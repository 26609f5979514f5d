//! Other ways to lock, in the same world: what a fence is worth shows beside one that is none.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use fencepost_core::FencingToken;
use fencepost_core::store::{Answer, Claim, Event, LockName, Mailbox, Mode, Owner, Post, Proposal, Reply, Step, Turn};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::history::What;

use crate::process::number;
use crate::time::{MILLI, Nanos, moment, nanos};
use crate::worker::Worker;

/// How a lock is made, if not by us.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Control {
    /// Redlock as published: SET NX PX on a majority, compare-and-delete; the token is the highest of the nodes'
    /// counters, since it has none of its own.
    PlainRedlock,
    /// One server with a replica that takes over: SET NX PX, and INCR for a token.
    SentinelIncr,
    /// Ours on such a server.
    OursOnSentinel,
}

impl Control {
    /// The nodes count instead of remembering what was proposed.
    pub(crate) fn counts(self) -> bool {
        self != Self::OursOnSentinel
    }

    /// What it is.
    pub fn describe(self) -> &'static str {
        match self {
            Self::PlainRedlock => "plain Redlock, token = highest of the nodes' counters",
            Self::SentinelIncr => "Sentinel, token = INCR",
            Self::OursOnSentinel => "Fencepost on Sentinel",
        }
    }
}

/// Answers of all nodes to one step.
struct Votes {
    answers: Mutex<Heard>,
}

struct Heard {
    /// Whether each said yes.
    granted: Vec<Option<bool>>,
    highest: Option<FencingToken>,
    waker: Option<Waker>,
}

impl Mailbox for Votes {
    fn post(self: Arc<Self>, post: Post) {
        let Event::Answer(answer) = post.event else { return };
        let mut votes = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let granted = matches!(answer, Ok(Answer::Granted { .. } | Answer::Freed));
        votes.granted[post.node] = Some(granted);
        if let Ok(Answer::Granted { token }) = answer {
            votes.highest = votes.highest.max(Some(token));
        }
        if let Some(waker) = votes.waker.take() {
            waker.wake();
        }
    }
}

impl Worker {
    /// The work of a program that locks like this, until the world says stop.
    pub(crate) async fn run_plainly(self, nodes: usize, mut dice: Dice) {
        let mut claims = 0;
        loop {
            self.sleep(dice.below(60 * MILLI)).await;
            if self.hub.net().stopping {
                return;
            }
            claims += 1;
            self.lock_plainly(nodes, claims * 10 + self.task as u64, &mut dice).await;
        }
    }

    fn tell(&self, claim: u64, what: What) {
        let now = moment(self.now());
        let mut history = self.hub.ledger.open();
        let lock = history.lock("a");
        history.note(now, number(self.pid), claim, lock, what);
    }

    async fn lock_plainly(&self, nodes: usize, number: u64, dice: &mut Dice) {
        let owner = format!("{:016x}{:016x}{:08x}", dice.roll(), dice.roll(), dice.below(1 << 32));
        let claim = Arc::new(Claim {
            name: LockName::new("a").expect("BUG: a valid name"),
            owner: Owner::from_exposed(&owner).expect("BUG: forty digits"),
            label: format!("p{}", self.pid.0).into(),
            mode: Mode::Exclusive,
            ttl: self.ttl,
            turn: Turn::Overtake,
            fenced: true,
            actor: None,
            delay: std::time::Duration::ZERO,
        });
        let began = self.now();
        self.tell(number, What::Asked);
        let acquire = Step::Acquire { claim: claim.clone(), attempt: 1, token: Proposal::Next, unify: false };
        let (granted, token) = self.ask_all(nodes, &acquire).await;
        let ttl = nanos(self.ttl);
        let until: Nanos = began + ttl - ttl / 100 - 2 * MILLI;
        let won = granted > nodes / 2 && self.now() < until;
        if let Some(token) = token.filter(|_| won) {
            self.tell(number, What::Acquired { token, until: moment(until) });
            self.sleep(dice.below(20 * MILLI)).await;
            if self.now() < until
                && let Some(read) = self.errand("a", token, None).await
            {
                self.sleep(dice.below(3 * MILLI)).await;
                let _ = self.errand("a", token, Some(read)).await;
            }
            self.tell(number, What::Releasing);
        } else {
            self.tell(number, What::Refused);
        }
        let release = Step::Release { claim, raise: None, pass: Proposal::Next, then: None, only: None };
        self.ask_all(nodes, &release).await;
    }

    /// Asks all nodes at once. Answers how many said yes within an answer's time, and their highest token.
    async fn ask_all(&self, nodes: usize, step: &Step) -> (usize, Option<FencingToken>) {
        let heard = Heard { granted: vec![None; nodes], highest: None, waker: None };
        let votes = Arc::new(Votes { answers: Mutex::new(heard) });
        {
            let mut net = self.hub.net();
            for node in 0..nodes {
                net.send(self.pid, node, step, &Reply::new(votes.clone(), node, 1));
            }
        }
        let mut patience = std::pin::pin!(self.sleep(50 * MILLI));
        poll_fn(|context| {
            let mut answers = votes.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.waker = Some(context.waker().clone());
            let done = answers.granted.iter().all(Option::is_some);
            drop(answers);
            if done { Poll::Ready(()) } else { patience.as_mut().poll(context) }
        })
        .await;
        let answers = votes.answers.lock().unwrap_or_else(PoisonError::into_inner);
        (answers.granted.iter().flatten().filter(|granted| **granted).count(), answers.highest)
    }
}
