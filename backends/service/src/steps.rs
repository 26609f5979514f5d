//! Each step of the contract as a request of the service.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fencepost_core::store::{
    Answer, Claim, Clock, Deed, FencingToken, LockName, Loss, Moment, Record, Step, Trouble, YieldRequest,
};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::client::{Answered, Call, Client, NOT_HERE, encoded};
use crate::lines::{Began, Known, Lines, began};
use crate::stream::Events;
use crate::wire::{self, Problem, Wanted};
use crate::{trouble, wire::Lease};

/// What a step needs.
pub(crate) struct Desk {
    pub(crate) client: Arc<Client>,
    pub(crate) lines: Arc<Lines>,
    pub(crate) clock: Clock,
    /// The longest wait of one request.
    pub(crate) wait: Duration,
}

type Said = Result<Answer, Trouble>;

fn path(name: &LockName, verb: &str) -> String {
    format!("/v1/locks/{}{verb}", encoded(name.as_str()))
}

impl Desk {
    /// When a moment of the engine's clock is, on the runtime's.
    pub(crate) fn by(&self, deadline: Moment) -> Instant {
        Instant::now() + deadline.since(self.clock.now())
    }

    /// Any step but a release with another claim behind it.
    pub(crate) async fn run(&self, step: &Step, deadline: Moment) -> Said {
        if self.clock.now() >= deadline {
            return Err(trouble::too_slow());
        }
        let by = self.by(deadline);
        match step {
            Step::Acquire { claim, attempt, .. } => self.acquire(claim, *attempt, by).await,
            Step::Renew { claim, token, .. } => self.renew(claim, *token, by).await,
            Step::GiveBack { claim, token, .. } => self.release(claim, Some(*token), by).await,
            Step::Release { claim, raise, only, .. } => self.release(claim, only.or(*raise), by).await,
            Step::Evict { name, .. } => {
                let call = Call::post(path(name, "/force-release"), &json!({})).once();
                let who: wire::WhoHeld = good(self.client.ask(call, by).await?)?;
                Ok(Answer::Evicted(who.holder.into_iter().map(Into::into).collect()))
            }
            Step::Ask { name, request } => {
                let body = json!({ "note": request.note, "label": request.by });
                let call = Call::post(path(name, "/ask"), &body).once();
                let who: wire::WhoHeld = good(self.client.ask(call, by).await?)?;
                Ok(Answer::Asked(who.holder.into_iter().map(Into::into).collect()))
            }
            Step::Inspect { name } => {
                let state: wire::State = good(self.client.ask(Call::get(path(name, "")), by).await?)?;
                Ok(Answer::State(state.into()))
            }
            Step::List { prefix, after, limit, contended } => {
                let mut query = format!("/v1/locks?limit={limit}&contended={contended}&prefix={}", encoded(prefix));
                if let Some(after) = after {
                    query.push_str(&format!("&after={}", encoded(after.as_str())));
                }
                let states: wire::States = good(self.client.ask(Call::get(query), by).await?)?;
                Ok(Answer::States(states.locks.into_iter().map(Into::into).collect()))
            }
            Step::Record { name, deed } => self.record(name, deed, by).await,
            Step::AcquireAll { .. } => Ok(Answer::NotAll),
        }
    }

    /// Takes the lock, or hears that it is in line.
    pub(crate) async fn acquire(&self, claim: &Arc<Claim>, attempt: u32, by: Instant) -> Said {
        if claim.place().is_none() {
            return self.try_acquire(claim, by).await;
        }
        match self.lines.known(&claim.owner) {
            Known::Waits(answer) => return Ok(answer),
            Known::Granted => {
                let answer = self.try_acquire(claim, by).await?;
                if matches!(answer, Answer::Granted { .. }) {
                    return Ok(answer);
                }
                // It ended before it was asked about.
                self.lines.forget(&claim.owner);
            }
            Known::Nothing => {}
        }
        self.join(claim, attempt, by).await
    }

    async fn try_acquire(&self, claim: &Claim, by: Instant) -> Said {
        let wanted = Wanted::of(claim, Duration::ZERO);
        let call = Call::post(acquiring(claim, &wanted, "/try"), &wanted);
        match self.client.ask::<wire::Granted>(call, by).await? {
            Ok(granted) => match granted.token() {
                Some(token) => Ok(Answer::Granted { token }),
                None => Err(trouble::odd("a lease without a token")),
            },
            Err((status, problem)) => refused(status, problem),
        }
    }

    /// Opens a request that waits.
    async fn join(&self, claim: &Arc<Claim>, attempt: u32, by: Instant) -> Said {
        let sent = self.clock.now();
        let wanted = Wanted::of(claim, self.wait);
        let call = Call::post(acquiring(claim, &wanted, "/acquire"), &wanted).streaming();
        let opened = async {
            let (replica, response) = self.client.open(&call, by).await?;
            let status = response.status();
            if !status.is_success() {
                let body = http_body_util::BodyExt::collect(response.into_body()).await;
                let bytes = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                return Ok((replica, Err((status, serde_json::from_slice(&bytes).unwrap_or_default()))));
            }
            let mut events = Events::new(response.into_body());
            let said = timeout_at(by, events.next()).await;
            if !matches!(said, Ok(Some(_))) {
                self.client.leave(replica);
            }
            let said = said.map_err(|_| trouble::too_slow())?;
            let said = said.ok_or_else(|| trouble::unreachable("the answer broke off"))?;
            Ok::<_, Trouble>((replica, Ok((began(&said)?, events))))
        };
        let (replica, answer) = timeout_at(by, opened).await.map_err(|_| trouble::too_slow())??;
        match answer {
            Ok((Began::Granted(token), _)) => Ok(Answer::Granted { token }),
            Ok((Began::Waits(waiting), events)) => {
                let from = (self.client.clone(), replica);
                Ok(self.lines.keep(claim, waiting, events, (attempt, sent), from, &self.clock))
            }
            Ok((Began::Refused(status, problem), _)) | Err((status, problem)) => {
                if NOT_HERE.contains(&problem.code.as_str()) {
                    self.client.leave(replica);
                }
                refused(status, problem)
            }
        }
    }

    async fn renew(&self, claim: &Claim, token: FencingToken, by: Instant) -> Said {
        let call = Call::post(path(&claim.name, "/renew"), &Lease::of(claim, token));
        match self.client.ask::<wire::Renewed>(call, by).await? {
            Ok(wire::Renewed { yield_requested: None }) => Ok(Answer::Kept),
            Ok(wire::Renewed { yield_requested: Some(asked) }) => {
                Ok(Answer::KeptAndAsked(YieldRequest::new(asked.number, asked.by, asked.note)))
            }
            Err((_, problem)) if problem.code == "not_held" => {
                let revoked = problem.reason.as_deref() == Some("revoked");
                Ok(Answer::Lost(if revoked { Loss::Revoked } else { Loss::TakenOver }))
            }
            Err((status, problem)) => Err(trouble::of(status, &problem)),
        }
    }

    /// Ends a claim. `token`: at least that of what it may hold.
    pub(crate) async fn release(&self, claim: &Claim, token: Option<FencingToken>, by: Instant) -> Said {
        // A claim that has no token yet may be in line, or have been granted unheard. This token means whatever it has.
        let token = token.or_else(|| FencingToken::from_number(1));
        let Some(token) = token else { return Err(trouble::odd("no token")) };
        // Sent once: to a repeat "not held" says nothing of the hold, and the engine knows its own repeats.
        let call = Call::post(path(&claim.name, "/release"), &Lease::of(claim, token)).once();
        match self.client.ask::<Value>(call, by).await? {
            Ok(_) => Ok(Answer::Freed),
            Err((_, problem)) if problem.code == "not_held" => Ok(Answer::NotHeld),
            Err((status, problem)) => Err(trouble::of(status, &problem)),
        }
    }

    async fn record(&self, name: &LockName, deed: &Deed, by: Instant) -> Said {
        let answer: Answered<Value> = match deed {
            Deed::Read => self.client.ask(Call::get(path(name, "/record")), by).await?,
            Deed::Seal { token } => {
                let call = Call::post(path(name, "/record/seal"), &json!({ "token": token.to_string() }));
                self.client.ask(call, by).await?
            }
            Deed::Put { token, value, keep } => {
                let (value, keep_ms) = (STANDARD.encode(value), wire::ms(*keep));
                let body = json!({ "token": token.to_string(), "value": value, "keep_ms": keep_ms });
                self.client.ask(Call::put(path(name, "/record"), &body), by).await?
            }
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err((status, problem)) if status == StatusCode::PRECONDITION_FAILED => {
                let seen = problem.seen.as_deref().and_then(wire::token);
                return seen.map_or_else(
                    || Err(trouble::odd("stale, and nothing seen")),
                    |seen| Ok(Answer::Outdated { seen }),
                );
            }
            Err((status, problem)) => return Err(trouble::of(status, &problem)),
        };
        if matches!(deed, Deed::Put { .. }) {
            return Ok(Answer::Stored);
        }
        let unreadable = || trouble::odd("a record that cannot be read");
        let record: wire::Record = serde_json::from_value(answer).map_err(|_| unreadable())?;
        let read = |kept: wire::Kept| {
            let (token, value) = (wire::token(&kept.token)?, STANDARD.decode(kept.value).ok()?);
            Some(Record { token, value, left: Duration::from_millis(kept.left_ms) })
        };
        let record = record.record.map(|kept| read(kept).ok_or_else(unreadable)).transpose()?;
        Ok(Answer::Record(record))
    }
}

/// Where a claim is asked for. What a leader publishes is part of an election only.
fn acquiring(claim: &Claim, wanted: &Wanted, verb: &str) -> String {
    match wanted.leads() {
        true => format!("/v1/elections/{}/campaign", encoded(claim.name.as_str())),
        false => path(&claim.name, verb),
    }
}

fn refused(status: StatusCode, problem: Problem) -> Said {
    if problem.code == "held" {
        return Ok(Answer::Held { holder: problem.holder.map(Into::into), last: None, ticket: None });
    }
    Err(trouble::of(status, &problem))
}

fn good<T>(answer: Answered<T>) -> Result<T, Trouble> {
    answer.map_err(|(status, problem)| trouble::of(status, &problem))
}
