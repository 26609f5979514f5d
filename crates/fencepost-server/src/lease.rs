//! Leases that come back: renewed or released at whichever replica is asked.

use std::time::Duration;

use fencepost_core::store::{LockName, Owner};
use fencepost_core::{FencingToken, Lease, ReleaseOutcome, SharedToken, Single};

use crate::app::App;
use crate::claim::{TTL_MS, read_owner, read_token};
use crate::problem::Problem;
use crate::wire::{self, Mode};

/// A lease as it was sent back.
pub(crate) struct Returned {
    name: LockName,
    owner: Owner,
    token: FencingToken,
    ttl: Duration,
    delay: Duration,
    mode: Mode,
    renewed: bool,
}

impl Returned {
    pub(crate) async fn read(app: &App, name: LockName, lease: &wire::Lease) -> Result<Self, Problem> {
        let owner = read_owner(&lease.owner)?;
        let ttl = app.settings.limits.ttl(lease.ttl_ms.unwrap_or(TTL_MS))?;
        let delay = Duration::from_millis(lease.lock_delay_ms.unwrap_or(0));
        let (token, mode) = match &lease.token {
            Some(token) => {
                let digits = token.strip_prefix('r');
                let mode = lease.mode.unwrap_or(if digits.is_some() { Mode::Shared } else { Mode::Exclusive });
                (read_token("token", digits.unwrap_or(token))?, mode)
            }
            None => Self::find(app, &name, lease.mode).await?,
        };
        let renewed = lease.renewed.unwrap_or(true);
        Ok(Self { name, owner, token, ttl, delay, mode, renewed })
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

    pub(crate) fn of(name: LockName, owner: Owner, token: FencingToken, ttl: Duration, delay: Duration) -> Self {
        Self { name, owner, token, ttl, delay, mode: Mode::Exclusive, renewed: true }
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) async fn renew(self, app: &App) -> Result<wire::Renewed, Problem> {
        match self.mode {
            Mode::Exclusive => self.renew_as::<FencingToken>(app).await,
            Mode::Shared => self.renew_as::<SharedToken>(app).await,
        }
    }

    async fn renew_as<G: Single>(self, app: &App) -> Result<wire::Renewed, Problem> {
        let Self { name, owner, token, ttl, delay, .. } = self;
        let renewed = app.locks.renew_lease(&Lease::<G>::of(name, owner, token, ttl, delay)).await?;
        let asked =
            renewed.asked.map(|asked| wire::YieldRequest { number: asked.number(), by: asked.by, note: asked.note });
        Ok(wire::Renewed { ttl_ms: wire::ms(ttl), yield_requested: asked })
    }

    pub(crate) async fn release(self, app: &App) -> Result<wire::Released, Problem> {
        let Self { name, owner, token, ttl, delay, renewed, .. } = self;
        let token = if renewed { token.next() } else { token };
        let lease = Lease::<FencingToken>::of(name, owner, token, ttl, delay);
        match app.locks.release_lease(&lease).await? {
            ReleaseOutcome::Freed | ReleaseOutcome::StillHeld { .. } => Ok(wire::Released { outcome: "freed" }),
            _ => Err(Problem::not_held(None)),
        }
    }
}
