//! `fencepost run`: lock, run, release. And what `once` and `elect` share with it.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use fencepost::config::{Setting, Source};
use fencepost::store::Clock;
use fencepost::{AcquireError, Actor, Blocking, Connect, Grant, Invalid, Lock, Locks, LossReason, ReleaseOutcome};
use nix::sys::signal::Signal;

use crate::args::{OnLost, Run};
use crate::causes::Causes;
use crate::child::{self, End, Lease, LeaseWatch, Message, Supervisor, reserve, signals};
use crate::connections::Connections;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::held::{self, Held, OuterHold, Told};
use crate::hold::{Hold, Request};
use crate::output::{Output, say, speak_aside};
use crate::report::{Outcome, Record, Report, ms};
use crate::settings::{Settings, checked_name};

/// How long an interrupted run may take to end its acquisition.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// A run without a limit gives up after an outage of this length, or of a ttl if that is longer: as the library's waiters.
const OUTAGE_MAX: Duration = Duration::from_secs(60);

/// Between two tries of a candidate whose store is away.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: Run, mut settings: Settings) -> Result<ExitCode, Failure> {
    checked_name(&arguments.name)?;
    if let Some(ttl) = arguments.ttl {
        settings.config.ttl = Setting::by_flag(ttl, "--ttl");
    }
    reported(arguments.report.as_deref(), &arguments.name, &settings, |record| {
        let wait = store_wait(&arguments, settings.config.ttl.value);
        Session::open(&arguments, None, wait, &settings, record).and_then(Session::run)
    })
}

/// How long a run waits for a store that is away when it connects: within its own wait.
pub(super) fn store_wait(arguments: &Run, ttl: Duration) -> Duration {
    match arguments.wait {
        Some(wait) => wait,
        None if arguments.no_wait => Duration::ZERO,
        None => ttl.max(OUTAGE_MAX),
    }
}

/// Runs a session, and reports it where that was asked for.
pub(super) fn reported(
    path: Option<&Path>,
    name: &str,
    settings: &Settings,
    session: impl FnOnce(&mut Record) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let report = path.map(|path| Report::prepare("--report", path)).transpose()?;
    let mut record = Record::new(name);
    let result = session(&mut record);
    record.ended(&result);
    if let Some(Err(error)) = report.map(|report| report.write(&record)) {
        settings.output.note(&format!("cannot write the report: {error}"));
    }
    result
}

/// One `run`, `once` or `elect`, connected.
pub(super) struct Session<'a> {
    pub(super) arguments: &'a Run,
    /// Of a candidate: what it publishes when it leads.
    payload: Option<&'a str>,
    pub(super) settings: &'a Settings,
    pub(super) record: &'a mut Record,
    clock: Clock,
    pub(super) locks: Locks,
    sender: Sender<Message>,
    inbox: Receiver<Message>,
    /// When the wait began: connecting is a part of it.
    began: Instant,
    causes: Causes,
    outer: Held,
    actor: Actor,
}

impl<'a> Session<'a> {
    pub(super) fn open(
        arguments: &'a Run,
        payload: Option<&'a str>,
        store_wait: Duration,
        settings: &'a Settings,
        record: &'a mut Record,
    ) -> Result<Self, Failure> {
        let (sender, inbox) = channel();
        signals::listen(sender.clone()).map_err(|error| Failure::ours("cannot listen to signals", error))?;
        // After the signals: its thread must not hear them.
        speak_aside().map_err(|error| Failure::ours("cannot start a thread", error))?;
        let clock = Clock::system().map_err(|error| Failure::ours("cannot start the clock", error))?;
        record.outcome = Outcome::StoreError;
        let began = Instant::now();
        let mut causes = Causes::new(&arguments.name, settings.output);
        let connect = settings.connect().observer(LeaseWatch(sender.clone())).wait_for_store(store_wait);
        let locks = match connected(settings.connections(), connect, &sender, &inbox, &mut causes)? {
            Ok(locks) => locks,
            Err(signal) => {
                record.outcome = Outcome::Interrupted;
                return Err(Failure::silent(ExitCode::by_signal(signal as i32)));
            }
        };
        let (outer, actor) = (Held::from_environment(), held::actor());
        let actor = if arguments.fail_on_deadlock { actor.fail_on_deadlock() } else { actor };
        Ok(Self { arguments, payload, settings, record, clock, locks, sender, inbox, began, causes, outer, actor })
    }

    pub(super) fn run(mut self) -> Result<ExitCode, Failure> {
        let outer = match self.arguments.permits {
            Some(permits) => self.outer_permits(permits)?,
            None => self.outer.find(&self.arguments.name, &self.locks)?,
        };
        match outer {
            Some(outer) => self.run_inside(&outer),
            None => loop {
                if let Some(code) = self.run_alone()? {
                    return Ok(code);
                }
            },
        }
    }

    /// The permits of outer runs are enough for us, or it was none of them; for more we would wait while we hold some,
    /// perhaps for others who do the same.
    fn outer_permits(&mut self, permits: u32) -> Result<Option<OuterHold>, Failure> {
        let held = self.outer.find_permits(&self.arguments.name, permits, &self.locks)?;
        let take = self.arguments.take.unwrap_or(1) as usize;
        if held.is_empty() || take == 0 {
            return Ok(None);
        }
        let Some(enough) = held.get(..take) else {
            self.record.outcome = Outcome::Refused;
            let cure = format!("outer runs have {}, and would wait for themselves; take enough there", held.len());
            return Err(Failure::from(Invalid::new("--take", take.to_string(), cure)));
        };
        Ok(Some(OuterHold::together(enough)))
    }

    /// An outer run holds the lock for us, and ends us when it is lost.
    fn run_inside(&mut self, outer: &OuterHold) -> Result<ExitCode, Failure> {
        let name = &self.arguments.name;
        self.record.outcome = Outcome::Refused;
        if outer.shared && !self.arguments.shared {
            let cure = "an outer run shares it, and would wait for itself; take it without --shared there";
            return Err(Failure::from(Invalid::new("name", name, cure)));
        }
        self.settings.output.detail(|| format!("{name} is held by an outer run, token {}", outer.token));
        self.record.token = Some(outer.token.clone());
        self.record.slot.clone_from(&outer.slot);
        let end = self.run_command(&outer.told(name), &|| Ok(Duration::MAX))?;
        self.record.outcome = Outcome::Ran;
        Ok(end.code)
    }

    /// `None`: the leadership was lost, and is to be campaigned for again.
    fn run_alone(&mut self) -> Result<Option<ExitCode>, Failure> {
        let asked = Instant::now();
        let hold = self.obtain();
        self.record.waited(asked.elapsed());
        let hold = hold?;
        let (name, token) = (&self.arguments.name, hold.token.clone());
        let waited = asked.elapsed();
        self.settings.output.detail(|| format!("acquired {name}, token {token}, waited {} ms", ms(waited)));
        self.record.token = Some(token.clone());
        self.record.slot.clone_from(&hold.slot);
        let held = Instant::now();
        let (owner, slot, expires_at) = (Some(hold.expose_owner()), hold.slot.clone(), expires_at(hold.remaining()));
        let told = Told { name: name.clone(), token, owner, expires_at, slot, window: None };
        let end = self.run_command(&told, &|| hold.look());
        self.record.held(held.elapsed());
        match end {
            Ok(End { code, lost: None, .. }) => {
                self.record.outcome = Outcome::Ran;
                match self.release(hold) {
                    Ok(()) => Ok(Some(code)),
                    Err(reason) => {
                        self.record.lost(reason);
                        self.lost_unseen(code, reason).map(Some)
                    }
                }
            }
            Ok(End { lost: Some(reason), .. }) if self.campaigns_again() => {
                let name = &self.arguments.name;
                self.settings.output.note(&format!("{name}: lost the leadership, campaigning again: {reason}"));
                drop(hold);
                Ok(None)
            }
            Ok(End { code, lost: Some(reason), .. }) => {
                self.record.lost(Some(reason));
                drop(hold);
                self.lost(code, reason).map(Some)
            }
            Err(failure) => {
                // The command has not run: there was nothing to lose.
                let _ = self.release(hold);
                Err(failure)
            }
        }
    }

    fn campaigns_again(&self) -> bool {
        self.payload.is_some() && self.arguments.on_lost != OnLost::Ignore
    }

    fn obtain(&mut self) -> Result<Hold, Failure> {
        let request = self.request();
        let (sender, patient, output) = (self.sender.clone(), self.payload.is_some(), self.settings.output);
        let acquire = move || {
            let answer = if patient { outlast_outages(&request, output) } else { request.acquire() };
            // After an interruption that took too long nobody waits for the answer.
            let _ = sender.send(Message::Acquired(answer));
        };
        let thread = std::thread::Builder::new().name("acquire".into()).spawn(acquire);
        thread.map_err(|error| Failure::ours("cannot start a thread", error))?;
        let mut waiting = false;
        loop {
            match self.causes.next_message(&self.inbox) {
                Message::Acquired(answer) => return answer.map_err(|error| self.not_obtained(error)),
                Message::Waiting if !waiting => {
                    waiting = true;
                    self.settings.output.detail(|| format!("waiting for {}", self.arguments.name));
                }
                Message::Signal(signal) if signal != Signal::SIGCHLD => return Err(self.interrupted(signal)),
                _ => {}
            }
        }
    }

    fn request(&self) -> Request {
        let Run { name, shared, permits, take, .. } = self.arguments;
        if let Some(payload) = self.payload {
            return Request::Term(self.with_settings(self.locks.election(name).payload(payload)));
        }
        match *permits {
            Some(permits) => {
                let semaphore = self.locks.semaphore(name, permits).take(take.unwrap_or(1));
                Request::Permits(self.with_settings(semaphore))
            }
            None if *shared => Request::Shared(self.with_settings(self.locks.lock(name))),
            None => Request::Exclusive(self.with_settings(self.locks.lock(name))),
        }
    }

    fn with_settings<G: Grant>(&self, lock: Lock<G>) -> Lock<G> {
        let Run { wait, no_wait, label, max_hold, lock_delay, unfair, .. } = self.arguments;
        let ttl = self.settings.config.ttl.value;
        let mut lock = lock.ttl(ttl).loss_margin(margin(self.arguments, ttl)).by(&self.actor);
        lock = match wait {
            Some(wait) => lock.wait_at_most(wait.saturating_sub(self.began.elapsed())),
            None if *no_wait => lock.wait_at_most(Duration::ZERO),
            None => lock.wait_forever(),
        };
        if let Some(label) = label {
            lock = lock.label(label);
        }
        if let Some(limit) = max_hold {
            lock = lock.max_hold(*limit);
        }
        if let Some(delay) = lock_delay {
            lock = lock.lock_delay(*delay);
        }
        if *unfair { lock.unfair() } else { lock }
    }

    pub(super) fn not_obtained(&mut self, error: AcquireError) -> Failure {
        match error {
            AcquireError::Busy { .. } | AcquireError::Deadlock { .. } => {
                self.record.outcome = Outcome::NotObtained;
                let code = ExitCode(self.arguments.conflict_exit_code);
                match self.settings.output.quiet {
                    true => Failure::silent(code),
                    false => Failure::new(code, format!("{}: {error}", self.arguments.name)),
                }
            }
            AcquireError::Invalid(invalid) => {
                self.record.outcome = Outcome::Refused;
                self.refused(invalid)
            }
            AcquireError::Store(error) => error.into(),
            other => Failure::new(ExitCode::OURS, other.to_string()),
        }
    }

    /// The same words as on the command line, and the place to mend it.
    fn refused(&self, mut invalid: Invalid) -> Failure {
        let source = &self.settings.config.ttl.source;
        match (invalid.field, self.arguments.kill_after) {
            ("loss_margin", Some(_)) => invalid.field = "--kill-after",
            ("payload", _) => invalid.field = "--payload",
            ("max_hold", _) => invalid.field = "--max-hold",
            ("permits", _) => invalid.field = "--permits",
            ("take", _) => invalid.field = "--take",
            ("lock_delay", _) => invalid.field = "--lock-delay",
            ("at_least_for", _) => invalid.field = "--at-least",
            ("at_most_for", _) => invalid.field = "--at-most",
            ("start_within", _) => invalid.field = "--start-within",
            ("wait_at_most", _) => {
                (invalid.field, invalid.cure) = ("--wait", "without it a run waits for as long as it takes".into());
            }
            ("ttl", _) if matches!(source, Source::Environment(_) | Source::File(_)) => {
                if let Source::Environment(name) = source {
                    invalid.value = std::env::var(name).unwrap_or(invalid.value);
                }
                return Failure::new(ExitCode::CONFIGURATION, format!("{source}: {invalid}"));
            }
            _ => {}
        }
        self.settings.typed.restore(invalid).into()
    }

    fn interrupted(&mut self, signal: Signal) -> Failure {
        self.record.outcome = Outcome::Interrupted;
        // Waits for live nodes in any case; a majority that is down would keep us for any time that is given here.
        let left = self.locks.shutdown(Duration::ZERO).block();
        while let Ok(message) = self.inbox.recv_timeout(LEAVE_MAX) {
            let Message::Acquired(answer) = message else { continue };
            // Granted at the last moment: it goes back.
            if let Ok(hold) = answer {
                let _ = self.release(hold);
            }
            break;
        }
        if !left.is_empty() {
            self.settings
                .output
                .note("the store did not confirm that this run left the queue; its place ends with its lease");
        }
        Failure::silent(ExitCode::by_signal(signal as i32))
    }

    pub(super) fn run_command(
        &self,
        told: &Told,
        remaining: &dyn Fn() -> Result<Duration, LossReason>,
    ) -> Result<End, Failure> {
        let ttl = self.settings.config.ttl.value;
        let lease = match Lease::begin(self.clock.clone(), ttl, margin(self.arguments, ttl), remaining) {
            Ok(lease) => lease,
            Err(reason) => return Ok(End { code: ExitCode::LOST, lost: Some(reason), interrupted: false }),
        };
        let leader = child::start(&self.arguments.command, &told.variables(&self.outer, &self.actor))
            .map_err(|error| Failure::ours("cannot start the command", error))?;
        let (clock, on_lost, output) = (self.clock.clone(), self.arguments.on_lost, self.settings.output);
        Ok(Supervisor::new(leader, &self.inbox, clock, on_lost, output, lease).watch())
    }

    /// `Err`: it was lost before.
    fn release(&self, hold: Hold) -> Result<(), Option<LossReason>> {
        let (name, output) = (&self.arguments.name, self.settings.output);
        match hold.release() {
            Ok(ReleaseOutcome::NotHeld(reason)) => return Err(reason),
            Ok(ReleaseOutcome::Unproven) => output.note(&format!(
                "{name} is released; whether it was held until then is not known: the store's first answer did not arrive"
            )),
            Ok(_) => output.detail(|| format!("released {name}")),
            Err(error) => output.note(&format!("{name} stays locked until its ttl is over: {error}")),
        }
        Ok(())
    }

    fn lost(&self, code: ExitCode, reason: LossReason) -> Result<ExitCode, Failure> {
        let name = &self.arguments.name;
        if self.arguments.on_lost == OnLost::Ignore {
            say(&format!("{name} was lost while the command ran on: {reason}"));
            return Ok(code);
        }
        Err(Failure::new(ExitCode::LOST, format!("{name} was lost, and the command was ended: {reason}")))
    }

    /// The release shows that the lock was lost before the command ended by itself.
    fn lost_unseen(&self, code: ExitCode, reason: Option<LossReason>) -> Result<ExitCode, Failure> {
        let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let what = format!("{} was lost while the command ran{why}", self.arguments.name);
        if self.arguments.on_lost == OnLost::Ignore {
            say(&what);
            return Ok(code);
        }
        Err(Failure::new(ExitCode::LOST, what))
    }
}

/// Connects on a thread of its own, so that signals are heard meanwhile: `Err` is the one that ends us.
fn connected(
    connections: Connections,
    connect: Connect,
    sender: &Sender<Message>,
    inbox: &Receiver<Message>,
    causes: &mut Causes,
) -> Result<Result<Locks, Signal>, Failure> {
    let answer = sender.clone();
    // After an interruption nobody waits for the answer.
    let connecting = move || drop(answer.send(Message::Connected(connections.open(connect))));
    let thread = std::thread::Builder::new().name("connect".into()).spawn(connecting);
    thread.map_err(|error| Failure::ours("cannot start a thread", error))?;
    loop {
        match causes.next_message(inbox) {
            Message::Connected(locks) => return Ok(Ok(locks?)),
            Message::Signal(signal) if signal != Signal::SIGCHLD => return Ok(Err(signal)),
            _ => {}
        }
    }
}

/// A candidate has time: a store that is away for a while is asked again.
fn outlast_outages(request: &Request, output: Output) -> Result<Hold, AcquireError> {
    let mut told = false;
    loop {
        match request.acquire() {
            Err(AcquireError::Store(error)) if error.is_retryable() => {
                if !std::mem::replace(&mut told, true) {
                    output.note(&format!("campaigning on: {error}"));
                }
                std::thread::sleep(OUTAGE_PAUSE);
            }
            answer => return answer,
        }
    }
}

/// When the lease ends unless renewed, for display.
pub(super) fn expires_at(remaining: Duration) -> Option<String> {
    Some(humantime::format_rfc3339_millis(SystemTime::now() + remaining).to_string())
}

/// How long before its end the lease counts as lost: the time to end the command.
pub(super) fn margin(arguments: &Run, ttl: Duration) -> Duration {
    arguments.kill_after.map_or(ttl / 10, |kill_after| kill_after.saturating_add(reserve(ttl)))
}
