//! What becomes of a claim on one name: settings, owner, the wait, the lease.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fencepost_core::store::{ActorId, InLine, LockName, OnBehalf, Owner};
use fencepost_core::{Actor, FencingToken, Grant, Guard, Invalid, Lease, Lock, SharedToken, Single};
use http::HeaderMap;
use sha2::{Digest, Sha256};

use crate::access::Caller;
use crate::app::App;
use crate::problem::Problem;
use crate::wire::{self, Mode, Queue};
use crate::witness::Hold;

/// A lease that says nothing else.
pub(crate) const TTL_MS: u64 = 30_000;
/// Clocks may be wrong by so much, whoever minted a token.
const AHEAD_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Settings that all kinds have.
pub(crate) struct Terms<'a> {
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) label: Option<&'a str>,
    pub(crate) queue: Queue,
    pub(crate) lock_delay_ms: Option<u64>,
    pub(crate) actor: Option<&'a str>,
    pub(crate) fail_on_deadlock: bool,
}

impl Terms<'_> {
    /// The lock with these settings. `waits`: this route may.
    pub(crate) fn on<G: Grant>(
        &self,
        app: &App,
        caller: &Caller,
        lock: Lock<G>,
        waits: bool,
    ) -> Result<Lock<G>, Problem> {
        let limits = &app.settings.limits;
        let ttl = limits.ttl(self.ttl_ms.unwrap_or(TTL_MS))?;
        let wait = limits.wait(self.wait_ms.unwrap_or(0))?;
        if !waits && !wait.is_zero() {
            return Err(Invalid::new("wait_ms", self.wait_ms.unwrap_or(0).to_string(), "use `acquire` to wait").into());
        }
        let delay = Duration::from_millis(self.lock_delay_ms.unwrap_or(0));
        let mut lock = lock.ttl(ttl).wait_at_most(wait).manual_renewal().lock_delay(delay);
        lock = lock.label(self.label.unwrap_or(caller.name()));
        if self.queue == Queue::None {
            lock = lock.unfair();
        }
        if let Some(actor) = self.actor {
            let refuse = || Invalid::new("actor", actor, "use 16 hexadecimal digits");
            let actor = Actor::of_another_process(ActorId::parse(actor).ok_or_else(refuse)?);
            lock = lock.by(&if self.fail_on_deadlock { actor.fail_on_deadlock() } else { actor });
        }
        Ok(lock)
    }
}

/// The secret of a claim, and whether the client can name it again.
#[derive(Clone, Copy)]
pub(crate) struct Secret {
    pub(crate) owner: Owner,
    pub(crate) chosen: bool,
}

impl Secret {
    /// The client's own; else what its `Idempotency-Key` stands for, the same at every replica; else a new one.
    pub(crate) fn of(
        owner: Option<&str>,
        headers: &HeaderMap,
        caller: &Caller,
        name: &LockName,
    ) -> Result<Self, Problem> {
        if let Some(owner) = owner {
            return Ok(Self { owner: read_owner(owner)?, chosen: true });
        }
        let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(key) = keys.next() else { return Ok(Self { owner: new_owner()?, chosen: false }) };
        if keys.next().is_some() || key.is_empty() || key.len() > 255 {
            let cure = "send it once, with 1 to 255 bytes that nobody can guess";
            return Err(Invalid::new("Idempotency-Key", "(hidden)", cure).into());
        }
        let (caller, name) = (caller.name().as_bytes(), name.as_str().as_bytes());
        let owner = hashed(&[b"fencepost-owner-1", caller, name, key.as_bytes()]);
        Ok(Self { owner, chosen: true })
    }

    /// How the claim is made.
    pub(crate) fn behalf(self, ticket: Option<FencingToken>) -> OnBehalf {
        let behalf = OnBehalf::default().owner(move |_| self.owner).ticket(ticket);
        if self.chosen { behalf.repeats() } else { behalf }
    }
}

/// The secret of one of several locks that are held under one: stores tell claims apart by their owners.
pub(crate) fn part_owner(whole: Owner, name: &LockName) -> Owner {
    hashed(&[b"fencepost-part-1", whole.expose().as_bytes(), name.as_str().as_bytes()])
}

fn hashed(parts: &[&[u8]]) -> Owner {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut bytes = [0; 20];
    bytes.copy_from_slice(&hash.finalize()[..20]);
    Owner::from_bytes(bytes)
}

pub(crate) fn new_owner() -> Result<Owner, Problem> {
    Owner::random().map_err(|error| {
        let detail = format!("the operating system gave no random bytes: {error}");
        Problem::new(http::StatusCode::INTERNAL_SERVER_ERROR, "unexpected", detail)
    })
}

pub(crate) fn read_owner(owner: &str) -> Result<Owner, Problem> {
    let refuse = || Invalid::new("owner", "(hidden)", "use 40 hexadecimal digits").into();
    Owner::from_exposed(owner).ok_or_else(refuse)
}

pub(crate) fn read_token(field: &'static str, token: &str) -> Result<FencingToken, Problem> {
    Ok(token.parse().map_err(|_| Invalid::new(field, token, "use the digits of a token"))?)
}

/// A token that somebody says was granted, and that steps write down. One from far ahead of the clock was not: it would
/// bring a lock near the last token there is.
pub(crate) fn read_granted(field: &'static str, token: &str) -> Result<FencingToken, Problem> {
    let read = read_token(field, token)?;
    if read > FencingToken::at(SystemTime::now() + AHEAD_MAX) {
        return Err(Invalid::new(field, token, "send the token that was granted").into());
    }
    Ok(read)
}

/// A claim that is ready to be pursued.
pub(crate) struct Pursuit<G: Grant> {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) name: LockName,
    pub(crate) secret: Secret,
    pub(crate) ticket: Option<FencingToken>,
    pub(crate) lock: Lock<G>,
    pub(crate) waits: bool,
}

impl<G: Single> Pursuit<G> {
    /// The lease, as soon as it is granted. `told` hears once that others come first. Dropped, the claim is out of the
    /// line; under an owner that the client chose, its place is left to its lease, because the client may have asked for
    /// the same claim elsewhere.
    pub(crate) async fn lease(
        self,
        told: impl Fn(InLine) + Send + Sync + 'static,
        hand_over_is_full: bool,
    ) -> Result<wire::Lease, Problem> {
        let Self { app, caller, name, secret, ticket, lock, waits } = self;
        let seat = app.witness.admit(&caller, std::slice::from_ref(&name), 1, waits)?;
        let turn = match secret.chosen {
            true => Some(app.in_flight.enter(&name, secret.owner).await?),
            false => None,
        };
        let repeated = async {
            match &turn {
                Some(turn) => turn.repeated().await,
                None => std::future::pending().await,
            }
        };
        let waited = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let heard = waited.clone();
        let behalf = secret.behalf(ticket).tell(move |place| {
            heard.store(true, std::sync::atomic::Ordering::SeqCst);
            told(place);
        });
        let lock = lock.on_behalf(behalf);
        let guard = tokio::select! {
            biased;
            guard = lock.acquire() => guard?,
            () = repeated => return Err(Problem::superseded()),
            () = app.drained(), if waits => return Err(Problem::shutting_down()),
        };
        let skips = !hand_over_is_full && waited.load(std::sync::atomic::Ordering::SeqCst);
        if !skips {
            whole(&guard, &lock).await?;
        }
        let lease = answer(guard.leak(), &lock);
        let (token, ttl) = (lease.token.clone().unwrap_or_default(), lock.lease_time());
        app.witness.granted(&Hold { caller: &caller, name: &name, owner: secret.owner, token, ttl }, &seat);
        Ok(lease)
    }
}

/// A lock that was handed over in line is held for a few seconds only: until it lasts a ttl, nobody is told.
pub(crate) async fn whole<G: Grant>(guard: &Guard<G>, lock: &Lock<G>) -> Result<(), Problem> {
    let ttl = lock.lease_time();
    if guard.remaining() < ttl - ttl / 10 {
        guard.renew().await?;
    }
    Ok(())
}

fn answer<G: Single>(lease: Lease<G>, lock: &Lock<G>) -> wire::Lease {
    let shared = G::MODE == fencepost_core::store::Mode::Shared;
    let delay_ms = wire::ms(lease.delay());
    wire::Lease {
        name: lease.name().to_owned(),
        owner: lease.owner().expose(),
        token: Some(wire::token_text(lease.token(), shared)),
        ttl_ms: Some(wire::ms(lock.lease_time())),
        mode: shared.then_some(Mode::Shared),
        lock_delay_ms: (delay_ms > 0).then_some(delay_ms),
        renewed: None,
    }
}

/// A claim on one lock, exclusive or shared.
pub(crate) enum Wanted {
    Writer(Pursuit<FencingToken>),
    Reader(Pursuit<SharedToken>),
}

impl Wanted {
    pub(crate) fn read(
        app: &Arc<App>,
        caller: &Caller,
        name: LockName,
        claim: &wire::Claim,
        headers: &HeaderMap,
        waits: bool,
    ) -> Result<Self, Problem> {
        let secret = Secret::of(claim.owner.as_deref(), headers, caller, &name)?;
        let ticket = claim.ticket.as_deref().map(|ticket| read_token("ticket", ticket)).transpose()?;
        let terms = Terms {
            ttl_ms: claim.ttl_ms,
            wait_ms: claim.wait_ms,
            label: claim.label.as_deref(),
            queue: claim.queue,
            lock_delay_ms: claim.lock_delay_ms,
            actor: claim.actor.as_deref(),
            fail_on_deadlock: claim.fail_on_deadlock,
        };
        let lock = app.locks.lock(name.as_str());
        let app = app.clone();
        Ok(match claim.mode {
            Mode::Exclusive => {
                let lock = terms.on(&app, caller, lock, waits)?;
                Self::Writer(Pursuit { app, caller: caller.clone(), name, secret, ticket, lock, waits })
            }
            Mode::Shared => {
                let lock = terms.on(&app, caller, lock.shared(), waits)?;
                Self::Reader(Pursuit { app, caller: caller.clone(), name, secret, ticket, lock, waits })
            }
        })
    }

    pub(crate) async fn lease(
        self,
        told: impl Fn(InLine) + Send + Sync + 'static,
        hand_over_is_full: bool,
    ) -> Result<wire::Lease, Problem> {
        match self {
            Self::Writer(pursuit) => pursuit.lease(told, hand_over_is_full).await,
            Self::Reader(pursuit) => pursuit.lease(told, hand_over_is_full).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_no_clock_can_have_minted_is_refused() {
        let now = FencingToken::at(SystemTime::now());
        assert_eq!(read_granted("token", &now.to_string()).ok(), Some(now));
        for token in [FencingToken::at(SystemTime::now() + AHEAD_MAX * 2), FencingToken::MAX] {
            assert!(read_granted("token", &token.to_string()).is_err(), "{token}");
        }
    }
}
