//! Work that is done once for a key: begun here, done elsewhere, finished here.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use fencepost_core::{FencingToken, Finished, Invalid, OnceError};
use http::HeaderMap;
use serde_json::Value;

use super::windows::checked_error;
use crate::access::{Acquire, Allowed, Key};
use crate::app::App;
use crate::body::{Body, LargeBody};
use crate::claim::{Pursuit, Secret};
use crate::lease::{self, Returned, proven};
use crate::problem::{Problem, ProblemBody};
use crate::routes::records::{KEEP_MAX, VALUE_MAX};
use crate::wire::{self, Started};

const KEEP_MS: u64 = 24 * 3600 * 1000;
/// What else is noted beside a result.
const NOTE_BYTES: usize = 1024;

/// Whether to do the work of a key: `run` with a lease for one caller, `done` with the result for all others. While
/// another works it waits as long as told. The right is that for the lock `once/{key}`.
#[utoipa::path(post, path = "/v1/records/{key}/start", tag = "records", request_body = wire::KeyStart,
    params(("key" = String, Path, description = "The key, percent-encoded"),
        ("Idempotency-Key" = Option<String>, Header, description = "A repeat with the same key is the same claim")),
    responses((status = 200, body = Started), (status = 422, body = ProblemBody, description = "another payload"),
        (status = 423, body = ProblemBody, description = "in progress"), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    allowed: Allowed<Acquire, Key>,
    headers: HeaderMap,
    Body(wanted): Body<wire::KeyStart>,
) -> Result<Json<Started>, Problem> {
    let key = allowed.given();
    let Allowed { name, caller, .. } = allowed;
    let keep = Duration::from_millis(wanted.keep_ms.unwrap_or(KEEP_MS));
    if keep.is_zero() || keep > KEEP_MAX {
        return Err(Invalid::new("keep_ms", keep.as_millis().to_string(), "1 ms to ten years").into());
    }
    let once = app.locks.once_per_digest(&key, digest(&wanted.payload_hash)?).keep_for(keep);
    let secret = Secret::of(wanted.owner.as_deref(), &headers, &caller, &name)?;
    let lock = wanted.terms().on(&app, &caller, once.lock(), true)?;
    if let Some(settled) = settled(once.replayed().await)? {
        return Ok(Json(settled));
    }
    let (app, max_hold_ms) = (app.clone(), wanted.max_hold_ms);
    let pursuit: Pursuit<FencingToken> =
        Pursuit { app, caller, name, secret, ticket: None, lock, max_hold_ms, waits: true };
    let won = pursuit.won(|_| (), true).await?;
    match settled(once.begin(won.token()).await) {
        Ok(None) => Ok(Json(Started::Run { lease: won.lease() })),
        Ok(Some(settled)) => {
            won.give_back().await;
            Ok(Json(settled))
        }
        // What its client chose the owner of may have been granted to it elsewhere: that is left to its lease.
        Err(problem) => Err(problem),
    }
}

fn settled(found: Result<Option<Value>, OnceError<std::convert::Infallible>>) -> Result<Option<Started>, Problem> {
    match found {
        Ok(result) => Ok(result.map(|result| Started::Done { result })),
        Err(OnceError::FailedBefore(error)) => Ok(Some(Started::Failed { error })),
        Err(error) => Err(error.into()),
    }
}

fn digest(hash: &str) -> Result<[u8; 32], Problem> {
    let refuse = || Invalid::new("payload_hash", hash, "use the SHA-256 of the payload, as 64 hexadecimal digits");
    let mut digest = [0; 32];
    let is_lower = hash.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit));
    if hash.len() != 64 || !is_lower {
        return Err(refuse().into());
    }
    for (byte, place) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&hash[place..place + 2], 16).map_err(|_| refuse())?;
    }
    Ok(digest)
}

/// Keeps the lease of whoever works for one more ttl.
#[utoipa::path(post, path = "/v1/records/{key}/renew", tag = "records", request_body = wire::Lease,
    params(("key" = String, Path, description = "The key, percent-encoded")),
    responses((status = 200, body = wire::Renewed), (status = 409, body = ProblemBody, description = "not held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn renew(
    State(app): State<Arc<App>>,
    Allowed { name, caller, .. }: Allowed<Acquire, Key>,
    Body(lease): Body<wire::Lease>,
) -> Result<Json<wire::Renewed>, Problem> {
    Ok(Json(lease::renew(&app, caller, name, &lease).await?))
}

/// Work is over. A result is what all others get; after an error the next caller tries again. Sent again, it is the same
/// answer as long as a result is kept.
#[utoipa::path(post, path = "/v1/records/{key}/finish", tag = "records", request_body = wire::KeyFinish,
    params(("key" = String, Path, description = "The key, percent-encoded")),
    responses((status = 200, body = wire::Done), (status = 409, body = ProblemBody, description = "not held"),
        (status = 412, body = ProblemBody, description = "stale"), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn finish(
    State(app): State<Arc<App>>,
    allowed: Allowed<Acquire, Key>,
    LargeBody(finish): LargeBody<wire::KeyFinish>,
) -> Result<Json<wire::Done>, Problem> {
    let key = allowed.given();
    let wire::KeyFinish { owner, token, result, error, keep_failure } = finish;
    checked_error(error.as_deref())?;
    let outcome = match (result, error) {
        (Some(result), None) => Finished::Done(checked(result)?),
        (None, Some(error)) if keep_failure => Finished::FailedForAll(error),
        (None, Some(_)) => Finished::Failed,
        _ => return Err(Invalid::new("result", "", "say what came of it: either result or error").into()),
    };
    let returned = Returned::read(&app, allowed.caller, allowed.name, &wire::Lease::of(owner, token)).await?;
    let token = returned.token();
    let before = app.locks.key_finished_by(&key, token);
    let Some(left) = proven(&app, &returned, before).await? else { return Ok(Json(wire::Done {})) };
    let is_ours = app.locks.finish_key(&key, token, outcome, left).await?;
    // Where it was none of ours, the proof may have been a hold of its own.
    let _ = returned.release(&app).await;
    if is_ours { Ok(Json(wire::Done {})) } else { Err(Problem::not_held(None)) }
}

fn checked(result: Value) -> Result<Value, Problem> {
    let (length, most) = (result.to_string().len(), VALUE_MAX - NOTE_BYTES);
    if length > most {
        return Err(Invalid::new("result", format!("{length} bytes"), format!("at most {most} bytes as JSON")).into());
    }
    Ok(result)
}
