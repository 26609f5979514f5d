//! Give-backs that are lost or answered late, in virtual time. Of two nodes a claim has one and another the other: a
//! tie, and the claim gives back what it has.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use fencepost_core::store::{self, Abilities, Claim, Closing, Listening, Moment, Owed, Reply, Step, Store};
use fencepost_core::{Blocking, FencingToken, Guard, Locks, VirtualClock};
use fencepost_testkit::faulty::Faults;
use fencepost_testkit::nodes::{Node, Nodes, memory};
use fencepost_testkit::poll;

const TTL: Duration = Duration::from_secs(10);
const ANSWER_WITHIN: Duration = Duration::from_millis(50);

const NOTHING: u8 = 0;
const GIVE_BACKS: u8 = 1;
const RELEASES: u8 = 2;

/// Loses the steps of one kind.
#[derive(Clone)]
struct Losing {
    node: Node,
    what: Arc<AtomicU8>,
}

#[deny(clippy::missing_trait_methods)]
impl Store for Losing {
    fn abilities(&self) -> Abilities {
        self.node.abilities()
    }

    fn label(&self) -> String {
        self.node.label()
    }

    fn submit(&self, step: Step, deadline: Moment, reply: Reply) {
        let kind = match step {
            Step::GiveBack { .. } => GIVE_BACKS,
            Step::Release { .. } => RELEASES,
            _ => NOTHING,
        };
        if kind == NOTHING || kind != self.what.load(Ordering::SeqCst) {
            self.node.submit(step, deadline, reply);
        }
    }

    fn listen(&self, claim: &Arc<Claim>, reply: Reply) -> Listening {
        self.node.listen(claim, reply)
    }

    fn clock(&self) -> Option<FencingToken> {
        self.node.clock()
    }

    fn owed(&self, submitted: Moment) -> Owed {
        self.node.owed(submitted)
    }

    fn is_live(&self) -> Option<bool> {
        self.node.is_live()
    }

    fn close(&self, closing: Closing) {
        self.node.close(closing);
    }
}

struct World {
    clock: VirtualClock,
    nodes: Nodes,
    lost: Arc<AtomicU8>,
    locks: Locks,
    /// Has the second node.
    other: Guard,
}

impl World {
    fn new() -> Self {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(2, &clock.clock(), 5, Faults::default());
        let lost = Arc::new(AtomicU8::new(NOTHING));
        let losing: Vec<Losing> = nodes.iter().map(|node| Losing { node: node.clone(), what: lost.clone() }).collect();
        let locks = store::connect(move |_| Ok(losing)).clock(&clock).ttl(TTL).block().expect("memory is there");
        let second = nodes.node(1).clone();
        let other = store::connect(move |_| Ok(vec![second])).clock(&clock).ttl(TTL).block().expect("memory is there");
        let other = other.lock("x").acquire().block().expect("free");
        Self { clock, nodes, lost, locks, other }
    }

    fn given_back(&self) -> usize {
        self.nodes.node(0).store().count(|step| matches!(step, Step::GiveBack { .. }))
    }
}

#[test]
fn a_claim_is_not_shut_out_by_its_own_grant_whose_give_back_was_lost() {
    let world = World::new();
    world.lost.store(GIVE_BACKS, Ordering::SeqCst);
    let lock = world.locks.lock("x").wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(poll::once(waiting.as_mut()).is_none(), "a tie");
    world.lost.store(NOTHING, Ordering::SeqCst);
    assert_eq!((world.given_back(), memory(world.nodes.node(0)).rows_in_use()), (0, 1), "its grant is still there");
    drop(world.other);
    world.clock.turn(ANSWER_WITHIN * 4);
    let guard = poll::once(waiting.as_mut()).expect("decided").expect("both are free but for itself");
    assert!(guard.is_held());
}

/// As long as the other holds, the claim keeps nothing from those who would get more.
#[test]
fn a_give_back_that_was_lost_is_sent_again() {
    let world = World::new();
    world.lost.store(GIVE_BACKS, Ordering::SeqCst);
    let lock = world.locks.lock("x").wait_forever();
    let mut waiting = pin!(lock.acquire());
    assert!(poll::once(waiting.as_mut()).is_none(), "a tie");
    world.lost.store(NOTHING, Ordering::SeqCst);
    world.clock.turn(Duration::from_secs(2));
    assert!(poll::once(waiting.as_mut()).is_none(), "the other still holds");
    assert!(world.given_back() > 0);
}

/// A give-back and a release are answered in the same words.
#[test]
fn the_answer_to_a_give_back_is_not_taken_for_that_to_a_release() {
    let world = World::new();
    world.nodes.node(0).set_faults(Faults { delay: 1000, delay_max: Duration::from_millis(10), ..Faults::default() });
    {
        let lock = world.locks.lock("x").wait_forever();
        let mut waiting = pin!(lock.acquire());
        assert!(poll::once(waiting.as_mut()).is_none(), "a tie");
        while world.given_back() == 0 {
            world.clock.turn(Duration::from_micros(100));
        }
        assert!(world.nodes.node(0).under_way() > 0, "the answer to the give-back");
        world.lost.store(RELEASES, Ordering::SeqCst);
    }
    world.clock.turn(Duration::from_millis(10));
    world.lost.store(NOTHING, Ordering::SeqCst);
    assert_eq!(world.nodes.node(0).under_way(), 0, "it has arrived");
    // The releaser tries again: the place in line does not stay until its lease is over.
    world.clock.turn(ANSWER_WITHIN * 4);
    assert_eq!(memory(world.nodes.node(0)).rows_in_use(), 0);
}
