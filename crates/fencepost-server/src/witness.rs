//! Sees all that is done: admits within limits, counts, and writes the audit log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::MatchedPath;
use axum::response::Response;
use fencepost_core::Holder;
use fencepost_core::store::{LockName, Owner};
use fencepost_history::audit::{Act, Entry};
use http::Method;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Caller;
use crate::admission::{Admission, Place};
use crate::audit::{AuditLog, boot_ns};
use crate::auth::Principal;
use crate::history::{History, How};
use crate::holdings::Holdings;
use crate::limits::Limits;
use crate::metrics::{Metrics, Up};
use crate::problem::{Notice, Problem};
use crate::settings::Settings;
use crate::wire::token_text;

/// After a refusal for too many who wait, or too many locks: nobody knows when one is over.
const SOON: Duration = Duration::from_secs(1);
/// Digits of an owner's digest that are enough to tell acquisitions apart.
const CLAIM_DIGITS: usize = 24;

/// Whatever happens to a lock here goes through one of these.
pub(crate) struct Witness {
    limits: Limits,
    /// Somebody is asked who they are, so there are principals to tell apart.
    tells_apart: bool,
    audit: Option<Arc<AuditLog>>,
    pub(crate) metrics: Metrics,
    pub(crate) history: History,
    holdings: Mutex<Holdings>,
    admission: Admission,
    waiters: Arc<Semaphore>,
    watchers: Arc<Semaphore>,
}

/// The right to pursue an acquisition, until it is dropped.
pub(crate) struct Seat {
    /// When it was asked for, on the clock of the audit log.
    asked_ns: u64,
    _waiter: Option<(OwnedSemaphorePermit, Vec<Place>, Up)>,
}

/// One hold, as its owner shows it.
pub(crate) struct Hold<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) name: &'a LockName,
    pub(crate) owner: Owner,
    /// As it is written: a reader's starts with `r`.
    pub(crate) token: String,
    pub(crate) ttl: Duration,
}

impl Hold<'_> {
    fn entry(&self, act: Act, asked_ns: u64) -> Entry {
        entry(act, self.caller, self.name, self.owner, Some(self.token.clone()), asked_ns)
    }
}

fn entry(act: Act, caller: &Caller, name: &LockName, owner: Owner, token: Option<String>, asked_ns: u64) -> Entry {
    let mut claim = format!("{:x}", Sha256::digest(owner.expose()));
    claim.truncate(CLAIM_DIGITS);
    Entry {
        principal: Some(caller.name().to_string()),
        lock: Some(name.as_str().to_owned()),
        claim: Some(claim),
        token,
        asked_ns: Some(asked_ns),
        ..Entry::new(act)
    }
}

/// Methods are counted by name, but only those that somebody knows: a client must not choose what is counted.
pub(crate) fn known(method: &Method) -> Option<&'static str> {
    ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"].into_iter().find(|known| *known == method.as_str())
}

impl Witness {
    pub(crate) fn new(settings: &Settings) -> Self {
        let limits = settings.limits.clone();
        Self {
            tells_apart: settings.asks_who(),
            audit: settings.audit.clone(),
            metrics: settings.metrics.clone(),
            history: History::default(),
            holdings: Mutex::default(),
            admission: Admission::default(),
            waiters: Arc::new(Semaphore::new(limits.waiters)),
            watchers: Arc::new(Semaphore::new(limits.watchers)),
            limits,
        }
    }

    /// Whether this may be asked for now: `locks` of them, and for as long as it takes if it `waits` in the lines of
    /// these names.
    pub(crate) fn admit(
        &self,
        caller: &Caller,
        names: &[LockName],
        locks: usize,
        waits: bool,
    ) -> Result<Seat, Problem> {
        let (asked_ns, now, limits) = (boot_ns(), Instant::now(), &self.limits);
        if self.tells_apart {
            self.admission.take(caller.name(), limits.rate, now).map_err(|wait| {
                let (many, most) = (limits.rate.per_second, limits.rate.burst);
                Problem::limited("rate", format!("more than {many} acquisitions per second and {most} at once"), wait)
            })?;
        }
        if self.holdings().count(caller.name(), limits.locks.saturating_sub(locks) + 1, now) + locks > limits.locks {
            let detail = format!("you have {} locks from this replica: give some back", limits.locks);
            return Err(Problem::limited("locks", detail, SOON));
        }
        let _waiter = if waits { Some(self.line_up(names)?) } else { None };
        Ok(Seat { asked_ns, _waiter })
    }

    /// The right to watch as a stream, until it is dropped.
    pub(crate) fn watch(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let full = |_| Problem::limited("watchers", "too many watch at this replica", SOON);
        self.watchers.clone().try_acquire_owned().map_err(full)
    }

    fn line_up(&self, names: &[LockName]) -> Result<(OwnedSemaphorePermit, Vec<Place>, Up), Problem> {
        let full = |_| Problem::limited("waiters", "too many wait at this replica", SOON);
        let permit = self.waiters.clone().try_acquire_owned().map_err(full)?;
        let place = |name| {
            let full = || Problem::limited("waiters_per_lock", "too many wait for this lock at this replica", SOON);
            self.admission.line_up(name, self.limits.waiters_per_lock).ok_or_else(full)
        };
        let places = names.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        Ok((permit, places, self.metrics.waiting()))
    }

    pub(crate) fn granted(&self, hold: &Hold<'_>, seat: &Seat, label: &str) {
        self.history.granted(hold.name.as_str(), &hold.token, label, hold.ttl, Instant::now());
        let claim = (hold.name.clone(), hold.owner);
        self.holdings().granted(hold.caller.name(), claim, &hold.token, hold.ttl, Instant::now());
        self.write(|| {
            let ttl_ms = u64::try_from(hold.ttl.as_millis()).ok();
            Entry { ttl_ms, ..hold.entry(Act::Granted, seat.asked_ns) }
        });
    }

    /// A renewal was answered. `downgrades`: a writer's, who reads on.
    pub(crate) fn renewed(&self, hold: &Hold<'_>, asked_ns: u64, trouble: Option<&Problem>, downgrades: bool) {
        match trouble {
            None => {
                self.history.renewed(hold.name.as_str(), &hold.token, hold.ttl, Instant::now());
                let claim = (hold.name.clone(), hold.owner);
                let known = self.holdings().renewed(&claim, &hold.token, hold.ttl, Instant::now());
                if let Some((since, _)) = known {
                    self.metrics.renewed_late_by(since.saturating_sub(hold.ttl / 3));
                }
                if downgrades && known.is_none_or(|(_, same)| !same) {
                    self.write(|| hold.entry(Act::Downgraded, asked_ns));
                }
            }
            Some(problem) if problem.is_not_held() => {
                self.lost(hold.caller, hold.name, hold.owner, Some(hold.token.clone()), asked_ns);
            }
            Some(problem) if problem.is_trouble() => {
                self.write(|| Entry { why: Some(problem.code().into()), ..hold.entry(Act::RenewalFailed, asked_ns) });
            }
            Some(_) => {}
        }
    }

    /// Somebody wanted to keep what it does not have. `token`: as it says. Only what was granted here is known to have been
    /// its own: anybody can show another's token.
    pub(crate) fn lost(&self, caller: &Caller, name: &LockName, owner: Owner, token: Option<String>, asked_ns: u64) {
        let ended = self.holdings().ended(name, owner, Instant::now());
        let token = match ended {
            Some((_, token)) => {
                self.history.ended(name.as_str(), &token, How::Lost, Instant::now());
                Some(token.into())
            }
            None if !self.audit.as_ref().is_some_and(|audit| audit.takes_hearsay()) => return,
            None => token,
        };
        self.write(|| entry(Act::Lost, caller, name, owner, token, asked_ns));
    }

    /// A lock was given back. What somebody does not hold, nobody gives back.
    pub(crate) fn released(&self, hold: &Hold<'_>, asked_ns: u64) {
        self.history.ended(hold.name.as_str(), &hold.token, How::Released, Instant::now());
        if let Some((held, _)) = self.holdings().ended(hold.name, hold.owner, Instant::now()) {
            self.metrics.held_for(held);
        }
        self.write(|| hold.entry(Act::Released, asked_ns));
    }

    /// A lock was taken from its holder, if it had one.
    pub(crate) fn forced(&self, caller: &Caller, name: &LockName, holder: Option<&Holder>, reason: &str) {
        if let Some((token, shared)) = holder.and_then(|holder| Some((holder.token?, holder.shared))) {
            let token = token_text(token, shared);
            self.history.forced(name.as_str(), &token, caller.name(), reason, Instant::now());
        }
        self.write(|| Entry {
            principal: Some(caller.name().to_string()),
            lock: Some(name.as_str().to_owned()),
            token: holder.and_then(|holder| holder.token).map(|token| token.to_string()),
            why: Some(reason.to_owned()),
            ..Entry::new(Act::Forced)
        });
    }

    /// A request was answered.
    pub(crate) fn answered(
        &self,
        who: Option<&Principal>,
        method: &Method,
        route: Option<&MatchedPath>,
        response: &Response,
    ) {
        let method = known(method).unwrap_or("other");
        self.metrics.answered(method, route, response.status().as_u16());
        match response.extensions().get::<Notice>() {
            Some(Notice::Limited(limit)) => self.metrics.limited(limit),
            Some(Notice::Denied { why, lock }) => {
                self.metrics.denied(why);
                let route = route.map_or("none", MatchedPath::as_str);
                self.write(|| Entry {
                    principal: who.map(|who| who.name().to_string()),
                    lock: lock.clone(),
                    why: Some(format!("{why}: {method} {route}")),
                    ..Entry::new(Act::Denied)
                });
            }
            None => {}
        }
    }

    fn write(&self, entry: impl FnOnce() -> Entry) {
        if self.audit.as_ref().is_some_and(|audit| !audit.write(entry())) {
            self.metrics.audit_missed();
        }
    }

    fn holdings(&self) -> MutexGuard<'_, Holdings> {
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
