//! What clients do in a turn, and what each of them counts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fencepost::{AcquireError, Blocking, Guard, Lock, ReleaseOutcome, RenewError, StoreError};

use super::stop::Stop;
use super::trouble::Troubles;
use crate::histogram::Histogram;

/// After an error, so that a store in trouble is not flooded.
const AFTER_ERROR: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Workload {
    /// One client takes and releases a free lock.
    Single,
    /// All clients do, each a lock of its own.
    Parallel,
    /// All clients are in line for one lock.
    Contended,
    /// One client renews what it holds.
    Renewal,
}

impl Workload {
    pub(super) const ALL: [Self; 4] = [Self::Single, Self::Parallel, Self::Contended, Self::Renewal];

    /// For programs.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Parallel => "parallel",
            Self::Contended => "contended",
            Self::Renewal => "renewal",
        }
    }

    /// For people, in a few words.
    pub(super) fn told(self, clients: usize) -> String {
        match self {
            Self::Single => "free lock, 1 client".into(),
            Self::Parallel => format!("own locks, {clients} clients"),
            Self::Contended => format!("one lock, {clients} waiters"),
            Self::Renewal => "renewal, 1 client".into(),
        }
    }

    /// What one duration is.
    pub(super) fn duration(self) -> &'static str {
        match self {
            Self::Single | Self::Parallel => "acquire + release",
            Self::Contended => "from asking to holding",
            Self::Renewal => "renew",
        }
    }

    pub(super) fn takes_several(self) -> bool {
        matches!(self, Self::Parallel | Self::Contended)
    }

    /// What one client does until the turn is over.
    pub(super) fn work(self, client: &Client, stop: &Stop, baton: &Baton) -> Tally {
        let mut tally = Tally::default();
        while !stop.is_over() {
            let went = match self {
                Self::Single | Self::Parallel => pair(client, &mut tally),
                Self::Contended => wait_and_pass_on(client, stop, baton, &mut tally),
                Self::Renewal => renew(client, stop, &mut tally),
            };
            if let Err(trouble) = went {
                tally.troubles.note(trouble);
                stop.rest(AFTER_ERROR);
            }
        }
        tally
    }
}

/// One client, with the locks that it takes.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) number: usize,
    pub(super) own: Lock,
    /// The one that all want.
    pub(super) shared: Lock,
}

/// What one client counted in one turn.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) latency: Histogram,
    /// Only of hand-overs.
    pub(super) gap: Histogram,
    /// When the last was done that counts.
    pub(super) last: Option<Instant>,
    pub(super) troubles: Troubles,
}

impl Tally {
    fn count(&mut self, started: Instant) -> Instant {
        let now = Instant::now();
        self.latency.record(now - started);
        self.last = Some(now);
        now
    }
}

/// Who let go of the shared lock last, and when. Only the holder touches it.
#[derive(Debug, Default)]
pub(super) struct Baton(Mutex<Option<(usize, Instant)>>);

/// Why something was not measured.
pub(super) enum Trouble {
    Acquire(AcquireError),
    Store(StoreError),
    Lost(String),
}

impl From<AcquireError> for Trouble {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::Store(error) => Self::Store(error),
            other => Self::Acquire(other),
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// It ends by itself, in the time of two answers: what is half done when the turn is over would be in the next one's way.
fn pair(client: &Client, tally: &mut Tally) -> Result<(), Trouble> {
    let started = Instant::now();
    release(client.own.acquire().block()?)?;
    tally.count(started);
    Ok(())
}

/// Whoever is still in line when the turn is over leaves it.
fn wait_and_pass_on(client: &Client, stop: &Stop, baton: &Baton, tally: &mut Tally) -> Result<(), Trouble> {
    let started = Instant::now();
    let Some(guard) = stop.or(client.number, client.shared.acquire()) else { return Ok(()) };
    let guard = guard?;
    let now = tally.count(started);
    let mut last = baton.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, released)) = last.take().filter(|(holder, _)| *holder != client.number) {
        tally.gap.record(now.saturating_duration_since(released));
    }
    *last = Some((client.number, Instant::now()));
    drop(last);
    release(guard)
}

fn renew(client: &Client, stop: &Stop, tally: &mut Tally) -> Result<(), Trouble> {
    let guard = client.own.acquire().block()?;
    while !stop.is_over() {
        let started = Instant::now();
        match guard.renew().block() {
            Ok(_) => drop(tally.count(started)),
            Err(RenewError::Unknown(error)) => return Err(error.into()),
            Err(lost) => return Err(Trouble::Lost(lost.to_string())),
        }
    }
    release(guard)
}

fn release(guard: Guard) -> Result<(), Trouble> {
    match guard.release().block()? {
        ReleaseOutcome::NotHeld(reason) => {
            Err(Trouble::Lost(reason.map_or_else(|| "nobody knows why".into(), |reason| reason.to_string())))
        }
        _ => Ok(()),
    }
}
