//! Leases that come back: renewed or released at whichever replica is asked.

use std::time::Duration;

use fencepost_core::store::{LockName, OnBehalf, Owner};
use fencepost_core::{
    FencingToken, Invalid, Lease, Lock, LossReason, ReleaseOutcome, SharedToken, Single, StoreError, StoreErrorKind,
};
use futures_util::future::join_all;

use crate::access::Caller;
use crate::app::App;
use crate::audit::boot_ns;
use crate::claim::{part_owner, read_granted, read_owner};
use crate::problem::Problem;
use crate::wire::{self, Mode};
use crate::witness::Hold;

/// Locks that one lease is about, at most.
const PARTS_MAX: usize = 256;
/// As the token of a release: whatever its owner has, of an owner whose value serves one claim only. No store grants it.
const WHATEVER: u64 = 1;

/// A lease as it was sent back.
pub(crate) struct Returned {
    caller: Caller,
    name: LockName,
    owner: Owner,
    token: FencingToken,
    ttl: Duration,
    delay: Duration,
    mode: Mode,
    /// It was granted for writing, and is to be for reading from now on.
    downgrades: bool,
    renewed: bool,
    max_hold: Option<Duration>,
}

impl Returned {
    pub(crate) async fn read(app: &App, caller: Caller, name: LockName, lease: &wire::Lease) -> Result<Self, Problem> {
        let owner = read_owner(&lease.owner)?;
        let limits = &app.settings.limits;
        let (ttl, delay) = limits.lease(&app.locks.guarantees(), lease.ttl_ms, lease.lock_delay_ms)?;
        let (token, was) = match &lease.token {
            Some(token) => {
                let digits = token.strip_prefix('r');
                let was = if digits.is_some() { Mode::Shared } else { Mode::Exclusive };
                (read_granted("token", digits.unwrap_or(token))?, was)
            }
            None => Self::find(app, &name, owner, ttl).await?,
        };
        let mode = lease.mode.unwrap_or(was);
        let downgrades = (was, mode) == (Mode::Exclusive, Mode::Shared);
        let (renewed, max_hold) = (lease.renewed.unwrap_or(true), lease.max_hold_ms.map(Duration::from_millis));
        Ok(Self { caller, name, owner, token, ttl, delay, mode, downgrades, renewed, max_hold })
    }

    /// The token by which the store knows this owner's hold. A renewal or a release under a token that is only looked up
    /// could be under somebody else's: it would bring the caller in beside a reader, or make the holder's token stale.
    async fn find(app: &App, name: &LockName, owner: Owner, ttl: Duration) -> Result<(FencingToken, Mode), Problem> {
        let found = async { Ok(app.locks.inspect(name.as_str()).await?) };
        let state = app.settings.traces.step("inspect", Some(name), found).await?;
        let held: Vec<FencingToken> = state.holders.iter().filter_map(|holder| holder.token).collect();
        let lock = app.locks.lock(name.as_str());
        let (mode, token) = match state.holders.first() {
            None => return Err(Problem::not_held(None)),
            Some(holder) if holder.shared => (Mode::Shared, proven_token(app, lock.shared(), owner, ttl, &held).await?),
            Some(_) => (Mode::Exclusive, proven_token(app, lock, owner, ttl, &held).await?),
        };
        Ok((token.ok_or_else(|| Problem::not_held(None))?, mode))
    }

    /// Exclusive ones under one owner, parts of a batch or of a semaphore: each by its name and its token.
    pub(crate) fn several<'a>(
        app: &App,
        caller: &Caller,
        lease: &wire::Several<'_>,
        field: &'static str,
        parts: impl ExactSizeIterator<Item = Result<(LockName, &'a str), Problem>>,
    ) -> Result<Vec<Self>, Problem> {
        if !(1..=PARTS_MAX).contains(&parts.len()) {
            return Err(Invalid::new(field, parts.len().to_string(), "send all back that was granted").into());
        }
        let whole = read_owner(lease.owner)?;
        let limits = &app.settings.limits;
        let (ttl, delay) = limits.lease(&app.locks.guarantees(), lease.ttl_ms, lease.lock_delay_ms)?;
        let max_hold = lease.max_hold_ms.map(Duration::from_millis);
        let each = parts.map(|part| {
            let (name, token) = part?;
            let (caller, owner, token) = (caller.clone(), part_owner(whole, &name), read_granted(field, token)?);
            let (mode, downgrades, renewed) = (Mode::Exclusive, false, true);
            Ok(Self { caller, name, owner, token, ttl, delay, mode, downgrades, renewed, max_hold })
        });
        each.collect()
    }

    fn hold(&self) -> Hold<'_> {
        let token = wire::token_text(self.token, self.mode == Mode::Shared);
        Hold { caller: &self.caller, name: &self.name, owner: self.owner, token, ttl: self.ttl }
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    /// Renews no longer than that, where there is such a limit.
    pub(crate) fn at_most(self, max_hold: Option<Duration>) -> Self {
        Self { max_hold: max_hold.or(self.max_hold), ..self }
    }

    pub(crate) async fn renew(&self, app: &App) -> Result<wire::Renewed, Problem> {
        let asked_ns = boot_ns();
        let renewed = match self.left_of_the_last(app).await? {
            None => self.renew_for(app, self.ttl).await,
            // Only its owner may hear why: it proves who it is with a renewal that prolongs nothing.
            Some(left) => self.renew_for(app, left).await.and(Err(Problem::not_held(Some(LossReason::HoldLimit)))),
        };
        match &renewed {
            // It is held still, and will be given back.
            Err(problem) if problem.is_hold_limit() => {}
            _ => app.witness.renewed(&self.hold(), asked_ns, renewed.as_ref().err(), self.downgrades),
        }
        renewed
    }

    /// If it has been held for as long as it may: how long it lasts without renewal. A lease with such a limit is not brought
    /// back once it is over: it would count from zero again.
    async fn left_of_the_last(&self, app: &App) -> Result<Option<Duration>, Problem> {
        let Some(max_hold) = self.max_hold else { return Ok(None) };
        let state = app.locks.inspect(self.name.as_str()).await?;
        let held = state.holders.iter().find(|holder| holder.token == Some(self.token));
        let held = held.ok_or_else(|| Problem::not_held(None))?;
        if held.held_for.is_none_or(|held| held < max_hold) {
            return Ok(None);
        }
        let left = held.expires_in.unwrap_or_default().saturating_sub(self.delay).min(self.ttl);
        // Too short to be renewed without being prolonged.
        if left < app.locks.guarantees().smallest_ttl {
            return Err(Problem::not_held(None));
        }
        Ok(Some(left))
    }

    async fn renew_for(&self, app: &App, ttl: Duration) -> Result<wire::Renewed, Problem> {
        match self.mode {
            Mode::Exclusive => self.renew_as::<FencingToken>(app, ttl).await,
            Mode::Shared => self.renew_as::<SharedToken>(app, ttl).await,
        }
    }

    async fn renew_as<G: Single>(&self, app: &App, ttl: Duration) -> Result<wire::Renewed, Problem> {
        let renewed = async { Ok(app.locks.renew_lease(&self.lease::<G>(self.token, ttl)).await?) };
        let renewed = app.settings.traces.step("renew", Some(&self.name), renewed).await?;
        let asked =
            renewed.asked.map(|asked| wire::YieldRequest { number: asked.number(), by: asked.by, note: asked.note });
        Ok(wire::Renewed { ttl_ms: wire::ms(ttl), yield_requested: asked })
    }

    pub(crate) async fn release(&self, app: &App) -> Result<wire::Released, Problem> {
        let asked_ns = boot_ns();
        let lease = self.lease::<FencingToken>(self.token, self.ttl);
        let released = async {
            Ok(match self.token.as_u64() == WHATEVER {
                true => app.locks.release_owner(&lease).await?,
                false => app.locks.release_lease(&lease, self.renewed).await?,
            })
        };
        match app.settings.traces.step("release", Some(&self.name), released).await? {
            ReleaseOutcome::Freed | ReleaseOutcome::StillHeld { .. } => {
                app.witness.released(&self.hold(), asked_ns);
                Ok(wire::Released { outcome: "freed" })
            }
            ReleaseOutcome::Unproven => {
                let what = "it is not held any more; the store's first answer to the release did not arrive";
                Err(StoreError::new(StoreErrorKind::TooSlow, "release", what).into())
            }
            _ => Err(Problem::not_held(None)),
        }
    }

    fn lease<G: Single>(&self, token: FencingToken, ttl: Duration) -> Lease<G> {
        Lease::of(self.name.clone(), self.owner, token, ttl, self.delay)
    }
}

/// Keeps a lease for one more ttl.
pub(crate) async fn renew(
    app: &App,
    caller: Caller,
    name: LockName,
    lease: &wire::Lease,
) -> Result<wire::Renewed, Problem> {
    let (asked_ns, who, of) = (boot_ns(), caller.clone(), name.clone());
    match Returned::read(app, caller, name, lease).await {
        Ok(lease) => lease.renew(app).await,
        Err(problem) => {
            if problem.is_not_held() {
                app.witness.lost(&who, &of, read_owner(&lease.owner)?, None, asked_ns);
            }
            Err(problem)
        }
    }
}

/// Ends a lease.
pub(crate) async fn release(
    app: &App,
    caller: Caller,
    name: LockName,
    lease: &wire::Lease,
) -> Result<wire::Released, Problem> {
    let lease = Returned::read(app, caller, name, lease).await?;
    // Whoever still waits under this owner would take the lock again.
    let _turn = app.in_flight.enter(&lease.name, lease.owner).await?;
    lease.release(app).await
}

/// Renews each; the first trouble is the answer.
pub(crate) async fn renew_all(app: &App, leases: &[Returned]) -> Result<wire::Renewed, Problem> {
    let mut whole: Option<wire::Renewed> = None;
    for renewed in join_all(leases.iter().map(|lease| lease.renew(app))).await {
        let renewed = renewed?;
        let asked = whole.and_then(|whole| whole.yield_requested);
        whole = Some(wire::Renewed { yield_requested: asked.or(renewed.yield_requested), ..renewed });
    }
    whole.ok_or_else(|| Problem::not_held(None))
}

/// Releases each; the first trouble is the answer.
pub(crate) async fn release_all(app: &App, leases: &[Returned]) -> Result<wire::Released, Problem> {
    let mut whole = Err(Problem::not_held(None));
    for (index, released) in join_all(leases.iter().map(|lease| lease.release(app))).await.into_iter().enumerate() {
        whole = if index == 0 { released } else { whole.and(released) };
    }
    whole
}

/// The token of this owner's hold, if it is one of these. The same claim once more is answered with the hold that it has;
/// what it is granted otherwise is given back.
async fn proven_token<G: Single>(
    app: &App,
    lock: Lock<G>,
    owner: Owner,
    ttl: Duration,
    held: &[FencingToken],
) -> Result<Option<FencingToken>, Problem> {
    // Given up half-way, it must not release what the owner may have.
    let behalf = OnBehalf::default().owner(move |_| owner).repeats();
    let lock = lock.ttl(ttl).manual_renewal().on_behalf(behalf);
    let proven = async { Ok(lock.try_acquire().await?) };
    let Some(guard) = app.settings.traces.step("acquire", None, proven).await? else { return Ok(None) };
    let lease = guard.leak();
    if held.contains(&lease.token()) {
        return Ok(Some(lease.token()));
    }
    let _ = app.locks.release_lease(&lease, false).await;
    Ok(None)
}

/// Whether whoever sent a lease back to finish its work still has it: for how long at least. `None`: the same was finished
/// `before`, and the answer was lost. Else why not: somebody came after it, or it is over.
pub(crate) async fn proven(
    app: &App,
    lease: &Returned,
    before: impl Future<Output = Result<bool, StoreError>>,
) -> Result<Option<Duration>, Problem> {
    match lease.renew(app).await {
        Ok(_) => Ok(Some(lease.ttl / 2)),
        Err(problem) if problem.is_not_held() => {
            if before.await? {
                return Ok(None);
            }
            app.locks.check(lease.name.as_str(), lease.token).await?;
            Err(problem)
        }
        Err(problem) => Err(problem),
    }
}
