//! `fencepost once`: a command that runs once per window of time in the whole cluster.

use std::cell::RefCell;
use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use fencepost::config::{Setting, Source};
use fencepost::{Blocking, Guard, Invalid, Locks, OncePerWindow, Ran, RunError, Schedule, Window, WindowState};
use serde::Serialize;

use super::run::{Session, expires_at, margin, reported};
use super::state::{HolderData, or_dash, span};
use crate::args::{Once, Run};
use crate::child::End;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::held::Told;
use crate::report::Outcome;
use crate::settings::{Settings, checked_name};

/// Windows are told apart by their milliseconds.
const EVERY_MIN: Duration = Duration::from_millis(1);

pub(crate) fn once(arguments: Once, mut settings: Settings) -> Result<ExitCode, Failure> {
    checked_name(&arguments.name)?;
    checked_name(&format!("cron/{}", arguments.name))?;
    named_store(&settings)?;
    settings.keeps_records = true;
    if let Some(records) = &arguments.records {
        settings.config.records = Some(Setting::by_flag(records.clone(), "--records"));
    }
    let window = window(&arguments, &settings)?;
    if arguments.status {
        return status(&arguments.name, window, &settings);
    }
    if let Some(ttl) = arguments.ttl {
        settings.config.ttl = Setting::by_flag(ttl, "--ttl");
    }
    let Once { start_within, at_least, at_most, ttl, kill_after, conflict_exit_code, report, name, command, .. } =
        arguments;
    let run = Run { ttl, kill_after, conflict_exit_code, ..Run::of(name.clone(), command) };
    reported(report.as_deref(), &format!("cron/{name}"), &settings, |record| {
        let session = Session::open(&run, None, Duration::ZERO, &settings, record)?;
        with_records(&session.locks, &settings)?;
        // One time for the schedule and for what the command is told.
        let schedule = schedule_of(&window).cloned();
        let mut job = session.locks.once_per_window(&name, window).at(SystemTime::now());
        let ttl = settings.config.ttl.value;
        job = job.ttl(ttl).loss_margin(margin(&run, ttl)).at_least_for(at_least.unwrap_or_default());
        if let Some(most) = at_most {
            job = job.at_most_for(most);
        }
        if let Some(within) = start_within {
            job = job.start_within(within);
        }
        session.run_once(&job, schedule.as_ref())
    })
}

/// The windows that the command line names; of `--status` alone, those of the last run.
fn window(arguments: &Once, settings: &Settings) -> Result<Window, Failure> {
    let Once { at, cron, tz, every, window, .. } = arguments;
    if tz.is_some() && at.is_none() && cron.is_none() {
        return Err(Failure::new(ExitCode::USAGE, "--tz is the time zone of --at or --cron: name one of them"));
    }
    let zone = tz.as_deref().unwrap_or("UTC");
    let named = |mut invalid: Invalid| {
        invalid.field = match invalid.field {
            "tz" => "--tz",
            "cron" => "--cron",
            _ => "--at",
        };
        Failure::from(invalid)
    };
    Ok(match (at, cron, every) {
        (Some(time), _, _) => Schedule::daily(time, zone).map_err(named)?.into(),
        (_, Some(fields), _) => Schedule::cron(fields, zone).map_err(named)?.into(),
        (_, _, Some(every)) if *every < EVERY_MIN => {
            let refused = Invalid::new("--every", "", "a window has at least a millisecond");
            return Err(settings.typed.restore(refused).into());
        }
        (_, _, Some(every)) => (*every).into(),
        _ => window.clone().unwrap_or_default().into(),
    })
}

fn schedule_of(window: &Window) -> Option<&Schedule> {
    match window {
        Window::Scheduled(schedule) => Some(schedule),
        _ => None,
    }
}

/// A store that somebody chose: the default is a file of this user on this machine.
fn named_store(settings: &Settings) -> Result<(), Failure> {
    if settings.config.store.source != Source::Default {
        return Ok(());
    }
    let why = "once needs a store that all servers share: with a file per machine each of them would run the job. Name it \
               by --store, FENCEPOST_STORE or fencepost.toml, such as redis://HOST:PORT; for one machine, sqlite:PATH";
    Err(Failure::new(ExitCode::CONFIGURATION, why))
}

/// A place that remembers what has run: without it each window would be run as often as it is asked for.
fn with_records(locks: &Locks, settings: &Settings) -> Result<(), Failure> {
    if locks.guarantees().records {
        return Ok(());
    }
    let config = &settings.config;
    let (place, at) = match (&config.records, config.records_redacted()) {
        (Some(records), Some(url)) => (url, records.source.to_string()),
        _ => (config.store_redacted(), config.store.source.to_string()),
    };
    let why = format!(
        "{place} ({at}) keeps no records, and once has to remember what has run. Name a store that does, and that all \
         servers share, by --records, FENCEPOST_RECORDS or `records` in fencepost.toml: redis://HOST:PORT, a database, \
         etcd:// or zk://"
    );
    Err(Failure::new(ExitCode::CONFIGURATION, why))
}

/// A run that came to an end, but not to a good one.
struct Failed(ExitCode);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}", self.0.0)
    }
}

impl Session<'_> {
    fn run_once(mut self, job: &OncePerWindow, schedule: Option<&Schedule>) -> Result<ExitCode, Failure> {
        let name = self.arguments.name.clone();
        let asked = Instant::now();
        // Why the window is not done, although nothing was lost.
        let undone = RefCell::new(None);
        let outcome = {
            let session = &mut self;
            let mut running = pin!(job.run(async |guard| {
                session.record.waited(asked.elapsed());
                let undo = match session.run_window(guard, &text_of(&job.which(), schedule)) {
                    Ok(End { lost: Some(_), .. }) => None,
                    Ok(End { code, interrupted: true, .. }) if code != ExitCode::DONE => Some(Ok(code)),
                    Ok(End { code: ExitCode::DONE, .. }) => return Ok(()),
                    Ok(End { code, .. }) => return Err(Failed(code)),
                    Err(failure) => Some(Err(failure)),
                };
                *undone.borrow_mut() = undo;
                // The recipe asks by itself whether the lock was lost, and notes nothing until this returns.
                pending().await
            }));
            let ending = poll_fn(|context| match running.as_mut().poll(context) {
                Poll::Pending if undone.borrow().is_none() => Poll::Pending,
                polled => Poll::Ready(polled),
            });
            match ending.block() {
                Poll::Ready(outcome) => Some(outcome),
                Poll::Pending => None,
            }
        };
        let Some(outcome) = outcome else {
            let undone = undone.into_inner().unwrap_or(Ok(ExitCode::OURS));
            self.record.outcome = if undone.is_ok() { Outcome::Interrupted } else { Outcome::Failed };
            return undone;
        };
        match outcome {
            Ok(Some(())) => {
                self.record.outcome = Outcome::Ran;
                Ok(ExitCode::DONE)
            }
            Ok(None) => {
                self.record.outcome = Outcome::Skipped;
                self.settings.output.detail(|| format!("{name}: not due: another run did this window or is running it, or it is too late (--start-within)"));
                Ok(ExitCode(self.arguments.conflict_exit_code))
            }
            Err(RunError::Work(Failed(code))) => {
                self.record.outcome = Outcome::Ran;
                Ok(code)
            }
            Err(RunError::Lost(lost)) => {
                self.record.lost(Some(lost.reason));
                let what = format!("{name} was lost, and the command was ended: {}", lost.reason);
                Err(Failure::new(ExitCode::LOST, what))
            }
            Err(RunError::Acquire(error)) => Err(self.not_obtained(error)),
            Err(error) => {
                self.record.outcome = Outcome::StoreError;
                let what = format!("{name} ran, but somebody may run it again: {error}");
                Err(Failure::new(ExitCode::STORE, what))
            }
        }
    }

    /// The command, while the window is ours. Nothing else happens on this thread meanwhile: the supervisor hears of loss.
    fn run_window(&mut self, guard: &Guard, window: &str) -> Result<End, Failure> {
        let (token, name) = (guard.token().to_string(), guard.name().to_owned());
        self.settings.output.detail(|| format!("acquired {name}, token {token}"));
        self.record.token = Some(token.clone());
        let (owner, window) = (Some(guard.expose_owner()), Some(window.to_owned()));
        let told = Told { name, token, owner, expires_at: expires_at(guard.remaining()), slot: None, window };
        let held = Instant::now();
        let end = self.run_command(&told, &|| match guard.ensure_held() {
            Ok(()) => Ok(guard.remaining()),
            Err(lost) => Err(lost.reason),
        });
        self.record.held(held.elapsed());
        end
    }
}

#[derive(Serialize)]
struct StatusData<'a> {
    name: &'a str,
    last_run: Option<String>,
    last_window: Option<String>,
    /// `done`, `failed`, or nothing yet.
    outcome: Option<&'static str>,
    error: Option<&'a str>,
    running: Option<HolderData>,
    next: Option<String>,
    /// The same as clocks in the time zone of the schedule show it.
    next_local: Option<String>,
    tz: Option<&'a str>,
}

fn status(name: &str, window: Window, settings: &Settings) -> Result<ExitCode, Failure> {
    let locks = settings.locks()?;
    with_records(&locks, settings)?;
    let state = locks.once_per_window(name, window).inspect().block()?;
    let schedule = state.schedule.as_ref();
    let data = StatusData {
        name,
        last_run: state.last_run.map(date),
        last_window: state.last_window.as_ref().map(|window| text_of(window, schedule)),
        outcome: state.last_run.map(|_| if state.failed.is_some() { "failed" } else { "done" }),
        error: state.failed.as_deref(),
        running: state.running.as_ref().map(HolderData::from),
        next: state.next.map(date),
        next_local: schedule.zip(state.next).map(|(schedule, next)| schedule.local(next)),
        tz: schedule.map(Schedule::zone),
    };
    settings.output.answer(&data, || text(&data, &state))?;
    Ok(ExitCode::DONE)
}

fn text(data: &StatusData<'_>, state: &WindowState) -> String {
    let last = match (&data.last_run, &data.last_window) {
        (Some(run), Some(window)) => {
            let how = data.error.map_or("done".to_owned(), |error| format!("failed: {error}"));
            format!("last run {run}, window {window}, {how}")
        }
        _ => "has not run yet".to_owned(),
    };
    let running = state
        .running
        .as_ref()
        .map(|holder| format!("\nruns now at {}, for {}", holder.label, or_dash(holder.held_for, span)));
    let next = match (&data.next_local, data.tz, &data.next) {
        (Some(local), Some(zone), _) => Some(format!("\ndue next {local}, {zone}")),
        (_, _, next) => next.as_ref().map(|next| format!("\ndue next {next}")),
    };
    format!("{}: {last}{}{}", data.name, running.unwrap_or_default(), next.unwrap_or_default())
}

/// A window of a schedule by the clocks of its time zone.
fn text_of(window: &Ran, schedule: Option<&Schedule>) -> String {
    match window {
        Ran::Since(began) => schedule.map_or_else(|| date(*began), |schedule| schedule.local(*began)),
        Ran::Named(name) => name.clone(),
    }
}

/// To the second, or to the millisecond if there are some.
fn date(time: SystemTime) -> String {
    let millis = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_millis());
    match millis {
        0 => humantime::format_rfc3339_seconds(time).to_string(),
        _ => humantime::format_rfc3339_millis(time).to_string(),
    }
}
