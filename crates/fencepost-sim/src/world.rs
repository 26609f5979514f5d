//! One run: a world of nodes, wires, processes and resources, in one thread, in the order of true time.

use std::time::Duration;

use fencepost_core::store::{Event, Reply};
use fencepost_testkit::checker::{self, Demands, Finding, Rule};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::history::What;

use crate::brief;
use crate::control::Control;
use crate::flaw::Flaw;
use crate::net::{Hub, Link, Net, Parcel, Pid, unreachable};
use crate::node::{COUNTED, Memory, Node};
use crate::outcome::{Run, contention};
use crate::plan::{Fault, Mode, Plan};
use crate::process::{Process, Task, Work, number};
use crate::resource::Errand;
use crate::time::{Nanos, NodeClock, Rate, SECOND, moment, nanos};
use crate::worker::Worker;

pub(crate) struct World<'a> {
    plan: &'a Plan,
    hub: Hub,
    nodes: Vec<Node>,
    processes: Vec<Process>,
    dice: Dice,
    /// What a node comes back with.
    memories: Vec<Memory>,
    faults: u64,
    pauses: u64,
    findings: Vec<Finding>,
}

/// A run that does not come to rest in this time never will.
const REST: Nanos = 240 * SECOND;
/// Enough for any seed: who spins shows nothing new.
const EVENTS_MAX: u64 = 9_000;
/// How late a call may be: one answer's time, and the next poll.
const GRACE: Duration = Duration::from_millis(200);

/// Runs a plan. The log is text only if wanted: it takes most of the time.
pub fn run(plan: &Plan, with_log: bool) -> Run {
    World::new(plan, with_log).run()
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, with_log: bool) -> Self {
        let mut net = Net::new(plan.processes, plan.nodes, plan.weather, plan.seed);
        net.log.text = with_log.then(String::new);
        net.mistaken.clone_from(&plan.mistaken);
        net.post_faults(&plan.faults);
        let hub = Hub::new(net);
        // A replica that takes over does not know what it has not heard.
        let sentinel = matches!(plan.control, Some(Control::SentinelIncr | Control::OursOnSentinel));
        let probation = if sentinel { Duration::ZERO } else { plan.probation };
        let counts = plan.control.is_some_and(Control::counts);
        let node = |(number, (rate, ahead)): (usize, &(Rate, i64))| {
            let (clock, seed) = (NodeClock::new(*rate, *ahead), plan.seed.wrapping_add(number as u64));
            Node::new(clock, probation, counts, plan.flaw, seed)
        };
        let nodes: Vec<Node> = plan.node_clocks.iter().enumerate().map(node).collect();
        let dice = Dice::new(plan.seed ^ 0xD1CE);
        let (memories, findings) = (vec![Memory::Kept; plan.nodes], Vec::new());
        let mut world =
            Self { plan, hub, nodes, processes: Vec::new(), dice, memories, faults: 0, pauses: 0, findings };
        for process in 0..plan.processes {
            let started = world.start_process((process, 0));
            world.processes.push(started);
        }
        world
    }

    fn now(&self) -> Nanos {
        self.hub.net().now
    }

    fn log(&self, describe: impl FnOnce() -> String) {
        let mut net = self.hub.net();
        let now = net.now;
        net.log.add(now, describe);
    }

    fn start_process(&mut self, pid: Pid) -> Process {
        let now = self.now();
        for (number, node) in self.nodes.iter().enumerate() {
            self.hub.net().heard(pid.0, number, node.clock.wall(now));
        }
        let mut process = Process::start(&self.hub, pid, self.plan);
        for task in 0..self.plan.tasks {
            let worker = Worker {
                hub: self.hub.clone(),
                pid,
                task,
                ttl: self.plan.ttl,
                delay: self.plan.delay,
                calm: self.plan.patient,
                evicts: self.plan.evictions,
                flaw: self.plan.flaw,
            };
            let (locks, dice) = (process.locks.clone(), Dice::new(self.dice.roll()));
            let work: Work = match (self.plan.story, self.plan.control) {
                (Some(story), _) => Box::pin(worker.play(story, locks)),
                (None, Some(control)) if control.counts() => Box::pin(worker.run_plainly(self.plan.nodes, dice)),
                _ => Box::pin(worker.run(locks, dice)),
            };
            process.tasks.push(Task::new(work));
        }
        process
    }

    fn run(mut self) -> Run {
        let (events, time) = self.plan.least;
        let last_fault = self.plan.faults.last().map_or(0, |(at, _)| *at) + nanos(self.plan.ttl);
        let enough = |world: &Self| {
            let net = world.hub.net();
            (net.now >= time.max(last_fault) && net.log.events >= events) || net.log.events >= EVENTS_MAX
        };
        while !enough(&self) && self.now() < REST && self.step(REST) {}
        self.come_to_rest();
        self.judge()
    }

    /// The next thing that happens. `false`: nothing does, until then.
    fn step(&mut self, until: Nanos) -> bool {
        let now = self.now();
        let polls: u64 = self.processes.iter_mut().map(|process| process.run_tasks(now)).sum();
        let parcel_at = {
            let mut net = self.hub.net();
            net.log.events += polls;
            net.next_at()
        };
        let ringing = self.processes.iter().enumerate().filter(|(_, process)| process.paused.is_none());
        let alarm = ringing.filter_map(|(number, process)| Some((process.next_alarm()?, number))).min();
        match (parcel_at, alarm) {
            (Some(at), alarm) if at <= until && alarm.is_none_or(|(ring, _)| at <= ring) => {
                let parcel = {
                    let mut net = self.hub.net();
                    net.now = net.now.max(at);
                    net.pop()
                };
                if let Some(parcel) = parcel {
                    self.deliver(parcel);
                }
                true
            }
            (_, Some((ring, process))) if ring <= until => {
                let now = {
                    let mut net = self.hub.net();
                    net.now = net.now.max(ring);
                    net.log.events += 1;
                    net.now
                };
                self.processes[process].sync(now);
                true
            }
            _ => {
                let mut net = self.hub.net();
                net.now = net.now.max(until);
                false
            }
        }
    }

    fn deliver(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::ToNode { from, node, epoch, step, reply } => {
                let broken = self.hub.net().epoch(from.0, node) != epoch;
                // What was under way when the wire broke may have arrived, or not; its sender hears of the break only.
                if broken && self.dice.per_mille(500) {
                    return self.tell(from, node, reply, Event::Answer(Err(unreachable("connection reset"))), None);
                }
                if !self.nodes[node].up {
                    return self.tell(from, node, reply, Event::Answer(Err(unreachable("connection refused"))), None);
                }
                self.apply(from, node, &step, &reply, broken);
            }
            Parcel::ToProcess { to, node, epoch, wall, reply, event } => {
                let broken = self.hub.net().epoch(to.0, node) != epoch;
                let event = match event {
                    Event::Answer(_) if broken => Event::Answer(Err(unreachable("connection reset"))),
                    _ if broken => return,
                    event => event,
                };
                self.tell(to, node, reply, event, wall);
            }
            Parcel::ToResource { from, task, errand } => self.at_resource(from, task, &errand),
            Parcel::Send { from, node, step, reply } => {
                let mut net = self.hub.net();
                if let fencepost_core::store::Step::Renew { claim, token, .. } = &step {
                    let mut history = self.hub.ledger.open();
                    let lock = history.lock(claim.name.as_str());
                    history.renewals.push((moment(net.now), lock, *token));
                }
                net.send(from, node, &step, &reply);
            }
            Parcel::Wake { to, task } => {
                if let Some(task) = self.process(to).and_then(|process| process.tasks.get(task)) {
                    task.wake();
                }
            }
            Parcel::Resume { process } => self.resume(process),
            Parcel::Start { node } => {
                let (now, memory) = (self.now(), self.memories[node]);
                self.log(|| format!("n{node} starts, memory {memory:?}"));
                self.nodes[node].start(now, memory);
            }
            Parcel::Mend { links } => {
                let mut net = self.hub.net();
                links.into_iter().for_each(|(process, node)| net.set_link(process, node, Link::Up));
            }
            Parcel::Fault(number) => {
                let (_, fault) = self.plan.faults[number].clone();
                self.strike(fault);
            }
        }
    }

    fn process(&mut self, pid: Pid) -> Option<&mut Process> {
        Some(&mut self.processes[pid.0]).filter(|process| process.pid == pid)
    }

    fn apply(&mut self, from: Pid, node: usize, step: &fencepost_core::store::Step, reply: &Reply, broken: bool) {
        let now = self.now();
        let outcome = {
            let net = &mut *self.hub.net();
            let links: Vec<Link> = (0..self.plan.processes).map(|process| net.link(process, node)).collect();
            let ears = &net.ears[node];
            let listens = |owner: &_| ears.get(owner).is_some_and(|ear| links[ear.pid.0] != Link::Refused);
            self.nodes[node].apply(step, now, &listens)
        };
        let wall = self.nodes[node].clock.wall(now);
        self.log(|| {
            let (step, answer) = (brief::step(step), brief::answer(&outcome.answer));
            let told: Vec<String> = outcome.notices.iter().map(|(owner, event)| brief::push(owner, event)).collect();
            format!("n{node} <- p{}: {step} => {answer}{}", number(from), told.concat())
        });
        if let (Some(name), false) = (step.name(), outcome.readers.is_empty()) {
            let mut history = self.hub.ledger.open();
            let lock = history.lock(name.as_str());
            history.readers.extend(outcome.readers.into_iter().map(|token| (lock, token)));
        }
        let mut net = self.hub.net();
        if broken {
            let (event, at) = (Event::Answer(Err(unreachable("connection reset"))), net.now + 1);
            let epoch = net.epoch(from.0, node);
            net.post(at, Parcel::ToProcess { to: from, node, epoch, wall: None, reply: reply.clone(), event });
        } else {
            net.answer(from, node, wall, reply, &Event::Answer(outcome.answer));
        }
        for (owner, event) in outcome.notices {
            let Some((pid, reply)) = net.ears[node].get(&owner).map(|ear| (ear.pid, ear.reply.clone())) else {
                continue;
            };
            net.answer(pid, node, wall, &reply, &event);
        }
    }

    /// A message reaches a process, or waits for it to go on.
    fn tell(&mut self, to: Pid, node: usize, reply: Reply, event: Event, wall: Option<Nanos>) {
        let now = self.now();
        let Some(process) = self.process(to) else { return };
        if process.paused.is_some() {
            let epoch = self.hub.net().epoch(to.0, node);
            let parcel = Parcel::ToProcess { to, node, epoch, wall, reply, event };
            return self.processes[to.0].inbox.push(parcel);
        }
        process.sync(now);
        self.log(|| format!("p{} <- n{node}: {}", number(to), brief::event(&event)));
        if let Some(wall) = wall {
            self.hub.net().heard(to.0, node, wall);
        }
        reply.push(event);
    }

    fn at_resource(&mut self, from: Pid, task: usize, errand: &Errand) {
        let restarts = self.dice.per_mille(100);
        let mut net = self.hub.net();
        let (now, far) = (net.now, net.weather.latency);
        let resource = net.resources.entry(errand.lock.clone()).or_default();
        resource.run(errand, self.plan.flaw, restarts, moment(now), &mut self.hub.ledger.open());
        let (lock, token, write) = (&errand.lock, errand.token, errand.write_after.is_some());
        net.log.add(now, || format!("resource {lock} <- p{}: {token}, write {write}", number(from)));
        let back = far.0 + net.dice.below(far.1);
        net.post(now + back, Parcel::Wake { to: from, task });
    }

    fn resume(&mut self, process: usize) {
        let now = self.now();
        let stood_still = self.plan.flaw == Some(Flaw::ClockStopsInPauses);
        if self.processes[process].paused.is_none() {
            return;
        }
        let paused = self.processes[process].wake_up(now, stood_still);
        self.hub.net().stood_still[process] += paused;
        self.log(|| format!("p{process} goes on"));
        // Alarms first, or what arrived meanwhile: both happen.
        if self.dice.per_mille(500) {
            self.processes[process].sync(now);
        }
        for parcel in std::mem::take(&mut self.processes[process].inbox) {
            self.deliver(parcel);
        }
    }

    fn strike(&mut self, fault: Fault) {
        self.faults += 1;
        self.log(|| format!("FAULT {fault:?}"));
        let now = self.now();
        match fault {
            Fault::Cut { links, link, lasts } => {
                let mut net = self.hub.net();
                links.iter().for_each(|(process, node)| net.cut(*process, *node, link, now + lasts));
                net.post(now + lasts, Parcel::Mend { links });
            }
            Fault::Break { process, node } => self.hub.net().break_link(process, node),
            Fault::Crash { node, lasts, memory } => {
                self.nodes[node].up = false;
                self.memories[node] = memory;
                let mut net = self.hub.net();
                (0..self.plan.processes).for_each(|process| net.break_link(process, node));
                net.post(now + lasts, Parcel::Start { node });
            }
            Fault::Snapshot { node } => self.nodes[node].take_snapshot(),
            Fault::Pause { process, lasts } => {
                if self.processes[process].paused.is_none() {
                    self.processes[process].paused = Some(now);
                    self.pauses += 1;
                    self.hub.net().post(now + lasts, Parcel::Resume { process });
                }
            }
            Fault::Kill { process, noticed } => self.kill(process, noticed),
            Fault::Jump { node, by } => self.nodes[node].clock.jump(now, by),
            Fault::Drift { node, rate } => self.nodes[node].clock.set_rate(now, rate),
            Fault::Strobe { node, on } => self.nodes[node].clock.set_strobes(on),
        }
    }

    /// A process dies, and another is started in its place.
    fn kill(&mut self, process: usize, noticed: bool) {
        let now = self.now();
        let pid = self.processes[process].pid;
        self.hub.ledger.open().died(moment(now), number(pid));
        self.processes[process].kill();
        let next = self.start_process((pid.0, pid.1 + 1));
        drop(std::mem::replace(&mut self.processes[process], next));
        if noticed {
            let mut ears = Vec::new();
            for node in &mut self.hub.net().ears {
                let theirs: Vec<_> = node.iter().filter(|(_, ear)| ear.pid == pid).map(|(owner, _)| *owner).collect();
                ears.extend(theirs.iter().filter_map(|owner| node.remove(owner)));
            }
            // Dropped after the lock is: with them the last of a claim may go.
            drop(ears);
        }
    }

    /// Faults end, nobody begins anything new: everything must come to an end by itself.
    fn come_to_rest(&mut self) {
        let now = self.now();
        self.log(|| "the faults end".into());
        {
            let mut net = self.hub.net();
            net.stopping = true;
            net.weather.clear_up();
            net.mistaken.fill(0);
            for process in 0..self.plan.processes {
                (0..self.plan.nodes).for_each(|node| net.set_link(process, node, Link::Up));
            }
        }
        for node in 0..self.nodes.len() {
            if !self.nodes[node].up {
                self.nodes[node].start(now, self.memories[node]);
            }
            if !self.plan.has_good_clocks() {
                self.nodes[node].clock.mend(now);
            }
        }
        (0..self.plan.processes).for_each(|process| self.resume(process));
        let until = now + REST;
        while !self.processes.iter().all(Process::is_idle) && self.step(until) {}
        if !self.processes.iter().all(Process::is_idle) {
            if self.plan.has_good_clocks() {
                let what = "somebody waits for ever, though all faults are over";
                self.findings.push(Finding::new(Rule::C6, what));
            }
            self.processes.iter_mut().for_each(|process| process.tasks.clear());
        }
        // Messages and clean-up that are still under way.
        while self.step(until) && !(self.hub.net().is_quiet() && self.is_still()) {}
        if self.plan.is_clean() {
            self.look_for_left_overs("at once");
        }
        let long = now + nanos(self.plan.ttl + self.plan.delay + self.plan.probation) * 2 + 10 * SECOND;
        while self.step(long.max(self.now() + SECOND)) {}
        if self.plan.has_good_clocks() {
            self.look_for_left_overs("after every lease");
        }
        if !self.is_still() {
            self.findings.push(Finding::new(Rule::C5, "an alarm rings for ever"));
        }
    }

    fn is_still(&self) -> bool {
        self.processes.iter().all(|process| process.next_alarm().is_none())
    }

    fn look_for_left_overs(&mut self, when: &str) {
        let now = self.now();
        let mut history = self.hub.ledger.open();
        for (number, node) in self.nodes.iter().enumerate() {
            for (name, what) in node.in_use(now) {
                let lock = history.lock(name.as_str());
                history.left.push((lock, format!("n{number}, {when}: {what}")));
            }
        }
    }

    fn judge(mut self) -> Run {
        self.processes.clear();
        let mut net = self.hub.net();
        let history = std::mem::take(&mut *self.hub.ledger.open());
        let strict = self.plan.mode != Mode::Wild;
        let calm = self.plan.mode == Mode::Calm;
        // Kinds that are made of several claims ask several times.
        // Who mistakes the nodes' clocks asks more often still.
        let answers = if self.plan.nodes == 1 { self.plan.ttl / 2 } else { Duration::from_millis(50) };
        let counted = self.plan.flaw == Some(Flaw::CountingSemaphore);
        let demands = Demands {
            exclusion: strict,
            permits: counted.then(|| (COUNTED.0.to_owned(), COUNTED.1)).into_iter().collect(),
            in_line: calm.then_some(Duration::from_millis(10)),
            handed_over_within: calm.then_some(Duration::from_millis(120)),
            grace: GRACE + answers * if strict { 4 } else { 40 },
        };
        self.findings.extend(checker::check(&history, &demands));
        let overlaps = match strict {
            true => 0,
            false => {
                let all = checker::check(&history, &Demands { exclusion: true, ..demands });
                all.iter().filter(|finding| matches!(finding.rule, Rule::C1 | Rule::C8 | Rule::C9)).count() as u64
            }
        };
        let (acquires, contended) = contention(&history);
        let each = net.resources.values().map(|resource| [resource.accepted, resource.late, resource.accepted_late]);
        let writes = each.fold([0; 3], |sum, one| [0, 1, 2].map(|at| sum[at] + one[at]));
        Run {
            events: net.log.events,
            faults: self.faults + net.mishaps,
            grants: history.notes.iter().filter(|note| matches!(note.what, What::Acquired { .. })).count() as u64,
            acquires,
            contended,
            overlaps,
            writes,
            pauses: self.pauses,
            log: net.log.text.take().unwrap_or_default(),
            findings: self.findings,
            history,
        }
    }
}
