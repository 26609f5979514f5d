//! A process: a connection of the real library, its tasks, and a clock that may stand still.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use fencepost_core::store::{self, Moment};
use fencepost_core::{Blocking, Event, Locks, Observer, VirtualClock};
use fencepost_testkit::history::{Recorder, Timepiece};
use fencepost_testkit::poll::Flag;

use crate::flaw::Flaw;
use crate::net::{Hub, Parcel, Pid};
use crate::plan::Plan;
use crate::time::{Nanos, Rate, moment, nanos};
use crate::wire::{Life, Wire};

pub(crate) type Work = Pin<Box<dyn Future<Output = ()>>>;

pub(crate) struct Task {
    pub(crate) work: Option<Work>,
    flag: Arc<Flag>,
    waker: Waker,
}

impl Task {
    pub(crate) fn new(work: Work) -> Self {
        let (flag, waker) = Flag::new();
        waker.wake_by_ref();
        Self { work: Some(work), flag, waker }
    }

    pub(crate) fn wake(&self) {
        self.waker.wake_by_ref();
    }

    fn is_woken(&self) -> bool {
        self.work.is_some() && self.flag.is_raised()
    }

    /// Polls it if somebody woke it. Answers whether it did.
    fn poll(&mut self) -> bool {
        let Some(work) = self.work.as_mut().filter(|_| self.flag.take()) else { return false };
        if work.as_mut().poll(&mut Context::from_waker(&self.waker)).is_ready() {
            self.work = None;
        }
        true
    }
}

pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) tasks: Vec<Task>,
    pub(crate) locks: Locks,
    /// Stands still since then.
    pub(crate) paused: Option<Nanos>,
    /// What arrived meanwhile.
    pub(crate) inbox: Vec<Parcel>,
    clock: VirtualClock,
    rate: Rate,
    started: Nanos,
    /// What its clock missed.
    missed: Nanos,
    life: Life,
}

/// The number of a process in a history.
pub(crate) fn number(pid: Pid) -> u32 {
    u32::try_from(pid.0).unwrap_or_default() + 100 * pid.1
}

impl Process {
    pub(crate) fn start(hub: &Hub, pid: Pid, plan: &Plan) -> Self {
        let clock = VirtualClock::new();
        let life: Life = Arc::new(AtomicBool::new(true));
        let rate = plan.process_rates[pid.0];
        let nodes: Vec<usize> = match plan.flaw {
            Some(Flaw::DifferentNodes) => {
                if pid.0.is_multiple_of(2) {
                    vec![0, 1, 2]
                } else {
                    vec![2, 3, 4]
                }
            }
            Some(Flaw::NodeTwice) if pid.0 % 2 == 1 => vec![0, 0, 1],
            _ => (0..plan.nodes).collect(),
        };
        let wire = |node| Wire::new(hub, pid, node, &life, plan, &clock.clock());
        let wires: Vec<Wire> = nodes.into_iter().map(wire).collect();
        let one_of_a_kind = if plan.flaw == Some(Flaw::SharedOwners) { 0 } else { u64::from(number(pid)) + 1 };
        let time = Arc::new(TrueTime { hub: hub.clone(), rate });
        let recorder = Recorder::new(&hub.ledger, number(pid), time);
        let witness = Witness { recorder, hub: hub.clone(), life: life.clone(), number: number(pid) };
        let connect = store::connect(move |_| Ok(wires)).clock(&clock).ttl(plan.ttl).observer(witness);
        let connect = connect.label(format!("p{}", number(pid))).seed(plan.seed.wrapping_mul(1_000) + one_of_a_kind);
        let locks = connect.block().expect("BUG: the simulated stores always open");
        let started = hub.net().now;
        let (tasks, inbox) = (Vec::new(), Vec::new());
        Self { pid, tasks, locks, paused: None, inbox, clock, rate, started, missed: 0, life }
    }

    fn local(&self, now: Nanos) -> Nanos {
        self.rate.local(now - self.started - self.missed)
    }

    fn behind(&self, now: Nanos) -> Duration {
        let here = self.clock.clock().now();
        moment(self.local(now)).since(here)
    }

    /// Brings its clock up to date; what is due rings.
    pub(crate) fn sync(&self, now: Nanos) {
        self.clock.turn(self.behind(now));
    }

    /// When its next alarm rings, in true time.
    pub(crate) fn next_alarm(&self) -> Option<Nanos> {
        let here: Moment = self.clock.clock().now();
        let at = here.plus(self.clock.next_alarm()?);
        Some(self.started + self.missed + self.rate.truth(at.as_nanos()))
    }

    /// Wakes up after a pause. A clock that stood still too does not notice.
    pub(crate) fn wake_up(&mut self, now: Nanos, clock_stood_still: bool) -> Nanos {
        let paused = self.paused.take().map_or(0, |since| now - since);
        if clock_stood_still {
            self.missed += paused;
        } else {
            self.clock.stall(self.behind(now));
        }
        paused
    }

    pub(crate) fn kill(&mut self) {
        self.life.store(false, Ordering::SeqCst);
    }

    /// Polls tasks until none has anything to do, by the time that it is. Answers how often.
    pub(crate) fn run_tasks(&mut self, now: Nanos) -> u64 {
        let mut polls = 0;
        if self.paused.is_none() && self.tasks.iter().any(Task::is_woken) {
            self.sync(now);
        }
        while self.paused.is_none() {
            let before = polls;
            polls += self.tasks.iter_mut().map(|task| u64::from(task.poll())).sum::<u64>();
            if polls == before {
                break;
            }
        }
        polls
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.iter().all(|task| task.work.is_none())
    }
}

/// True time for what a process tells.
struct TrueTime {
    hub: Hub,
    rate: Rate,
}

impl Timepiece for TrueTime {
    fn read(&self, ahead: Duration) -> (Moment, Moment) {
        let now = self.hub.net().now;
        (moment(now), moment(now + self.rate.truth(nanos(ahead))))
    }
}

/// Records what a process tells while it is alive.
struct Witness {
    recorder: Recorder,
    hub: Hub,
    life: Life,
    number: u32,
}

impl Observer for Witness {
    fn event(&self, event: &Event) {
        if !self.life.load(Ordering::SeqCst) {
            return;
        }
        let mut net = self.hub.net();
        let now = net.now;
        net.log.add(now, || format!("p{} {} #{}: {:?}", self.number, event.name, event.claim, event.kind));
        drop(net);
        self.recorder.event(event);
    }
}
