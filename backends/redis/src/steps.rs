//! Steps to script calls, replies to answers.

use std::time::Duration;

use fencepost_core::store::{
    ActorId, Answer, Claim, Deed, FencingToken, Holder, LockName, LockState, Loss, Mode, Owner, Proposal, Record,
    Repair, Step, StoreErrorKind, Then, Trouble, Turn, Waiter, YieldRequest,
};

use crate::call::{Call, word};
use crate::error;
use crate::keys::{Keys, Layout};
use crate::redisson;
use crate::scripts::Script;
use crate::wire::Value;

/// What all keys start with that are no locks.
pub(crate) const OWN_KEYS: &str = "fp:";
/// The key that says whether a node may vote, and what time it is.
pub(crate) const MARKER: &str = "fp:marker";
/// Since when a node is on probation.
pub(crate) const PROBATION: &str = "fp:probation";
/// What is wrong with a cluster whose nodes are all there.
pub(crate) const NOT_COVERED: &str = "not every slot has a master: see `redis-cli --cluster check`";
pub(crate) const REVOKED: &str = "fp:revoked:";
pub(crate) const ASKED: &str = "fp:asked:";
const RECORD: &str = "fp:record:";

/// Who holds what is no lock.
const OTHER_KIND: &str = "another kind of lock";

/// What the node's replies are read with.
#[derive(Clone, Copy)]
pub(crate) enum Meaning {
    /// Asked for under this number; a node that votes does not repeat it.
    Acquire(FencingToken),
    AcquireAll,
    Renew,
    /// The other claim, if one goes with it, asks under this number.
    Release(FencingToken),
    GiveBack,
    Evict,
    Ask,
    Inspect,
    Record,
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

/// What the keys start with that say something of one owner. In a cluster they are in the slot of its lock.
fn owned(start: &str, keys: &Keys, name: &str) -> String {
    match keys.clustered {
        false => start.to_owned(),
        true => format!("{start}{{{}}}:", keys.lock(name)),
    }
}

fn mode(claim: &Claim) -> &'static str {
    match claim.mode {
        Mode::Exclusive => "x",
        Mode::Shared => "s",
    }
}

/// The number that the client chose: a token, or a bound where the server mints.
pub(crate) fn number(proposal: Proposal) -> FencingToken {
    proposal.number().expect("BUG: a Redis server is told a token or a bound")
}

/// Why a step is none that may be taken.
pub(crate) fn refused(keys: &Keys, step: &Step) -> Option<Trouble> {
    reserved(keys, step).or_else(|| match keys.layout {
        Layout::Fencepost => None,
        Layout::Redisson => redisson::refused(keys, step),
    })
}

/// With an empty prefix, a lock could have the name of a key of ours.
fn reserved(keys: &Keys, step: &Step) -> Option<Trouble> {
    if !OWN_KEYS.starts_with(&keys.prefix) {
        return None;
    }
    let is_reserved = |name: &LockName| keys.lock(name.as_str()).starts_with(OWN_KEYS);
    let any_is = match step {
        Step::AcquireAll { parts } => parts.iter().any(|part| is_reserved(&part.claim.name)),
        one => one.name().is_some_and(is_reserved),
    };
    if !any_is {
        return None;
    }
    let message =
        format!("keys that start with {OWN_KEYS} are Fencepost's own: choose another name, or another ?prefix=");
    Some(Trouble::new(StoreErrorKind::Unsupported, message))
}

/// A token's time, in milliseconds.
fn ms(token: FencingToken) -> u64 {
    token.as_u64() / 1024
}

/// On whose behalf, as it stands behind the attempt in a tail.
pub(crate) fn actor(claim: &Claim) -> String {
    claim.actor.map(|actor| format!("@{actor}")).unwrap_or_default()
}

/// Reads it.
fn actor_of(attempt: &str) -> Option<ActorId> {
    attempt.split_once('@').and_then(|(_, actor)| ActorId::parse(actor))
}

/// When it got what it is about to get, in milliseconds of the node's clock.
pub(crate) fn since(claim: &Claim, clock: FencingToken) -> u64 {
    ms(claim.place().and_then(|place| place.ticket).map_or(clock, |ticket| ticket.max(clock)))
}

/// Turn, ticket (0: the node gives one), lease, and how long a grant is kept that is handed over.
fn place(claim: &Claim) -> (&'static str, u64, u64, u64) {
    match claim.turn {
        Turn::InLine(place) => {
            let lease = millis(place.lease).max(1);
            ("L", place.ticket.map_or(0, FencingToken::as_u64), lease, lease.saturating_add(millis(claim.delay)))
        }
        Turn::AfterOthers => ("A", 0, 0, 0),
        Turn::Overtake => ("O", 0, 0, 0),
    }
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Puts a step about one lock into words. `clock` is what the node's clock says by now, as far as we know.
pub(crate) fn call(keys: &Keys, inbox: &str, clock: FencingToken, step: &Step) -> (Call, Meaning) {
    if keys.layout == Layout::Redisson {
        return redisson::call(keys, clock, step);
    }
    if let Some(claim) = step.claim().filter(|claim| !claim.fenced) {
        return plain(keys, claim, step);
    }
    let since = |claim: &Claim| since(claim, clock);
    match step {
        Step::Acquire { claim, attempt, token, unify } => {
            let number = number(*token);
            let owner = claim.owner.expose();
            let (turn, ticket, lease, kept_for) = place(claim);
            let unify = if *unify { "|1|" } else { "|0|" };
            let call = Call::new(Script::Acquire, keys, claim.name.as_str()).words([
                word![&*owner, "|", number, "|", *attempt, &*actor(claim), "|", since(claim), "|", &*claim.label],
                word![number],
                word![millis(claim.kept_for())],
                word![mode(claim), "|", turn, unify, ticket, "|", lease, "|", kept_for, "|", inbox, "|", *attempt],
            ]);
            (call, Meaning::Acquire(number))
        }
        Step::AcquireAll { parts } => {
            let mut call = Call::several(Script::AcquireAll, keys, parts.iter().map(|part| part.claim.name.as_str()));
            for part in &**parts {
                let (claim, number) = (&part.claim, number(part.token));
                let (owner, actor) = (claim.owner.expose(), actor(claim));
                call.word(word![
                    &*owner,
                    "|",
                    number,
                    "|",
                    part.attempt,
                    &*actor,
                    "|",
                    since(claim),
                    "|",
                    &*claim.label
                ]);
                call.word(word![number]);
                call.word(word![millis(claim.kept_for())]);
            }
            (call, Meaning::AcquireAll)
        }
        Step::Renew { claim, token, pass, repair } => {
            let owner = claim.owner.expose();
            let mut call = Call::new(Script::Renew, keys, claim.name.as_str());
            call.key(word![&*owned(REVOKED, keys, claim.name.as_str()), &*owner]);
            call.key(word![&*owned(ASKED, keys, claim.name.as_str()), &*owner]);
            let call = call.words([
                word![&*owner],
                word![*token],
                word!["0", &*actor(claim), "|", since(claim), "|", &*claim.label],
                word![millis(claim.kept_for())],
                word![mode(claim)],
                word![pass.map_or(0, |pass| number(pass).as_u64())],
                word![match repair {
                    Repair::Never => "0",
                    Repair::NotLater => "1",
                    Repair::Forgotten => "2",
                }],
            ]);
            (call, Meaning::Renew)
        }
        Step::Release { claim, raise, pass, then, only } => {
            let call = Call::new(Script::Release, keys, claim.name.as_str());
            let (owner, pass) = (claim.owner.expose(), number(*pass));
            let call = match raise {
                Some(raise) => call.words([word![&*owner, "|", *raise, "|"], word![pass]]),
                None => call.words([word![&*owner, "|"], word![pass]]),
            };
            let call = match then {
                None => call,
                Some(Then { claim, attempt }) => {
                    let owner = claim.owner.expose();
                    let (turn, ticket, lease, kept_for) = place(claim);
                    call.words([
                        word![&*owner, "|", pass, "|", *attempt, &*actor(claim), "|", since(claim), "|", &*claim.label],
                        word![millis(claim.kept_for())],
                        word![
                            mode(claim),
                            "|",
                            turn,
                            "|0|",
                            ticket,
                            "|",
                            lease,
                            "|",
                            kept_for,
                            "|",
                            inbox,
                            "|",
                            *attempt
                        ],
                    ])
                }
            };
            let call = match only {
                Some(only) => call.words([word![*only]]),
                None => call,
            };
            (call, Meaning::Release(pass))
        }
        Step::GiveBack { claim, attempt, token, pass } => {
            let owner = claim.owner.expose();
            let (turn, ticket, lease, kept_for) = place(claim);
            let call = Call::new(Script::GiveBack, keys, claim.name.as_str()).words([
                word![&*owner],
                word![*token],
                word![*attempt, &*actor(claim), "|", since(claim), "|", &*claim.label],
                word![number(*pass)],
                word![mode(claim)],
                word![turn],
                word![ticket],
                word![lease],
                word![kept_for],
                word![inbox],
                word![*attempt],
            ]);
            (call, Meaning::GiveBack)
        }
        Step::Evict { name, above } => {
            let above = number(*above);
            let call = Call::new(Script::Evict, keys, name.as_str());
            (
                call.words([word![above], word![above.next()], word![&*owned(REVOKED, keys, name.as_str())]]),
                Meaning::Evict,
            )
        }
        Step::Ask { name, request } => {
            let call = Call::new(Script::Ask, keys, name.as_str());
            let (by, note) = (&*request.by, &*request.note);
            let request = word![request.number(), "|", by.len() as u64, "|", by, note];
            (call.words([word![&*owned(ASKED, keys, name.as_str())], request]), Meaning::Ask)
        }
        Step::Inspect { name } => (Call::new(Script::Inspect, keys, name.as_str()), Meaning::Inspect),
        Step::Record { name, deed } => (record(keys, name.as_str(), deed), Meaning::Record),
        Step::List { .. } => unreachable!("BUG: a listing is not one call"),
    }
}

fn record(keys: &Keys, name: &str, deed: &Deed) -> Call {
    let mut call = Call::new(Script::Record, keys, name);
    call.key(word![RECORD, "{", &*keys.lock(name), "}"]);
    match deed {
        Deed::Read => call.words([word!["r"]]),
        Deed::Seal { token } => call.words([word!["s"], word![*token]]),
        Deed::Put { token, value, keep } => {
            call.words([word!["p"], word![*token], word![millis(*keep)], word![&**value]])
        }
    }
}

/// The same for a lock that needs no token: `SET NX PX` and compare-and-delete, as every Redis lock has them.
fn plain(keys: &Keys, claim: &Claim, step: &Step) -> (Call, Meaning) {
    let (name, owner, ttl) = (claim.name.as_str(), claim.owner.expose(), millis(claim.kept_for()));
    let call = |script| Call::plain(script, keys, name).words([word![&*owner]]);
    let judged = u32::from(keys.judged);
    match step {
        Step::Acquire { attempt: 1, token, .. } if !keys.judged => {
            let key = keys.lock(name);
            let words = [word!["SET"], word![&*key], word![&*owner], word!["NX"], word!["PX"], word![ttl]];
            (Call::empty(None).words(words), Meaning::Acquire(number(*token)))
        }
        Step::Acquire { token, .. } => {
            let call = match keys.judged {
                true => Call::new(Script::PlainAcquire, keys, name),
                false => Call::plain(Script::PlainAcquire, keys, name),
            };
            (call.words([word![&*owner], word![ttl], word![judged]]), Meaning::Acquire(number(*token)))
        }
        Step::Renew { .. } => {
            let mut call = Call::plain(Script::PlainRenew, keys, name);
            call.key(word![&*owned(ASKED, keys, name), &*owner]);
            if keys.judged && !keys.clustered {
                call.key(word![&*keys.marker]);
            }
            (call.words([word![&*owner], word![ttl], word![judged]]), Meaning::Renew)
        }
        _ => (call(Script::PlainRelease), Meaning::GiveBack),
    }
}

/// Reads a reply.
pub(crate) fn read(meaning: Meaning, name: &str, reply: &Value) -> Read {
    let odd = || Read::Trouble(Trouble::new(StoreErrorKind::Unexpected, format!("an odd reply: {reply:?}")));
    match (meaning, reply) {
        (_, Value::Error(text)) => Read::Trouble(error::trouble(text)),
        (
            Meaning::Acquire(_)
            | Meaning::AcquireAll
            | Meaning::Renew
            | Meaning::Evict
            | Meaning::Ask
            | Meaning::Record,
            Value::Number(-1),
        ) => Read::Untrusted,
        (Meaning::AcquireAll, Value::Number(0)) => Read::Answer(Answer::NotAll),
        (Meaning::AcquireAll, Value::Array(parts)) => {
            let token = |part: &Value| FencingToken::from_number(u64::try_from(part.number()?).ok()?);
            let tokens: Option<Vec<FencingToken>> = parts.iter().map(token).collect();
            tokens.map_or_else(odd, |tokens| Read::Answer(Answer::AllGranted { tokens }))
        }
        (Meaning::Acquire(token), Value::Number(1) | Value::Text(_)) => Read::Answer(Answer::Granted { token }),
        (Meaning::Acquire(_), Value::Number(0) | Value::Null) => {
            Read::Answer(Answer::Held { holder: None, last: None, ticket: None })
        }
        (Meaning::Acquire(_), Value::Array(parts)) => acquired(parts).unwrap_or_else(odd),
        (Meaning::Renew, Value::Number(1)) => Read::Answer(Answer::Kept),
        (Meaning::Renew, Value::Array(parts)) => match parts.get(1).and_then(Value::text).and_then(|text| asked(&text))
        {
            Some(request) => Read::Answer(Answer::KeptAndAsked(request)),
            None => odd(),
        },
        (Meaning::Renew, Value::Number(0)) => Read::Answer(Answer::Lost(Loss::TakenOver)),
        (Meaning::Renew, Value::Number(4)) => Read::Answer(Answer::Lost(Loss::Revoked)),
        (Meaning::Release(_) | Meaning::GiveBack, Value::Number(1)) => Read::Answer(Answer::Freed),
        (Meaning::Release(_) | Meaning::GiveBack, Value::Number(0)) => Read::Answer(Answer::NotHeld),
        (Meaning::Release(pass), Value::Array(parts)) => relayed(pass, name, parts).unwrap_or_else(odd),
        (Meaning::Evict, Value::Array(parts)) => Read::Answer(Answer::Evicted(holders(parts, None))),
        (Meaning::Ask, Value::Array(parts)) => Read::Answer(Answer::Asked(holders(parts, None))),
        (Meaning::Inspect, Value::Array(parts)) => match state(name, parts) {
            Some(state) => Read::Answer(Answer::State(state)),
            None => odd(),
        },
        (Meaning::Record, Value::Number(0)) => Read::Answer(Answer::Record(None)),
        (Meaning::Record, Value::Number(1)) => Read::Answer(Answer::Stored),
        (Meaning::Record, Value::Array(parts)) => recorded(parts).unwrap_or_else(odd),
        _ => odd(),
    }
}

fn recorded(parts: &[Value]) -> Option<Read> {
    let token = FencingToken::from_number(u64::try_from(parts.get(1)?.number()?).ok()?)?;
    Some(Read::Answer(match parts {
        [Value::Number(1), _, left, Value::Text(value)] => {
            let left = Duration::from_millis(u64::try_from(left.number()?).ok()?);
            Answer::Record(Some(Record { token, value: value.clone(), left }))
        }
        [Value::Number(2), _] => Answer::Outdated { seen: token },
        _ => return None,
    }))
}

/// A request to let go: its number, how long the first text is, who asks and their note.
fn asked(text: &str) -> Option<YieldRequest> {
    let (number, rest) = text.split_once('|')?;
    let (length, rest) = rest.split_once('|')?;
    let (by, note) = rest.split_at_checked(length.parse().ok()?)?;
    Some(YieldRequest::new(number.parse().ok()?, by, note))
}

fn relayed(pass: FencingToken, name: &str, parts: &[Value]) -> Option<Read> {
    let [freed, reply] = parts else { return None };
    let freed = freed.number()? == 1;
    Some(match read(Meaning::Acquire(pass), name, reply) {
        Read::Answer(answer) => Read::Answer(Answer::Relayed { freed, then: Box::new(answer) }),
        Read::Clock(answer, clock) => Read::Clock(Answer::Relayed { freed, then: Box::new(answer) }, clock),
        // The other claim has no place here now; it asks again by itself.
        Read::Untrusted | Read::Trouble(_) if freed => Read::Answer(Answer::Freed),
        Read::Untrusted | Read::Trouble(_) => Read::Answer(Answer::NotHeld),
    })
}

fn acquired(parts: &[Value]) -> Option<Read> {
    let token = |at: usize| parts.get(at).and_then(Value::number).and_then(|number| u64::try_from(number).ok());
    match parts.first()?.number()? {
        1 => Some(Read::Answer(Answer::Granted { token: FencingToken::from_number(token(1)?)? })),
        0 => {
            let value = parts.get(1)?.text()?;
            let holder = (!value.is_empty()).then(|| holder(&value, parts.get(3).and_then(Value::number), None));
            let ticket = token(4).and_then(FencingToken::from_number);
            Some(Read::Answer(Answer::Held { holder, last: FencingToken::from_number(token(2)?), ticket }))
        }
        2 => {
            let clock = FencingToken::from_number(token(2)?)?;
            Some(Read::Clock(Answer::Stale { last: FencingToken::from_number(token(1)?), clock }, clock))
        }
        3 => {
            let message = "the queue of this lock is full; try again later";
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
    let pairs = waiting.array()?.chunks_exact(2);
    state.waiters = pairs.filter_map(|pair| waiter_of(&pair[1].text()?, pair[0].number()?, now)).collect();
    Some(state)
}

fn holders(parts: &[Value], now: Option<u64>) -> Vec<Holder> {
    let pairs = parts.chunks_exact(2);
    pairs.filter_map(|pair| Some(holder(&pair[0].text()?, pair[1].number(), now))).collect()
}

/// Who is behind a value: ours, or another library's.
fn holder(value: &str, pttl: Option<i64>, now: Option<u64>) -> Holder {
    let (value, shared) = value.strip_prefix('~').map_or((value, false), |reader| (reader, true));
    // The owner is marked once somebody waits.
    let parts: Vec<&str> = value.splitn(5, ['|', '!']).collect();
    let mut holder = match parts[..] {
        [owner, token, attempt, since, label] if Owner::from_exposed(owner).is_some() => {
            let mut holder = Holder::new(label);
            holder.token = token.parse().ok();
            holder.actor = actor_of(attempt);
            let since: Option<u64> = since.parse().ok();
            holder.held_for = now.zip(since).map(|(now, since)| Duration::from_millis(now.saturating_sub(since)));
            holder
        }
        _ if value.starts_with("?=") => Holder::new(format!("Redisson {}", &value[2..])),
        _ if value.starts_with('?') => Holder::new(format!("{OTHER_KIND} (a {})", &value[1..])),
        _ => Holder::new("another library's lock"),
    };
    holder.shared = shared;
    holder.expires_in = pttl.and_then(|left| u64::try_from(left).ok()).map(Duration::from_millis);
    holder
}

/// What is there is no lock, and was none of ours.
pub(crate) fn is_no_lock(state: &LockState) -> bool {
    state.last_token.is_none() && state.holders.iter().all(|holder| holder.label.starts_with(OTHER_KIND))
}

fn waiter_of(value: &str, ticket: i64, now: u64) -> Option<Waiter> {
    // inbox, attempt, how long a grant is kept, mode; then the tail: attempt, since, label.
    let parts: Vec<&str> = value.splitn(7, '|').collect();
    let [_, _, _, mode, attempt, _, label] = parts[..] else { return None };
    // Its tail is as new as its last request; the ticket is from its arrival.
    let arrived = ms(FencingToken::from_number(u64::try_from(ticket).ok()?)?);
    let waited = Duration::from_millis(now.saturating_sub(arrived));
    let mut waiter = Waiter::new(label, mode == "s", waited);
    waiter.actor = actor_of(attempt);
    Some(waiter)
}
