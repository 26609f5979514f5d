//! Who may do what. A handler gets at the name of a lock only through here, together with the answer that its caller
//! may do what the route does.
//!
//! The [gate](crate::auth) puts a [`Principal`] into every request; [`Allowed`] and [`Caller`] ask it.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use fencepost_core::store::LockName;
use http::request::Parts;

use crate::app::App;
use crate::auth::{Principal, Verb};
use crate::problem::Problem;

/// The one question: may they?
fn permit(principal: &Principal, verb: Verb, name: &str) -> Result<(), Problem> {
    if principal.may(verb, name) { Ok(()) } else { Err(Problem::denied(verb, name)) }
}

/// What a route does, as a type.
pub(crate) trait Act: Send + Sync + 'static {
    const VERB: Verb;
}

/// See [`Verb::Acquire`].
pub(crate) struct Acquire;
/// See [`Verb::Observe`].
pub(crate) struct Observe;
/// See [`Verb::Admin`].
pub(crate) struct Admin;

impl Act for Acquire {
    const VERB: Verb = Verb::Acquire;
}

impl Act for Observe {
    const VERB: Verb = Verb::Observe;
}

impl Act for Admin {
    const VERB: Verb = Verb::Admin;
}

/// What the names in a path are names of.
pub(crate) trait Kind: Send + Sync + 'static {
    /// What their locks' names start with.
    const PREFIX: &'static str;
}

/// Locks themselves.
pub(crate) struct Plain;
/// Jobs that run once per window.
pub(crate) struct Job;
/// Work that is done once for a key.
pub(crate) struct Key;

impl Kind for Plain {
    const PREFIX: &'static str = "";
}

impl Kind for Job {
    const PREFIX: &'static str = "cron/";
}

impl Kind for Key {
    const PREFIX: &'static str = "once/";
}

/// The lock in the path, checked, and its caller, who may do that with it. Rights are about locks: those of a recipe have
/// names of their own.
pub(crate) struct Allowed<A: Act, K: Kind = Plain> {
    pub(crate) name: LockName,
    pub(crate) caller: Caller,
    /// What stands behind the name in the path.
    pub(crate) rest: Option<String>,
    act: PhantomData<(A, K)>,
}

impl<A: Act, K: Kind> Allowed<A, K> {
    /// As the path says it.
    pub(crate) fn given(&self) -> String {
        self.name.as_str().strip_prefix(K::PREFIX).unwrap_or_default().to_owned()
    }
}

impl<A: Act, K: Kind> FromRequestParts<Arc<App>> for Allowed<A, K> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let path = Path::<Vec<(String, String)>>::from_request_parts(parts, app).await;
        let Path(path) = path.map_err(|_| Problem::bad_path())?;
        let mut path = path.into_iter().map(|(_, value)| value);
        let given = path.next().unwrap_or_default();
        if given.is_empty() {
            return Err(LockName::new("").err().map_or_else(Problem::bad_path, Into::into));
        }
        let name = caller.may(A::VERB, &format!("{}{given}", K::PREFIX))?;
        Ok(Self { name, caller, rest: path.next(), act: PhantomData })
    }
}

/// Who sent the request, for routes whose names are not in the path.
#[derive(Clone)]
pub(crate) struct Caller(Principal);

impl Caller {
    #[cfg(test)]
    pub(crate) fn of(principal: Principal) -> Self {
        Self(principal)
    }

    /// A name, checked, with which this caller may do that.
    pub(crate) fn may(&self, verb: Verb, name: &str) -> Result<LockName, Problem> {
        let name = LockName::new(name)?;
        permit(&self.0, verb, name.as_str())?;
        Ok(name)
    }

    /// Whether it may see all names that start so.
    pub(crate) fn may_see_all(&self, prefix: &str) -> Result<(), Problem> {
        permit(&self.0, Verb::Observe, prefix)
    }

    /// Whether it may see that lock: for what is shown of many.
    pub(crate) fn may_see(&self, name: &str) -> bool {
        permit(&self.0, Verb::Observe, name).is_ok()
    }

    /// For what belongs to no name: whether it may see any.
    pub(crate) fn may_see_something(&self) -> Result<(), Problem> {
        if self.0.may_somewhere(Verb::Observe) { Ok(()) } else { Err(Problem::denied(Verb::Observe, "")) }
    }

    /// All that it may do, as it is written.
    pub(crate) fn rights(&self) -> Vec<String> {
        self.0.scopes().iter().map(ToString::to_string).collect()
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        self.0.name()
    }

    /// What others cannot know who know its name.
    pub(crate) fn secret(&self) -> &[u8] {
        self.0.secret()
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        // Without anybody who said who it is, nobody is allowed anything.
        parts.extensions.get::<Principal>().cloned().map(Self).ok_or_else(Problem::unauthorized)
    }
}
