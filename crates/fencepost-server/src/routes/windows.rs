//! Jobs that run once per window of time in the whole cluster: begun here, run elsewhere, finished here.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use fencepost_core::{FencingToken, Invalid, Ran, Window};
use http::HeaderMap;

use crate::access::{Acquire, Allowed, Job, Observe};
use crate::app::App;
use crate::body::Body;
use crate::claim::{Pursuit, Secret};
use crate::lease::{Returned, proven};
use crate::problem::{Problem, ProblemBody};
use crate::wire;

/// The largest span: what is known of a job is kept for so long.
const EVERY_MAX: Duration = Duration::from_secs(400 * 24 * 3600);
/// What an error may say.
pub(crate) const ERROR_MAX: usize = 4096;
/// The first second that RFC 3339 cannot write.
const YEAR_10000: u64 = 253_402_300_800;

/// Begins a run, unless this window has run or somebody runs the job. Whoever gets the lease runs it, renews it
/// meanwhile, and finishes. The right is that for the lock `cron/{id}`.
#[utoipa::path(post, path = "/v1/windows/{id}/start", tag = "windows", request_body = wire::WindowStart,
    params(("id" = String, Path, description = "The job, percent-encoded"),
        ("Idempotency-Key" = Option<String>, Header, description = "A repeat with the same key is the same run")),
    responses((status = 200, body = wire::Lease), (status = 409, body = ProblemBody, description = "done"),
        (status = 423, body = ProblemBody, description = "somebody runs it"), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    allowed: Allowed<Acquire, Job>,
    headers: HeaderMap,
    Body(wanted): Body<wire::WindowStart>,
) -> Result<Json<wire::Lease>, Problem> {
    let job = allowed.given();
    let Allowed { name, caller, .. } = allowed;
    let mut job = app.locks.once_per_window(job, window(&wanted)?).at(SystemTime::now());
    if let Some(least) = wanted.at_least_ms {
        job = job.at_least_for(Duration::from_millis(least));
    }
    if let Some(most) = wanted.at_most_ms {
        job = job.at_most_for(Duration::from_millis(most));
    }
    let secret = Secret::of(wanted.owner.as_deref(), &headers, &caller, &name)?;
    let terms = wire::Terms { ttl_ms: wanted.ttl_ms, label: wanted.label.as_deref(), ..Default::default() };
    let lock = terms.on(&app, &caller, job.lock(), false)?;
    if !job.is_due().await? {
        return Err(Problem::done());
    }
    let (app, max_hold_ms) = (app.clone(), wanted.at_most_ms);
    let pursuit: Pursuit<FencingToken> =
        Pursuit { app, caller, name, secret, ticket: None, lock, max_hold_ms, waits: false };
    let won = pursuit.won(|_| (), true).await?;
    match job.begin(won.token()).await {
        Ok(Some(window)) => Ok(Json(wire::Lease { window: shown(&window), ..won.lease() })),
        Ok(None) => {
            won.give_back().await;
            Err(Problem::done())
        }
        // What its client chose the owner of may have been granted to it elsewhere: that is left to its lease.
        Err(error) => Err(error.into()),
    }
}

fn window(wanted: &wire::WindowStart) -> Result<Window, Problem> {
    match (wanted.every_ms.map(Duration::from_millis), &wanted.window) {
        (Some(every), None) if every > EVERY_MAX => {
            Err(Invalid::new("every_ms", every.as_millis().to_string(), "400 days are the most").into())
        }
        (Some(every), None) => Ok(every.into()),
        (None, Some(name)) => Ok(name.as_str().into()),
        _ => Err(Invalid::new("window", "", "say which runs are the same one: either every_ms or window").into()),
    }
}

/// Keeps a run's lease for one more ttl. One that has run for `at_most_ms` is not kept, and counts as failed.
#[utoipa::path(post, path = "/v1/windows/{id}/renew", tag = "windows", request_body = wire::Lease,
    params(("id" = String, Path, description = "The job, percent-encoded")),
    responses((status = 200, body = wire::Renewed), (status = 409, body = ProblemBody, description = "not held"),
        (status = "4XX", body = ProblemBody), (status = "5XX", body = ProblemBody)))]
pub(crate) async fn renew(
    State(app): State<Arc<App>>,
    allowed: Allowed<Acquire, Job>,
    Body(lease): Body<wire::Lease>,
) -> Result<Json<wire::Renewed>, Problem> {
    let job = allowed.given();
    let returned = Returned::read(&app, allowed.caller, allowed.name, &lease).await?;
    let token = returned.token();
    if app.locks.window_finished_by(&job, token).await? {
        // It was stopped, or says so too late; why, only its owner may hear, who has heard it.
        return Err(Problem::not_held(None));
    }
    let limit = app.locks.window_limit(&job, token).await?;
    match returned.at_most(limit).renew(&app).await {
        Err(problem) if problem.is_hold_limit() => {
            app.locks.stop_window(&job, token, limit.unwrap_or_default()).await?;
            Err(problem)
        }
        renewed => renewed.map(Json),
    }
}

/// A run is over, well or not: its window has run. Sent again, it is the same answer.
#[utoipa::path(post, path = "/v1/windows/{id}/finish", tag = "windows", request_body = wire::WindowFinish,
    params(("id" = String, Path, description = "The job, percent-encoded")),
    responses((status = 200, body = wire::Done), (status = 409, body = ProblemBody, description = "not held"),
        (status = 412, body = ProblemBody, description = "stale"), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn finish(
    State(app): State<Arc<App>>,
    allowed: Allowed<Acquire, Job>,
    Body(wire::WindowFinish { owner, token, error, .. }): Body<wire::WindowFinish>,
) -> Result<Json<wire::Done>, Problem> {
    let job = allowed.given();
    checked_error(error.as_deref())?;
    let returned = Returned::read(&app, allowed.caller, allowed.name, &wire::Lease::of(owner, token)).await?;
    let token = returned.token();
    let before = app.locks.window_finished_by(&job, token);
    let Some(left) = proven(&app, &returned, before).await? else { return Ok(Json(wire::Done {})) };
    let is_ours = app.locks.finish_window(&job, token, error, left).await?;
    // Where it was none of ours, the proof may have been a hold of its own.
    let _ = returned.release(&app).await;
    if is_ours { Ok(Json(wire::Done {})) } else { Err(Problem::not_held(None)) }
}

pub(crate) fn checked_error(error: Option<&str>) -> Result<(), Problem> {
    match error.map(str::len).filter(|length| *length > ERROR_MAX) {
        Some(length) => {
            Err(Invalid::new("error", format!("{length} bytes"), format!("at most {ERROR_MAX} bytes")).into())
        }
        None => Ok(()),
    }
}

/// When a job ran last, how that ended, who runs it, and when the next window begins.
#[utoipa::path(get, path = "/v1/windows/{id}", tag = "windows",
    params(("id" = String, Path, description = "The job, percent-encoded")),
    responses((status = 200, body = wire::WindowState), (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)))]
pub(crate) async fn inspect(
    State(app): State<Arc<App>>,
    allowed: Allowed<Observe, Job>,
) -> Result<Json<wire::WindowState>, Problem> {
    // The span of the last run counts.
    let state = app.locks.once_per_window(allowed.given(), "").inspect().await?;
    Ok(Json(wire::WindowState {
        last_run: state.last_run.and_then(date),
        last_window: state.last_window.as_ref().and_then(shown),
        failed: state.failed,
        running: state.running.as_ref().map(wire::Holder::from),
        next: state.next.and_then(date),
    }))
}

fn shown(window: &Ran) -> Option<String> {
    match window {
        Ran::Since(began) => date(*began),
        Ran::Named(name) => Some(name.clone()),
    }
}

/// Nothing, for a time that cannot be written: whoever may write the record may have put anything there.
fn date(time: SystemTime) -> Option<String> {
    let since = time.duration_since(UNIX_EPOCH).ok().filter(|since| since.as_secs() < YEAR_10000)?;
    Some(humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_all_calendars_is_left_out() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0).as_deref(), Some("1970-01-01T00:00:00.000Z"));
        assert_eq!(at(YEAR_10000 - 1).as_deref(), Some("9999-12-31T23:59:59.000Z"));
        assert_eq!((at(YEAR_10000), at(u64::MAX / 1000)), (None, None));
    }
}
