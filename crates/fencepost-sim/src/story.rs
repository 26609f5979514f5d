//! The stories that everybody knows about distributed locks, played in the same world as the seeds.

use std::time::Duration;

use fencepost_core::Locks;

use crate::flaw::Flaw;
use crate::net::Link;
use crate::node::Memory;
use crate::plan::{Fault, Mode, Plan};
use crate::time::{MILLI, Nanos, Rate, SECOND};
use crate::worker::Worker;

/// A story.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Story {
    /// A holder checks that it holds, stands still for 20 s, and writes: 33 against 34.
    LongPause,
    /// A holder reads, stands still, and writes between the read and the write of the next.
    PauseBetween,
    /// A node forgets a token from ahead of its time, and is asked again as soon as it may vote.
    ForgottenFence,
    /// Two ask at once, and reach the nodes in opposite order.
    OppositeOrder,
    /// A node that voted for the holder restarts empty within the ttl, and is asked by another.
    RestartWithinTtl,
    /// A request that the holder sent before it had won arrives after its grants ended too early and another held.
    LateRequest,
    /// The clocks of all nodes jump beyond the ttl while somebody holds.
    ClockJump,
}

impl Story {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::LongPause,
        Self::PauseBetween,
        Self::OppositeOrder,
        Self::RestartWithinTtl,
        Self::ForgottenFence,
        Self::ClockJump,
        Self::LateRequest,
    ];

    /// The story that shows a planted bug which random worlds hardly ever meet.
    pub(crate) fn that_shows(flaw: Flaw) -> Option<Self> {
        match flaw {
            Flaw::NoLowerBound | Flaw::NoUpperBound => Some(Self::ForgottenFence),
            Flaw::RenewalKeepsNewer => Some(Self::LateRequest),
            Flaw::ReadsWithoutToken => Some(Self::PauseBetween),
            _ => None,
        }
    }

    /// What is told.
    pub fn describe(self) -> &'static str {
        match self {
            Self::LongPause => "a holder checks its lock, stands still for 20 s and then writes",
            Self::PauseBetween => "a holder reads, stands still for 20 s, and writes between another's read and write",
            Self::ForgottenFence => "a node forgets a token of the near future, and votes again after its quarantine",
            Self::OppositeOrder => "two ask at one moment and reach the nodes in opposite order",
            Self::RestartWithinTtl => "a node that voted for the holder restarts empty within the ttl",
            Self::LateRequest => "clocks jump, another holds, then a late request of the first holder arrives",
            Self::ClockJump => "the clocks of all nodes jump by 40 s while somebody holds",
        }
    }
}

impl Plan {
    /// A story, with or without something wrong in it.
    pub fn story(story: Story, flaw: Option<Flaw>) -> Self {
        let mut plan = Self::new(2, Mode::Calm, flaw);
        plan.story = Some(story);
        plan.patient = false;
        (plan.nodes, plan.processes, plan.tasks, plan.ttl) = (3, 2, 1, Duration::from_secs(3));
        if story == Story::OppositeOrder {
            plan.nodes = 4;
        }
        plan.node_clocks = vec![(Rate(0), 0); plan.nodes];
        plan.process_rates.truncate(2);
        plan.mistaken.truncate(2);
        plan.least = (1, 30 * SECOND);
        if story == Story::ForgottenFence {
            let far = flaw == Some(Flaw::NoUpperBound);
            let ahead = if far { 3_600 } else { 4 };
            let behind = if far { 0 } else { -8 };
            plan.mistaken = vec![ahead * SECOND as i64, behind * SECOND as i64];
        }
        if story == Story::LateRequest {
            // The other's token is between the two of the first: both take the nodes' clocks for later than they are.
            plan.mistaken = vec![2 * SECOND as i64, 1_800 * MILLI as i64];
            // Where a connection keeps order nothing is asked twice.
            plan.weather.ordered = false;
        }
        plan.mode = if matches!(story, Story::ClockJump | Story::LateRequest) { Mode::Wild } else { Mode::Strict };
        let cut = |links: &[(usize, usize)], lasts| Fault::Cut { links: links.to_vec(), link: Link::Silent, lasts };
        plan.faults = match story {
            Story::LongPause | Story::PauseBetween => {
                vec![(120 * MILLI, Fault::Pause { process: 0, lasts: 20 * SECOND })]
            }
            // Two votes each.
            Story::OppositeOrder => {
                let links = vec![(0, 2), (0, 3), (1, 0), (1, 1)];
                vec![(0, Fault::Cut { links, link: Link::Slow, lasts: 60 * SECOND })]
            }
            Story::RestartWithinTtl => vec![
                (0, cut(&[(0, 2), (1, 0)], 60 * SECOND)),
                (500 * MILLI, Fault::Crash { node: 1, lasts: 10 * MILLI, memory: Memory::Empty }),
            ],
            Story::ForgottenFence => vec![
                (0, cut(&[(0, 2), (1, 0)], 60 * SECOND)),
                (500 * MILLI, Fault::Crash { node: 1, lasts: MILLI, memory: Memory::Empty }),
            ],
            // The first requests arrive after the second were sent; the second ones at two nodes much later.
            Story::LateRequest => {
                let stall =
                    |links: &[(usize, usize)], lasts| Fault::Cut { links: links.to_vec(), link: Link::Stalled, lasts };
                let jump = |node| (300 * MILLI, Fault::Jump { node, by: 4 * SECOND as i64 });
                vec![
                    (0, stall(&[(0, 0), (0, 1), (0, 2)], 260 * MILLI)),
                    (100 * MILLI, stall(&[(0, 1), (0, 2)], 900 * MILLI)),
                    jump(1),
                    jump(2),
                ]
            }
            Story::ClockJump => {
                let jump = |node| (500 * MILLI, Fault::Jump { node, by: 40 * SECOND as i64 });
                (0..3).map(jump).collect()
            }
        };
        plan
    }
}

impl Worker {
    /// What this process does in a story.
    pub(crate) async fn play(self, story: Story, locks: Locks) {
        let first = self.pid.0 == 0;
        let lock = locks.lock("a").wait_at_most(Duration::from_secs(9));
        let hold: Nanos = match story {
            Story::LongPause | Story::PauseBetween | Story::OppositeOrder | Story::ForgottenFence => 50 * MILLI,
            Story::LateRequest if !first => 50 * MILLI,
            Story::RestartWithinTtl | Story::ClockJump | Story::LateRequest => 2 * SECOND,
        };
        match story {
            Story::LongPause | Story::PauseBetween if !first => self.sleep(SECOND).await,
            // As soon as the node that forgot may vote again.
            Story::ForgottenFence if !first => self.sleep(11_700 * MILLI).await,
            Story::RestartWithinTtl | Story::ClockJump if !first => self.sleep(700 * MILLI).await,
            Story::LateRequest if !first => self.sleep(320 * MILLI).await,
            _ => self.sleep(MILLI).await,
        }
        let Ok(guard) = lock.acquire().await else { return };
        self.sleep(hold).await;
        if guard.is_held() {
            if story == Story::LongPause && first {
                // The pause comes here, between the look and the write.
                self.sleep(100 * MILLI).await;
            }
            if let Some(read) = self.errand("a", guard.token(), None).await {
                if story == Story::PauseBetween {
                    self.sleep(if first { 100 * MILLI } else { 20 * SECOND }).await;
                }
                let _ = self.errand("a", guard.token(), Some(read)).await;
            }
        }
        drop(guard.release().await);
    }
}
