//! The run itself: clients at work, faults, and the end of it all.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::Plan;
use super::book::Book;
use super::crew::{Crew, Message};
use super::faults::{Faults, Struck};
use super::relay::Relay;
use super::talk::{Heard, Job, Word, now};
use crate::args::{Bug, Fault};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::progress::Progress;

/// Between two looks at the clock, if nobody says anything.
const NAP: Duration = Duration::from_millis(20);
/// How much longer than its ttl a client may take to end.
const FAREWELL: Duration = Duration::from_secs(10);
/// What a client tried while it was struck may fail so long after.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
/// How often each client may end by itself before we give up.
const CRASHES_MAX: usize = 3;

/// What was seen.
pub(super) struct Seen {
    pub(super) book: Book,
    pub(super) struck: Vec<Struck>,
    pub(super) ran: Duration,
    /// Somebody told us to end.
    pub(super) interrupted: bool,
    /// Clients that ended though nobody killed them.
    pub(super) crashed: usize,
    /// Clients that did not end when they were told to, and were killed.
    pub(super) stragglers: usize,
    /// How often a client could not connect to which nothing had been done.
    pub(super) unreached: usize,
}

pub(super) struct Session<'a> {
    plan: &'a Plan,
    inbox: Receiver<Message>,
    crew: Crew,
    faults: Faults,
    book: Book,
    started: Instant,
    progress: Progress,
    /// How many kills of each client were followed by its end.
    buried: Vec<usize>,
    crashed: usize,
    stragglers: usize,
    unreached: usize,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        sender: Sender<Message>,
        inbox: Receiver<Message>,
        progress: Progress,
    ) -> Result<Self, Failure> {
        let relays = (0..plan.clients).map(|_| relays(plan)).collect::<Result<Vec<_>, _>>()?;
        let jobs = relays.iter().enumerate().map(|(client, relays)| job(plan, client, relays)).collect();
        let without_fence = plan.bug == Some(Bug::NoFence);
        Ok(Self {
            plan,
            inbox,
            crew: Crew::new(jobs, sender),
            faults: Faults::new(&plan.faults, plan.ttl, relays),
            book: Book::new(now(), &plan.names, plan.clients, without_fence),
            started: Instant::now(),
            progress,
            buried: vec![0; plan.clients],
            crashed: 0,
            stragglers: 0,
            unreached: 0,
        })
    }

    pub(super) fn run(mut self) -> Result<Seen, Failure> {
        for client in 0..self.crew.len() {
            self.start(client)?;
        }
        let mut interrupted = false;
        while self.started.elapsed() < self.plan.span && !interrupted {
            let (at, done) = (self.book.moment(now()), self.started.elapsed());
            self.faults.tick(at, &self.crew);
            let left = self.plan.span.saturating_sub(done);
            interrupted = self.step(left.min(NAP), true)?;
            self.progress.show(done.as_secs_f64() / self.plan.span.as_secs_f64(), &self.told());
        }
        let ran = self.started.elapsed();
        if interrupted {
            self.progress.note("ending early: clients let go of what they hold; once more to kill them");
        }
        self.farewell()?;
        let Self { book, faults, crashed, stragglers, unreached, .. } = self;
        Ok(Seen { book, struck: faults.struck().to_vec(), ran, interrupted, crashed, stragglers, unreached })
    }

    fn told(&self) -> String {
        let (book, struck) = (&self.book, self.faults.struck().len());
        let faults = if self.plan.faults.is_empty() { String::new() } else { format!(", {struck} faults") };
        format!("{} acquisitions{faults}", book.acquisitions)
    }

    fn start(&mut self, client: usize) -> Result<(), Failure> {
        self.crew.start(client).map_err(|error| Failure::ours("cannot start a client", error))
    }

    /// Hears one message; `true`: somebody wants us to end.
    fn step(&mut self, patience: Duration, goes_on: bool) -> Result<bool, Failure> {
        match self.inbox.recv_timeout(patience) {
            Ok(Message::Said(client, said)) => {
                let at = now();
                let holds = matches!(said.word, Word::Believes { .. });
                if matches!(said.word, Word::Trouble { .. }) && goes_on {
                    let lately = self.plan.ttl + CONNECTS_WITHIN;
                    let struck = self.faults.was_struck(client, self.book.moment(at), lately);
                    self.unreached += usize::from(!struck);
                }
                if let Some(answer) = self.book.hear(client, said, at) {
                    self.crew.tell(client, answer);
                }
                if holds && goes_on {
                    self.faults.saw_holder(client, self.book.moment(at), &self.crew);
                }
            }
            Ok(Message::Gone(client)) => self.gone(client, goes_on)?,
            Ok(Message::Signal(Signal::SIGCHLD)) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Message::Signal(_)) => return Ok(true),
            Err(RecvTimeoutError::Disconnected) => unreachable!("BUG: the crew keeps a sender"),
        }
        Ok(false)
    }

    fn gone(&mut self, client: usize, goes_on: bool) -> Result<(), Failure> {
        self.crew.bury(client);
        let kills = |struck: &&Struck| struck.client == client && struck.kind == Fault::KillClient;
        let kill = self.faults.struck().iter().filter(kills).nth(self.buried[client]).map(|struck| struck.from);
        self.buried[client] += usize::from(kill.is_some());
        self.book.died(client, kill);
        if !goes_on {
            return Ok(());
        }
        if kill.is_none() {
            self.crashed += 1;
            if self.crashed > CRASHES_MAX * self.crew.len() {
                return Err(Failure::new(ExitCode::OURS, "clients end by themselves again and again; see above"));
            }
        }
        self.start(client)
    }

    /// Everybody lets go and ends. Whoever signals once more does not want to wait for that.
    fn farewell(&mut self) -> Result<(), Failure> {
        self.faults.end_all(self.book.moment(now()), &self.crew);
        for client in 0..self.crew.len() {
            self.crew.tell(client, Heard::Stop);
        }
        let end = Instant::now() + self.plan.ttl + FAREWELL;
        let mut hurried = false;
        while self.crew.alive() > 0 && Instant::now() < end && !hurried {
            self.progress.show(1.0, &format!("{} clients are ending", self.crew.alive()));
            hurried = self.step(NAP, false)?;
        }
        self.stragglers = self.crew.alive();
        for client in 0..self.crew.len() {
            self.crew.signal(client, Signal::SIGKILL);
        }
        while self.crew.alive() > 0 {
            self.step(NAP, false)?;
        }
        Ok(())
    }
}

/// One relay per server, if wires are to be cut.
fn relays(plan: &Plan) -> Result<Vec<Relay>, Failure> {
    let servers = plan.place.iter().flat_map(|place| place.servers());
    let relays = servers.map(Relay::before).collect::<Result<Vec<_>, _>>();
    relays.map_err(|error| Failure::ours("cannot start a relay", error))
}

fn job(plan: &Plan, client: usize, relays: &[Relay]) -> Job {
    let url = match &plan.place {
        Some(place) => place.by_way_of(relays.iter().map(Relay::address)),
        None => plan.url.clone(),
    };
    Job {
        url,
        label: format!("verify client {}", client + 1),
        ttl: plan.ttl,
        names: plan.names.clone(),
        bug: plan.bug.filter(|_| client == 0),
    }
}
