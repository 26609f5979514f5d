//! Asks every request who sent it, before anybody looks at what it wants.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Uri};

use super::file::Credentials;
use super::scope::Principal;
use super::{origin, scope};
use crate::app::App;
use crate::problem::Problem;
use crate::serve::Peer;
use crate::watched::Watched;

/// What tells nothing about locks: probes, the description of the interface, and the dashboard without its data.
const FOR_ALL: [&str; 5] = ["/healthz", "/readyz", "/openapi.json", "/", "/assets/{file}"];
const SCHEME: &str = "bearer ";

/// How a service finds out who asks.
#[derive(Clone, Debug)]
pub(crate) enum Gate {
    /// Nobody is asked: only programs of this machine can reach it.
    Open,
    /// By key or certificate.
    Credentials(Arc<Watched<Credentials>>),
}

impl Gate {
    fn identify(&self, uri: &Uri, headers: &HeaderMap, peer: Option<&Peer>) -> Result<Principal, Problem> {
        if origin::is_cross_site(uri, headers) {
            return Err(Problem::not_welcome("another site's page sent this: only the service's own pages may"));
        }
        match self {
            Self::Open if origin::is_for_this_machine(uri, headers) => Ok(Principal::anyone()),
            Self::Open => Err(Problem::not_welcome("ask by the name localhost, or give the service an --auth-file")),
            Self::Credentials(credentials) => {
                let credentials = credentials.current();
                let known = match shown_key(headers) {
                    Shown::Nothing => peer.and_then(|peer| credentials.by_names(&peer.names)),
                    // What is said aloud counts: a certificate does not make a wrong key good.
                    Shown::Key(key) => credentials.by_key(key),
                    Shown::Nonsense => None,
                };
                known.ok_or_else(Problem::unauthorized)
            }
        }
    }
}

enum Shown<'a> {
    Nothing,
    Key(&'a [u8]),
    Nonsense,
}

fn shown_key(headers: &HeaderMap) -> Shown<'_> {
    let mut shown = headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes);
    let (Some(shown), None) = (shown.next(), shown.next()) else {
        return if headers.contains_key(AUTHORIZATION) { Shown::Nonsense } else { Shown::Nothing };
    };
    match shown.split_at_checked(SCHEME.len()) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) => Shown::Key(key),
        _ => Shown::Nonsense,
    }
}

/// In front of every route, also of those that do not exist.
pub(crate) async fn gate(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref();
    app.settings
        .traces
        .request(route.map(MatchedPath::as_str), request, async |request| admitted(&app, route, request, next).await)
        .await
}

async fn admitted(app: &App, route: Option<&MatchedPath>, mut request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let is_for_all = route.is_some_and(|route| FOR_ALL.contains(&route.as_str()));
    let peer = request.extensions().get::<Peer>();
    let (principal, response) = if is_for_all {
        (None, next.run(request).await)
    } else {
        match app.settings.gate.identify(request.uri(), request.headers(), peer) {
            Ok(principal) => {
                request.extensions_mut().insert::<scope::Principal>(principal.clone());
                (Some(principal), next.run(request).await)
            }
            Err(problem) => (None, problem.into_response()),
        }
    };
    app.witness.answered(principal.as_ref(), &method, route, &response);
    response
}
