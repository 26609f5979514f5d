//! Steps to script calls, replies to answers.

use std::time::Duration;

use fencepost_core::store::{
    Answer, Claim, FencingToken, Holder, LockState, Loss, Mode, Owner, Proposal, Step, StoreErrorKind, Trouble, Turn,
    Waiter,
};

use crate::scripts::Script;
use crate::wire::Value;

/// The key that says whether a node may vote, and what time it is.
pub(crate) const MARKER: &str = "fp:marker";
/// Since when a node is on probation.
pub(crate) const PROBATION: &str = "fp:probation";
const REVOKED: &str = "fp:revoked:";

/// A call of a script: its keys and arguments.
pub(crate) struct Call {
    pub(crate) script: Script,
    pub(crate) keys: Vec<String>,
    pub(crate) arguments: Vec<String>,
}

/// What the node's replies are read with.
#[derive(Clone, Copy)]
pub(crate) enum Meaning {
    Acquire(FencingToken),
    Renew,
    Release,
    Evict,
    Inspect,
}

/// A reply, read.
pub(crate) enum Read {
    Answer(Answer),
    /// The node's clock was in it.
    Clock(Answer, FencingToken),
    /// The node has no marker: it may have forgotten everything.
    Untrusted,
    Trouble(Trouble),
}

pub(crate) fn lock_key(prefix: &str, name: &str) -> String {
    format!("{prefix}{name}")
}

fn keys(prefix: &str, name: &str) -> Vec<String> {
    let lock = lock_key(prefix, name);
    let companion = |kind: &str| format!("fp:{kind}:{{{lock}}}");
    vec![lock.clone(), companion("fence"), MARKER.to_owned(), companion("line"), companion("readers")]
}

/// The name in a fence key of this prefix.
pub(crate) fn name_of_fence<'a>(prefix: &str, key: &'a str) -> Option<&'a str> {
    key.strip_prefix("fp:fence:{")?.strip_suffix('}')?.strip_prefix(prefix)
}

fn mode(claim: &Claim) -> &'static str {
    match claim.mode {
        Mode::Exclusive => "x",
        Mode::Shared => "s",
    }
}

fn proposed(proposal: Proposal) -> FencingToken {
    match proposal {
        Proposal::Exactly(token) => token,
        Proposal::Next => unreachable!("BUG: a Redis node mints no tokens"),
    }
}

/// Turn, ticket, lease and inbox.
fn place(claim: &Claim, inbox: &str) -> [String; 4] {
    match claim.turn {
        Turn::InLine(place) => {
            let lease = place.lease.as_millis().max(1).to_string();
            ["L".into(), place.ticket.to_string(), lease, inbox.to_owned()]
        }
        Turn::AfterOthers => ["A".into(), "0".into(), "0".into(), String::new()],
        Turn::Overtake => ["O".into(), "0".into(), "0".into(), String::new()],
    }
}

/// A token's time, in milliseconds.
fn ms(token: FencingToken) -> u64 {
    token.as_u64() / 1024
}

/// Puts a step about one lock into words. `clock` is what the node's clock says by now, as far as we know.
pub(crate) fn call(prefix: &str, inbox: &str, clock: FencingToken, step: &Step) -> (Call, Meaning) {
    let tail = |claim: &Claim, attempt: u32| {
        let since = claim.place().map_or(clock, |place| place.ticket.max(clock));
        format!("{attempt}|{}|{}", ms(since), claim.label)
    };
    let ttl = |claim: &Claim| claim.ttl.as_millis().to_string();
    let call = |script, name: &str, arguments| Call { script, keys: keys(prefix, name), arguments };
    match step {
        Step::Acquire { claim, attempt, token, unify } => {
            let token = proposed(*token);
            let [turn, ticket, lease, inbox] = place(claim, inbox);
            let arguments = vec![
                claim.owner.expose(),
                token.to_string(),
                tail(claim, *attempt),
                ttl(claim),
                mode(claim).into(),
                turn,
                u8::from(*unify).to_string(),
                ticket,
                lease,
                inbox,
                attempt.to_string(),
            ];
            (call(Script::Acquire, claim.name.as_str(), arguments), Meaning::Acquire(token))
        }
        Step::Renew { claim, token } => {
            let arguments =
                vec![claim.owner.expose(), token.to_string(), tail(claim, 0), ttl(claim), mode(claim).into()];
            let mut call = call(Script::Renew, claim.name.as_str(), arguments);
            call.keys.push(format!("{REVOKED}{}", claim.owner.expose()));
            (call, Meaning::Renew)
        }
        Step::Release { claim, raise, pass } => {
            let raise = raise.map(|raise| raise.to_string()).unwrap_or_default();
            let arguments = vec![claim.owner.expose(), raise, proposed(*pass).to_string()];
            (call(Script::Release, claim.name.as_str(), arguments), Meaning::Release)
        }
        Step::GiveBack { claim, attempt, token, pass } => {
            let [turn, ticket, lease, inbox] = place(claim, inbox);
            let arguments = vec![
                claim.owner.expose(),
                token.to_string(),
                tail(claim, *attempt),
                proposed(*pass).to_string(),
                mode(claim).into(),
                turn,
                ticket,
                lease,
                inbox,
                attempt.to_string(),
            ];
            (call(Script::GiveBack, claim.name.as_str(), arguments), Meaning::Release)
        }
        Step::Evict { name, above } => {
            let above = proposed(*above);
            let arguments = vec![above.to_string(), above.next().to_string(), REVOKED.into()];
            (call(Script::Evict, name.as_str(), arguments), Meaning::Evict)
        }
        Step::Inspect { name } => (call(Script::Inspect, name.as_str(), Vec::new()), Meaning::Inspect),
        Step::List { .. } => unreachable!("BUG: a listing is not one call"),
    }
}

/// Reads a reply.
pub(crate) fn read(meaning: Meaning, name: &str, reply: &Value) -> Read {
    let odd = || Read::Trouble(Trouble::new(StoreErrorKind::Unexpected, format!("an odd reply: {reply:?}")));
    match (meaning, reply) {
        (_, Value::Error(text)) => Read::Trouble(trouble(text)),
        (Meaning::Acquire(_) | Meaning::Renew | Meaning::Evict, Value::Number(-1)) => Read::Untrusted,
        (Meaning::Acquire(token), Value::Number(1)) => Read::Answer(Answer::Granted { token }),
        (Meaning::Acquire(_), Value::Array(parts)) => acquired(parts).unwrap_or_else(odd),
        (Meaning::Renew, Value::Number(1)) => Read::Answer(Answer::Kept),
        (Meaning::Renew, Value::Number(0)) => Read::Answer(Answer::Lost(Loss::TakenOver)),
        (Meaning::Renew, Value::Number(4)) => Read::Answer(Answer::Lost(Loss::Revoked)),
        (Meaning::Release, Value::Number(1)) => Read::Answer(Answer::Freed),
        (Meaning::Release, Value::Number(0)) => Read::Answer(Answer::NotHeld),
        (Meaning::Evict, Value::Array(parts)) => Read::Answer(Answer::Evicted(holders(parts, None))),
        (Meaning::Inspect, Value::Array(parts)) => match state(name, parts) {
            Some(state) => Read::Answer(Answer::State(state)),
            None => odd(),
        },
        _ => odd(),
    }
}

fn acquired(parts: &[Value]) -> Option<Read> {
    let token = |at: usize| parts.get(at).and_then(Value::number).and_then(|number| u64::try_from(number).ok());
    match parts.first()?.number()? {
        1 => Some(Read::Answer(Answer::Granted { token: FencingToken::from_number(token(1)?)? })),
        0 => {
            let value = parts.get(1)?.text()?;
            let holder = (!value.is_empty()).then(|| holder(&value, parts.get(3).and_then(Value::number), None));
            Some(Read::Answer(Answer::Held { holder, last: FencingToken::from_number(token(2)?) }))
        }
        2 => {
            let clock = FencingToken::from_number(token(2)?)?;
            Some(Read::Clock(Answer::Stale { last: FencingToken::from_number(token(1)?), clock }, clock))
        }
        3 => {
            let message = "so many wait for this lock already that one more has no place; try again later";
            Some(Read::Trouble(Trouble::new(StoreErrorKind::Unsupported, message)))
        }
        _ => None,
    }
}

fn state(name: &str, parts: &[Value]) -> Option<LockState> {
    let [now, last, holding, waiting] = parts else { return None };
    let now = u64::try_from(now.number()?).ok()?;
    let mut state = LockState::free(name);
    state.last_token = FencingToken::from_number(u64::try_from(last.number()?).ok()?);
    state.holders = holders(holding.array()?, Some(now));
    state.waiters = waiting.array()?.iter().filter_map(|waiter| waiter_of(&waiter.text()?, now)).collect();
    Some(state)
}

fn holders(parts: &[Value], now: Option<u64>) -> Vec<Holder> {
    let pairs = parts.chunks_exact(2);
    pairs.filter_map(|pair| Some(holder(&pair[0].text()?, pair[1].number(), now))).collect()
}

/// Who is behind a value: ours, or another library's.
fn holder(value: &str, pttl: Option<i64>, now: Option<u64>) -> Holder {
    let parts: Vec<&str> = value.splitn(5, '|').collect();
    let mut holder = match parts[..] {
        [owner, token, _, since, label] if Owner::from_exposed(owner).is_some() => {
            let mut holder = Holder::new(label);
            holder.token = token.parse().ok();
            let since: Option<u64> = since.parse().ok();
            holder.held_for = now.zip(since).map(|(now, since)| Duration::from_millis(now.saturating_sub(since)));
            holder
        }
        _ if value.starts_with('?') => Holder::new(format!("another kind of lock (a {})", &value[1..])),
        _ => Holder::new("another library's lock"),
    };
    holder.expires_in = pttl.and_then(|left| u64::try_from(left).ok()).map(Duration::from_millis);
    holder
}

fn waiter_of(value: &str, now: u64) -> Option<Waiter> {
    // inbox, attempt, lease, mode; then the tail: attempt, since, label.
    let parts: Vec<&str> = value.splitn(7, '|').collect();
    let [_, _, _, mode, _, since, label] = parts[..] else { return None };
    let waited = Duration::from_millis(now.saturating_sub(since.parse().ok()?));
    Some(Waiter::new(label, mode == "s", waited))
}

const PASSWORD_CURE: &str = "set ?password_file=, FENCEPOST_REDIS_PASSWORD or redis://USER:PASSWORD@HOST";
const RIGHTS_CURE: &str =
    "an ACL user needs scripts, INFO, the keys of the prefix and `fp:*`, the channels `fp:inbox:*`";

/// What an error reply means.
pub(crate) fn trouble(text: &str) -> Trouble {
    let code = text.split(' ').next().unwrap_or_default();
    let kind = match code {
        "WRONGTYPE" => StoreErrorKind::OtherKind,
        "NOAUTH" | "NOPERM" | "WRONGPASS" => StoreErrorKind::Denied,
        "READONLY" => StoreErrorKind::Misconfigured,
        "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" => StoreErrorKind::Unreachable,
        _ if text.contains("WRONGTYPE") => StoreErrorKind::OtherKind,
        _ if text.contains("READONLY") => StoreErrorKind::Misconfigured,
        _ if text.contains("NOPERM") || text.contains("no permissions") => StoreErrorKind::Denied,
        _ => StoreErrorKind::Unexpected,
    };
    let message = match (&kind, code) {
        (StoreErrorKind::OtherKind, _) => "the key is taken by something that is no string".to_owned(),
        (StoreErrorKind::Misconfigured, _) => "it is a replica: name a master".to_owned(),
        (StoreErrorKind::Denied, "NOAUTH") => format!("it wants a password: {PASSWORD_CURE}"),
        (StoreErrorKind::Denied, "WRONGPASS") => format!("it does not know this user and password: {PASSWORD_CURE}"),
        (StoreErrorKind::Denied, _) => format!("{text}: {RIGHTS_CURE}"),
        _ => text.to_owned(),
    };
    Trouble::new(kind, message)
}
