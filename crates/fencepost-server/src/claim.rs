//! What becomes of a claim on one name: settings, owner, the wait, the lease.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fencepost_core::store::{ActorId, InLine, LockName, OnBehalf, Owner};
use fencepost_core::{Actor, FencingToken, Grant, Guard, Invalid, Lease, Lock, SharedToken, Single};
use http::HeaderMap;
use sha2::{Digest, Sha256};

use crate::access::Caller;
use crate::app::App;
use crate::in_flight::Turn;
use crate::problem::Problem;
use crate::wire::{self, Mode, Queue, Terms};
use crate::witness::{Hold, Seat};

/// A lease that says nothing else.
pub(crate) const TTL_MS: u64 = 30_000;
/// Clocks may be wrong by so much, whoever minted a token.
const AHEAD_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
const IDEMPOTENCY_KEY: &str = "idempotency-key";

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
        if self.max_hold_ms == Some(0) {
            return Err(Invalid::new("max_hold_ms", "0", "give the work some time").into());
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
        let Some(key) = keys.next() else { return Self::new() };
        if keys.next().is_some() || key.is_empty() || key.len() > 255 {
            let cure = "send it once, with 1 to 255 bytes that nobody can guess";
            return Err(Invalid::new("Idempotency-Key", "(hidden)", cure).into());
        }
        // Whoever learns the header cannot tell the owner from it: what only this caller knows is part of it.
        let (who, name) = (caller.name().as_bytes(), name.as_str().as_bytes());
        let owner = hashed(&[b"fencepost-owner-2", who, caller.secret(), name, key.as_bytes()]);
        Ok(Self { owner, chosen: true })
    }

    /// One that nobody can name again.
    pub(crate) fn new() -> Result<Self, Problem> {
        Ok(Self { owner: new_owner()?, chosen: false })
    }

    /// A new one, for claims that cannot be repeated: each takes what is free.
    pub(crate) fn unrepeated(headers: &HeaderMap) -> Result<Self, Problem> {
        if headers.contains_key(IDEMPOTENCY_KEY) {
            let cure = "leave it out: permits are not repeated, each request takes others";
            return Err(Invalid::new("Idempotency-Key", "(hidden)", cure).into());
        }
        Self::new()
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

fn new_owner() -> Result<Owner, Problem> {
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

pub(crate) fn read_ticket(ticket: Option<&str>) -> Result<Option<FencingToken>, Problem> {
    ticket.map(|ticket| read_token("ticket", ticket)).transpose()
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
    pub(crate) max_hold_ms: Option<u64>,
    pub(crate) waits: bool,
}

/// A claim that was granted, and that nobody was told yet: dropped, it is given back.
pub(crate) struct Won<G: Single> {
    app: Arc<App>,
    caller: Caller,
    name: LockName,
    owner: Owner,
    max_hold_ms: Option<u64>,
    lock: Lock<G>,
    guard: Guard<G>,
    seat: Seat,
    _turn: Option<Turn>,
}

impl<G: Single> Won<G> {
    /// As data, for the client to keep.
    pub(crate) fn lease(self) -> wire::Lease {
        let Self { app, caller, name, owner, max_hold_ms, lock, guard, seat, _turn } = self;
        let lease = wire::Lease { max_hold_ms, ..answer(guard.leak(), &lock) };
        let (token, ttl) = (lease.token.clone().unwrap_or_default(), lock.lease_time());
        let hold = Hold { caller: &caller, name: &name, owner, token, ttl };
        app.witness.granted(&hold, &seat, lock.label_shown());
        lease
    }

    /// Nobody needs it, also where the client may have asked for it again elsewhere.
    pub(crate) async fn give_back(self) {
        let _ = self.guard.release().await;
    }
}

impl Won<FencingToken> {
    pub(crate) fn token(&self) -> FencingToken {
        self.guard.token()
    }
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
        Ok(self.won(told, hand_over_is_full).await?.lease())
    }

    /// The same before anybody is told.
    pub(crate) async fn won(
        self,
        told: impl Fn(InLine) + Send + Sync + 'static,
        hand_over_is_full: bool,
    ) -> Result<Won<G>, Problem> {
        let Self { app, caller, name, secret, ticket, lock, max_hold_ms, waits } = self;
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
        let traces = &app.settings.traces;
        let acquired = async { lock.acquire().await.map_err(|error| Problem::not_acquired(error, &caller)) };
        let guard = tokio::select! {
            biased;
            guard = traces.step("acquire", Some(&name), acquired) => guard?,
            () = repeated => return Err(Problem::superseded()),
            () = app.drained(), if waits => return Err(Problem::shutting_down()),
        };
        let skips = !hand_over_is_full && waited.load(std::sync::atomic::Ordering::SeqCst);
        if !skips {
            whole(&app, &guard, &lock).await?;
        }
        Ok(Won { app, caller, name, owner: secret.owner, max_hold_ms, lock, guard, seat, _turn: turn })
    }
}

/// A lock that was handed over in line is held for a few seconds only: until it lasts a ttl, nobody is told.
async fn whole<G: Grant>(app: &App, guard: &Guard<G>, lock: &Lock<G>) -> Result<(), Problem> {
    let ttl = lock.lease_time();
    if guard.remaining() < ttl - ttl / 10 {
        app.settings.traces.step("renew", None, async { Ok(guard.renew().await?) }).await?;
    }
    Ok(())
}

/// Takes several locks under one secret, all or nothing, in the lines of these names; so many of them. `read`: what the
/// guard of them shows.
pub(crate) async fn together<G: Grant, T>(
    app: &App,
    caller: &Caller,
    lock: Lock<G>,
    secret: Secret,
    (names, count): (&[LockName], usize),
    waits: bool,
    read: impl FnOnce(&Guard<G>) -> T,
) -> Result<T, Problem> {
    let Secret { owner, chosen } = secret;
    let behalf = OnBehalf::default().owner(move |name| part_owner(owner, name));
    let lock = lock.on_behalf(if chosen { behalf.repeats() } else { behalf });
    let seat = app.witness.admit(caller, names, count, waits)?;
    let _turn = match names.first().filter(|_| chosen) {
        Some(first) => Some(app.in_flight.enter(first, owner).await?),
        None => None,
    };
    let only = if let [name] = names { Some(name) } else { None };
    let acquired = async { lock.acquire().await.map_err(|error| Problem::not_acquired(error, caller)) };
    let guard = tokio::select! {
        biased;
        guard = app.settings.traces.step("acquire", only, acquired) => guard?,
        () = app.drained(), if waits => return Err(Problem::shutting_down()),
    };
    whole(app, &guard, &lock).await?;
    let shown = read(&guard);
    for part in guard.leak_all() {
        let (name, token) = (LockName::new(part.name())?, part.token().to_string());
        let hold = Hold { caller, name: &name, owner: part.owner(), token, ttl: lock.lease_time() };
        app.witness.granted(&hold, &seat, lock.label_shown());
    }
    Ok(shown)
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
        max_hold_ms: None,
        window: None,
    }
}

/// What a request asks for, and who sent it.
pub(crate) struct Asked<'a> {
    pub(crate) app: &'a Arc<App>,
    pub(crate) caller: &'a Caller,
    pub(crate) name: LockName,
    pub(crate) claim: &'a wire::Claim,
    pub(crate) headers: &'a HeaderMap,
    /// This route may wait.
    pub(crate) waits: bool,
}

impl Asked<'_> {
    /// As a claim on this lock.
    fn on<G: Grant>(self, lock: Lock<G>) -> Result<Pursuit<G>, Problem> {
        let Self { app, caller, name, claim, headers, waits } = self;
        let secret = Secret::of(claim.owner.as_deref(), headers, caller, &name)?;
        let ticket = read_ticket(claim.ticket.as_deref())?;
        let lock = claim.terms().on(app, caller, lock, waits)?;
        // Whoever gives no time is never in line.
        let waits = waits && claim.wait_ms.is_some_and(|wait| wait > 0);
        let (app, caller, max_hold_ms) = (app.clone(), caller.clone(), claim.max_hold_ms);
        Ok(Pursuit { app, caller, name, secret, ticket, lock, max_hold_ms, waits })
    }
}

/// A claim on one lock, exclusive or shared.
pub(crate) enum Wanted {
    Writer(Pursuit<FencingToken>),
    Reader(Pursuit<SharedToken>),
}

impl Wanted {
    pub(crate) fn read(asked: Asked<'_>) -> Result<Self, Problem> {
        let lock = asked.app.locks.lock(asked.name.as_str());
        Ok(match asked.claim.mode {
            Mode::Exclusive => Self::Writer(asked.on(lock)?),
            Mode::Shared => Self::Reader(asked.on(lock.shared())?),
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
    fn an_idempotency_key_is_an_owner_of_its_caller_alone() {
        let keys = |first: &str, second: &str| {
            let entry = |principal: &str, key: &str| {
                let digest = crate::auth::KeyDigest::of(key.as_bytes());
                crate::auth::key_entry(principal, &digest, &[]).expect("an entry")
            };
            crate::auth::Credentials::parse(&[entry("p", first), entry("p", second), entry("q", "3")].concat())
        };
        let (before, rotated) = (keys("1", "2").expect("good"), keys("2", "4").expect("good"));
        let owner = |file: &crate::auth::Credentials, key: &str, header: &'static str| {
            let caller = Caller::of(file.by_key(key.as_bytes()).expect("known"));
            let headers = HeaderMap::from_iter([(
                http::HeaderName::from_static(IDEMPOTENCY_KEY),
                http::HeaderValue::from_static(header),
            )]);
            let name = LockName::new("a").expect("a name");
            Secret::of(None, &headers, &caller, &name).expect("a secret").owner.expose()
        };
        assert_eq!(owner(&before, "1", "x"), owner(&before, "2", "x"), "a retry with the new key is the same claim");
        assert_ne!(owner(&before, "1", "x"), owner(&before, "1", "y"));
        assert_ne!(owner(&before, "1", "x"), owner(&before, "3", "x"), "another caller");
        assert_ne!(owner(&before, "2", "x"), owner(&rotated, "2", "x"), "the name of the caller is not enough");
    }

    #[test]
    fn a_token_that_no_clock_can_have_minted_is_refused() {
        let now = FencingToken::at(SystemTime::now());
        assert_eq!(read_granted("token", &now.to_string()).ok(), Some(now));
        for token in [FencingToken::at(SystemTime::now() + AHEAD_MAX * 2), FencingToken::MAX] {
            assert!(read_granted("token", &token.to_string()).is_err(), "{token}");
        }
    }
}
