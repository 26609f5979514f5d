//! What the command of a `run` is told by its environment, and what a nested `run` reads from it.
//!
//! `FENCEPOST_HELD` is `name=token` for each lock of the outer runs, joined by commas, names percent-encoded; a permit is
//! the lock `NAME/permit#SLOT`. It holds no secret. A token is granted once, so a store that shows a holder with exactly this token is the store of the outer
//! run, however its URL is spelled, and the outer run still holds the lock.

use fencepost::store::percent_decoded;
use fencepost::{Actor, ActorId, Blocking, Locks, StoreError};

const HELD: &str = "FENCEPOST_HELD";
const LOCK: &str = "FENCEPOST_LOCK";
const TOKEN: &str = "FENCEPOST_TOKEN";
const OWNER: &str = "FENCEPOST_OWNER";
const ACTOR: &str = "FENCEPOST_ACTOR";
const SLOT: &str = "FENCEPOST_SLOT";
const EXPIRES_AT: &str = "FENCEPOST_EXPIRES_AT";
const WINDOW: &str = "FENCEPOST_WINDOW";

/// On whose behalf this run acts: the outermost run's, which may hold other locks.
pub(crate) fn actor() -> Actor {
    let outer = std::env::var(ACTOR).ok().and_then(|id| ActorId::parse(&id));
    outer.map_or_else(Actor::new, Actor::of_another_process)
}

/// Locks held by outer runs, outermost first.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Held(Vec<Entry>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    name: String,
    token: String,
}

/// A hold that an outer run keeps.
#[derive(Clone, Debug)]
pub(crate) struct OuterHold {
    /// Those of several permits are joined by commas.
    pub(crate) token: String,
    pub(crate) slot: Option<String>,
    pub(crate) shared: bool,
    /// Known only if no other run lies between.
    pub(crate) owner: Option<String>,
    expires_at: Option<String>,
}

/// What a command is told of the lock it runs under.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) token: String,
    pub(crate) owner: Option<String>,
    pub(crate) expires_at: Option<String>,
    /// Permits of a semaphore, joined by commas as their tokens are.
    pub(crate) slot: Option<String>,
    /// Of a job that runs once in it.
    pub(crate) window: Option<String>,
}

impl Held {
    /// What outer runs say. Text that is no list of holds says nothing.
    pub(crate) fn from_environment() -> Self {
        std::env::var(HELD).map(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// The outer hold of this lock, if it is still there.
    pub(crate) fn find(&self, name: &str, locks: &Locks) -> Result<Option<OuterHold>, StoreError> {
        Ok(self.held(name, locks)?.map(|(token, shared)| OuterHold::new(token, None, shared)))
    }

    /// The permits of this semaphore that outer runs hold, of the first so many.
    pub(crate) fn find_permits(&self, name: &str, permits: u32, locks: &Locks) -> Result<Vec<OuterHold>, StoreError> {
        let slots = (0..permits).map(|slot| Ok((slot, self.held(&permit(name, slot), locks)?)));
        let found = slots.filter_map(|found: Result<_, StoreError>| match found {
            Ok((slot, Some((token, shared)))) => Some(Ok(OuterHold::new(token, Some(slot.to_string()), shared))),
            Ok((_, None)) => None,
            Err(error) => Some(Err(error)),
        });
        found.collect()
    }

    /// The token by which an outer run holds this lock, and whether it shares it.
    fn held(&self, name: &str, locks: &Locks) -> Result<Option<(String, bool)>, StoreError> {
        let entries: Vec<&Entry> = self.0.iter().filter(|entry| entry.name == name).collect();
        if entries.is_empty() {
            return Ok(None);
        }
        let holders = locks.inspect(name).block()?.holders.into_iter().filter_map(|holder| {
            let token = holder.token?;
            Some((if holder.shared { format!("r{token}") } else { token.to_string() }, holder.shared))
        });
        let mut ours = holders.filter(|(token, _)| entries.iter().any(|entry| entry.token == *token));
        Ok(ours.next())
    }

    fn with(&self, name: &str, token: &str) -> Self {
        let entry = Entry { name: name.to_owned(), token: token.to_owned() };
        let others = self.0.iter().filter(|other| **other != entry).cloned();
        Self(others.chain([entry.clone()]).collect())
    }

    fn parse(text: &str) -> Self {
        let entry = |part: &str| {
            let (name, token) = part.split_once('=')?;
            Some(Entry { name: percent_decoded(name)?, token: token.to_owned() })
        };
        Self(text.split(',').filter_map(entry).collect())
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = self.0.iter().map(|entry| format!("{}={}", encoded(&entry.name), entry.token));
        f.write_str(&entries.collect::<Vec<_>>().join(","))
    }
}

/// The lock behind a permit.
fn permit(semaphore: &str, slot: impl std::fmt::Display) -> String {
    format!("{semaphore}/permit#{slot}")
}

impl OuterHold {
    fn new(token: String, slot: Option<String>, shared: bool) -> Self {
        let innermost = std::env::var(TOKEN).is_ok_and(|innermost| innermost == token);
        let told = |variable| innermost.then(|| std::env::var(variable).ok()).flatten();
        let (owner, expires_at) = (told(OWNER), told(EXPIRES_AT));
        Self { token, slot, shared, owner, expires_at }
    }

    /// Several permits as one hold.
    pub(crate) fn together(permits: &[Self]) -> Self {
        let joined = |parts: Vec<&str>| parts.join(",");
        let token = joined(permits.iter().map(|permit| &*permit.token).collect());
        let slot = joined(permits.iter().filter_map(|permit| permit.slot.as_deref()).collect());
        Self::new(token, Some(slot), false)
    }

    pub(crate) fn told(&self, name: &str) -> Told {
        let Self { token, slot, owner, expires_at, .. } = self.clone();
        Told { name: name.to_owned(), token, owner, expires_at, slot, window: std::env::var(WINDOW).ok() }
    }
}

impl Told {
    /// Every variable with its value; `None`: it must not be there.
    pub(crate) fn variables(&self, held: &Held, actor: &Actor) -> [(&'static str, Option<String>); 8] {
        let held = match &self.slot {
            None => held.with(&self.name, &self.token),
            Some(slots) => {
                let permits = slots.split(',').zip(self.token.split(','));
                permits.fold(held.clone(), |held, (slot, token)| held.with(&permit(&self.name, slot), token))
            }
        };
        [
            (LOCK, Some(self.name.clone())),
            (TOKEN, Some(self.token.clone())),
            (OWNER, self.owner.clone()),
            (EXPIRES_AT, self.expires_at.clone()),
            (ACTOR, Some(actor.id().to_string())),
            (SLOT, self.slot.clone()),
            (WINDOW, self.window.clone()),
            (HELD, Some(held.to_string()).filter(|held| !held.is_empty())),
        ]
    }
}

fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_survives_the_environment() {
        let names = ["a", "order/42", "a,b=c", "100%", "ünïcode ✓", "a b"];
        let held = names.iter().fold(Held::default(), |held, name| held.with(name, "42"));
        let text = held.to_string();
        assert!(text.is_ascii(), "{text}");
        assert_eq!(Held::parse(&text), held);
    }

    #[test]
    fn nonsense_in_the_environment_says_nothing() {
        for text in ["", ",", "=", "a", "%=1", "%zz=1", "%ff=1"] {
            let held = Held::parse(text);
            assert!(held.0.iter().all(|entry| entry.name.is_empty()), "{text:?} became {held:?}");
        }
    }
}
