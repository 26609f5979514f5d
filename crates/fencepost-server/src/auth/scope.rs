//! What a principal may do, and to which names.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::key::KeyDigest;

/// What a request wants to do with a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verb {
    /// Take it, keep it, give it back, ask its holder for it.
    Acquire,
    /// Look at it.
    Observe,
    /// Take it from others.
    Admin,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 3] = [Self::Acquire, Self::Observe, Self::Admin];

    /// As it is written in scopes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Observe => "observe",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One right: a verb on all names that start so. Written `acquire:orders/`; `observe:*` is for every name.
///
/// No verb implies another: whoever may take a lock may not look who else wants it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    verb: Verb,
    prefix: String,
}

/// Every name.
const EVERYTHING: &str = "*";

impl Scope {
    /// One right on every name.
    fn everywhere(verb: Verb) -> Self {
        Self { verb, prefix: String::new() }
    }

    /// Whether it allows this for all names that start so; a whole name is the longest such start.
    fn covers(&self, verb: Verb, name: &str) -> bool {
        self.verb == verb && name.starts_with(&self.prefix)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.prefix.is_empty() { EVERYTHING } else { &self.prefix };
        write!(f, "{}:{prefix}", self.verb)
    }
}

impl FromStr for Scope {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = |cure: &str| Err(format!("scope {text:?}: {cure}"));
        let Some((verb, prefix)) = text.split_once(':') else {
            return refuse("write VERB:PREFIX, such as acquire:orders/, or acquire:* for every name");
        };
        let Some(verb) = Verb::ALL.into_iter().find(|known| known.as_str() == verb) else {
            return refuse("the verbs are acquire, observe and admin");
        };
        match prefix {
            "" => refuse("name a prefix, or * for every name"),
            EVERYTHING => Ok(Self::everywhere(verb)),
            _ if prefix.ends_with('*') => refuse("leave the * out: every prefix is for all names that start so"),
            _ => Ok(Self { verb, prefix: prefix.to_owned() }),
        }
    }
}

/// Who asks. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Principal {
    name: Arc<str>,
    scopes: Arc<[Scope]>,
    /// What only they and the service know, the same at every replica.
    secret: Option<KeyDigest>,
}

impl Principal {
    /// Somebody with these rights, and no others.
    pub fn new(name: &str, scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self { name: name.into(), scopes: scopes.into_iter().collect(), secret: None }
    }

    pub(crate) fn knowing(self, secret: Option<KeyDigest>) -> Self {
        Self { secret, ..self }
    }

    /// What others cannot know who know their name. Nothing for those who have no key.
    pub(crate) fn secret(&self) -> &[u8] {
        self.secret.as_ref().map_or(&[], KeyDigest::bytes)
    }

    /// Whoever can reach a service that asks nobody who they are: everything is theirs.
    pub fn anyone() -> Self {
        Self::new("anyone", Verb::ALL.map(Scope::everywhere))
    }

    /// What the audit log calls them.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// All that they may do.
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// Whether they may do this to this name; of a prefix, to all names that start so.
    pub fn may(&self, verb: Verb, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.covers(verb, name))
    }

    /// Whether there is any name to which they may do this: for what belongs to no name.
    pub fn may_somewhere(&self, verb: Verb) -> bool {
        self.scopes.iter().any(|scope| scope.verb == verb)
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Principal({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_covers_the_names_that_start_so_and_one_verb() {
        let principal = Principal::new("orders", ["acquire:orders/".parse().expect("a scope")]);
        assert!(principal.may(Verb::Acquire, "orders/42"));
        for (verb, name) in [
            (Verb::Acquire, "orders"),
            (Verb::Acquire, "order"),
            (Verb::Acquire, ""),
            (Verb::Acquire, "Orders/42"),
            (Verb::Acquire, "x/orders/42"),
            (Verb::Observe, "orders/42"),
            (Verb::Admin, "orders/42"),
        ] {
            assert!(!principal.may(verb, name), "{verb} {name:?}");
        }
        assert!(principal.may_somewhere(Verb::Acquire) && !principal.may_somewhere(Verb::Observe));
        assert!(!Principal::new("nobody", []).may(Verb::Observe, "x"));
    }

    #[test]
    fn everything_is_asked_for_in_so_many_words() {
        let all: Scope = "observe:*".parse().expect("a scope");
        assert!(all.covers(Verb::Observe, "") && all.covers(Verb::Observe, "x"));
        assert_eq!(all.to_string(), "observe:*");
        for bad in ["", "acquire", "acquire:", "take:x", ":x", "acquire:x*", "Acquire:x", "acquire,observe:x"] {
            let why = bad.parse::<Scope>().expect_err("refused");
            assert!(why.contains(&format!("{bad:?}")), "{why}");
        }
        assert!(Verb::ALL.into_iter().all(|verb| Principal::anyone().may(verb, "anything")));
    }
}
