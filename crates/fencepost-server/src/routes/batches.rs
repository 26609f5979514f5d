//! Several names at once: all or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use fencepost_core::Invalid;
use fencepost_core::store::OnBehalf;
use futures_util::future::join_all;

use crate::access::Caller;
use crate::app::App;
use crate::auth::Verb;
use crate::body::Body;
use crate::claim::{TTL_MS, Terms, new_owner, part_owner, read_granted, read_owner, whole};
use crate::lease::Returned;
use crate::problem::{Problem, ProblemBody};
use crate::wire;
use crate::witness::Hold;

/// Takes all of these locks if nobody has any of them.
#[utoipa::path(post, path = "/v1/batches/try", tag = "batches", request_body = wire::BatchClaim,
    responses((status = 200, body = wire::BatchLease), (status = 423, body = ProblemBody, description = "held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn try_acquire(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(claim): Body<wire::BatchClaim>,
) -> Result<Json<wire::BatchLease>, Problem> {
    Ok(Json(take(&app, &caller, &claim, false).await?))
}

/// Takes all of these locks, and waits for them. A client that goes away is out of all lines at once.
#[utoipa::path(post, path = "/v1/batches/acquire", tag = "batches", request_body = wire::BatchClaim,
    responses((status = 200, body = wire::BatchLease), (status = 423, body = ProblemBody, description = "still held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn acquire(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(claim): Body<wire::BatchClaim>,
) -> Result<Json<wire::BatchLease>, Problem> {
    Ok(Json(take(&app, &caller, &claim, true).await?))
}

async fn take(
    app: &Arc<App>,
    caller: &Caller,
    claim: &wire::BatchClaim,
    waits: bool,
) -> Result<wire::BatchLease, Problem> {
    let names = claim.names.iter().map(|name| caller.may(Verb::Acquire, name)).collect::<Result<Vec<_>, _>>()?;
    let terms = Terms {
        ttl_ms: claim.ttl_ms,
        wait_ms: claim.wait_ms,
        label: claim.label.as_deref(),
        queue: claim.queue,
        lock_delay_ms: claim.lock_delay_ms,
        actor: claim.actor.as_deref(),
        fail_on_deadlock: false,
    };
    let owner = new_owner()?;
    let lock = terms.on(app, caller, app.locks.all_of(claim.names.iter().cloned()), waits)?;
    let lock = lock.on_behalf(OnBehalf::default().owner(move |name| part_owner(owner, name)));
    let seat = app.witness.admit(caller, &names, names.len(), waits)?;
    let guard = tokio::select! {
        biased;
        guard = lock.acquire() => guard?,
        () = app.drained(), if waits => return Err(Problem::shutting_down()),
    };
    whole(&guard, &lock).await?;
    let tokens: BTreeMap<String, String> =
        guard.tokens().iter().map(|(name, token)| (name.clone(), token.to_string())).collect();
    drop(guard.leak_all());
    for (name, token) in names.iter().filter_map(|name| Some((name, tokens.get(name.as_str())?))) {
        let (token, ttl) = (String::clone(token), lock.lease_time());
        app.witness.granted(&Hold { caller, name, owner: part_owner(owner, name), token, ttl }, &seat);
    }
    let ttl_ms = Some(wire::ms(lock.lease_time()));
    Ok(wire::BatchLease { owner: owner.expose(), ttl_ms, tokens, lock_delay_ms: claim.lock_delay_ms })
}

/// Keeps all of them for one more ttl. If one is lost, all count as lost.
#[utoipa::path(post, path = "/v1/batches/renew", tag = "batches", request_body = wire::BatchLease,
    responses((status = 200, body = wire::Renewed), (status = 409, body = ProblemBody, description = "not held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn renew(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(lease): Body<wire::BatchLease>,
) -> Result<Json<wire::Renewed>, Problem> {
    Ok(Json(renew_all(&app, returned(&app, &caller, &lease)?).await?))
}

/// Releases all of them.
#[utoipa::path(post, path = "/v1/batches/release", tag = "batches", request_body = wire::BatchLease,
    responses((status = 200, body = wire::Released), (status = 409, body = ProblemBody, description = "not held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn release(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(lease): Body<wire::BatchLease>,
) -> Result<Json<wire::Released>, Problem> {
    Ok(Json(release_all(&app, returned(&app, &caller, &lease)?).await?))
}

fn returned(app: &App, caller: &Caller, lease: &wire::BatchLease) -> Result<Vec<Returned>, Problem> {
    let owner = read_owner(&lease.owner)?;
    let ttl = app.settings.limits.ttl(lease.ttl_ms.unwrap_or(TTL_MS))?;
    let delay = Duration::from_millis(lease.lock_delay_ms.unwrap_or(0));
    if lease.tokens.is_empty() || lease.tokens.len() > 256 {
        let cure = "send the tokens back that were granted";
        return Err(Invalid::new("tokens", lease.tokens.len().to_string(), cure).into());
    }
    let each = lease.tokens.iter().map(|(name, token)| {
        let name = caller.may(Verb::Acquire, name)?;
        let owner = part_owner(owner, &name);
        Ok(Returned::of(caller, name, owner, read_granted("tokens", token)?, ttl, delay))
    });
    each.collect()
}

/// Renews each; the first trouble is the answer.
pub(crate) async fn renew_all(app: &App, leases: Vec<Returned>) -> Result<wire::Renewed, Problem> {
    let mut whole: Option<wire::Renewed> = None;
    for renewed in join_all(leases.into_iter().map(|lease| lease.renew(app))).await {
        let renewed = renewed?;
        let asked = whole.and_then(|whole| whole.yield_requested);
        whole = Some(wire::Renewed { yield_requested: asked.or(renewed.yield_requested), ..renewed });
    }
    whole.ok_or_else(|| Problem::not_held(None))
}

/// Releases each; the first trouble is the answer.
pub(crate) async fn release_all(app: &App, leases: Vec<Returned>) -> Result<wire::Released, Problem> {
    let mut whole = Err(Problem::not_held(None));
    for (index, released) in join_all(leases.into_iter().map(|lease| lease.release(app))).await.into_iter().enumerate()
    {
        whole = if index == 0 { released } else { whole.and(released) };
    }
    whole
}
