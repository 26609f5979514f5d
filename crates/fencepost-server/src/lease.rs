//! Leases that come back: renewed or released at whichever replica is asked.

use std::time::Duration;

use fencepost_core::store::{LockName, Owner};
use fencepost_core::{FencingToken, Lease, ReleaseOutcome, SharedToken, Single};

use crate::access::Caller;
use crate::app::App;
use crate::audit::boot_ns;
use crate::claim::{TTL_MS, read_granted, read_owner};
use crate::problem::Problem;
use crate::wire::{self, Mode};
use crate::witness::Hold;

/// A lease as it was sent back.
pub(crate) struct Returned {
    caller: Caller,
    name: LockName,
    owner: Owner,
    token: FencingToken,
    ttl: Duration,
    delay: Duration,
    mode: Mode,
    renewed: bool,
}

impl Returned {
    pub(crate) async fn read(app: &App, caller: Caller, name: LockName, lease: &wire::Lease) -> Result<Self, Problem> {
        let owner = read_owner(&lease.owner)?;
        let ttl = app.settings.limits.ttl(lease.ttl_ms.unwrap_or(TTL_MS))?;
        let delay = Duration::from_millis(lease.lock_delay_ms.unwrap_or(0));
        let (token, mode) = match &lease.token {
            Some(token) => {
                let digits = token.strip_prefix('r');
                let mode = lease.mode.unwrap_or(if digits.is_some() { Mode::Shared } else { Mode::Exclusive });
                (read_granted("token", digits.unwrap_or(token))?, mode)
            }
            None => Self::find(app, &name, lease.mode).await?,
        };
        let renewed = lease.renewed.unwrap_or(true);
        Ok(Self { caller, name, owner, token, ttl, delay, mode, renewed })
    }

    /// The token by which the store knows the hold. Whether it is this owner's, the store says in the step that follows.
    async fn find(app: &App, name: &LockName, mode: Option<Mode>) -> Result<(FencingToken, Mode), Problem> {
        let state = app.locks.inspect(name.as_str()).await?;
        let holders: Vec<_> = state.holders.iter().filter_map(|holder| Some((holder.token?, holder.shared))).collect();
        match holders[..] {
            [] => Err(Problem::not_held(None)),
            [(token, shared)] => Ok((token, mode.unwrap_or(if shared { Mode::Shared } else { Mode::Exclusive }))),
            _ => {
                let cure = "several readers hold it: send the token that was granted";
                Err(fencepost_core::Invalid::new("token", "", cure).into())
            }
        }
    }

    /// An exclusive one, part of a batch or of a semaphore.
    pub(crate) fn of(
        caller: &Caller,
        name: LockName,
        owner: Owner,
        token: FencingToken,
        ttl: Duration,
        delay: Duration,
    ) -> Self {
        Self { caller: caller.clone(), name, owner, token, ttl, delay, mode: Mode::Exclusive, renewed: true }
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    fn hold(&self) -> Hold<'_> {
        let token = wire::token_text(self.token, self.mode == Mode::Shared);
        Hold { caller: &self.caller, name: &self.name, owner: self.owner, token, ttl: self.ttl }
    }

    pub(crate) async fn renew(self, app: &App) -> Result<wire::Renewed, Problem> {
        let asked_ns = boot_ns();
        let renewed = match self.mode {
            Mode::Exclusive => self.renew_as::<FencingToken>(app).await,
            Mode::Shared => self.renew_as::<SharedToken>(app).await,
        };
        app.witness.renewed(&self.hold(), asked_ns, renewed.as_ref().err());
        renewed
    }

    async fn renew_as<G: Single>(&self, app: &App) -> Result<wire::Renewed, Problem> {
        let renewed = app.locks.renew_lease(&self.lease::<G>(self.token)).await?;
        let asked =
            renewed.asked.map(|asked| wire::YieldRequest { number: asked.number(), by: asked.by, note: asked.note });
        Ok(wire::Renewed { ttl_ms: wire::ms(self.ttl), yield_requested: asked })
    }

    pub(crate) async fn release(self, app: &App) -> Result<wire::Released, Problem> {
        let asked_ns = boot_ns();
        let token = if self.renewed { self.token.next() } else { self.token };
        match app.locks.release_lease(&self.lease::<FencingToken>(token)).await? {
            ReleaseOutcome::Freed | ReleaseOutcome::StillHeld { .. } => {
                app.witness.released(&self.hold(), asked_ns);
                Ok(wire::Released { outcome: "freed" })
            }
            _ => Err(Problem::not_held(None)),
        }
    }

    fn lease<G: Single>(&self, token: FencingToken) -> Lease<G> {
        Lease::of(self.name.clone(), self.owner, token, self.ttl, self.delay)
    }
}
