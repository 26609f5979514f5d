//! Messages in one short line each, without anything that differs between two runs of one seed.

use fencepost_core::store::{Answer, Claim, Event, Owner, Part, Proposal, Step, Trouble};

fn owner(owner: &Owner) -> String {
    owner.expose().chars().take(6).collect()
}

fn claim(claim: &Claim) -> String {
    format!("\"{}\" {:?} of {} ({})", claim.name, claim.mode, claim.label, owner(&claim.owner))
}

fn proposal(proposal: Proposal) -> String {
    match proposal {
        Proposal::Next => "the next token".into(),
        Proposal::Bounded(bound) => format!("the next token, bound {bound}"),
        Proposal::Exactly(token) => token.to_string(),
    }
}

pub(crate) fn step(step: &Step) -> String {
    match step {
        Step::Acquire { claim: of, attempt, token, unify } => {
            let unify = if *unify { ", unify" } else { "" };
            format!("acquire {}, attempt {attempt}, {}{unify}", claim(of), proposal(*token))
        }
        Step::Renew { claim: of, token, .. } => format!("renew {}, {token}", claim(of)),
        Step::GiveBack { claim: of, attempt, token, pass } => {
            format!("give back {}, attempt {attempt}, {token}, pass {}", claim(of), proposal(*pass))
        }
        Step::Release { claim: of, raise, pass, then, .. } => {
            let raise = raise.map_or("nothing".into(), |raise| raise.to_string());
            let then = then.as_ref().map(|then| format!(", then {} attempt {}", claim(&then.claim), then.attempt));
            format!("release {}, raise {raise}, pass {}{}", claim(of), proposal(*pass), then.unwrap_or_default())
        }
        Step::Evict { name, above } => format!("evict \"{name}\", above {}", proposal(*above)),
        Step::Ask { name, .. } => format!("ask \"{name}\" to yield"),
        Step::Inspect { name } => format!("inspect \"{name}\""),
        Step::List { prefix, .. } => format!("list \"{prefix}\""),
        Step::Record { name, deed } => format!("the record of \"{name}\": {deed:?}"),
        Step::AcquireAll { parts } => {
            let part = |part: &Part| format!("{}, {}", claim(&part.claim), proposal(part.token));
            format!("acquire all of {}", parts.iter().map(part).collect::<Vec<_>>().join(" and "))
        }
    }
}

pub(crate) fn answer(answer: &Result<Answer, Trouble>) -> String {
    match answer {
        Err(trouble) => format!("{:?}", trouble.kind),
        Ok(Answer::Held { holder, last, .. }) => {
            let holder = holder.as_ref().map_or("others first".into(), |holder| format!("held by {}", holder.label));
            format!("{holder}, last {}", last.map_or("unknown".into(), |last| last.to_string()))
        }
        Ok(Answer::Relayed { freed, then }) => {
            format!("relayed, freed {freed}, then {}", self::answer(&Ok((**then).clone())))
        }
        Ok(Answer::KeptAndAsked(request)) => format!("Kept, and {} asks for it", request.by),
        Ok(Answer::Evicted(holders)) => format!("evicted {}", holders.len()),
        Ok(Answer::Asked(holders)) => format!("asked {}", holders.len()),
        Ok(Answer::State(state)) => format!("{} holders, {} wait", state.holders.len(), state.waiters.len()),
        Ok(Answer::States(states)) => format!("{} locks", states.len()),
        Ok(other) => format!("{other:?}"),
    }
}

pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Answer(said) => answer(said),
        Event::HandedOver { token, attempt } => format!("handed over, {token}, attempt {attempt}"),
        Event::MayPay => "trying again may pay".into(),
        Event::MayBeLost => "it may be lost".into(),
    }
}

/// What a node tells somebody in line.
pub(crate) fn push(to: &Owner, what: &Event) -> String {
    format!("; to {}: {}", owner(to), event(what))
}
