//! Who may do what. A handler gets at the name of a lock only through here, together with the answer that its caller
//! may do what the route does.
//!
//! `identify` puts a [`Principal`] into every request; [`Allowed`] and [`Caller`] ask it.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Request};
use axum::middleware::Next;
use axum::response::Response;
use fencepost_core::store::LockName;
use http::request::Parts;

use crate::app::App;
use crate::problem::Problem;

/// What somebody does with a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Acquire, renew, release; ask a holder to let go.
    Acquire,
    /// See who has it.
    Observe,
    /// Throw out whoever has it.
    Admin,
}

/// What somebody may do with names that start so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// What names start with; empty: all.
    pub prefix: String,
    /// What may be done with them.
    pub verbs: Vec<Verb>,
}

/// Who sent a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal {
    /// As logs name it.
    pub name: Arc<str>,
    /// What it may do; nothing else.
    pub scopes: Arc<[Scope]>,
}

impl Principal {
    /// Whoever can reach a service that asks nobody who they are.
    pub fn anyone() -> Self {
        let all = Scope { prefix: String::new(), verbs: vec![Verb::Acquire, Verb::Observe, Verb::Admin] };
        Self { name: "anyone".into(), scopes: Arc::new([all]) }
    }
}

/// The one question: may they?
fn permit(principal: &Principal, verb: Verb, name: &str) -> Result<(), Problem> {
    let fits = |scope: &Scope| scope.verbs.contains(&verb) && name.starts_with(&scope.prefix);
    if principal.scopes.iter().any(fits) { Ok(()) } else { Err(Problem::denied(verb)) }
}

/// Finds out who sent a request. Nobody is asked yet: all are the same.
pub(crate) async fn identify(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Principal::anyone());
    next.run(request).await
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

/// The lock in the path, checked, and its caller, who may do that with it.
pub(crate) struct Allowed<A: Act> {
    pub(crate) name: LockName,
    pub(crate) caller: Caller,
    /// What stands behind the name in the path.
    pub(crate) rest: Option<String>,
    act: PhantomData<A>,
}

impl<A: Act> FromRequestParts<Arc<App>> for Allowed<A> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let path = Path::<Vec<(String, String)>>::from_request_parts(parts, app).await;
        let Path(path) = path.map_err(|_| Problem::bad_path())?;
        let mut path = path.into_iter().map(|(_, value)| value);
        let name = caller.may(A::VERB, &path.next().unwrap_or_default())?;
        Ok(Self { name, caller, rest: path.next(), act: PhantomData })
    }
}

/// Who sent the request, for routes whose names are not in the path.
#[derive(Clone)]
pub(crate) struct Caller(Principal);

impl Caller {
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

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        // Without anybody who said who it is, nobody is allowed anything.
        parts.extensions.get::<Principal>().cloned().map(Self).ok_or_else(Problem::unauthorized)
    }
}
